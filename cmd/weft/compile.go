package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weft"
	"weft/aot"
	"weft/dtype"
	"weft/fault"
	"weft/internal/jsondoc"
	"weft/internal/printable"
	"weft/internal/userfile"
	"weft/phases"
	"weft/plan"
	"weft/request"
	"weft/topology"
	"weft/xla/plugin"
)

// compileFlags are the flags of compile. The model's step is described with the flags
// of plan.
type compileFlags struct {
	stepFlags
	parallel             int
	out, plugin          string
	force, phases        bool
	replicas, partitions int
}

func (a *app) compileCommand() *cobra.Command {
	var f compileFlags
	c := &cobra.Command{
		Use:   "compile --model NAME|DIR --size WxH --frames N --on SLICE --mesh M | compile FILE.mlir --on SLICE",
		Short: "Compile for hardware that is absent, and see what it needs",
		Long: `compile compiles the very programs that forward runs with the slice's own
compiler: libtpu for a TPU slice, with no TPU about (weft engine install tpu), XLA's
CUDA plugin for GPUs, with no GPU, driver or CUDA toolkit (weft engine install cuda),
XLA's CPU plugin for cpu:N. It says what the compiler needs for each program and what a
device then holds in all: every weight, what a request keeps, what a step hands on,
and the fullest program's temporaries.

--phases compiles the programs of the text encoder, of what reads an image and of the
decoder as well, each on its own mesh, and lists what they need beside the plan's
figures.

--out DIR keeps the programs: text, executables and a manifest, which
"weft forward --compiled DIR" loads on a host of that kind without compiling.

With a FILE it compiles any StableHLO program, as text, as portable bytecode, or as
the file that jax.export's serialize() writes. How many devices it is for is read
from it. It runs in a process of its own.`,
		Example: `  weft compile --model wan2.1-t2v-14b --size 832x480 --frames 81 --on v4-8 --mesh tp=4
  weft compile --model testdata/wan21_t2v --size 64x64 --frames 9 --dtype f32 --on cpu:4 --mesh tp=2,sp=2 --out /tmp/programs
  weft compile --model wan2.1-t2v-14b --size 832x480 --frames 81 --on h100x8 --mesh tp=8
  weft compile exported.mlir --on v5e-8`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				for _, name := range []string{"model", "size", "frames", "mesh", "fsdp", "layers", "out", "split-residual", "batch", "cfg", "release", "dtype", "text-len",
					"attention", "phases", "tile", "vae-dtype"} {
					if cmd.Flags().Changed(name) {
						return usageError("--%s with a FILE: it is for a model's step; a program says itself what it computes", name)
					}
				}
				return f.compileProgramFile(cmd.Context(), a, args[0])
			}
			var l fault.List
			for _, name := range []string{"model", "size", "frames"} {
				if !cmd.Flags().Changed(name) {
					l.Add(usageError("--%s is missing: compile takes a model's step (--model, --size, --frames) or a FILE", name))
				}
			}
			for _, name := range []string{"replicas", "partitions"} {
				if cmd.Flags().Changed(name) {
					l.Add(usageError("--%s is for a FILE; a model's step takes --mesh", name))
				}
			}
			if err := l.Err(); err != nil {
				return err
			}
			return f.compileModel(cmd.Context(), a)
		},
	}
	f.addFlags(c)
	fl := c.Flags()
	f.addHardware(c, "a TPU slice (v4-8, v5e:2x4) or cpu:N", func() []string { return topology.SuggestedSlices(topology.TPU, topology.CPU) })
	f.addMesh(c, "the split: dp=1,tp=4,sp=1; auto is the best that weft plan finds")
	f.add(c, "layers", "", "count and keep only the first N layers; 0 takes all")
	pathFlag(c, &f.out, "out", "folder to keep the compiled programs in")
	fl.BoolVar(&f.phases, "phases", false, "compile the programs of the other phases too: text, image, decode")
	fl.BoolVar(&f.force, "force", false, "replace compiled programs that are there")
	pathFlag(c, &f.plugin, "plugin", "a PJRT plugin file in place of the installed engine")
	fl.IntVar(&f.parallel, "parallel", 0, "programs compiled at a time; 0 is one for every processor")
	fl.IntVar(&f.replicas, "replicas", 0, "devices that run a FILE as replicas; 0 reads the file")
	fl.IntVar(&f.partitions, "partitions", 0, "devices that XLA partitions a FILE for; 0 reads the file")
	must(c.MarkFlagRequired("on"))
	return c
}

