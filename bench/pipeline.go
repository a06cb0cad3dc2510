package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weft"
	"weft/engine"
	"weft/program"
	"weft/program/interp"
	"weft/request"
	"weft/strategy"
)

// pipeline runs a pipeline of four stages for real, its schedule, its copies and
// its values, on devices whose layers take a fixed time: the interpreter
// computes, then the call waits until the time is over. So the stages do equal
// work whatever cores the machine has, and what is measured is the runtime.
func pipeline(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("pipeline", flag.ExitOnError)
	stages, micro := fs.Int("stages", 4, "pipeline stages"), fs.Int("micro", 8, "microbatches")
	layer := fs.Duration("layer", 60*time.Millisecond, "what a layer takes")
	if err := fs.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tiny := recipe{Model: wan13b, Seed: 1, Config: fmt.Appendf(nil,
		`{"dim":16,"ffn_dim":32,"num_heads":2,"num_layers":%d,"in_dim":4,"out_dim":4,"freq_dim":16,"text_dim":8,"text_len":4}`, *stages)}
	if err := tiny.write(dir); err != nil {
		return err
	}
	m, err := weft.Open(dir)
	if err != nil {
		return err
	}
	defer m.Close()
	in, err := m.Example(*micro, []int{4, 1, 4, 4}, 1)
	if err != nil {
		return err
	}
	eng := timed{engine.NewReference(*stages, interp.Options{MaxParallel: 64}), *layer}
	r, err := m.Start(ctx, in, weft.Options{Running: eng, Request: request.Must("--mesh=" + fmt.Sprintf("pp=%d", *stages))})
	if err != nil {
		return err
	}
	defer r.Close()
	for range 2 { // the first also computes what depends on the text alone
		if _, err := r.Forward(ctx); err != nil {
			return err
		}
	}
	lines := make(strategy.Timeline, *stages)
	for _, s := range r.Spans() {
		lines[s.Stage] = append(lines[s.Stage], strategy.Span{Start: s.Start, End: s.End})
	}
	doc := struct {
		Date     string  `json:"date"`
		Command  string  `json:"command"`
		Stages   int     `json:"stages"`
		Micro    int     `json:"microbatches"`
		Layer    float64 `json:"layer_seconds"`
		Recorded float64 `json:"recorded_bubble_share"`
		Formula  float64 `json:"schedule_bubble_share"`
		Ratio    float64 `json:"ratio"`
	}{time.Now().Format(time.DateOnly), "go run ./bench pipeline " + strings.Join(args, " "), *stages, *micro, layer.Seconds(),
		lines.BubbleShare(), strategy.BubbleShare(*stages, *micro, 1), lines.BubbleShare() / strategy.BubbleShare(*stages, *micro, 1)}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	fmt.Println(string(out))
	return os.WriteFile(filepath.Join("bench", "results", doc.Date+"-pipeline.json"), append(out, '\n'), 0o644)
}

// timed is an engine whose layers take a fixed time.
type timed struct {
	engine.Engine
	layer time.Duration
}

func (e timed) Compile(ctx context.Context, p *program.Program) (engine.Executable, error) {
	exe, err := e.Engine.Compile(ctx, p)
	if err == nil && strings.HasPrefix(p.Name, "block") {
		exe = timedExe{exe, e.layer}
	}
	return exe, err
}

type timedExe struct {
	engine.Executable
	layer time.Duration
}

func (e timedExe) Run(ctx context.Context, args []engine.Value) ([]engine.Value, error) {
	over := time.After(e.layer)
	out, err := e.Executable.Run(ctx, args)
	<-over
	return out, err
}
