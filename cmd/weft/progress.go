package main

import (
	"cmp"
	"os"
	"strings"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"weft/pipeline"
)

// progress shows one bar on stderr for each stage of the work, where stderr is a
// terminal.
type progress struct {
	mu    sync.Mutex
	bars  *mpb.Progress
	stage string
	bar   *mpb.Bar
	at    string // what the command is doing, bars or not
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

// reportPhase shows where a generation stands.
func (p *progress) reportPhase(g pipeline.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = g.Phase
}
