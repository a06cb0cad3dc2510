package main

import (
	"cmp"
	"os"
	"strings"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress shows one bar per stage of the work on stderr, where that is a terminal.
type progress struct {
	mu    sync.Mutex
	bars  *mpb.Progress
	stage string
	bar   *mpb.Bar
	at    string // what the command is doing, bars or not
}

// currentPhase is what the command is doing: a stage's name, or open before the first.
func (p *progress) currentPhase() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.at, "open")
}

func (p *progress) startBars(w *os.File) {
	if p.bars == nil && term.IsTerminal(int(w.Fd())) {
		p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(48), mpb.WithAutoRefresh())
	}
}

// reportProgress is a session.Progress. The stage is the first word of what, a call's
// name counts as "run".
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

func (p *progress) dropBar() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bar = nil
	}
}

// stopBars clears the bars before anything else is printed.
func (p *progress) stopBars() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropBar()
	if p.bars != nil {
		p.bars.Wait()
		p.bars = nil
	}
}
