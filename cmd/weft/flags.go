package main

import (
	"context"
	"errors"
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
	"weft/internal/userfile"
	"weft/request"
)

// runFlags are the flags that every command that runs a model has.
type runFlags struct {
	requestFlags
	model, device, release string
	plugin, cacheDir       string
	noCache                bool
	limit                  time.Duration
	nonFinite              bool
}

func (f *runFlags) addFlags(c *cobra.Command) {
	fl := c.Flags()
	pathFlag(c, &f.model, "model", "folder with config.json and checkpoint, an index, or a .safetensors file")
	fl.StringVar(&f.device, "device", "auto", "auto, cpu (XLA), cuda, reference (the interpreter) or tpu")
	f.addStep(c, "f32", "keep each weight in shares over these axes, gathered layer by layer: sp, or dp,sp", "pad the text to N rows where config.json does not say (diffusers)")
	releaseFlag(c, &f.release)
	f.add(c, "layers", "", "run only the first N layers; 0 runs all")
	f.add(c, "micro", "", "microbatches of a pipeline (mesh axis pp); 0 makes them as small as dp allows")
	f.addOffload(c, "none")
	f.add(c, "strict", "", "refuse a split that needs padded tokens")
	pathFlag(c, &f.plugin, "plugin", "a PJRT plugin file in place of the installed engine")
	pathFlag(c, &f.cacheDir, "cache-dir", "folder of compiled programs (default: WEFT_CACHE_DIR or the user's cache)")
	fl.BoolVar(&f.noCache, "no-cache", false, "compile everything again")
	fl.DurationVar(&f.limit, "limit", 0, "give up where all of it, from opening the model to the last step, takes longer, e.g. 10m; 0 is no limit")
	fl.BoolVar(&f.nonFinite, "allow-nonfinite", false, "take NaN and infinities in inputs and outputs as they are; without it they are an error")
	must(c.MarkFlagRequired("model"))
	completeFlag(c, "device", "auto", "cpu", "cuda", "reference", "tpu")
}

// outputFlags are the flags of a command that writes a file.
type outputFlags struct {
	userfile.Output
}

func (o *outputFlags) addFlags(c *cobra.Command) {
	pathFlag(c, &o.Path, "out", "safetensors file to write")
	c.Flags().BoolVar(&o.Force, "force", false, "replace an existing output file")
	must(c.MarkFlagRequired("out"))
}

// checkWritable returns an error when the output file cannot be written. It is called
// again as soon as more is known: which files are read (they must not be overwritten),
// and how large the output will be.
func (o *outputFlags) checkWritable(bytes int64, reads ...string) error {
	for _, path := range reads {
		if path != "" {
			o.Keep = append(o.Keep, path)
		}
	}
	o.Bytes = bytes
	return userfile.CheckWritable(o.Output)
}

// unreadNote makes a note that names the tensors of a file that nothing reads. It
// returns no note when there are none.
func unreadNote(path string, names []string) []string {
	if len(names) == 0 {
		return nil
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return []string{fmt.Sprintf("%s has %s too, which no program reads: left unread", path, strings.Join(quoted, ", "))}
}

// releaseFlag adds --release, which every command that names a model has.
func releaseFlag(c *cobra.Command, release *string) {
	c.Flags().StringVar(release, "release", "", "whose weights these are, where the folder does not say and several releases have one configuration: 0.9.5, wan2.2-t2v-a14b")
}

// finiteFlag adds a flag for a number. strconv accepts NaN and the infinities, but no
// flag has a use for them, so they are refused as wrong use. Every flag that takes a
// fraction is added with it.
func finiteFlag(c *cobra.Command, value *float64, name string, preset float64, help string) {
	*value = preset
	c.Flags().Var((*finite)(value), name, help)
}

// finite is the value of a flag for a finite number.
type finite float64

// Set reads the flag's text.
func (f *finite) Set(text string) error {
	v, err := parseFinite(text)
	if err == nil {
		*f = finite(v)
	}
	return err
}

// String is the value as help shows it.
func (f *finite) String() string { return strconv.FormatFloat(float64(*f), 'g', -1, 64) }

// Type is what help calls the value.
func (f *finite) Type() string { return "float" }

// pathFlag adds a flag that names a file or a folder. It refuses an empty name, which
// usually comes from an unset shell variable. Every flag that takes a path is added
// with it.
func pathFlag(c *cobra.Command, value *string, name, help string) {
	c.Flags().Var((*pathName)(value), name, help)
}

// pathName is the value of a flag that names a file or a folder.
type pathName string

// Set takes the name.
func (p *pathName) Set(text string) error {
	if text == "" {
		return errors.New("the name is empty")
	}
	*p = pathName(text)
	return nil
}

// String is the name.
func (p *pathName) String() string { return string(*p) }

// Type is what help calls the value.
func (p *pathName) Type() string { return "path" }

// parseFinite reads a number and refuses NaN, the infinities and numbers too large for
// a float64.
func parseFinite(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("want a finite number, such as 3 or 0.5")
	}
	return v, nil
}

