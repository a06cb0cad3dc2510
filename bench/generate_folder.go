package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"weft/checkpoint"
	"weft/dtype"
	"weft/models"
	"weft/tensor"
)

// pipelineFixture is the tiny pipeline of which a folder at real widths is made: its
// configurations with other widths, and the names of its tensors.
const pipelineFixture = "testdata/pipelines/wan21_t2v"

// pipelineRecipe is what a folder in diffusers' layout is made from.
type pipelineRecipe struct {
	Seed uint64 `json:"seed"`
	// What differs from the fixture's config.json of each part.
	Transformer json.RawMessage `json:"transformer"`
	TextEncoder json.RawMessage `json:"text_encoder"`
	VAE         json.RawMessage `json:"vae"`
}

// realWidths is Wan2.1-t2v-1.3B with the given number of layers, UMT5-XXL's width and table of
// tokens with so many of its layers, and Wan2.1's autoencoder.
func realWidths(layers, textLayers int) pipelineRecipe {
	return pipelineRecipe{
		Seed:        1,
		Transformer: fmt.Appendf(nil, `{"num_attention_heads":12,"attention_head_dim":128,"ffn_dim":8960,"num_layers":%d,"text_dim":4096}`, layers),
		TextEncoder: fmt.Appendf(nil, `{"d_model":4096,"d_kv":64,"d_ff":10240,"num_heads":64,"num_layers":%d,"num_decoder_layers":%d,"vocab_size":256384}`, textLayers, textLayers),
		VAE:         json.RawMessage(`{"base_dim":96}`),
	}
}

// part is one model of a pipeline's folder.
type part struct {
	folder, weights string
	change          json.RawMessage
}

func (r pipelineRecipe) parts() []part {
	return []part{
		{"transformer", "diffusion_pytorch_model.safetensors", r.Transformer},
		{"text_encoder", "model.safetensors", r.TextEncoder},
		{"vae", "diffusion_pytorch_model.safetensors", r.VAE},
	}
}

// write makes the folder from the fixture in from; a folder made from the same is left as it is.
func (r pipelineRecipe) write(from, dir string) error {
	want, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	mark := filepath.Join(dir, "made.json")
	if have, err := os.ReadFile(mark); err == nil && bytes.Equal(have, want) {
		return nil
	}
	for _, file := range []string{"model_index.json", "scheduler/scheduler_config.json", "tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json"} {
		text, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
			return err
		}
	}
	for _, p := range r.parts() {
		if err := p.write(from, dir, r.Seed); err != nil {
			return err
		}
	}
	return os.WriteFile(mark, want, 0o644)
}

// write writes a part's config.json and its weights.
func (p part) write(from, dir string, seed uint64) error {
	raw, err := os.ReadFile(filepath.Join(from, p.folder, "config.json"))
	if err != nil {
		return err
	}
	var whole, change map[string]any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber() // 1.0 stays what it is: transformers refuses 1 where it wants a float
	if err := numbers.Decode(&whole); err != nil {
		return err
	}
	if err := json.Unmarshal(p.change, &change); err != nil {
		return err
	}
	merge(whole, change)
	text, err := json.MarshalIndent(whole, "", " ")
	if err != nil {
		return err
	}
	m, err := models.FromConfig(text, p.folder+"/config.json")
	if err != nil {
		return err
	}
	stored, err := storedNames(filepath.Join(from, p.folder, p.weights), m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, p.folder), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, p.folder, "config.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return writeWeights(filepath.Join(dir, p.folder, p.weights), m, seed, stored)
}

// numberOfBlock finds the number of a block in an official name.
var numberOfBlock = regexp.MustCompile(`^blocks\.(\d+)\.`)

// storedNames gives the name in diffusers' layout of an official one. It is learnt from the names
// in a file of that layout with fewer layers: layer 0 tells how the others are named.
func storedNames(file string, m models.Model) (func(string) string, error) {
	c, err := checkpoint.Open(file, checkpoint.Exact())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	known := map[string]string{}
	for _, e := range c.Entries() {
		known[m.Official(e.Name)] = e.Name
	}
	return func(official string) string {
		if name, ok := known[official]; ok {
			return name
		}
		if block := numberOfBlock.FindStringSubmatch(official); block != nil {
			first := known["blocks.0."+strings.TrimPrefix(official, block[0])]
			return strings.Replace(first, ".0.", "."+block[1]+".", 1)
		}
		return official
	}, nil
}

// makePipeline is the process that makes the folder and the noise to start from.
func makePipeline(_ context.Context, args []string) error {
	fs := flag.NewFlagSet("generate-folder", flag.ExitOnError)
	out, noiseFile := fs.String("out", "", "folder"), fs.String("noise", "", "file for the noise, latents")
	layers, textLayers := fs.Int("layers", 30, "layers of the transformer"), fs.Int("text-layers", 1, "layers of the text encoder")
	size, frames := fs.String("size", "256x256", "width x height"), fs.Int("frames", 9, "frames")
	_ = fs.Parse(args) // ExitOnError
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	if err := realWidths(*layers, *textLayers).write(pipelineFixture, *out); err != nil {
		return err
	}
	m, err := models.ByName(wan13b)
	if err != nil {
		return err
	}
	latent, err := latentShape(m, *size, *frames)
	if err != nil {
		return err
	}
	return writeNoise(*noiseFile, latent)
}

// writeNoise writes latents (1, channels, frames, height, width) of unit variance.
func writeNoise(file string, latent []int) error {
	g := rand.New(rand.NewPCG(3, 4))
	values := make([]float32, tensor.Elements(latent))
	for i := range values {
		values[i] = float32(g.NormFloat64())
	}
	t, err := tensor.FromFloat32s(dtype.F32, values, append([]int{1}, latent...)...)
	if err != nil {
		return err
	}
	return checkpoint.Write(file, map[string]*tensor.Tensor{"latents": t}, map[string]string{"format": "pt"}, checkpoint.WriteOptions{Force: true})
}