// compileModel compiles the programs of a model's step and reports what a device then
// holds.
func (f *compileFlags) compileModel(ctx context.Context, a *app) error {
	var l fault.List
	r, err := f.parse()
	l.Add(err)
	if r.On.All {
		return usageError("--on all: programs are compiled for one slice; weft plan --on all finds one")
	}
	o := aot.Options{Request: r, Machine: thisMachine(), Plugin: f.plugin, Install: true, Parallel: f.parallel, Fetching: a.showFetchProgress,
		Progress: func(program string, done, total int) {
			a.progress.reportProgress("compile "+program, int64(done), int64(total))
		}}
	if !f.phases && (r.Tiles != nil || r.AutoencoderType != dtype.Invalid) {
		l.Add(usageError("--tile and --vae-dtype without --phases: the autoencoder's programs are not the step's"))
	}
	if f.out != "" {
		l.Add(aot.CheckWritable(f.out, f.force))
	} else if f.force {
		l.Add(usageError("--force without --out: there is nothing to replace"))
	}
	if err := l.Err(); err != nil {
		return err
	}
	m, settings, err := modelOf(f.model, f.release)
	if err != nil {
		return err
	}
	o.Settings = settings
	if f.phases {
		if _, err := phases.Of(m, o.Request); err != nil { // before the step is compiled
			return err
		}
	}
	if r.On.Slice.Kind == topology.GPUBox && os.Getenv(workerEnv) == "" {
		return f.compileModelInSubprocess(ctx, a)
	}
	c, err := weft.Compile(ctx, m, o)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.phases {
		if err := c.CompilePhases(ctx, o); err != nil {
			return err
		}
	}
	if f.out != "" {
		if err := c.Write(f.out, f.force); err != nil {
			return err
		}
	}
	return f.printCompiled(a, &c.Report)
}

// printCompiled prints the report of a model's step.
func (f *compileFlags) printCompiled(a *app, r *aot.Report) error {
	return a.printResult(r, func() {
		a.printBlock(compiledText(r))
		if f.out != "" {
			a.say("wrote %s; run it with: weft forward --compiled %s", f.out, f.out)
		}
	})
}

// compileModelInSubprocess runs the same command in another process and prints the report of
// that process: XLA's CUDA plugin writes lines of its own to stderr, and may end its process.
func (f *compileFlags) compileModelInSubprocess(ctx context.Context, a *app) error {
	args := append(slices.Clone(a.args), "--json")
	out, err := runWorker(ctx, args)
	if err != nil {
		return err
	}
	var r aot.Report
	if err := json.Unmarshal(out, &r); err != nil || len(r.Programs) == 0 {
		return fault.New(errWorker, nil, "the compiling process gave no answer")
	}
	return f.printCompiled(a, &r)
}

// showFetchProgress shows how far the fetch of an engine has come. Before the first
// byte it says what is fetched and into which folder.
func (a *app) showFetchProgress(p plugin.Progress) {
	if p.Folder != "" {
		size := weft.Bytes(p.Total)
		if p.Unpacked > 0 {
			size += " (" + weft.Bytes(p.Unpacked) + " unpacked)"
		}
		if p.Kept > 0 {
			size += ", of which " + weft.Bytes(p.Kept) + " are here"
		}
		a.printStderr("note: fetching the %s engine, %s, into %s", p.Name, size, p.Folder)
	}
	a.progress.reportProgress("fetch", p.Done, p.Total)
}

