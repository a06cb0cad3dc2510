package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// result is what is saved of a case.
type result struct {
	Case        string                `json:"case"`
	Date        string                `json:"date"`
	About       string                `json:"about"`
	Hardware    hardware              `json:"hardware"`
	Rounds      int                   `json:"rounds"`
	Programs    []string              `json:"programs"`
	Differences map[string]difference `json:"differences"`
	Runs        []figures             `json:"runs"`
}

// hardware is what the figures depend on. LoadAverage tells whether something else ran at the start.
type hardware struct {
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	Memory      string `json:"memory"`
	LoadAverage string `json:"load_average"`
	Go          string `json:"go"`
}

// thisHardware describes the machine as it is now.
func thisHardware() hardware {
	first := func(file, prefix string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			return "unknown"
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return strings.TrimSpace(strings.TrimLeft(rest, " \t:"))
			}
		}
		return "unknown"
	}
	return hardware{
		CPU: first("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), Memory: first("/proc/meminfo", "MemTotal"),
		LoadAverage: first("/proc/loadavg", ""), Go: runtime.Version(),
	}
}

func newResult(c bcase, rounds int, programs []string) *result {
	return &result{
		Case: c.name, Rounds: rounds, Programs: programs, Differences: map[string]difference{},
		About: fmt.Sprintf("%s. %s of %d layers, %s, %d frames, %s, mesh %s", c.why, c.model, c.layers, c.size, c.frames, c.dtype,
			orText(c.mesh, "of one device")),
		Hardware: thisHardware(),
	}
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// best is the least of each figure over a program's runs; memory is the most.
func (r *result) best(program string) (b figures) {
	for i, f := range slices.DeleteFunc(slices.Clone(r.Runs), func(f figures) bool { return f.Program != program }) {
		if i == 0 {
			b = f
		}
		if !f.tooBig() {
			b.StepSeconds = []float64{slices.Min(slices.Concat(b.StepSeconds, f.StepSeconds))}
		}
		b.FirstSeconds = min(b.FirstSeconds, f.FirstSeconds)
		b.CompileSeconds, b.LoadSeconds = min(b.CompileSeconds, f.CompileSeconds), min(b.LoadSeconds, f.LoadSeconds)
		b.PeakRSS = max(b.PeakRSS, f.PeakRSS)
	}
	return b
}

// markdown is the table people read. A ratio is the peer's figure over weft's: above 1, weft is the better.
func (r *result) markdown() string {
	var s strings.Builder
	fmt.Fprintf(&s, "## %s\n\n%s.\n\n", r.Case, r.About)
	s.WriteString("| program | step, s | ratio | compile, s | ratio | load, s | peak memory, GB | ratio |\n|---|---|---|---|---|---|---|---|\n")
	ours := r.best("weft")
	ratio := func(theirs, ours float64) string {
		if ours == 0 || theirs == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", theirs/ours)
	}
	for _, p := range r.Programs {
		b := r.best(p)
		step, times := fmt.Sprintf("does not fit: needs %.1f GB", float64(b.Needs)/1e9), "-"
		if !b.tooBig() {
			step = fmt.Sprintf("%.3f", b.StepSeconds[0])
			if len(ours.StepSeconds) > 0 {
				times = ratio(b.StepSeconds[0], ours.StepSeconds[0])
			}
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %.2f | %s | %.2f | %.2f | %s |\n", p, step, times, b.CompileSeconds, ratio(b.CompileSeconds, ours.CompileSeconds),
			b.LoadSeconds, float64(b.PeakRSS)/1e9,
			ratio(float64(b.PeakRSS), float64(ours.PeakRSS)))
	}
	fmt.Fprintf(&s, "\nLeast of %d rounds, in turn (memory: most). A ratio is the program's figure over weft's.", r.Rounds)
	if ours.FirstSeconds > 0 {
		fmt.Fprintf(&s, " weft computes what depends on the text alone in a request's first step, %.3f s; the peers do in every step.", ours.FirstSeconds)
	}
	s.WriteString(" Outputs:")
	for _, pair := range sortedKeys(r.Differences) {
		d := r.Differences[pair]
		fmt.Fprintf(&s, " %s differ by at most %.2g at a peak of %.2g, %.2g in relative rms.", pair, d.MaxAbs, d.Peak, d.RelRMS)
	}
	s.WriteString("\n\n" + r.Hardware.line(r.Date) + "\n")
	for _, p := range r.Programs {
		b := r.best(p)
		fmt.Fprintf(&s, "\n    %s\n    %s\n", versionsLine(b.Versions), strings.Join(b.Command, " "))
	}
	return s.String()
}

// line is the hardware and the date in one line of a table's text.
func (h hardware) line(date string) string {
	return fmt.Sprintf("%s, %d cores, memory %s, load average at the start %s, %s. %s.", h.CPU, h.Cores, h.Memory, h.LoadAverage, h.Go, orText(date, "no date"))
}

// versionsLine lists names with their versions.
func versionsLine(versions map[string]string) string {
	var all []string
	for _, name := range sortedKeys(versions) {
		all = append(all, name+" "+versions[name])
	}
	return strings.Join(all, ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// save writes DATE-CASE.json and .md.
func (r *result) save(dir string) error {
	return saveResult(dir, r.Date+"-"+r.Case, r, r.markdown())
}

// saveResult writes a result as NAME.json, and its table as NAME.md.
func saveResult(dir, name string, result any, table string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(result, "", " ")
	if err != nil {
		return err
	}
	base := filepath.Join(dir, name)
	if err := os.WriteFile(base+".json", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(base+".md", []byte(table), 0o644)
}
