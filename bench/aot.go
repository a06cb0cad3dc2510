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

	"weft/aot"
	"weft/fault"
	"weft/models"
	"weft/request"
	"weft/topology"
	"weft/xla/plugin"
)

// aotCase is a step that weft and vidax compile for the same absent slice.
type aotCase struct {
	Name   string `json:"name"`
	Model  string `json:"model"`
	Size   string `json:"size"`
	Frames int    `json:"frames"`
	On     string `json:"on"`
	// DP of 2 is the passes with and without the text side by side; with 1 they run one
	// after the other, and the figures are of one.
	DP int `json:"dp"`
	TP int `json:"tp"`
	SP int `json:"sp"`
	// Split is weft's residual stream split over tp; the peer has no such choice.
	Split bool `json:"split_residual"`
}

// aotCases are in bf16, for one video. The larger slices have the split that weft plan
// puts first among those that leave a third of the memory to the autoencoder.
var aotCases = []aotCase{
	{"v4-480p", "wan2.1-t2v-14b", "832x480", 81, "v4-8", 1, 4, 1, true},
	{"v4-720p", "wan2.1-t2v-14b", "1280x720", 81, "v4-8", 1, 4, 1, true},
	{"v5e-720p", "wan2.1-t2v-14b", "1280x720", 81, "v5e-16", 2, 4, 2, true},
	{"v6e-720p", "wan2.1-t2v-14b", "1280x720", 81, "v6e-8", 2, 2, 2, true},
}

// aotFigures are what a case came to. Bytes are of one device.
type aotFigures struct {
	Case aotCase `json:"case"`
	// Weft is weft compile's report; its total is of a denoising step with both passes' text.
	Weft     *aot.Report `json:"weft"`
	WeftWall float64     `json:"weft_wall_seconds"`
	// WeftPass is weft's total with one pass's text alone, as the peer's program has.
	WeftPass int64       `json:"weft_pass_bytes"`
	Vidax    *vidaxMakes `json:"vidax"`
	Failed   string      `json:"vidax_failed,omitempty"` // why there is no figure
}

// vidaxMakes is what bench/peers/vidax_aot.py writes.
type vidaxMakes struct {
	LowerSeconds   float64           `json:"lower_seconds"`
	CompileSeconds float64           `json:"compile_seconds"`
	Versions       map[string]string `json:"versions"`
	Command        []string          `json:"command"`
	Refused        string            `json:"refused,omitempty"`
	Memory         *struct {
		Arguments int64 `json:"argument_bytes"`
		Outputs   int64 `json:"output_bytes"`
		Temp      int64 `json:"temp_bytes"`
		Alias     int64 `json:"alias_bytes"`
		Code      int64 `json:"code_bytes"`
	} `json:"memory"`
}

// total is what a device holds for the peer's one program: as weft's is counted, code included.
func (v *vidaxMakes) total() int64 {
	if v == nil || v.Memory == nil {
		return 0
	}
	m := v.Memory
	return m.Arguments + m.Outputs + m.Temp - m.Alias + m.Code
}

// compileBoth is the command: weft's programs and vidax's for the same slices, compiled
// by the same libtpu, one after the other, and a dated result.
func compileBoth(ctx context.Context, args []string) error {
	var names []string
	for _, c := range aotCases {
		names = append(names, c.Name)
	}
	fs := flag.NewFlagSet("aot", flag.ExitOnError)
	only := fs.String("only", "", "cases, by commas; all when empty: "+strings.Join(names, ", "))
	skip := fs.Bool("weft-alone", false, "leave vidax out: for a look; nothing is saved")
	out := fs.String("out", filepath.Join("bench", "results"), "where the result goes")
	if err := fs.Parse(args); err != nil {
		return err
	}
	chosen := aotCases
	if *only != "" {
		chosen = nil
		for _, name := range split(*only) {
			i := slices.Index(names, name)
			if i < 0 {
				return fault.New(ErrUsage, nil, "no case %q; there are %s", name, strings.Join(names, ", "))
			}
			chosen = append(chosen, aotCases[i])
		}
	}
	tpu, err := plugin.Get("tpu")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", weftBinary, "./cmd/weft").CombinedOutput(); err != nil {
		return programError("go build", err, string(text))
	}
	r := aotResult{Date: time.Now().UTC().Format(time.DateOnly), Hardware: thisHardware(), LibTPU: tpu.Version}
	for _, c := range chosen {
		f, err := c.measure(ctx, tpu.Path, *skip)
		if err != nil {
			return err
		}
		r.Cases = append(r.Cases, f)
		fmt.Fprintf(os.Stderr, "%s done\n", c.Name)
	}
	fmt.Println(r.markdown())
	if *skip {
		return nil
	}
	var failed fault.List
	for _, f := range r.Cases {
		if f.Failed != "" {
			failed.Add(fault.New(ErrProgram, nil, "%s: %s", f.Case.Name, f.Failed))
		}
	}
	failed.Add(r.save(*out))
	return failed.Err()
}