// must panics when a flag is declared wrongly, which is a bug in weft.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// completeFlag makes the shell offer these values for a flag.
func completeFlag(c *cobra.Command, flag string, values ...string) {
	must(c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
}

// completeFlagWith makes the shell offer values for a flag that take a while to find. They are
// looked for when the shell asks, and not whenever a command starts.
func completeFlagWith(c *cobra.Command, flag string, find func() []string) {
	must(c.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return find(), cobra.ShellCompDirectiveNoFileComp
	}))
}

// errLimit: --limit has passed. The fields are Limit.
var errLimit = fault.NewKind("time-limit")

// Limit are the fields of errLimit: the limit, the time that passed, and the phase that
// the command was in.
type Limit struct {
	Limit   float64 `json:"limit_seconds"`
	Elapsed float64 `json:"elapsed_seconds"`
	Phase   string  `json:"phase"` // open, fetch, compile, load, run, sample or verify
}

// limitGrace is the time that a command has to end by itself once --limit has passed.
const limitGrace = 300 * time.Millisecond

// withTimeLimit wraps a command so that all of its work must end within --limit.
func (f *runFlags) withTimeLimit(a *app, work func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if f.limit <= 0 { // runOptions refuses a negative limit
			return work(cmd, args)
		}
		start := time.Now()
		over := func() error {
			l := Limit{f.limit.Seconds(), time.Since(start).Seconds(), a.progress.currentPhase()}
			return fault.New(errLimit, l, "--limit %v has passed, after %.2f s in the phase %q: nothing was written; a longer limit, or 0 for none", f.limit, l.Elapsed, l.Phase)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), f.limit)
		defer cancel()
		defer a.leaveAfter(ctx, limitGrace, over)()
		cmd.SetContext(ctx)
		err := work(cmd, args)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return over()
		}
		return err
	}
}

// runOptions turns the flags into the options of a run. It checks everything that can
// be checked without opening the model.
func (f *runFlags) runOptions(a *app) (weft.Options, error) {
	var l fault.List
	r, err := f.parse()
	l.Add(asUsage(err, request.ErrOptions))
	if r.Attention == attention.Kernel && f.device == "reference" {
		l.Add(fault.New(attention.ErrKernelUnavailable, attention.Unavailable{Kernel: r.Attention, Target: f.device, Reason: "kernels are for TPUs, GPUs and processors"},
			"--attention %s on %s: weft's attention kernels are for TPUs, GPUs and x86-64 processors through XLA; auto and blocked run everywhere in O(S) memory", r.Attention, f.device))
	}
	if f.limit < 0 {
		l.Add(usageError("--limit %v: want a time such as 10m, or 0 for no limit", f.limit))
	}
	switch f.device {
	case "auto", "cpu", "reference", "tpu", "cuda":
	default:
		l.Add(fault.New(engine.ErrUnknownDevice, nil, "--device %q: want auto, cpu, cuda, reference or tpu", f.device))
	}
	return weft.Options{Request: r, Device: f.device, Progress: a.progress.reportProgress, AllowNonFinite: f.nonFinite,
		Engine: engine.Options{Warn: a.warn, Plugin: f.plugin, CacheDir: f.cacheDir, NoCache: f.noCache,
			InstallProgress: a.showFetchProgress}}, l.Err()
}
