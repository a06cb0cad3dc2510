package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

// vaeCase is a measurement of one half of an autoencoder.
type vaeCase struct {
	model         string // preset, at its real width
	what          string // encode or decode
	width, height int
	frames        int
	dtype         string
}

// name is that of the case and of its results' files.
func (c vaeCase) name() string {
	return fmt.Sprintf("vae-%s-%s-%dx%dx%d-%s", strings.TrimSuffix(c.model, "-vae"), c.what, c.width, c.height, c.frames, c.dtype)
}

// vaeCases are f32 beside f32, and bf16 apart. diffusers computes the latter on a processor
// without bf16 instructions many times slower than f32, so there is one of each half.
func vaeCases() []vaeCase {
	var out []vaeCase
	for _, what := range []string{"decode", "encode"} {
		out = append(out, vaeCase{"wan2.1-vae", what, 256, 256, 9, "f32"}, vaeCase{"wan2.1-vae", what, 832, 480, 5, "f32"}, vaeCase{"wan2.1-vae", what, 256, 256, 9, "bf16"})
	}
	for _, model := range []string{"wan2.2-vae", "cogvideox-vae", "hunyuan-vae", "ltx-video-0.9.0-vae", "ltx2.5-vae-conv", "hunyuan1.5-vae"} {
		out = append(out, vaeCase{model, "decode", 256, 256, 9, "f32"}, vaeCase{model, "encode", 256, 256, 9, "f32"})
	}
	return out
}

// chooseVAE reads --only: the names of cases, or their beginnings.
func chooseVAE(only string) ([]vaeCase, error) {
	var chosen []vaeCase
	var names []string
	for _, c := range vaeCases() {
		names = append(names, c.name())
		if only == "" || slices.ContainsFunc(split(only), func(begin string) bool { return strings.HasPrefix(c.name(), begin) }) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return nil, fault.New(ErrUsage, nil, "no case begins like %q; known: %s", only, strings.Join(names, ", "))
	}
	return chosen, nil
}

// autoencoder measures weft's autoencoders beside diffusers'.
func autoencoder(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("vae", flag.ExitOnError)
	only := fs.String("only", "", "names of cases, or how they begin, by commas; all when empty")
	rounds := fs.Int("rounds", 2, "processes of each program in a case")
	repeat := fs.Int("repeat", 1, "timed runs in each process, after one that is not")
	peer := fs.String("python", python, "the Python that has diffusers")
	_ = fs.Parse(args) // ExitOnError
	chosen, err := chooseVAE(*only)
	if err != nil {
		return err
	}
	if *rounds < 1 || *repeat < 1 {
		return fault.New(ErrUsage, nil, "%d rounds of %d runs; at least 1 each", *rounds, *repeat)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	var failed fault.List
	for _, c := range chosen {
		r, err := measureVAE(ctx, c, self, *peer, *rounds, *repeat)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", c.name(), err)
			failed.Add(err)
			continue
		}
		fmt.Println(r.markdown())
		failed.Add(r.save("bench/results"))
	}
	return failed.Err()
}

// measureVAE measures one case, the programs in turn.
func measureVAE(ctx context.Context, c vaeCase, self, peer string, rounds, repeat int) (*result, error) {
	model := filepath.Join(work, c.model)
	if err := (recipe{Model: c.model, Seed: 1}).writeNew(model); err != nil {
		return nil, err
	}
	inputs, err := c.makeInputs()
	if err != nil {
		return nil, err
	}
	as := bcase{name: c.name(), why: fmt.Sprintf("%s: the autoencoder's %s at its real width, in the frames that its programs take at a time", c.model, c.what),
		model: c.model, layers: c.blocks(), size: fmt.Sprintf("%dx%d", c.width, c.height), frames: c.frames, dtype: c.dtype}
	r := newResult(as, rounds, []string{"weft", "diffusers"})
	outs := map[string]string{}
	for round := range rounds {
		for _, p := range r.Programs {
			outs[p] = filepath.Join(work, "out_"+p+".safetensors")
			args := []string{"--model", model, "--inputs", inputs, "--out", outs[p], "--dtype", c.dtype, "--repeat", strconv.Itoa(repeat), "--what", c.what}
			if p == "weft" {
				args = append([]string{self, "vae-step"}, args...)
			} else {
				args = append([]string{peer, "-W", "ignore", "bench/peers/diffusers_vae.py"}, args...)
			}
			f, err := measureCommand(ctx, p, args)
			if err != nil {
				return nil, err
			}
			f.Round, f.FirstSeconds = round, 0 // nothing of it depends on a text
			fmt.Fprintf(os.Stderr, "%s round %d %-9s run %.2f s (%.2f of processor), compile %.2f s, load %.2f s, peak %.2f GB\n", c.name(), round+1, p,
				slices.Min(f.StepSeconds), slices.Min(f.StepCPUSeconds), f.CompileSeconds, f.LoadSeconds, float64(f.PeakRSS)/1e9)
			r.Runs = append(r.Runs, f)
		}
	}
	d, err := agree(as, "weft", outs["weft"], "diffusers", outs["diffusers"])
	if err != nil {
		return nil, err
	}
	r.Differences["weft and diffusers"] = d
	r.Date = time.Now().UTC().Format("2006-01-02")
	return r, nil
}

