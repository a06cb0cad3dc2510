package main

import (
	"bytes"
	"cmp"
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

	"weft/fault"
)

// offloadRun is what one process said of itself, and what the kernel says of it.
type offloadRun struct {
	Weights  string  `json:"weights"` // resident, or the depth
	Round    int     `json:"round"`
	CPU      float64 `json:"cpu_seconds"` // of the whole process
	Load     string  `json:"load_average"`
	Seconds  float64 `json:"seconds"` // the fastest step
	First    float64 `json:"first_seconds"`
	PeakRSS  int64   `json:"peak_rss_bytes"`
	Resident int64   `json:"resident_weight_bytes"`
	Offload  struct {
		Slots       int     `json:"slots"`
		SlotBytes   int64   `json:"slot_bytes"`
		StepBytes   int64   `json:"step_bytes"`
		LeftBytes   int64   `json:"left_bytes"`
		WaitSeconds float64 `json:"wait_seconds"`
	} `json:"offload"`
}

// offloadResult is what is saved.
type offloadResult struct {
	Case     string                  `json:"case"`
	Date     string                  `json:"date"`
	About    string                  `json:"about"`
	Hardware hardware                `json:"hardware"`
	Rounds   int                     `json:"rounds"`
	Kinds    []string                `json:"kinds"`
	Weft     string                  `json:"weft"`
	Runs     map[string][]offloadRun `json:"runs"`
}

// offload measures one step with all weights on the devices and with streamed ones, each in
// processes of its own that take turns, and prints the table. The outputs must be the same bytes.
func offload(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("offload", flag.ExitOnError)
	model := fs.String("model", wan13b, "preset")
	config := fs.String("config", "", `what differs from the preset's config.json: {"num_layers":4}`)
	size := fs.String("size", "256x256", "video size, width x height: with 5 frames 512 tokens of Wan2.1")
	frames := fs.Int("frames", 5, "video frames")
	depths := fs.String("depths", "0,1,2,4", "calls that are read ahead, by commas")
	keep := fs.Int("keep", 0, "layers whose weights stay in the streamed runs")
	mesh := fs.String("mesh", "auto", "devices")
	repeat := fs.Int("repeat", 3, "steps in each process")
	rounds := fs.Int("rounds", 3, "processes of each kind")
	_ = fs.Parse(args) // ExitOnError
	if *rounds < 1 || *repeat < 2 {
		return fault.New(ErrUsage, nil, "%d rounds of %d steps; at least 1 of 2, because the first step runs the request too", *rounds, *repeat)
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", weftBinary, "./cmd/weft").CombinedOutput(); err != nil {
		return programError("go build", err, string(out))
	}
	dir := filepath.Join(work, "offload_"+*model)
	inputs := filepath.Join(work, "in_offload_"+*model+".safetensors")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	maker := exec.CommandContext(ctx, self, "make", "--model", *model, "--config", *config, "--size", *size, "--frames", fmt.Sprint(*frames), "--out", dir, "--inputs", inputs)
	if out, err := maker.CombinedOutput(); err != nil {
		return programError("make", err, string(out))
	}
	kinds := []string{"resident"}
	flags := map[string][]string{"resident": {"--offload", "none"}}
	policy := "all"
	if *keep > 0 {
		policy = fmt.Sprintf("keep=%d", *keep)
	}
	for _, d := range split(*depths) {
		name := "depth " + d
		kinds = append(kinds, name)
		flags[name] = []string{"--offload", policy, "--offload-depth", d}
	}
	r := &offloadResult{Case: "offload-" + *model, Date: time.Now().UTC().Format(time.DateOnly), Hardware: thisHardware(), Rounds: *rounds, Kinds: kinds, Weft: revision(),
		About: fmt.Sprintf("a step of %s%s with all weights on the devices and with streamed ones, %s, %d frames, bf16, mesh %s, %d steps in each process", *model, *config, *size, *frames, *mesh, *repeat),
		Runs:  map[string][]offloadRun{}}
	var want []byte
	for round := range *rounds {
		for _, kind := range kinds {
			run, out, err := runOffload(ctx, dir, inputs, *mesh, *repeat, flags[kind])
			if err != nil {
				return err
			}
			if want == nil {
				want = out
			} else if !bytes.Equal(want, out) {
				return fault.New(ErrDisagree, nil, "%s gives other bytes than the first run", kind)
			}
			run.Weights, run.Round, run.Load = kind, round, thisHardware().LoadAverage
			r.Runs[kind] = append(r.Runs[kind], run)
			fmt.Fprintf(os.Stderr, "round %d %-9s step %.3f s, %.2f s of processor in all, peak %.2f GB, waited %.2f s; load average %s\n", round+1, kind, run.Seconds, run.CPU,
				float64(run.PeakRSS)/1e9, run.Offload.WaitSeconds, run.Load)
		}
	}
	text := fmt.Sprintf("## %s\n\n%s.\n\n%s\nFastest of %d processes of each kind, in turn (memory: most). The outputs are the same bytes.\n\n%s\n\n    weft %s\n",
		r.Case, r.About, offloadTable(kinds, r.Runs), r.Rounds, r.Hardware.line(r.Date), r.Weft)
	fmt.Print(text)
	return saveResult("bench/results", r.Date+"-"+r.Case, r, text)
}

