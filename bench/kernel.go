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
	"weft/program/stablehlo"
	"weft/sharding"
	"weft/spmd"
	"weft/topology"
	"weft/xla/plugin"
)

// kernelFigure is what the compiler says of one attention kernel on one chip. Bundles
// and cycles are of a step of the loop over keys, of one head; 0 where there are none.
type kernelFigure struct {
	Chip    string `json:"chip"`
	Kernel  string `json:"kernel"`
	Queries int    `json:"queries"` // of a step
	Keys    int    `json:"keys"`
	Sub     int    `json:"sub,omitempty"` // keys whose scores are made at a time
	HeadDim int    `json:"head_dim"`
	Bundles int    `json:"bundles,omitempty"`
	// Cycles are the static profile's: waiting for the matrix unit and for memory are in it.
	Cycles float64 `json:"cycles,omitempty"`
	// Share is of the matrix unit's limit, by cycles where there are some, else by bundles. A
	// head dim of 64 takes a step for two heads, and a limit in which half of each tile is zeros.
	Share float64 `json:"share"`
	Note  string  `json:"note,omitempty"`
}

type kernelResult struct {
	Date     string         `json:"date"`
	About    string         `json:"about"`
	Compiler string         `json:"compiler"`
	Figures  []kernelFigure `json:"figures"`
}

// kernelForm is one of the kernels that are compared, in each of some block sizes: queries and
// keys of a step, and keys whose scores are made at a time. The one with the fewest bundles for
// its work is the form's figure.
type kernelForm struct {
	name   string
	dim    int
	blocks func(chip string) [][3]int
	text   func(ctx context.Context, chip string, b [3]int, queries, keys, heads int) (string, error)
}

