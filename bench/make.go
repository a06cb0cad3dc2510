package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"

	"weft/dtype"
	"weft/fault"
	"weft/sampler"
)

// config is config.json as Wan2.1 releases have it.
type config struct {
	ClassName string  `json:"_class_name"`
	ModelType string  `json:"model_type"`
	Dim       int     `json:"dim"`
	FFNDim    int     `json:"ffn_dim"`
	NumHeads  int     `json:"num_heads"`
	NumLayers int     `json:"num_layers"`
	InDim     int     `json:"in_dim"`
	OutDim    int     `json:"out_dim"`
	FreqDim   int     `json:"freq_dim"`
	TextDim   int     `json:"text_dim"`
	TextLen   int     `json:"text_len"`
	PatchSize [3]int  `json:"patch_size"`
	Eps       float64 `json:"eps"`
}

// param is one tensor of the checkpoint: normal with the given mean and deviation.
type param struct {
	name      string
	shape     []int
	mean, std float64
}

// params lists the checkpoint's tensors, with the statistics of shared fixtures:
// no bias is zero and no scale is one, so that a forgotten one shows.
func params(c config) []param {
	var ps []param
	add := func(name string, mean, std float64, shape ...int) { ps = append(ps, param{name, shape, mean, std}) }
	linear := func(name string, shape ...int) {
		fan := 1
		for _, d := range shape[1:] {
			fan *= d
		}
		add(name+".weight", 0, 1/math.Sqrt(float64(fan)), shape...)
		add(name+".bias", 0, 0.1, shape[0])
	}
	d := c.Dim
	linear("patch_embedding", d, c.InDim, c.PatchSize[0], c.PatchSize[1], c.PatchSize[2])
	linear("text_embedding.0", d, c.TextDim)
	linear("text_embedding.2", d, d)
	linear("time_embedding.0", d, c.FreqDim)
	linear("time_embedding.2", d, d)
	linear("time_projection.1", 6*d, d)
	for i := range c.NumLayers {
		b := fmt.Sprintf("blocks.%d.", i)
		add(b+"modulation", 0, 0.3, 1, 6, d)
		for _, a := range []string{"self_attn.", "cross_attn."} {
			for _, p := range []string{"q", "k", "v", "o"} {
				linear(b+a+p, d, d)
			}
			add(b+a+"norm_q.weight", 1, 0.2, d)
			add(b+a+"norm_k.weight", 1, 0.2, d)
		}
		add(b+"norm3.weight", 1, 0.2, d)
		add(b+"norm3.bias", 0, 0.1, d)
		linear(b+"ffn.0", c.FFNDim, d)
		linear(b+"ffn.2", d, c.FFNDim)
	}
	add("head.modulation", 0, 0.3, 1, 2, d)
	linear("head.head", c.PatchSize[0]*c.PatchSize[1]*c.PatchSize[2]*c.OutDim, d)
	return ps
}

// made is what a folder was made from; a folder with the same is left as it is.
type made struct {
	Config config `json:"config"`
	Seed   uint64 `json:"seed"`
}

// makeModel writes a Wan2.1 text-to-video checkpoint with random weights, stored as BF16, and inputs as F32.
func makeModel(_ context.Context, args []string) error {
	fs := flag.NewFlagSet("make", flag.ExitOnError)
	c := config{ClassName: "WanModel", ModelType: "t2v", InDim: 16, OutDim: 16, FreqDim: 256, TextDim: 4096, TextLen: 512,
		PatchSize: [3]int{1, 2, 2}, Eps: 1e-6}
	fs.IntVar(&c.Dim, "dim", 1536, "model dim")
	fs.IntVar(&c.FFNDim, "ffn", 8960, "feed-forward dim")
	fs.IntVar(&c.NumHeads, "heads", 12, "attention heads")
	fs.IntVar(&c.NumLayers, "layers", 2, "blocks")
	size := fs.String("size", "832x480", "video size, width x height; both multiples of 16")
	frames := fs.Int("frames", 9, "video frames, 1+4k")
	rows := fs.Int("rows", 512, "rows of text context, at most 512")
	seed := fs.Uint64("seed", 1, "seed of weights and inputs")
	out := fs.String("out", "", "folder for config.json and diffusion_pytorch_model.safetensors")
	inputs := fs.String("inputs", "", "file for the inputs; default inputs.safetensors in the folder")
	_ = fs.Parse(args) // ExitOnError
	latent, err := latentShape(*size, *frames)
	switch {
	case err != nil:
		return err
	case *out == "":
		return fault.New(ErrUsage, nil, "make needs --out FOLDER")
	case c.Dim < 1 || c.NumHeads < 1 || c.Dim%c.NumHeads != 0 || c.Dim/c.NumHeads%2 != 0:
		return fault.New(ErrUsage, nil, "dim %d and %d heads leave no even head dim; Wan2.1-1.3B has 1536 and 12", c.Dim, c.NumHeads)
	case c.FFNDim < 1 || c.NumLayers < 1:
		return fault.New(ErrUsage, nil, "ffn %d and %d layers; both must be positive", c.FFNDim, c.NumLayers)
	case *rows < 1 || *rows > c.TextLen:
		return fault.New(ErrUsage, nil, "%d rows of context; the model takes 1 to %d", *rows, c.TextLen)
	}
	if *inputs == "" {
		*inputs = filepath.Join(*out, "inputs.safetensors")
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	if err := writeInputs(*inputs, c, latent, *rows, *seed); err != nil {
		return err
	}
	return writeModel(*out, c, *seed)
}

// latentShape is (1, 16, T, H, W) for Wan2.1's autoencoder, 4x8x8.
func latentShape(size string, frames int) ([]int, error) {
	var w, h int
	if n, err := fmt.Sscanf(size, "%dx%d", &w, &h); n != 2 || err != nil || w < 16 || h < 16 || w%16 != 0 || h%16 != 0 {
		return nil, fault.New(ErrUsage, nil, "size %q; it must be WxH, both multiples of 16, such as 832x480", size)
	}
	if frames < 1 || frames%4 != 1 {
		return nil, fault.New(ErrUsage, nil, "%d frames; it must be 1+4k, such as %d", frames, max(frames, 1)/4*4+1)
	}
	return []int{1, 16, frames/4 + 1, h / 8, w / 8}, nil
}

func writeInputs(path string, c config, latent []int, rows int, seed uint64) error {
	return writeTensors(path, dtype.F32, seed, []param{
		{"x", latent, 0, 1},
		{"t", []int{1}, 500, 0},
		{"context", []int{1, rows, c.TextDim}, 0, 1},
	})
}

func writeModel(dir string, c config, seed uint64) error {
	want, err := json.MarshalIndent(made{c, seed}, "", " ")
	if err != nil {
		return err
	}
	mark := filepath.Join(dir, "made.json")
	if have, err := os.ReadFile(mark); err == nil && bytes.Equal(have, want) {
		return nil
	}
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := writeTensors(filepath.Join(dir, "diffusion_pytorch_model.safetensors"), dtype.BF16, seed, params(c)); err != nil {
		return err
	}
	return os.WriteFile(mark, want, 0o644) // last, so that a folder cut short is made again
}

// stream is the noise stream of a tensor: by its name, so that tensors do not depend on each other.
func stream(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// values fills dst with the elements of p.
func (p param) values(seed uint64, dst []float32) {
	sampler.Fill(seed, stream(p.name), 0, dst)
	for i, v := range dst {
		dst[i] = float32(p.mean + p.std*float64(v))
	}
}