func (c aotCase) measure(ctx context.Context, libtpu string, alone bool) (*aotFigures, error) {
	f := &aotFigures{Case: c}
	r, err := request.Parse(request.Text{"size": c.Size, "frames": fmt.Sprint(c.Frames), "on": c.On, "mesh": fmt.Sprintf("dp=%d,tp=%d,sp=%d", c.DP, c.TP, c.SP)})
	if err != nil {
		return nil, err
	}
	if r.SplitResidual = c.Split; c.DP == 1 {
		r.CFG = models.CFGSequential
	}
	args := append([]string{"compile", "--model", c.Model, "--json"}, r.Words()...)
	start := time.Now()
	text, err := exec.CommandContext(ctx, weftBinary, args...).Output()
	if err != nil {
		return nil, programError("weft "+strings.Join(args, " "), err, string(text))
	}
	f.WeftWall = time.Since(start).Seconds()
	if err := json.Unmarshal(text, &f.Weft); err != nil {
		return nil, err
	}
	f.Weft.Engine.Path = filepath.Base(f.Weft.Engine.Path) // where it lies is the machine's own affair
	// What a request keeps is there once a pass.
	f.WeftPass = f.Weft.Bytes() - f.Weft.KeptBytes + f.Weft.KeptBytes/int64(f.Weft.Passes)
	if alone {
		return f, nil
	}
	f.Vidax, err = c.vidax(ctx, libtpu)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		f.Failed = err.Error()
	}
	return f, nil
}

// vidax compiles the peer's program.
func (c aotCase) vidax(ctx context.Context, libtpu string) (*vidaxMakes, error) {
	on, err := topology.Lookup(c.On)
	if err != nil {
		return nil, err
	}
	p, ok := on.PJRT()
	if !ok {
		return nil, fault.New(ErrUsage, nil, "%s is no TPU slice", on)
	}
	m, err := models.ByName(c.Model)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weft-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	config, err := json.Marshal(m.Config())
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
		return nil, err
	}
	report := filepath.Join(dir, "report.json")
	args := []string{"-W", "ignore", "bench/peers/vidax_aot.py", "--config", filepath.Join(dir, "config.json"), "--size", c.Size,
		"--frames", fmt.Sprint(c.Frames), "--topology", p.Name, "--batch", fmt.Sprint(c.DP), "--dp", fmt.Sprint(c.DP), "--tp", fmt.Sprint(c.TP),
		"--sp", fmt.Sprint(c.SP), "--libtpu", libtpu, "--json", report}
	for name, v := range p.Options {
		args = append(args, "--option", name+"="+strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]"))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if text, err := exec.CommandContext(ctx, python, args...).CombinedOutput(); err != nil {
		return nil, programError("vidax_aot.py", err, string(text))
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	var v vidaxMakes
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	v.Command = told(v.Command)
	return &v, nil
}

// aotResult is what is saved.
type aotResult struct {
	Date     string        `json:"date"`
	Hardware hardware      `json:"hardware"`
	LibTPU   string        `json:"libtpu"`
	Cases    []*aotFigures `json:"cases"`
}

func (r *aotResult) markdown() string {
	var s strings.Builder
	s.WriteString("## Compiled for absent TPUs, beside vidax\n\nOne video, bf16, by the same libtpu, one after the other: one pass of a step, or with dp=2 both side by side.\n\n")
	s.WriteString("| case | split | weft, GB a device | of it weights | fullest program's own | weft compiles, s | vidax, GB | vidax lowers and compiles, s | memory | seconds |\n|---|---|---|---|---|---|---|---|---|---|\n")
	gb := func(n int64) string { return fmt.Sprintf("%.2f", float64(n)/1e9) }
	for _, f := range r.Cases {
		c := f.Case
		row := []string{fmt.Sprintf("%s %s %d frames on %s", c.Model, c.Size, c.Frames, c.On), f.Weft.Mesh, gb(f.WeftPass), gb(f.Weft.ResidentWeightBytes),
			gb(orZero(f.Weft.ProgramBytes)), fmt.Sprintf("%.1f", f.Weft.CompileSeconds)}
		switch {
		case f.Vidax == nil:
			row = append(row, orText(f.Failed, "not run"), "-", "-", "-")
		case f.Vidax.Memory == nil:
			row = append(row, "refused: "+oneLine(f.Vidax.Refused), fmt.Sprintf("%.1f", f.Vidax.LowerSeconds+f.Vidax.CompileSeconds), "-", "-")
		default:
			seconds := f.Vidax.LowerSeconds + f.Vidax.CompileSeconds
			row = append(row, gb(f.Vidax.total()), fmt.Sprintf("%.1f", seconds), fmt.Sprintf("%.2f", float64(f.Vidax.total())/float64(f.WeftPass)),
				fmt.Sprintf("%.1f", seconds/f.Weft.CompileSeconds))
		}
		s.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	fmt.Fprintf(&s, "\nThe last two columns are vidax's over weft's. weft's figure has every weight, what one pass keeps of the text, what a step hands on and the code of all programs; "+
		"with both passes' text kept, as `weft compile` counts, it is %s GB. libtpu %s; %s, %d cores, load average at the start %s; %s.\n",
		func() string {
			var all []string
			for _, f := range r.Cases {
				all = append(all, gb(f.Weft.Bytes()))
			}
			return strings.Join(all, ", ")
		}(), r.LibTPU, r.Hardware.CPU, r.Hardware.Cores, r.Hardware.LoadAverage, r.Date)
	return s.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func (r *aotResult) save(dir string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	base := filepath.Join(dir, r.Date+"-aot")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(base+".json", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(base+".md", []byte(r.markdown()), 0o644)
}

// orZero is a figure, or 0 where there is none.
func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
