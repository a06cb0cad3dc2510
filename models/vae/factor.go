package vae

import (
	"weft/dtype"
	"weft/graph"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

// RawLatents is the name of an input of latents as the encoder makes them (encode_mean), to be
// decoded as they are. Those of the input z are multiplied by a factor, as transformers read
// them.
const RawLatents = "z_raw"

// The graph's inputs with the one factor of all latents: before they are decoded, and once they
// are encoded.
const (
	decodeFactor = "decode_factor"
	encodeFactor = "encode_factor"
)

// factorName is the name of the factor in a graph.
func (s *Build) factorName() string {
	if s.Request.Encode {
		return encodeFactor
	}
	return decodeFactor
}

// DeclareFactor declares the factor of all latents as an input of the graph.
func (s *Build) DeclareFactor() {
	s.Input(graph.Input{Name: s.factorName(), DType: dtype.F32, Shape: []int{1}, Spec: sharding.Whole(1)})
}

// Factor is the factor of all latents, f32 (1).
func (p *Program) Factor() spmd.Tensor { return p.Value(p.Graph.factorName()) }

// FeedFactor makes the graph's input with the factor of all latents.
func FeedFactor(g *graph.Graph, decode, encode float64) (map[string]*tensor.Tensor, error) {
	name, factor := decodeFactor, decode
	if g.Input(encodeFactor) != nil {
		name, factor = encodeFactor, encode
	}
	t, err := Floats(factor)
	return map[string]*tensor.Tensor{name: t}, err
}

// FeedRawFactor puts 1 in the place of the factor if latents are given as the encoder makes them.
func FeedRawFactor(g *graph.Graph, inputs, to map[string]*tensor.Tensor) (err error) {
	if inputs["z"] == nil && inputs[RawLatents] != nil && g.Input(decodeFactor) != nil {
		to[decodeFactor], err = Floats(1)
	}
	return err
}
