package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/models"
	"weft/plan"
	"weft/request"
	"weft/topology"
)

// speed is how long planning takes.
type speed struct {
	What    string    `json:"what"`
	Most    float64   `json:"wanted_below_seconds"`
	Seconds []float64 `json:"seconds"` // every round
}

func (s speed) best() float64 { return slices.Min(s.Seconds) }

type speeds struct {
	Date     string   `json:"date"`
	Hardware hardware `json:"hardware"`
	Runs     []speed  `json:"runs"`
}

// planSpeed times the search over one slice's splits, over all slices, and the
// command from its start to its answer.
func planSpeed(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("plan", flag.ExitOnError)
	rounds := fs.Int("rounds", 15, "rounds; the least counts")
	model := fs.String("model", "wan2.1-t2v-14b", "a preset")
	out := fs.String("out", filepath.Join("bench", "results"), "where the result goes")
	if err := fs.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	weft := filepath.Join(dir, "weft")
	build := exec.CommandContext(ctx, "go", "build", "-o", weft, "./cmd/weft")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building weft: %w", err)
	}
	m, err := models.ByName(*model)
	if err != nil {
		return err
	}
	o := plan.Options{Request: request.Must("--size 832x480 --frames 81 --dtype bf16")}
	s := speeds{Date: time.Now().Format(time.DateOnly), Hardware: thisHardware()}
	time1 := func(what string, most float64, n int, f func() error) error {
		r := speed{What: what, Most: most}
		for range n {
			start := time.Now()
			if err := f(); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			r.Seconds = append(r.Seconds, time.Since(start).Seconds())
		}
		s.Runs = append(s.Runs, r)
		return nil
	}
	for _, name := range []string{"v4-8", "v5e-16", "v6e-8", "h100x8"} {
		on, err := topology.Lookup(name)
		if err != nil {
			return err
		}
		if err := time1("all splits of "+name, 0.05, *rounds, func() error {
			o.On = request.Hardware{Slice: on}
			_, err := plan.Search(ctx, m, o)
			return err
		}); err != nil {
			return err
		}
	}
	if err := time1("all slices", 5, min(3, *rounds), func() error {
		o.On = request.Hardware{All: true}
		_, err := plan.Search(ctx, m, o)
		return err
	}); err != nil {
		return err
	}
	if err := time1("weft plan --on v4-8, from start to answer", 0.1, *rounds, func() error {
		return exec.CommandContext(ctx, weft, "plan", "--model", *model, "--size", "832x480", "--frames", "81", "--on", "v4-8").Run()
	}); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	base := filepath.Join(*out, s.Date+"-plan-speed")
	if err := os.WriteFile(base+".json", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(base+".md", []byte(s.markdown(*model)), 0o644)
}

func (s speeds) markdown(model string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# How long planning takes (%s)\n\nMade by `go run ./bench plan`: %s, 832x480, 81 frames, bf16. The least of the rounds.\n\n| what | ms | wanted below, ms | rounds |\n|---|---|---|---|\n", s.Date, model)
	for _, r := range s.Runs {
		fmt.Fprintf(&b, "| %s | %.1f | %.0f | %d |\n", r.What, 1e3*r.best(), 1e3*r.Most, len(r.Seconds))
	}
	fmt.Fprintf(&b, "\n%s, %d cores, memory %s, load average at the start %s, %s.\n", s.Hardware.CPU, s.Hardware.Cores, s.Hardware.Memory, s.Hardware.LoadAverage, s.Hardware.Go)
	return b.String()
}
