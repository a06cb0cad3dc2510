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
	"strings"

	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/models"
	_ "weft/models/all"
	"weft/sampler"
	"weft/tensor"
)

// recipe is what a checkpoint is made from; a folder made from the same is left as it is.
type recipe struct {
	Model  string          `json:"model"`  // preset
	Config json.RawMessage `json:"config"` // what differs from the preset's config.json, object by object
	Prefix string          `json:"prefix"` // before every tensor's name, as some releases have it
	Seed   uint64          `json:"seed"`
}

// config is the preset's config.json with the recipe's changes.
func (r recipe) config() ([]byte, models.Model, error) {
	raw, err := models.PresetConfig(r.Model)
	if err != nil {
		return nil, nil, err
	}
	var whole, change map[string]any
	if err := json.Unmarshal(raw, &whole); err != nil {
		return nil, nil, err
	}
	if len(r.Config) > 0 {
		if err := json.Unmarshal(r.Config, &change); err != nil {
			return nil, nil, fault.New(ErrUsage, nil, "--config %s: not a JSON object: %v", r.Config, err)
		}
	}
	merge(whole, change)
	text, err := json.MarshalIndent(whole, "", " ")
	if err != nil {
		return nil, nil, err
	}
	m, err := models.FromConfig(text, "config.json of "+r.Model)
	return text, m, err
}

func merge(into, from map[string]any) {
	for k, v := range from {
		if inner, ok := v.(map[string]any); ok {
			if have, ok := into[k].(map[string]any); ok {
				merge(have, inner)
				continue
			}
		}
		into[k] = v
	}
}

// noise is how a parameter is made up: normal with a mean and a deviation, so
// that no bias is zero and no scale is one and a forgotten one shows.
func noise(p models.Param) (mean, std float64) {
	fan := tensor.Elements(p.Shape[1:])
	switch {
	case strings.HasSuffix(p.Name, ".attn.q.weight"): // T5's scores are not divided by the root of the head's width, 64: its queries are
		return 0, 1 / math.Sqrt(float64(64*fan))
	case p.Matmul:
		return 0, 1 / math.Sqrt(float64(fan))
	case strings.HasSuffix(p.Name, ".bias"):
		return 0, 0.1
	case len(p.Shape) == 1: // the scale of a norm
		return 1, 0.2
	case strings.Contains(p.Name, "modulation") || strings.Contains(p.Name, "scale_shift_table"):
		return 0, 0.3
	}
	return 0, 1 // a table of tokens or positions
}

// makeModel writes a checkpoint with random weights, stored as BF16, and inputs as F32.
func makeModel(_ context.Context, args []string) error {
	fs := flag.NewFlagSet("make", flag.ExitOnError)
	var r recipe
	fs.StringVar(&r.Model, "model", "wan2.1-t2v-1.3b", "preset")
	config := fs.String("config", "", `what differs from the preset's config.json: {"num_layers":2}`)
	fs.StringVar(&r.Prefix, "prefix", "", "prefix of the tensors' names")
	size := fs.String("size", "832x480", "video size, width x height")
	frames := fs.Int("frames", 9, "video frames")
	fs.Uint64Var(&r.Seed, "seed", 1, "seed of weights and inputs")
	out := fs.String("out", "", "folder for config.json and diffusion_pytorch_model.safetensors")
	inputs := fs.String("inputs", "", "file for the inputs; default inputs.safetensors in the folder")
	_ = fs.Parse(args) // ExitOnError
	r.Config = json.RawMessage(*config)
	if *out == "" {
		return fault.New(ErrUsage, nil, "make needs --out FOLDER")
	}
	_, m, err := r.config()
	if err != nil {
		return err
	}
	latent, err := latentShape(m, *size, *frames)
	if err != nil {
		return err
	}
	if *inputs == "" {
		*inputs = filepath.Join(*out, "inputs.safetensors")
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	in, err := m.Example(1, latent, r.Seed)
	if err != nil {
		return err
	}
	if err := checkpoint.Write(*inputs, in, map[string]string{"format": "pt"}, checkpoint.WriteOptions{Force: true}); err != nil {
		return err
	}
	return r.write(*out)
}

// latentShape is that of a generator's video; nil for a model that makes none.
func latentShape(m models.Model, size string, frames int) ([]int, error) {
	g := m.Features().Generator
	if g == nil {
		return nil, nil
	}
	var w, h int
	if n, err := fmt.Sscanf(size, "%dx%d", &w, &h); n != 2 || err != nil {
		return nil, fault.New(ErrUsage, nil, "size %q; it must be WxH, such as 832x480", size)
	}
	return g.LatentShape(w, h, frames)
}

// writeNew makes the folder, and those above it.
func (r recipe) writeNew(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return r.write(dir)
}

// write makes the folder.
func (r recipe) write(dir string) error {
	config, m, err := r.config()
	if err != nil {
		return err
	}
	if len(r.Config) == 0 {
		r.Config = nil
	}
	want, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	mark := filepath.Join(dir, "made.json")
	if have, err := os.ReadFile(mark); err == nil && bytes.Equal(have, want) {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), append(config, '\n'), 0o644); err != nil {
		return err
	}
	if err := writeWeights(filepath.Join(dir, "diffusion_pytorch_model.safetensors"), m, r.Seed, func(name string) string { return r.Prefix + name }); err != nil {
		return err
	}
	return os.WriteFile(mark, want, 0o644) // last, so that a folder cut short is made again
}

// writeWeights writes a model's parameters, made up and stored as BF16, to a file. stored gives
// the file's name for an official one.
func writeWeights(file string, m models.Model, seed uint64, stored func(name string) string) error {
	tensors := map[string]*tensor.Tensor{}
	for _, p := range m.Params(0) {
		mean, std := noise(p)
		values := make([]float32, tensor.Elements(p.Shape))
		fill(seed, p.Name, mean, std, values)
		var err error
		if tensors[stored(p.Name)], err = tensor.FromFloat32s(dtype.BF16, values, p.Shape...); err != nil {
			return err
		}
	}
	return checkpoint.Write(file, tensors, map[string]string{"format": "pt"}, checkpoint.WriteOptions{Force: true})
}

// fill gives a tensor its elements. Its noise stream is by its name, so that
// tensors do not depend on each other.
func fill(seed uint64, name string, mean, std float64, dst []float32) {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails
	sampler.Fill(seed, h.Sum64(), 0, dst)
	for i, v := range dst {
		dst[i] = float32(mean + std*float64(v))
	}
}
