package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"weft/attention"
	"weft/attention/mosaic"
	"weft/dtype"
	"weft/internal/llo"
	"weft/mesh"
	"weft/sharding"
	"weft/spmd"
	"weft/xla/plugin"
)

// kernelFigure is what the compiler says of one attention kernel on one chip. Bundles
// and cycles are of a step of the loop over keys, of one head; 0 where there are none.
type kernelFigure struct {
	Chip    string `json:"chip"`
	Kernel  string `json:"kernel"`
	Queries int    `json:"queries"` // of a step
	Keys    int    `json:"keys"`
	Bundles int    `json:"bundles,omitempty"`
	// Cycles are the static profile's: waiting for the matrix unit and for memory are in it.
	Cycles float64 `json:"cycles,omitempty"`
	// Share is of the matrix unit's limit, by cycles where there are some, else by bundles.
	Share float64 `json:"share"`
	Note  string  `json:"note,omitempty"`
}

type kernelResult struct {
	Date     string         `json:"date"`
	About    string         `json:"about"`
	Compiler string         `json:"compiler"`
	Figures  []kernelFigure `json:"figures"`
}

// flopsPerCycle is a core's matrix units' limit with a head dim of 128: four units of
// 128 x 128, or what 256-wide ones, half empty then, come to.
var flopsPerCycle = map[string]float64{"v4": 131072, "v5e": 131072, "v5p": 131072, "v6e": 262144, "tpu7x": 262144}

// cores are a device's: two share the heads of one call.
var cores = map[string]int{"v4": 2, "v5p": 2, "v5e": 1, "v6e": 1, "tpu7x": 1}

// kernelForm is one of the kernels that are compared.
type kernelForm struct {
	name          string
	queries, keys func(chip string) int // of a step
	text          func(ctx context.Context, chip string, queries, keys, heads int) (string, error)
}

// kernel asks libtpu what it makes of weft's attention kernel, of JAX's and of the blocked
// form, without a TPU: a model of the hardware, not a measurement.
func kernel(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("kernel", flag.ExitOnError)
	chips := fs.String("chips", strings.Join([]string{"v4", "v5e", "v5p", "v6e", "tpu7x"}, ","), "generations, with commas between")
	peers := fs.Bool("peers", true, "JAX's kernel too, by bench/.venv")
	profile := fs.Duration("profile", 4*time.Minute, "how long a static profile may take, where libtpu has one; 0 asks for none")
	save := fs.Bool("save", true, "write bench/results")
	if err := fs.Parse(args); err != nil {
		return err
	}
	engine, err := plugin.Get("tpu")
	if err != nil {
		return err
	}
	res := kernelResult{Date: time.Now().Format("2006-01-02"), Compiler: "libtpu " + engine.Version,
		About: "bf16 attention, head dim 128, by the compiler's figures: no TPU ran. Bundles and cycles are of one step of queries x keys of one head; " +
			"bundles leave out every stall, so a share by bundles is too high, by some 7 % at 1024 x 2048 where both are known"}
	forms := []kernelForm{{"weft", tile(func(b mosaic.Blocks) int { return b.Q }), tile(func(b mosaic.Blocks) int { return b.K }), weftKernel}}
	if *peers {
		forms = append(forms, jaxForm("jax, its default blocks", 128, 128, 128, true), jaxForm("jax, its best blocks", 1024, 2048, 1024, false))
	}
	for _, chip := range strings.Split(*chips, ",") {
		if llo.Topologies[chip] == "" {
			return fmt.Errorf("%w: no chip %q", ErrUsage, chip)
		}
		for _, f := range forms {
			res.Figures = append(res.Figures, f.figure(ctx, chip, *profile))
			fmt.Fprintln(os.Stderr, chip, f.name, "done")
		}
		res.Figures = append(res.Figures, blockedFigure(ctx, chip))
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "chip\tkernel\tstep\tbundles\tcycles\tof the matrix unit's limit\t")
	for _, f := range res.Figures {
		fmt.Fprintf(w, "%s\t%s\t%d x %d\t%d\t%.0f\t%.2f\t%s\n", f.Chip, f.Kernel, f.Queries, f.Keys, f.Bundles, f.Cycles, f.Share, f.Note)
	}
	if err := w.Flush(); err != nil || !*save {
		return err
	}
	text, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("bench/results", res.Date+"-kernel.json"), append(text, '\n'), 0o644)
}

func tile(of func(mosaic.Blocks) int) func(string) int {
	return func(chip string) int {
		return of(mosaic.Spec{Chip: chip, Batch: 1, Queries: 1 << 15, Keys: 1 << 15, Heads: 1, KVHeads: 1, HeadDim: 128}.Tiles())
	}
}

