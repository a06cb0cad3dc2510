package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/plan"
)

// scoredGPUs are the configurations of the score on GPUs: every family, five kinds of GPUs and
// more, one to thirty-two of them.
func scoredGPUs() []scored {
	const p480, p720 = "832x480", "1280x720"
	var out []scored
	for _, row := range []string{
		"wan2.1-t2v-14b " + p480 + " 81 h100x8 tp=8", "wan2.1-t2v-14b " + p480 + " 81 h200x8 tp=4,sp=2",
		"wan2.1-t2v-14b " + p480 + " 81 b200x8 tp=4,sp=2", "wan2.1-t2v-14b " + p480 + " 81 a100x8 tp=4,sp=2",
		"wan2.1-t2v-14b " + p720 + " 81 h100x8 tp=8", "wan2.1-t2v-14b " + p480 + " 81 h100x8x4 tp=8,dp=4 batch4", "wan2.1-t2v-1.3b " + p480 + " 81 rtx4090x2 tp=2",
		"cogvideox-2b 720x480 49 rtx4090x1 tp=1", "ltx-video-2b 768x512 97 rtx4090x1 tp=1", "cosmos2.5-2b 1280x704 93 h100x4 tp=4", "hunyuanvideo " + p720 + " 129 h100x8 tp=8",
		"cosmos3-edge 832x480 93 l40sx4 tp=4", "hunyuan1.5 " + p480 + " 61 gb200x4 tp=4", "ltx2.5-22b 768x512 97 b200x4 tp=4", "wan2.2-ti2v-5b 1280x704 121 h100x4 tp=4",
		"cogvideox-5b 720x480 49 a100x2 tp=2", "wan2.1-t2v-1.3b " + p480 + " 33 rtx4090x1 tp=1", "wan2.1-t2v-1.3b " + p480 + " 81 l40sx4 sp=4", "wan2.1-t2v-1.3b " + p480 + " 81 a100x1 tp=1",
		"wan2.1-i2v-14b " + p480 + " 81 h100x8 tp=4,sp=2", "ltx-video-13b 768x512 97 h100x2 tp=2", "cosmos2.5-14b 1280x704 93 b200x8 tp=8", "cosmos3-nano 832x480 93 a100x8 tp=8",
		"hunyuanvideo-cfgdistill " + p720 + " 61 a100x8 tp=4,sp=2", "wan2.2-t2v-a14b " + p720 + " 81 h200x8 tp=4,sp=2", "cogvideox-5b 720x480 49 h100x4 tp=2,sp=2",
		"hunyuanvideo " + p720 + " 129 h200x4 tp=4", "wan2.2-ti2v-5b 1280x704 121 l40sx4 tp=4",
	} {
		f := strings.Fields(row)
		s := scored{Model: f[0], Size: f[1], On: f[3], Mesh: f[4], CFG: plan.CFGBatch}
		fmt.Sscan(f[2], &s.Frames)
		if len(f) > 5 {
			s.CFG = plan.CFGBatch
			fmt.Sscanf(f[5], "batch%d", &s.Batch)
		}
		out = append(out, s)
	}
	return out
}

// gpuPlanScore is the report of gpu-aot.
type gpuPlanScore struct {
	Date     string       `json:"date"`
	Hardware hardware     `json:"hardware"`
	AOT      []bytesScore `json:"aot"`
	// Refused are configurations that cannot be compiled or planned, with the reason.
	Refused []string `json:"refused,omitempty"`
}

