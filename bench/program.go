package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weft/fault"
)

// figures are those of one process. PeakRSS is what the kernel says of the process when it is waited
// for, the same yardstick for all; what a program says of itself is kept beside it.
type figures struct {
	Program        string            `json:"program"`
	Round          int               `json:"round"`
	StepSeconds    []float64         `json:"step_seconds"` // weft tells the fastest only
	StepCPUSeconds []float64         `json:"step_cpu_seconds,omitempty"`
	FirstSeconds   float64           `json:"first_seconds,omitempty"` // weft's first step, which also computes what depends on the text alone
	CompileSeconds float64           `json:"compile_seconds"`
	LoadSeconds    float64           `json:"load_seconds"`
	WallSeconds    float64           `json:"wall_seconds"`
	CPUSeconds     float64           `json:"cpu_seconds,omitempty"`  // of the whole process, over all threads
	LoadAverage    string            `json:"load_average,omitempty"` // when the process ended
	PeakRSS        int64             `json:"peak_rss_bytes"`
	OwnPeakRSS     int64             `json:"own_peak_rss_bytes"`
	PeakBefore     int64             `json:"peak_rss_before_bytes,omitempty"` // once compiled and loaded, before the first step
	Needs          int64             `json:"needs_bytes,omitempty"`           // what vidax's compiler says its program takes
	Versions       map[string]string `json:"versions"`
	Command        []string          `json:"command"`
}

// weftReport is the part of `weft forward --json` that is read here.
type weftReport struct {
	Engine struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		SHA256  string `json:"sha256"`
	} `json:"engine"`
	Seconds        float64 `json:"seconds"`
	FirstSeconds   float64 `json:"first_seconds"`
	CompileSeconds float64 `json:"compile_seconds"`
	LoadSeconds    float64 `json:"load_seconds"`
	PeakRSS        int64   `json:"peak_rss_bytes"`
	// Of bench vae-step alone.
	StepSeconds    []float64 `json:"step_seconds"`
	StepCPUSeconds []float64 `json:"step_cpu_seconds"`
	PeakBefore     int64     `json:"peak_rss_before_bytes"`
}

// limit ends a process that will never end.
const limit = time.Hour

// told is a command as a result tells it: a file outside of the project by its name, not
// where it lies on this machine.
func told(command []string) []string {
	out := slices.Clone(command)
	for i, arg := range out {
		if filepath.IsAbs(arg) {
			out[i] = filepath.Base(arg)
		}
	}
	return out
}

// measure runs one program on a case. out gets the model's output.
func measure(ctx context.Context, program string, c bcase, model, inputs, out string) (figures, error) {
	repeat := c.repeat
	if program == "weft" {
		repeat++ // its count includes the first step, the peers' does not
	}
	args := []string{"--model", model, "--inputs", inputs, "--out", out, "--dtype", c.dtype, "--repeat", strconv.Itoa(repeat)}
	if c.mesh != "" {
		args = append(args, "--mesh", c.mesh)
	}
	if program == "weft" {
		args = append([]string{weftBinary, "forward"}, append(args, "--device", "cpu", "--force", "--json")...)
	} else {
		args = append([]string{python, "-W", "ignore", "bench/peers/" + program + "_step.py"}, args...)
	}
	return measureCommand(ctx, program, args)
}

// measureCommand runs the command of a program and takes in its figures: weft prints them, a
// peer writes them into the file that it is given as --json.
func measureCommand(ctx context.Context, program string, args []string) (f figures, err error) {
	err = runMeasured(ctx, program, args, func(measured figures, stdout []byte, report string) error {
		f = measured
		return f.read(stdout, report)
	})
	return f, err
}

// runMeasured runs the command of a program and has read take in what the kernel says of the
// process, what it printed, and the file that a peer is given as --json.
func runMeasured(ctx context.Context, program string, args []string, read func(f figures, stdout []byte, report string) error) error {
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	report := filepath.Join(dir, "report.json")
	if program != "weft" {
		args = append(args, "--json", report)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), "WEFT_CACHE_DIR="+filepath.Join(dir, "cache")) // compiling is measured, so nothing may be found compiled
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return programError(program, err, "")
	}
	// Where memory runs out, the kernel should choose this process over any other; it may not let us say so.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("1000"), 0o644)
	if err := cmd.Wait(); err != nil {
		return programError(program, err, stderr.String())
	}
	f := figures{Program: program, WallSeconds: time.Since(start).Seconds(), Command: told(args)}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		f.PeakRSS = u.Maxrss * 1024
		f.CPUSeconds = time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	f.LoadAverage = thisHardware().LoadAverage
	return read(f, stdout.Bytes(), report)
}

// read takes in what the program wrote.
func (f *figures) read(stdout []byte, report string) error {
	if f.Program == "weft" {
		var w weftReport
		if err := json.Unmarshal(stdout, &w); err != nil {
			return programError("weft", err, string(stdout))
		}
		f.StepSeconds, f.CompileSeconds, f.LoadSeconds, f.OwnPeakRSS = []float64{w.Seconds}, w.CompileSeconds, w.LoadSeconds, w.PeakRSS
		f.FirstSeconds = w.FirstSeconds
		if len(w.StepSeconds) > 0 {
			f.StepSeconds, f.StepCPUSeconds, f.PeakBefore = w.StepSeconds, w.StepCPUSeconds, w.PeakBefore
		}
		f.Versions = map[string]string{"weft": revision(), w.Engine.Name: w.Engine.Version, "engine sha256": w.Engine.SHA256}
	} else {
		text, err := os.ReadFile(report)
		if err != nil {
			return programError(f.Program, err, "")
		}
		own := struct {
			*figures
			Peak *int64 `json:"peak_rss_bytes"`
		}{f, &f.OwnPeakRSS}
		if err := json.Unmarshal(text, &own); err != nil {
			return programError(f.Program, err, string(text))
		}
	}
	for _, s := range f.StepSeconds {
		if s > 0 {
			return nil
		}
	}
	if f.tooBig() {
		return nil
	}
	return programError(f.Program, errors.New("no time of a step in its report"), "")
}

// tooBig reports that the program compiled and then did not start, since its step needs more memory than there is.
func (f *figures) tooBig() bool { return len(f.StepSeconds) == 0 && f.Needs > 0 }

// revision is the commit measured, with a plus where the tree is not as committed.
func revision() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty=+").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// programError says who failed and how, with the end of what it printed.
func programError(program string, err error, output string) error {
	hint := ""
	var exit *exec.ExitError
	switch {
	case errors.Is(err, os.ErrNotExist) && program != "weft":
		hint = "; `go run ./bench setup` installs the peers"
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		hint = "; killed, most likely for want of memory"
	}
	if output = strings.TrimSpace(output); len(output) > 600 {
		output = "..." + output[len(output)-600:]
	}
	if output != "" {
		hint += "; it said: " + output
	}
	return fault.New(ErrProgram, map[string]string{"program": program}, "%s: %w%s", program, err, hint)
}