func jaxForm(name string, q, major, k int, byDefault bool) kernelForm {
	is := func(n int) func(string) int { return func(string) int { return n } }
	return kernelForm{name, is(q), is(major), func(ctx context.Context, _ string, queries, keys, heads int) (string, error) {
		blocks := []int{q, major, k}
		if byDefault {
			blocks = []int{0, 0, 0}
		}
		args := []string{"bench/peers/jax_flash.py"}
		for _, n := range append([]int{queries, keys, heads}, blocks...) {
			args = append(args, strconv.Itoa(n))
		}
		out, err := exec.CommandContext(ctx, python, args...).Output()
		if err != nil {
			return "", programError("jax_flash.py", err, "")
		}
		return string(out), nil
	}}
}

// attend is the program of one attention, q rounded from f32 as models have it.
func attend(target spmd.Target, queries, keys, heads int) (string, error) {
	one, err := mesh.Local()
	if err != nil {
		return "", err
	}
	p, err := spmd.Build("attention", one, func(b *spmd.Builder) {
		in := func(name string, d dtype.DType, n int) spmd.Tensor {
			return b.Input(name, d, []int{1, n, heads, 128}, sharding.Whole(4))
		}
		q := b.Convert(in("q", dtype.F32, queries), dtype.BF16)
		b.Output("out", attention.Attend(b, q, in("k", dtype.BF16, keys), in("v", dtype.BF16, keys), attention.Options{}), "")
	}, spmd.WithTarget(target))
	if err != nil {
		return "", err
	}
	return p.StableHLO(), nil
}

func weftKernel(_ context.Context, chip string, queries, keys, heads int) (string, error) {
	return attend(spmd.Target{Chip: chip, Attention: attention.Kernel}, queries, keys, heads)
}

// figure compiles a kernel for its bundles, and twice more for its profile: with four
// steps and with eight, whose difference has no beginning and no end in it.
func (k kernelForm) figure(ctx context.Context, chip string, profile time.Duration) kernelFigure {
	f := kernelFigure{Chip: chip, Kernel: k.name, Queries: k.queries(chip), Keys: k.keys(chip)}
	const heads = 2
	compile := func(ctx context.Context, steps int, j llo.Job) (llo.Compiled, error) {
		text, err := k.text(ctx, chip, f.Queries, steps*f.Keys, heads)
		if err != nil {
			return llo.Compiled{}, err
		}
		j.Topology, j.Programs = llo.Topologies[chip], []string{text}
		all, err := llo.Run(ctx, j)
		if err == nil && all[0].Error != "" {
			err = fmt.Errorf("%s", all[0].Error)
		}
		if err != nil {
			return llo.Compiled{}, err
		}
		return all[0], nil
	}
	c, err := compile(ctx, 8, llo.Job{Bundles: true})
	if err != nil {
		f.Note = err.Error()
		return f
	}
	f.Bundles = c.Codes[0].Hot()
	most := func(c llo.Compiled) (n int64) {
		for _, x := range c.Cycles {
			n = max(n, x)
		}
		return n
	}
	if profile > 0 {
		ctx, stop := context.WithTimeout(ctx, profile)
		defer stop()
		four, err := compile(ctx, 4, llo.Job{Profile: true})
		var eight llo.Compiled
		if err == nil {
			eight, err = compile(ctx, 8, llo.Job{Profile: true})
		}
		if err != nil {
			f.Note = "no profile: " + err.Error()
		} else {
			f.Cycles = float64(most(eight)-most(four)) / float64(4*heads/cores[chip])
		}
	}
	f.share(chip)
	return f
}

func (f *kernelFigure) share(chip string) {
	took := f.Cycles
	if took == 0 {
		took = float64(f.Bundles)
	}
	f.Share = 4 * float64(f.Queries) * float64(f.Keys) * 128 / flopsPerCycle[chip] / took
}

// blockedFigure adds up what a step of the blocked form runs: the code of each of its
// fusions times the rounds of its loop. What they wait for memory is not in it, and
// the scores of a step go through memory three times.
func blockedFigure(ctx context.Context, chip string) kernelFigure {
	const heads = 10
	f := kernelFigure{Chip: chip, Kernel: "blocked", Queries: 1024, Keys: 2048, Note: "waiting for memory left out"}
	text, err := attend(spmd.Target{Chip: chip, Attention: attention.Blocked, QueryBlock: f.Queries, KeyBlock: f.Keys}, f.Queries, f.Keys, heads)
	var all []llo.Compiled
	if err == nil {
		all, err = llo.Run(ctx, llo.Job{Topology: llo.Topologies[chip], Programs: []string{text}, Bundles: true})
	}
	if err == nil && all[0].Error != "" {
		err = fmt.Errorf("%s", all[0].Error)
	}
	if err != nil {
		f.Note = err.Error()
		return f
	}
	for _, c := range all[0].Codes {
		if strings.Contains(c.Name, "fusion") {
			f.Bundles += c.Total()
		}
	}
	f.Bundles /= heads / cores[chip]
	if f.Bundles > 0 {
		f.share(chip)
	}
	return f
}