// gpuScore compiles steps of every family for absent GPUs, and holds plan's memory against what the
// compiler says.
func gpuScore(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("gpu-aot", flag.ExitOnError)
	only := fs.String("only", "", "configurations whose model has this in its name")
	reuse := fs.String("reuse", "", "take the compiler's figures of an earlier report's `FILE`.json for the configurations it has; plan's are always made anew")
	out := fs.String("out", filepath.Join("bench", "results"), "where the report goes")
	if err := fs.Parse(args); err != nil {
		return err
	}
	var before gpuPlanScore
	if *reuse != "" {
		text, err := os.ReadFile(*reuse)
		if err == nil {
			err = json.Unmarshal(text, &before)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", *reuse, err)
		}
	}
	s := gpuPlanScore{Date: time.Now().Format(time.DateOnly), Hardware: thisHardware()}
	for _, c := range scoredGPUs() {
		if !strings.Contains(c.Model, *only) {
			continue
		}
		b := bytesScore{scored: c}
		if i := slices.IndexFunc(before.AOT, func(b bytesScore) bool { return b.scored == c }); i >= 0 {
			b = before.AOT[i]
		} else if err := errors.Join(b.compile(ctx), ctx.Err()); err != nil {
			if ctx.Err() != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%v: %v\n", c, err)
			s.Refused = append(s.Refused, fmt.Sprintf("%s %s %d %s %s: %s", c.Model, c.Size, c.Frames, c.On, c.Mesh, strings.SplitN(err.Error(), "\n", 2)[0]))
			continue
		}
		if err := b.plan(ctx); err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		fmt.Fprintf(os.Stderr, "%s %s %d frames %s %s: %.2f GB in %.1f s; plan %+.1f %%, without weights %+.1f %%\n", c.Model, c.Size, c.Frames, c.On, c.Mesh,
			float64(b.CompiledBytes)/1e9, b.CompileSeconds, 100*b.total(), 100*b.rest())
		s.AOT = append(s.AOT, b)
		if err := s.save(*out); err != nil {
			return err
		}
	}
	return s.save(*out)
}

func (s gpuPlanScore) save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	base := filepath.Join(dir, s.Date+"-gpu-aot")
	if err := os.WriteFile(base+".json", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(base+".md", []byte(s.markdown()), 0o644)
}

func (s gpuPlanScore) markdown() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# Steps compiled for absent GPUs, beside the plan (%s)\n", s.Date)
	say("Made by `go run ./bench gpu-aot`, one program at a time on %s, %d cores.\n", s.Hardware.CPU, s.Hardware.Cores)
	say("Every program of a step compiled by XLA's CUDA plugin with no GPU about, and added up as `weft compile` does. GB are 10^9 bytes of one device;")
	say("bf16, CFG as one batch, attention by weft's kernel. No GPU ran. The compiler leaves out the programs' code, cuDNN's workspaces and what autotuning changes.\n")
	var total, rest []float64
	for _, r := range s.AOT {
		total, rest = append(total, r.total()), append(rest, r.rest())
	}
	tm, tw := middle(total)
	rm, rw := middle(rest)
	say("%d configurations: total median %.1f %%, worst %.1f %%; without weights median %.1f %%, worst %.1f %%\n", len(total), 100*tm, 100*tw, 100*rm, 100*rw)
	say("| model | size | frames | slice | mesh | compiled, GB | planned, GB | error | without weights | planned | error | seconds |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
	gb := func(n int64) string { return fmt.Sprintf("%.2f", float64(n)/1e9) }
	for _, r := range s.AOT {
		say("| %s | %s | %d | %s | %s | %s | %s | %+.1f %% | %s | %s | %+.1f %% | %.1f |", r.Model, r.Size, r.Frames, r.On, strings.ReplaceAll(r.Mesh, ",", " "),
			gb(r.CompiledBytes), gb(r.PlannedBytes), 100*r.total(), gb(r.CompiledBytes-r.WeightBytes), gb(r.PlannedBytes-r.WeightBytes), 100*r.rest(), r.CompileSeconds)
	}
	for _, r := range s.Refused {
		say("\nRefused: %s", r)
	}
	if len(s.AOT) > 0 {
		say("\n%s", strings.Join(strings.Fields(s.AOT[0].Compiler), " "))
	}
	return b.String()
}