// compiledText formats the report of a compilation for people, in 80 columns.
func compiledText(r *aot.Report) string {
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(printable.Sprintf(format+"\n", args...)) }
	say("%s on %s, %s, %s, batch %d", r.Model, r.On, r.Mesh, r.DType, r.Batch)
	say("compiled by %s %s (%s) in %.1f s", r.Engine.Name, r.Engine.Version, r.Compiler, r.CompileSeconds)
	say("")
	say("%-10s %5s %10s %10s %10s %10s %7s", "program", "calls", "arguments", "temps", "outputs", "FLOPs", "seconds")
	for _, p := range r.Programs {
		say("%-10s %5d %10s %10s %10s %10s %7.1f", p.Name, p.Calls, knownBytes(p.Arguments), knownBytes(p.Temp), knownBytes(p.Outputs), flopsText(float64(p.FLOPs)), p.CompileSeconds)
	}
	say("")
	parts := []struct {
		what string
		n    *int64
	}{{"weights", &r.ResidentWeightBytes}, {"kept for the request", &r.KeptBytes}, {"handed on in a step", &r.AliveBytes},
		{"the program's own", r.ProgramBytes}, {"code", r.CodeBytes}}
	if r.HBMBytesPerDevice == nil {
		say("what a device holds is unknown: the compiler gives no memory statistics. In program %q:", r.At)
	} else {
		say("a device holds %s, in program %q:", weft.Bytes(*r.HBMBytesPerDevice), r.At)
	}
	for _, part := range parts {
		text := "unknown"
		if part.n != nil {
			text = weft.Bytes(*part.n)
		}
		say("  %-22s %10s", part.what, text)
	}
	say("%s", fitText(r.Need))
	attentionText(say, "", r.Attention)
	for _, what := range r.LeftOut {
		say("  left out: %s", what)
	}
	for _, n := range r.Notes {
		say("  note: %s", n)
	}
	compiledPhases(say, r.Phases)
	return strings.TrimSuffix(b.String(), "\n")
}

// compiledPhases prints one row for each run of a phase: what a device holds by the compiler and
// by the plan, and the mesh.
func compiledPhases(say func(string, ...any), list []aot.Phase) {
	if len(list) == 0 {
		return
	}
	say("")
	say("%-7s %10s %10s %8s  %s", "phase", "compiled", "planned", "seconds", "on")
	bytes := func(n *int64) string {
		if n == nil {
			return "unknown"
		}
		return weft.Bytes(*n)
	}
	for _, p := range list {
		name := p.Name
		for _, r := range p.Runs {
			if len(r.Programs) == 0 {
				say("%-7s %30s  %s", name, plan.NotModelled, cutText(r.Model, 41))
			} else {
				say("%-7s %10s %10s %8.1f  %s", name, bytes(r.HBMBytesPerDevice), bytes(r.PlannedBytes), r.CompileSeconds, cutText(r.Mesh+", "+r.Model, 41))
			}
			name = ""
		}
	}
}

// fitText says whether the programs fit a device, and if not, how much memory is
// missing.
func fitText(n aot.Need) string {
	switch {
	case n.HBMBytesPerDevice == nil:
		return "whether it fits is unknown"
	case n.HBMLimitBytes == nil:
		return "whether it fits is unknown: the device's memory is"
	case n.Fits == plan.Fits:
		return "it fits: a device has " + memoryText(n.DeviceMemory)
	}
	return fmt.Sprintf("it does not fit: a device has %s, %s too few", memoryText(n.DeviceMemory), weft.Bytes(*n.OverBytes))
}

// memoryText says how much memory a program gets of a device, and how much is reserved
// for other uses.
func memoryText(m topology.DeviceMemory) string {
	if m.UsableBytes == nil {
		return "an unknown memory"
	}
	text := weft.Bytes(*m.UsableBytes)
	if m.ReservedBytes != nil {
		text += fmt.Sprintf(" (%s, of which %s are no program's)", weft.Bytes(*m.Bytes), weft.Bytes(*m.ReservedBytes))
	}
	return text
}

// knownBytes formats a size. A negative size means that the compiler did not report it.
func knownBytes(n int64) string {
	if n < 0 {
		return "unknown"
	}
	return weft.Bytes(n)
}

