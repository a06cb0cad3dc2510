package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/plan"
	"weft/topology"
)

// planFlags are plan's.
type planFlags struct {
	model, size, on, dtype, cfg, mesh, asserts string
	frames, batch, textLen                     int
	split, all                                 bool
}

func (a *app) plan() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan --model NAME|DIR --size WxH --frames N --on SLICE|all",
		Short: "Will it fit, and which split is best: without the hardware",
		Long: `plan goes over every split of a slice's devices over dp, fsdp, tp and sp, and over
keeping weights in shares along dp and sp, and says of each what a device holds,
what its collectives move, and about how long a step takes; best first. It reads
no weights and needs no hardware: the figures are those of the programs that run.

--on all names the smallest slice of every kind that does. --assert judges the
best plan and exits with 1 when it does not hold. GB is 10^9 bytes.

The text encoder and the VAE are not modelled yet. Step times rest on assumed
efficiencies: they rank splits and are no promise.`,
		Example: `  weft plan --model wan2.1-t2v-14b --size 832x480 --frames 81 --on v4-8
  weft plan --model wan2.1-t2v-14b --size 1280x720 --frames 81 --on all
  weft plan --model wan2.1-t2v-1.3b --size 832x480 --frames 81 --on v5e-4 --assert 'hbm<14GB'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A short life of many small values: collecting them costs more than keeping them.
			defer debug.SetGCPercent(debug.SetGCPercent(800))
			return f.run(a)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.model, "model", "", "a model's name, or a folder with config.json")
	fl.StringVar(&f.size, "size", "", "WIDTHxHEIGHT in pixels")
	fl.IntVar(&f.frames, "frames", 0, "frames of the video")
	fl.StringVar(&f.on, "on", "", "a TPU slice (v4-8, v5e:2x4), a GPU box (h200x8), cpu:N, or all")
	fl.StringVar(&f.dtype, "dtype", "bf16", "compute type: bf16 or f32 (the residual stream is f32 in both)")
	fl.IntVar(&f.batch, "batch", 1, "videos at a time")
	fl.StringVar(&f.cfg, "cfg", plan.CFGBatch, "the passes with and without the text: batch (as one of twice the size) or sequential")
	fl.StringVar(&f.mesh, "mesh", "auto", "plan this split alone: dp=1,tp=4,sp=1")
	fl.BoolVar(&f.split, "split-residual", false, "split the residual stream over tp as well as sp")
	fl.IntVar(&f.textLen, "text-len", 0, "rows of text where config.json does not say (diffusers)")
	fl.BoolVar(&f.all, "all", false, "show the illegal splits too, each with its reason")
	fl.StringVar(&f.asserts, "assert", "", "bounds on the best plan, with commas between: 'hbm<30GB', 'step<=12s'")
	for _, name := range []string{"model", "size", "frames", "on"} {
		must(c.MarkFlagRequired(name))
	}
	complete(c, "model", models.Presets()...)
	complete(c, "dtype", "bf16", "f32")
	complete(c, "cfg", plan.CFGBatch, plan.CFGSequential)
	complete(c, "on", "all", "v4-8", "v5e-8", "v5e-16", "v5p-8", "v6e-8", "h100x8", "h200x8", "cpu:8")
	return c
}

// planDoc is what --json prints.
type planDoc struct {
	*plan.Result
	Assertions []plan.Assertion `json:"assertions"`
}

func (f *planFlags) run(a *app) error {
	var l fault.List
	o := plan.Options{Frames: f.frames, Batch: f.batch, CFG: f.cfg, SplitResidual: f.split, Text: f.textLen}
	var err error
	o.Width, o.Height, err = parseSize(f.size)
	l.Add(err)
	switch f.dtype {
	case "bf16":
		o.DType = dtype.BF16
	case "f32":
		o.DType = dtype.F32
	default:
		l.Add(usage("--dtype %q: want bf16 or f32", f.dtype))
	}
	if f.batch < 1 {
		l.Add(usage("--batch %d: want 1 or more", f.batch))
	}
	if f.mesh != "auto" && f.mesh != "" {
		o.Mesh, err = mesh.Parse(f.mesh)
		l.Add(err)
	}
	asserts := []plan.Assertion{}
	if f.asserts != "" {
		asserts, err = plan.ParseAssertions(f.asserts)
		l.Add(err)
	}
	var on topology.Slice
	if f.on != "all" {
		on, err = topology.Lookup(f.on)
		l.Add(err)
	} else if o.Mesh != nil {
		l.Add(usage("--mesh %s with --on all: slices differ in their devices; name one slice", f.mesh))
	}
	if err := l.Err(); err != nil {
		return err
	}
	m, err := modelOf(f.model)
	if err != nil {
		return err
	}
	if on.Kind == topology.CPU {
		o.MemoryBytes, o.Cores = machineMemory()/int64(on.Devices), runtime.NumCPU()
	}
	var res *plan.Result
	if f.on == "all" {
		res, err = plan.SearchAll(m, o)
	} else {
		res, err = plan.Search(m, on, o)
	}
	if err != nil {
		return err
	}
	asserts, held := res.Assert(asserts)
	err = a.print(planDoc{res, asserts}, func() { a.say("%s", planText(res, f.all)) })
	if err != nil {
		return err
	}
	a.printed = true
	if len(res.Plans) == 0 {
		why := "no slice that weft knows does"
		if f.on != "all" {
			why = fmt.Sprintf("no split of %s is legal: %s", on, res.Refuse[0].Reason)
			if len(res.Refuse) > 1 {
				why = fmt.Sprintf("no split of %s is legal; %d are refused, --all lists them", on, len(res.Refuse))
			}
		}
		return fault.New(plan.ErrNoPlan, nil, "%s", why)
	}
	return held
}

// machineMemory is the memory of this machine in bytes, 0 where it is not known.
func machineMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
