// Package weft plans, compiles and runs sharded video-diffusion models, from Go, through
// XLA. What is asked is one value (package request), which every function takes in its
// options, beside how the work is carried out:
//
//	r := request.Must("--size 64x64 --frames 9 --mesh tp=2,sp=2")
//	m, err := weft.Open("testdata/wan21_t2v")
//	p, err := weft.Plan(ctx, m.Model, plan.Options{Request: r})       // On names the hardware
//	c, err := weft.Compile(ctx, m.Model, aot.Options{Request: r})     // as above
//	f, err := m.Forward(ctx, inputs, weft.ForwardOptions{Options: weft.Options{Request: r}})
//	s, err := m.Sample(ctx, text, nil, weft.SampleOptions{Options: weft.Options{Request: r}})
//	v, err := m.Verify(ctx, weft.VerifyOptions{Options: weft.Options{Request: r}})
//
// Each result marshals to the JSON that the command of that name prints. Open reads a
// config and headers; Start checks the split, compiles and loads, for a caller that runs
// one step many times. The packages below are the parts: mesh, sharding, spmd, attention,
// models, checkpoint, engine, session.
package weft

import (
	"context"

	"weft/checkpoint"
	"weft/identify"
	_ "weft/models/all" // every family registers itself
	"weft/tensor"
)

// Model is a checkpoint whose model is known and whose tensors are all there. Close
// closes its files.
type Model struct{ *identify.Match }

// Open identifies the model at path: a folder with config.json, an index, a
// .safetensors file or a .pth. Only the config and headers are read. A checkpoint
// without a config is identified by its tensors' shapes, and so is a file that lies
// beside another model's config, as a release's autoencoder does. What stands beside
// the model in its file (a text encoder, an autoencoder, an EMA copy) is passed over
// and named in Notices. Missing, unexpected and mis-shaped tensors are all listed in
// one error.
func Open(path string) (*Model, error) { return OpenAs(path, "") }

// OpenAs is Open for the release of a name, as models.ReleaseQuery has it; "" is the
// one that the folder points to.
func OpenAs(path, release string) (*Model, error) {
	c, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := Identify(c, release)
	if err != nil {
		c.Close()
		return nil, err
	}
	return m, nil
}

// Identify finds out which model an open checkpoint holds, as the release of that name
// ("" is the one that the folder points to). Errors are OpenAs's; the checkpoint stays
// open.
func Identify(c *checkpoint.Checkpoint, release string) (*Model, error) {
	m, err := identify.Identify(c, release)
	if err != nil {
		return nil, err
	}
	return &Model{m}, nil
}

// ReadTensors reads every tensor of a safetensors file into memory. What does not fit
// there is an error before anything is read (checkpoint.ErrMemory).
func ReadTensors(path string) (map[string]*tensor.Tensor, error) {
	ts, _, err := checkpoint.LoadFile(context.Background(), path)
	return ts, err
}

// ReadTensorsNamed reads those tensors of a safetensors file that pick names, given
// the names of all. others are the rest, of which nothing is read, however large.
func ReadTensorsNamed(ctx context.Context, path string, pick func(names []string) []string) (ts map[string]*tensor.Tensor, others []string, err error) {
	ts, _, others, err = checkpoint.LoadNamed(ctx, path, pick)
	return ts, others, err
}

// WriteTensors writes a safetensors file: whole or not at all. It refuses to
// replace a file unless force is set.
func WriteTensors(path string, ts map[string]*tensor.Tensor, force bool) error {
	return checkpoint.Write(path, ts, map[string]string{"format": "pt"}, checkpoint.WriteOptions{Force: force})
}