// flopsText formats a number of operations with a unit; a negative number is shown as
// "-".
func flopsText(f float64) string {
	if f < 0 {
		return "-"
	}
	for _, u := range []string{"", "K", "M", "G", "T"} {
		if f < 1000 {
			return fmt.Sprintf("%.2f %s", f, u)
		}
		f /= 1000
	}
	return fmt.Sprintf("%.2f P", f)
}

// maxProgram bounds a FILE: XLA takes programs through messages of 2 GiB at most.
const maxProgram = 2 << 30

// compileProgramFile compiles a file that holds a program. Because a compiler may abort
// the process over a program that it does not like, the work is done in a process of
// its own.
func (f *compileFlags) compileProgramFile(ctx context.Context, a *app, path string) error {
	if f.replicas < 0 || f.partitions < 0 {
		return usageError("--replicas %d --partitions %d: want 1 or more, or 0 to read the module", f.replicas, f.partitions)
	}
	r, err := request.Parse(request.Text{"on": f.text["on"]})
	if err != nil {
		return err
	}
	if r.On.All {
		return usageError("--on all: a program is compiled for one slice")
	}
	on := r.On.Slice
	i, err := os.Stat(path)
	if err != nil {
		return usageError("%v", err)
	}
	if i.IsDir() {
		return usageError("%s is a folder: a FILE is StableHLO, as text, bytecode or jax.export's file; a model is --model", path)
	}
	if err := userfile.CheckRegular(path); err != nil {
		return err
	}
	if os.Getenv(workerEnv) == "" {
		return f.compileInSubprocess(ctx, a, path)
	}
	data, err := userfile.Read(path, maxProgram)
	if err != nil {
		return err
	}
	o := aot.TextOptions{Name: filepath.Base(path), Replicas: f.replicas, Partitions: f.partitions, Plugin: f.plugin, Install: true, Fetching: a.showFetchProgress, Machine: thisMachine()}
	report, err := aot.CompileText(ctx, data, on, o)
	if err != nil {
		return err
	}
	return jsondoc.Write(a.stdout, report)
}

// compileInSubprocess runs the same command in another process and prints the answer of
// that process.
func (f *compileFlags) compileInSubprocess(ctx context.Context, a *app, path string) error {
	args := []string{"compile", path, "--json", "--on", f.text["on"], "--replicas", fmt.Sprint(f.replicas), "--partitions", fmt.Sprint(f.partitions)}
	if f.plugin != "" {
		args = append(args, "--plugin", f.plugin)
	}
	out, err := runWorker(ctx, args)
	if errors.Is(err, errWorker) {
		err = cmp.Or(tryNothing(ctx, f.text["on"], f.plugin), err) // was it the program?
	}
	if err != nil {
		return err
	}
	var r aot.TextReport
	if err := json.Unmarshal(out, &r); err != nil || len(r.Programs) == 0 {
		return fault.New(errWorker, nil, "the compiling process gave no answer")
	}
	return a.printResult(r, func() {
		p := r.Programs[0]
		a.say("%s (%s) on %s, %d devices", p.Name, r.Form, r.On, r.Replicas*r.Partitions)
		a.say("compiled by %s %s (%s) in %.1f s", r.Engine.Name, r.Engine.Version, r.Compiler, p.CompileSeconds)
		for _, part := range []struct {
			what string
			n    int64
		}{{"arguments", p.Arguments}, {"temporaries", p.Temp}, {"outputs", p.Outputs}, {"code", p.Code}} {
			a.say("  %-12s %10s", part.what, knownBytes(part.n))
		}
		if p.Alias > 0 {
			a.say("  %-12s %10s", "taken over", "-"+weft.Bytes(p.Alias))
		}
		if r.HBMBytesPerDevice != nil {
			a.say("a device holds %s (the compiler's peak, its own memories counted: %s)", weft.Bytes(*r.HBMBytesPerDevice), knownBytes(p.Peak))
		}
		a.say("%s", fitText(r.Need))
		for _, what := range r.LeftOut {
			a.say("  left out: %s", what)
		}
		for _, n := range r.Notes {
			a.say("  note: %s", n)
		}
	})
}
