package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weft"
	"weft/attention"
	"weft/engine"
	"weft/fault"
	"weft/plan"
)

// runFlags are those of every command that runs a model.
type runFlags struct {
	model, mesh, dtype, device string
	release                    string
	attention                  string
	layers, micro              int
	fsdp                       string
	split, strict              bool
	textLen                    int
	plugin, cacheDir           string
	noCache                    bool
	limit                      time.Duration
}

func (f *runFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.model, "model", "", "folder with config.json and checkpoint, an index, or a .safetensors file")
	fl.StringVar(&f.dtype, "dtype", "f32", "compute type: f32 or bf16 (the residual stream is f32 in both)")
	fl.StringVar(&f.device, "device", "auto", "auto, cpu (XLA), reference (the interpreter) or tpu")
	attentionFlag(c, &f.attention)
	releaseFlag(c, &f.release)
	fl.IntVar(&f.layers, "layers", 0, "run only the first N layers; 0 runs all")
	fl.BoolVar(&f.split, "split-residual", false, "split the residual stream over tp as well as sp")
	fl.StringVar(&f.fsdp, "fsdp", "", "keep each weight in shares over these axes, gathered layer by layer: sp, or dp,sp")
	fl.IntVar(&f.micro, "micro", 0, "microbatches of a pipeline (mesh axis pp); 0 makes them as small as dp allows")
	fl.BoolVar(&f.strict, "strict", false, "refuse a split that needs padded tokens")
	fl.IntVar(&f.textLen, "text-len", 0, "pad the text to N rows where config.json does not say (diffusers)")
	fl.StringVar(&f.plugin, "plugin", "", "a PJRT plugin file in place of the installed engine")
	fl.StringVar(&f.cacheDir, "cache-dir", "", "folder of compiled programs (default: WEFT_CACHE_DIR or the user's cache)")
	fl.BoolVar(&f.noCache, "no-cache", false, "compile everything again")
	fl.DurationVar(&f.limit, "limit", 0, "give up a run that takes longer, e.g. 10m; 0 waits")
	must(c.MarkFlagRequired("model"))
	complete(c, "dtype", "f32", "bf16")
	complete(c, "device", "auto", "cpu", "reference", "tpu")
}

// addMesh adds --mesh where it names one.
func (f *runFlags) addMesh(c *cobra.Command) { meshFlag(c, &f.mesh) }

func meshFlag(c *cobra.Command, mesh *string) {
	c.Flags().StringVar(mesh, "mesh", "auto", "how devices are arranged: dp=1,tp=4,sp=1; auto is one device")
	complete(c, "mesh", "auto", "dp=1,tp=1,sp=1", "tp=2", "sp=2", "tp=4", "sp=4", "tp=2,sp=2")
}

// attentionFlag is there wherever a step is built.
func attentionFlag(c *cobra.Command, form *string) {
	c.Flags().StringVar(form, "attention", attention.Auto, "auto (the kernel where the target is a TPU and it has one), blocked (loops) or kernel (or an error)")
	complete(c, "attention", attention.Auto, attention.Blocked, attention.Kernel)
}

// releaseFlag is there wherever a model is named.
func releaseFlag(c *cobra.Command, release *string) {
	c.Flags().StringVar(release, "release", "", "whose weights these are, where the folder does not say and several releases have one configuration: 0.9.5, wan2.2-t2v-a14b")
}

// cfgFlag is there wherever the passes of a step are asked for.
func cfgFlag(c *cobra.Command, cfg *string) {
	c.Flags().StringVar(cfg, "cfg", "", "the passes with and without the text: batch (as one of twice the size), sequential, or none (one pass); default: the release's own")
	complete(c, "cfg", plan.CFGBatch, plan.CFGSequential, plan.CFGNone)
}

// finiteFloats is a flag of finite numbers with commas between, at most so many.
type finiteFloats struct {
	to   *[]float64
	most int
}

func (f finiteFloats) String() string {
	if f.to == nil {
		return ""
	}
	texts := []string{}
	for _, x := range *f.to {
		texts = append(texts, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return strings.Join(texts, ",")
}

func (f finiteFloats) Type() string {
	if f.most > 1 {
		return "floats"
	}
	return "float"
}

// Set reads numbers. "nan" and "inf" are spellings that Go knows, and no settings.
func (f finiteFloats) Set(text string) error {
	parts := strings.Split(text, ",")
	if len(parts) > f.most {
		return fmt.Errorf("%d numbers: want at most %d", len(parts), f.most)
	}
	out := []float64{}
	for _, part := range parts {
		x, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%q: want a finite number", part)
		}
		out = append(out, x)
	}
	*f.to = out
	return nil
}

// floatsFlag adds a flag of finite numbers.
func floatsFlag(c *cobra.Command, to *[]float64, most int, name, help string) {
	c.Flags().Var(finiteFloats{to, most}, name, help)
}

// floatFlag adds a flag of one finite number; without it value stays as it is.
func floatFlag(c *cobra.Command, value *float64, name, help string) {
	c.Flags().Var(finiteFloat{value}, name, help)
}

// finiteFloat is a flag of one finite number.
type finiteFloat struct{ to *float64 }

func (f finiteFloat) String() string {
	if f.to == nil {
		return ""
	}
	return strconv.FormatFloat(*f.to, 'g', -1, 64)
}

func (f finiteFloat) Type() string { return "float" }

func (f finiteFloat) Set(text string) error {
	var one []float64
	if err := (finiteFloats{&one, 1}).Set(text); err != nil {
		return err
	}
	*f.to = one[0]
	return nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func complete(c *cobra.Command, flag string, values ...string) {
	must(c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
}

// options checks what flags alone can tell.
func (f *runFlags) options(a *app) (weft.Options, error) {
	var l fault.List
	if err := attention.CheckForm(f.attention); err != nil {
		l.Add(usage("--%v", err))
	}
	if f.attention == attention.Kernel && f.device != "tpu" {
		l.Add(fault.New(attention.ErrKernelUnavailable, attention.Unavailable{Kernel: f.attention, Target: f.device, Reason: "kernels are for TPUs"},
			"--attention %s on %s: weft's attention kernel is for TPUs; auto and blocked run everywhere in O(S) memory", f.attention, f.device))
	}
	switch f.dtype {
	case "f32", "bf16":
	default:
		l.Add(usage("--dtype %q: want f32 or bf16", f.dtype))
	}
	if f.layers < 0 {
		l.Add(usage("--layers %d: want 0 (all) or more", f.layers))
	}
	if f.textLen < 0 {
		l.Add(usage("--text-len %d: want 0 (as given) or more", f.textLen))
	}
	switch f.device {
	case "auto", "cpu", "reference", "tpu", "cuda":
	default:
		l.Add(fault.New(engine.ErrUnknownDevice, nil, "--device %q: want auto, cpu, reference or tpu", f.device))
	}
	return weft.Options{Mesh: f.mesh, DType: f.dtype, Device: f.device, Layers: f.layers, SplitResidual: f.split, FSDP: f.fsdp, Micro: f.micro, Strict: f.strict, TextLen: f.textLen, Attention: f.attention,
		Progress: a.progress.report,
		Engine: engine.Options{Warn: func(err error) { fmt.Fprintln(a.stderr, "weft: warning:", err) }, Plugin: f.plugin, CacheDir: f.cacheDir, NoCache: f.noCache, Limit: f.limit,
			InstallProgress: func(stage string, done, total int64) { a.progress.report("fetch "+stage, done, total) }}}, l.Err()
}
