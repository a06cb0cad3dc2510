package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"weft/attention"
	"weft/cpukernel"
	"weft/dtype"
	"weft/fault"
)

// cpuProgram is a program that is measured on a processor.
type cpuProgram struct {
	Name string
	Peer string   // the script of a peer; "" is weft
	Args []string // of weft's own process
	Env  []string
}

// command is how the program begins; its operands follow.
func (p cpuProgram) command(self, peer string) []string {
	if p.Peer != "" {
		return []string{peer, "-W", "ignore", p.Peer}
	}
	return append([]string{self}, p.Args...)
}

// cpuResult is what was measured of one computation, by program.
type cpuResult struct {
	Of       string              `json:"of"`
	FLOPs    float64             `json:"flops"`
	Programs map[string]cpuTimes `json:"programs"`
}

// run runs a program and adds its times to those of the rounds before.
func (r *cpuResult) run(ctx context.Context, p cpuProgram, args []string) error {
	program := "weft"
	if p.Peer != "" {
		program = p.Name
	}
	for _, e := range p.Env {
		name, value, _ := strings.Cut(e, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
		defer os.Unsetenv(name)
	}
	return runMeasured(ctx, program, args, func(_ figures, stdout []byte, report string) error {
		text := stdout
		if program != "weft" {
			var err error
			if text, err = os.ReadFile(report); err != nil {
				return err
			}
		}
		var t cpuTimes
		if err := json.Unmarshal(text, &t); err != nil {
			return programError(p.Name, err, string(text))
		}
		before := r.Programs[p.Name]
		t.Seconds, t.CPUSeconds = append(before.Seconds, t.Seconds...), append(before.CPUSeconds, t.CPUSeconds...)
		r.Programs[p.Name] = t
		return nil
	})
}

// rate is GFLOP a second by the clock, and a second of processor time.
func (r cpuResult) rate(program string) (clock, processor float64) {
	t := r.Programs[program]
	if len(t.Seconds) == 0 {
		return math.NaN(), math.NaN()
	}
	return r.FLOPs / slices.Min(t.Seconds) / 1e9, r.FLOPs / slices.Min(t.CPUSeconds) / 1e9
}

// cpuReport is what is saved.
type cpuReport struct {
	Date     string      `json:"date"`
	Revision string      `json:"revision"`
	Hardware hardware    `json:"hardware"`
	Level    string      `json:"level"` // the highest of the kernel
	Limited  bool        `json:"limited"`
	Results  []cpuResult `json:"results"`
	programs []string
}

// cpu measures attention on this processor: by weft's kernel, by its loops, and by PyTorch.
func cpu(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("cpu", flag.ExitOnError)
	only := fs.String("only", "", "parts of the cases' names, by commas; all when empty")
	level := fs.String("level", "", "the highest level of instructions that kernel and PyTorch use: "+fmt.Sprint(cpukernel.Levels()))
	rounds, repeat := fs.Int("rounds", 2, "processes of each program in a case"), fs.Int("repeat", 3, "timed runs in each process")
	peer := fs.String("python", python, "the Python that has torch")
	skip := fs.String("skip", "", "programs that do not run: kernel, blocked, torch")
	_ = fs.Parse(args) // ExitOnError
	self, err := os.Executable()
	if err != nil {
		return err
	}
	all, err := cpuPrograms(*level)
	if err != nil {
		return err
	}
	programs := slices.DeleteFunc(all, func(p cpuProgram) bool { return slices.Contains(split(*skip), p.Name) })
	if len(programs) == 0 || *rounds < 1 || *repeat < 1 {
		return fault.New(ErrUsage, nil, "%d programs, %d rounds of %d runs; at least 1 each", len(programs), *rounds, *repeat)
	}
	report := cpuReport{Date: time.Now().UTC().Format("2006-01-02"), Revision: revision(), Hardware: thisHardware(), Level: cpukernel.Best(dtype.BF16).String(), Limited: *level != ""}
	if *level != "" {
		report.Level = *level
	}
	for _, p := range programs {
		report.programs = append(report.programs, p.Name)
	}
	for _, a := range cpuAttentions() {
		if *only != "" && !slices.ContainsFunc(split(*only), func(part string) bool { return strings.Contains(a.String(), part) }) {
			continue
		}
		r, err := measureCPUAttention(ctx, a, self, *peer, programs, *rounds, *repeat)
		if err != nil {
			return err
		}
		report.Results = append(report.Results, r)
		fmt.Fprintln(os.Stderr, report.row(r))
	}
	table := report.markdown()
	fmt.Print(table)
	if *only != "" || *skip != "" {
		return nil // a look; nothing is saved
	}
	return saveResult("bench/results", report.Date+"-cpu-"+report.Level, report, table)
}

// cpuPrograms are the kernel, the loops and PyTorch, the kernel and PyTorch with no more than a level.
func cpuPrograms(level string) ([]cpuProgram, error) {
	kernel := cpuProgram{Name: "kernel", Args: []string{"cpu-attention", "--form", attention.Kernel}}
	torch := cpuProgram{Name: "torch", Peer: "bench/peers/torch_attention.py"}
	if level != "" {
		l, err := cpukernel.ParseLevel(level)
		if err != nil {
			return nil, fault.New(ErrUsage, nil, "%w", err)
		}
		kernel.Args = append(kernel.Args, "--level", level)
		// PyTorch's own loops, oneDNN and MKL each have a variable.
		names := map[cpukernel.Level][3]string{cpukernel.AVX2: {"avx2", "AVX2", "AVX2"}, cpukernel.AVX512: {"avx512", "AVX512_CORE", "AVX512"},
			cpukernel.AVX512BF16: {"avx512", "AVX512_CORE_BF16", "AVX512_E1"}}
		if n, ok := names[l]; ok {
			torch.Env = []string{"ATEN_CPU_CAPABILITY=" + n[0], "ONEDNN_MAX_CPU_ISA=" + n[1], "MKL_ENABLE_INSTRUCTIONS=" + n[2]}
		}
	}
	return []cpuProgram{kernel, {Name: "blocked", Args: []string{"cpu-attention", "--form", attention.Blocked}}, torch}, nil
}

// row is a result in the table: GFLOP a second by the clock, in brackets a second of processor time.
func (c cpuReport) row(r cpuResult) string {
	var s strings.Builder
	fmt.Fprintf(&s, "| %s |", r.Of)
	for _, p := range c.programs {
		clock, processor := r.rate(p)
		fmt.Fprintf(&s, " %.0f (%.0f) |", clock, processor)
	}
	kernel, kernelCPU := r.rate("kernel")
	torch, torchCPU := r.rate("torch")
	fmt.Fprintf(&s, " %.2f (%.2f) |", kernel/torch, kernelCPU/torchCPU)
	return s.String()
}

func (c cpuReport) markdown() string {
	var s strings.Builder
	limited := ""
	if c.Limited {
		limited = ", to which kernel and PyTorch were limited; the loops were not"
	}
	fmt.Fprintf(&s, "## cpu\n\nAttention, GFLOP a second by the clock, and a second of processor time in brackets. Level %s%s.\n\n| attention |", c.Level, limited)
	for _, p := range c.programs {
		s.WriteString(" " + p + " |")
	}
	s.WriteString(" kernel beside torch |\n|---|" + strings.Repeat("---|", len(c.programs)+1) + "\n")
	for _, r := range c.Results {
		s.WriteString(c.row(r) + "\n")
	}
	fmt.Fprintf(&s, "\nThe best of all runs, in turn. weft %s.\n\n%s\n", c.Revision, c.Hardware.line(c.Date))
	return s.String()
}
