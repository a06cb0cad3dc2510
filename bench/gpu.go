package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"weft/engine"
)

// gpuCheck is one thing that a GPU is asked.
type gpuCheck struct {
	Name    string  `json:"name"`
	Command string  `json:"command"`
	OK      bool    `json:"ok"`
	Seconds float64 `json:"seconds"`
	// Output is the end of what it printed.
	Output string `json:"output"`
}

// gpuReport is what a GPU answered.
type gpuReport struct {
	Date     string     `json:"date"`
	Hardware hardware   `json:"hardware"`
	GPUs     string     `json:"gpus"` // by nvidia-smi
	Checks   []gpuCheck `json:"checks"`
}

// fixtures are one small checkpoint of each family.
func fixtures() []string {
	list, _ := filepath.Glob(filepath.Join("testdata", "*", "config.json"))
	for i := range list {
		list[i] = filepath.Dir(list[i])
	}
	return list
}

// firstOnGPU is what a GPU is asked first, in under ten minutes: whether weft's splits agree there, whether
// attention's kernel gives what the blocked form gives, how fast both are beside PyTorch's, and how
// much memory a step takes beside what was planned and compiled. It needs a GPU with a driver.
func firstOnGPU(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("gpu", flag.ExitOnError)
	limit := fs.Duration("limit", 10*time.Minute, "what has not begun by then is left out")
	python := fs.String("python", filepath.Join("bench", ".venv", "bin", "python"), "a Python with torch for GPUs, for the peers")
	out := fs.String("out", filepath.Join("bench", "results"), "where the report goes")
	if err := fs.Parse(args); err != nil {
		return err
	}
	e, err := engine.Open(ctx, engine.CUDA, 1, engine.Options{})
	if err != nil {
		return err
	}
	kind := e.Info().DeviceKind
	if err := e.Close(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weft-gpu-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	weft := filepath.Join(dir, "weft")
	r := gpuReport{Date: time.Now().Format(time.DateOnly), Hardware: thisHardware(), GPUs: kind}
	if text, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader").Output(); err == nil {
		r.GPUs = strings.TrimSpace(string(text))
	}
	checks := [][]string{{"build", "go", "build", "-o", weft, "./cmd/weft"}}
	for _, fixture := range fixtures() {
		checks = append(checks, []string{"verify " + filepath.Base(fixture), weft, "verify", "--model", fixture, "--device", "cuda", "--dtype", "bf16", "--json"})
	}
	checks = append(checks,
		[]string{"attention", "go", "run", "./bench", "gpu-attention", "--python", *python},
		[]string{"plan of a step", weft, "plan", "--model", "wan2.1-t2v-1.3b", "--size", "832x480", "--frames", "33", "--on", "h100x1", "--json"},
		[]string{"tests of the engine", "go", "test", "-count=1", "./engine", "./xla", "./attention/triton"})
	begun := time.Now()
	failed := 0
	for _, c := range checks {
		if time.Since(begun) > *limit {
			r.Checks = append(r.Checks, gpuCheck{Name: c[0], Command: strings.Join(c[1:], " "), Output: "left out: time was up"})
			continue
		}
		check := runGPUCheck(ctx, c[0], c[1:])
		fmt.Fprintf(os.Stderr, "%s: ok %v, %.1f s\n", check.Name, check.OK, check.Seconds)
		if !check.OK {
			failed++
		}
		r.Checks = append(r.Checks, check)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(*out, r.Date+"-gpu.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(checks))
	}
	return nil
}

// runGPUCheck runs one command and keeps the end of what it prints.
func runGPUCheck(ctx context.Context, name string, command []string) gpuCheck {
	start := time.Now()
	text, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	const most = 4000
	return gpuCheck{name, strings.Join(command, " "), err == nil, time.Since(start).Seconds(), string(text[max(0, len(text)-most):])}
}