// blocks is the number of residual blocks that a frame passes, for how far rounding may carry.
func (c vaeCase) blocks() int {
	m, err := models.ByName(c.model)
	if err != nil {
		panic(err) // the cases name presets
	}
	return m.Config().(interface{ Blocks() int }).Blocks()
}

// makeInputs writes the input of a case: latents z of unit variance, or a video of noise in
// [-1, 1].
func (c vaeCase) makeInputs() (string, error) {
	m, err := models.ByName(c.model)
	if err != nil {
		return "", err
	}
	shape := []int{1, 3, c.frames, c.height, c.width}
	name := "video"
	if c.what == "decode" {
		r, err := m.Features().Frames.Request("video", shape)
		if err != nil {
			return "", err
		}
		name, shape = "z", append([]int{1}, r.Latent...)
	}
	g := rand.New(rand.NewPCG(1, 2))
	fs := make([]float32, tensor.Elements(shape))
	for i := range fs {
		if name == "z" {
			fs[i] = float32(g.NormFloat64())
		} else {
			fs[i] = 2*g.Float32() - 1
		}
	}
	t, err := tensor.FromFloat32s(dtype.F32, fs, shape...)
	if err != nil {
		return "", err
	}
	file := filepath.Join(work, "in_"+c.name()+".safetensors")
	return file, checkpoint.Write(file, map[string]*tensor.Tensor{name: t}, map[string]string{"format": "pt"}, checkpoint.WriteOptions{Force: true})
}

// vaeStep is the process that runs weft's half of a case. It prints what `weft forward --json`
// prints, with the seconds of each run.
func vaeStep(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("vae-step", flag.ExitOnError)
	model, inputs := fs.String("model", "", "folder"), fs.String("inputs", "", "file with z or video")
	out := fs.String("out", "", "file for the output, as the tensor out")
	compute, what := fs.String("dtype", "f32", "f32 or bf16"), fs.String("what", "decode", "encode or decode")
	repeat := fs.Int("repeat", 1, "timed runs, after one that is not")
	_ = fs.Parse(args) // ExitOnError
	m, err := weft.Open(*model)
	if err != nil {
		return err
	}
	defer m.Close()
	in, err := weft.ReadTensors(*inputs)
	if err != nil {
		return err
	}
	input, output := "z", "out"
	if *what == "encode" {
		input, output = "video", "encode_mean"
	}
	source := func(_ context.Context, frame int) (*tensor.Tensor, error) {
		return in[input].Slice(2, frame, frame+1), nil
	}
	asked, err := request.Parse(request.Text{"dtype": *compute})
	if err != nil {
		return err
	}
	r, err := m.StartFrames(ctx, input, in[input].Shape, source, weft.Options{Device: "cpu", Request: asked})
	if err != nil {
		return err
	}
	defer r.Close()
	report := struct {
		weft.Report
		StepSeconds    []float64 `json:"step_seconds"`
		StepCPUSeconds []float64 `json:"step_cpu_seconds"`
		PeakBefore     int64     `json:"peak_rss_before_bytes"` // after compiling and loading
	}{PeakBefore: peakNow()}
	var parts []*tensor.Tensor
	for i := range 1 + *repeat {
		parts = nil
		start, startCPU := time.Now(), processorSeconds()
		if err := r.Stream(ctx, func(name string, _ int, t *tensor.Tensor) error {
			if name == output {
				parts = append(parts, t)
			}
			return nil
		}); err != nil {
			return err
		}
		if i > 0 {
			report.StepSeconds = append(report.StepSeconds, time.Since(start).Seconds())
			report.StepCPUSeconds = append(report.StepCPUSeconds, processorSeconds()-startCPU)
		}
	}
	report.Report = r.Report()
	if err := weft.WriteTensors(*out, map[string]*tensor.Tensor{"out": tensor.Join(2, parts)}, true); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// processorSeconds is what this process has used of the processor, over all threads.
func processorSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// peakNow is the most memory that this process has had so far.
func peakNow() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss * 1024
}
