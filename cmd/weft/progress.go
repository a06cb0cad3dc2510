package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"weft"
	"weft/pipeline"
)

// progress shows one bar on stderr for each stage of the work, where stderr is a
// terminal.
type progress struct {
	mu    sync.Mutex
	bars  *mpb.Progress
	stage string
	bar   *mpb.Bar
	text  atomic.Value // of a generation's bar
	at    string       // what the command is doing, bars or not
}

// currentPhase returns the name of the stage that the command is in, or "open" before
// the first stage.
func (p *progress) currentPhase() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.at, "open")
}

// startBars lets bars be drawn if w is a terminal.
func (p *progress) startBars(w *os.File) {
	if p.bars == nil && term.IsTerminal(int(w.Fd())) {
		p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(48), mpb.WithAutoRefresh())
	}
}

// reportProgress is a session.Progress. The first word of what names the stage; any
// word that is not a known stage is the name of a call, and belongs to the stage "run".
func (p *progress) reportProgress(what string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stage := strings.SplitN(what, " ", 2)[0]
	switch stage {
	case "compile", "load", "fetch", "verify", "sample":
	default:
		stage = "run"
	}
	if p.at = stage; stage == "load" && done >= total {
		p.at = "run" // which tells of itself at its end alone, where steps are counted
	}
	if p.bars == nil || total <= 0 {
		return
	}
	if p.bar == nil || stage != p.stage {
		p.dropBar()
		p.stage = stage
		p.bar = p.bars.AddBar(total, mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(stage, decor.WC{W: 8, C: decor.DindentRight})),
			mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 8})))
	}
	p.bar.SetTotal(total, false)
	p.bar.SetCurrent(done)
	if done >= total {
		p.dropBar()
	}
}

// dropBar removes the bar that is shown; the caller holds p.mu.
func (p *progress) dropBar() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bar = nil
	}
}

// stopBars removes all bars, so that the command can print its answer.
func (p *progress) stopBars() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropBar()
	if p.bars != nil {
		p.bars.Wait()
		p.bars = nil
	}
}

// reportPhase shows where a generation stands: a bar with the phase, the step, the seconds left
// and the memory on a terminal, and with --progress a line for each step where stderr is none.
func (a *app) reportPhase(g pipeline.Progress) {
	p := &a.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = g.Phase
	text := fmt.Sprintf("%s %d/%d", g.Phase, g.Done, g.Of)
	if g.Videos > 1 {
		text = fmt.Sprintf("video %d/%d, %s", g.Video, g.Videos, text)
	}
	if g.Left > 0 {
		text += fmt.Sprintf(", %s left", time.Duration(g.Left*float64(time.Second)).Round(time.Second))
	}
	if g.RSS > 0 {
		text += ", " + weft.Bytes(g.RSS)
	}
	if p.bars == nil {
		if a.lines && g.Of > 0 && (g.Phase == "denoise" || g.Done == g.Of) {
			fmt.Fprintln(a.stderr, text)
		}
		return
	}
	p.text.Store(text)
	if p.bar == nil || p.stage != g.Phase {
		p.dropBar()
		p.stage = g.Phase
		p.bar = p.bars.AddBar(int64(max(g.Of, 1)), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return p.text.Load().(string) }, decor.WC{C: decor.DindentRight | decor.DextraSpace})),
			mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 8})))
	}
	p.bar.SetTotal(int64(max(g.Of, 1)), false)
	p.bar.SetCurrent(int64(g.Done))
	if g.Of > 0 && g.Done >= g.Of {
		p.dropBar()
	}
}