// runOffload runs weft forward once, and gives its figures and the bytes of its output.
func runOffload(ctx context.Context, dir, inputs, mesh string, repeat int, flags []string) (r offloadRun, out []byte, err error) {
	path := filepath.Join(work, "out_offload.safetensors")
	args := append([]string{"forward", "--json", "--force", "--model", dir, "--inputs", inputs, "--out", path, "--dtype", "bf16", "--device", "cpu",
		"--mesh", mesh, "--repeat", fmt.Sprint(repeat)}, flags...)
	cmd := exec.CommandContext(ctx, weftBinary, args...)
	var said, wrong bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &wrong
	if err := cmd.Run(); err != nil {
		return r, nil, programError("weft "+strings.Join(args, " "), err, wrong.String())
	}
	r.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	if err := json.Unmarshal(said.Bytes(), &r); err != nil {
		return r, nil, programError("weft forward", err, said.String())
	}
	if out, err = os.ReadFile(path); err == nil {
		err = os.Remove(path)
	}
	return r, out, err
}

// offloadTable is the markdown table: the fastest step and the largest peak of each kind.
func offloadTable(kinds []string, runs map[string][]offloadRun) string {
	var b strings.Builder
	b.WriteString("| weights | s a step, fastest (slowest process) | of resident | s of processor, whole process | of resident | peak RSS, GB | slots | streamed a step, GB |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	processor := func(kind string) float64 {
		return slices.MinFunc(runs[kind], func(a, b offloadRun) int { return cmp.Compare(a.CPU, b.CPU) }).CPU
	}
	fastest := func(kind string) (low, high float64) {
		for _, r := range runs[kind] {
			low, high = min(r.Seconds, cmp.Or(low, r.Seconds)), max(high, r.Seconds)
		}
		return low, high
	}
	base, _ := fastest(kinds[0])
	for _, kind := range kinds {
		low, high := fastest(kind)
		peak := slices.MaxFunc(runs[kind], func(a, b offloadRun) int { return int(a.PeakRSS - b.PeakRSS) })
		fmt.Fprintf(&b, "| %s | %.2f (%.2f) | %.2f | %.1f | %.2f | %.2f | %d of %.0f MB in all | %.2f |\n", kind, low, high, low/base,
			processor(kind), processor(kind)/processor(kinds[0]), float64(peak.PeakRSS)/1e9,
			peak.Offload.Slots, float64(peak.Offload.SlotBytes)/1e6, float64(peak.Offload.StepBytes)/1e9)
	}
	return b.String()
}