// kernel asks libtpu what it makes of weft's attention kernel, of JAX's and of the blocked
// form, without a TPU: a model of the hardware, not a measurement.
func kernel(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("kernel", flag.ExitOnError)
	chips := fs.String("chips", strings.Join(mosaic.Chips(), ","), "generations, with commas between")
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
		About: "bf16 attention by the compiler's figures: no TPU ran. Bundles and cycles are of one step of queries x keys of one head of 128 or two of 64; " +
			"bundles leave out every stall, so a share by bundles is too high, by 3 to 13 % where both are known"}
	var forms []kernelForm
	for _, dim := range []int{128, 64} {
		forms = append(forms, kernelForm{"weft", dim, tiles(dim), weftKernel(dim)})
	}
	if *peers {
		forms = append(forms, kernelForm{"jax, its default blocks", 128, jaxDefault, jaxByDefault}, kernelForm{"jax, its best blocks", 128, jaxBest, jaxKernel})
	}
	for _, name := range strings.Split(*chips, ",") {
		chip, ok := topology.GenerationByName(name)
		if !ok || chip.AttentionKernel() == nil {
			return fmt.Errorf("%w: no kernel on a chip %q; there is one on %s", ErrUsage, name, strings.Join(mosaic.Chips(), ", "))
		}
		for _, f := range forms {
			res.Figures = append(res.Figures, f.figure(ctx, &chip, *profile))
			fmt.Fprintln(os.Stderr, chip.Name, f.name, "done")
		}
		res.Figures = append(res.Figures, blockedFigure(ctx, &chip))
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "chip\tkernel\thead dim\tqueries x keys / sub\tbundles\tcycles\tof the matrix unit's limit\t")
	for _, f := range res.Figures {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d x %d / %d\t%d\t%.0f\t%.3f\t%s\n", f.Chip, f.Kernel, f.HeadDim, f.Queries, f.Keys, f.Sub, f.Bundles, f.Cycles, f.Share, f.Note)
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

func tiles(dim int) func(chip string) [][3]int {
	return func(chip string) [][3]int {
		b := mosaic.Kernel{Chip: chip, Batch: 1, Queries: 1 << 15, Keys: 1 << 15, Heads: 1, KVHeads: 1, HeadDim: dim}.Tiles()
		return [][3]int{{b.Q, b.K, b.Sub}}
	}
}

// jaxDefault is what JAX's kernel takes where no sizes are given.
func jaxDefault(string) [][3]int { return [][3]int{{128, 128, 128}} }

func jaxByDefault(ctx context.Context, chip string, _ [3]int, queries, keys, heads int) (string, error) {
	return jaxKernel(ctx, chip, [3]int{}, queries, keys, heads)
}

// jaxBest are the sizes that JAX's kernel is tried with. Not all of them fit everywhere.
func jaxBest(string) [][3]int {
	return [][3]int{{1024, 1024, 1024}, {1024, 2048, 512}, {1024, 2048, 1024}, {1024, 2048, 2048}, {2048, 2048, 512}, {2048, 2048, 1024}, {1024, 4096, 512},
		{1024, 4096, 1024}, {512, 4096, 1024}}
}

// jaxKernel is JAX's kernel in some sizes; of zeros it takes its own.
func jaxKernel(ctx context.Context, _ string, b [3]int, queries, keys, heads int) (string, error) {
	args := []string{"bench/peers/jax_flash.py"}
	for _, n := range append([]int{queries, keys, heads}, b[:]...) {
		args = append(args, strconv.Itoa(n))
	}
	out, err := exec.CommandContext(ctx, python, args...).Output()
	if err != nil {
		return "", programError("jax_flash.py", err, "")
	}
	return string(out), nil
}

// attend is the program of one attention, q rounded from f32 as models have it.
func attend(target spmd.Target, queries, keys, heads, dim int) (string, error) {
	one, err := mesh.Local()
	if err != nil {
		return "", err
	}
	p, err := spmd.Build("attention", one, func(b *spmd.Builder) {
		// As matmuls leave them: heads are no dim of their own in memory.
		in := func(name string, d dtype.DType, n int) spmd.Tensor {
			return b.SplitDim(b.Input(name, d, []int{1, n, heads * dim}, sharding.Whole(3)), 2, heads, dim)
		}
		q := b.Convert(in("q", dtype.F32, queries), dtype.BF16)
		b.Output("out", attention.Attend(b, q, in("k", dtype.BF16, keys), in("v", dtype.BF16, keys), attention.Options{}), "")
	}, spmd.WithTarget(target))
	if err != nil {
		return "", err
	}
	return stablehlo.Text(p), nil
}

func weftKernel(dim int) func(context.Context, string, [3]int, int, int, int) (string, error) {
	return func(_ context.Context, chip string, _ [3]int, queries, keys, heads int) (string, error) {
		return attend(spmd.Target{Chip: chip, Attention: attention.Kernel}, queries, keys, heads, dim)
	}
}

// figure compiles a kernel for its bundles, and twice more for its profile: with four
// steps and with eight, whose difference has no beginning and no end in it.
func (k kernelForm) figure(ctx context.Context, chip *topology.Generation, profile time.Duration) kernelFigure {
	f := kernelFigure{Chip: chip.Name, Kernel: k.name, HeadDim: k.dim}
	const steps = 2 // of one head or a pair, for each block of queries and keys
	heads := steps * 128 / k.dim
	compile := func(ctx context.Context, b [3]int, blocks int, j llo.Job) (llo.Compiled, error) {
		text, err := k.text(ctx, chip.Name, b, b[0], blocks*b[1], heads)
		if err != nil {
			return llo.Compiled{}, err
		}
		j.Topology, j.Programs = chip.AttentionKernel().Compiler.Topology, []string{text}
		all, err := llo.Run(ctx, j)
		if err == nil && all[0].Error != "" {
			err = fmt.Errorf("%s", all[0].Error)
		}
		if err != nil {
			return llo.Compiled{}, err
		}
		return all[0], nil
	}
	var best [3]int
	for _, b := range k.blocks(chip.Name) {
		c, err := compile(ctx, b, 8, llo.Job{Bundles: true})
		if err != nil {
			f.Note = err.Error() // unless another fits
			continue
		}
		if hot := c.Codes[0].Hot(); f.Bundles == 0 || hot*f.Queries*f.Keys < f.Bundles*b[0]*b[1] {
			best, f.Queries, f.Keys, f.Sub, f.Bundles = b, b[0], b[1], b[2], hot
		}
	}
	if f.Bundles == 0 {
		return f
	}
	f.Note = ""
	most := func(c llo.Compiled) (n int64) {
		for _, x := range c.Cycles {
			n = max(n, x)
		}
		return n
	}
	if profile > 0 {
		ctx, stop := context.WithTimeout(ctx, profile)
		defer stop()
		four, err := compile(ctx, best, 4, llo.Job{Profile: true})
		var eight llo.Compiled
		if err == nil {
			eight, err = compile(ctx, best, 8, llo.Job{Profile: true})
		}
		if err != nil {
			f.Note = "no profile: " + err.Error()
		} else {
			f.Cycles = float64(most(eight)-most(four)) / float64(4*steps/coresPerDevice(chip))
		}
	}
	f.share(chip)
	return f
}

// coresPerDevice gives the cores that share the heads of one call.
func coresPerDevice(chip *topology.Generation) int {
	return chip.CoresPerChip() / chip.DevicesPerChip()
}

func (f *kernelFigure) share(chip *topology.Generation) {
	took := f.Cycles
	if took == 0 {
		took = float64(f.Bundles)
	}
	f.Share = 128 / float64(f.HeadDim) * 4 * float64(f.Queries) * float64(f.Keys) * 128 / chip.AttentionKernel().Compiler.FLOPsPerCycle / took
}

// blockedFigure adds up what a step of the blocked form runs: the code of each of its
// fusions times the rounds of its loop. What they wait for memory is not in it, and
// the scores of a step go through memory three times.
func blockedFigure(ctx context.Context, chip *topology.Generation) kernelFigure {
	const heads = 10
	f := kernelFigure{Chip: chip.Name, Kernel: "blocked", Queries: 1024, Keys: 2048, Sub: 2048, HeadDim: 128, Note: "waiting for memory left out"}
	text, err := attend(spmd.Target{Chip: chip.Name, Attention: attention.Blocked, QueryBlock: f.Queries, KeyBlock: f.Keys}, f.Queries, f.Keys, heads, 128)
	var all []llo.Compiled
	if err == nil {
		all, err = llo.Run(ctx, llo.Job{Topology: chip.AttentionKernel().Compiler.Topology, Programs: []string{text}, Bundles: true})
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
	f.Bundles /= heads / coresPerDevice(chip)
	if f.Bundles > 0 {
		f.share(chip)
	}
	return f
}
