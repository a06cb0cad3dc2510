package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/fault"
)

const (
	work       = "bench/work"
	weftBinary = work + "/weft"
)

// run measures the cases. Programs take turns, so that a machine that slows down slows all of them.
func run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("run", flag.ExitOnError)
	only := fs.String("only", "", "cases, by commas, or families for one layer of each; all when empty: "+strings.Join(caseNames(), ", "))
	rounds := fs.Int("rounds", 3, "processes of each program in a case")
	skip := fs.String("skip", "", "programs not to run, by commas: for a look at the rest; nothing is saved and the exit code is 1")
	_ = fs.Parse(args) // ExitOnError
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if *rounds < 1 {
		return fault.New(ErrUsage, nil, "%d rounds; at least 1", *rounds)
	}
	skipped := split(*skip)
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	if !slices.Contains(skipped, "weft") {
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", weftBinary, "./cmd/weft").CombinedOutput(); err != nil {
			return programError("go build", err, string(out))
		}
	}
	var failed fault.List
	for _, c := range chosen {
		r, err := measureCase(ctx, c, *rounds, skipped)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", c.name, err)
			failed.Add(err)
			continue
		}
		fmt.Println(r.markdown())
		if len(skipped) == 0 {
			failed.Add(r.save("bench/results"))
		}
	}
	if len(skipped) > 0 {
		failed.Add(fault.New(ErrUsage, nil, "%s left out, so nothing is saved", strings.Join(skipped, ", ")))
	}
	return failed.Err()
}

func measureCase(ctx context.Context, c bcase, rounds int, skipped []string) (*result, error) {
	model := filepath.Join(work, fmt.Sprintf("%s_%dl", c.model, c.layers))
	inputs := filepath.Join(work, fmt.Sprintf("in_%s_%sx%d.safetensors", c.model, c.size, c.frames))
	// In a process of its own: what a child's peak memory is said to be is never below its parent's.
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	maker := exec.CommandContext(ctx, self, "make", "--model", c.model, "--config", c.config, "--prefix", c.prefix, "--size", c.size,
		"--frames", fmt.Sprint(c.frames), "--out", model, "--inputs", inputs)
	if out, err := maker.CombinedOutput(); err != nil {
		return nil, programError("make", err, string(out))
	}
	programs := slices.DeleteFunc(append([]string{"weft"}, c.peers...), func(p string) bool { return slices.Contains(skipped, p) })
	r := newResult(c, rounds, programs)
	outs := map[string]string{}
	for round := range rounds {
		for _, p := range programs {
			outs[p] = filepath.Join(work, "out_"+p+".safetensors")
			if err := os.Remove(outs[p]); err != nil && !os.IsNotExist(err) {
				return nil, err
			}
			f, err := measure(ctx, p, c, model, inputs, outs[p])
			if err != nil {
				return nil, err
			}
			f.Round = round
			step := "too big"
			if !f.tooBig() {
				step = fmt.Sprintf("%.3f s", slices.Min(f.StepSeconds))
			}
			fmt.Fprintf(os.Stderr, "%s round %d %-9s step %s, compile %.2f s, load %.2f s, peak %.2f GB\n",
				c.name, round+1, p, step, f.CompileSeconds, f.LoadSeconds, float64(f.PeakRSS)/1e9)
			r.Runs = append(r.Runs, f)
		}
	}
	for _, p := range programs[1:] {
		if b := r.best(p); b.tooBig() {
			continue // there is nothing to compare
		}
		d, err := agree(c, programs[0], outs[programs[0]], p, outs[p])
		if err != nil {
			return nil, err
		}
		r.Differences[programs[0]+" and "+p] = d
	}
	r.Date = time.Now().UTC().Format("2006-01-02")
	return r, nil
}

func caseNames() []string {
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
