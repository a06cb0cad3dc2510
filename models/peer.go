package models

import (
	"slices"
	"strings"

	"weft/mesh"
	"weft/sharding"
)

// The peer's sharding is one pair of sets of names for all families. They are copied
// to the letter, collisions included, so that a listing can compare the peer's
// sharding with weft's.
var (
	peerColumns = strings.Fields(`self_attn_q self_attn_k self_attn_v cross_attn_q cross_attn_k cross_attn_v
		self_attn_norm_q self_attn_norm_k cross_attn_norm_q cross_attn_norm_k ffn_0 attn_q attn_k attn_v ffn_gate_0 ffn_fc1
		self_attn_q_proj self_attn_k_proj self_attn_v_proj cross_attn_q_proj cross_attn_k_proj cross_attn_v_proj mlp_layer1
		q_proj k_proj v_proj gate_proj up_proj to_q to_k to_v add_q_proj add_k_proj add_v_proj ff_proj w_gate w_up
		linear1_q linear1_k linear1_v linear1_mlp fc1`)
	peerRows = strings.Fields(`self_attn_o cross_attn_o ffn_2 attn_o ffn_fc2 self_attn_output_proj cross_attn_output_proj
		mlp_layer2 o_proj down_proj to_out_0 to_out to_add_out ff_out w_down img_attn_proj txt_attn_proj linear2 fc2`)
)

// PeerSpec returns the sharding that vidax 0.1.0's shard_wan_params gives a parameter.
// path and rank are those of the peer's layout. The last two names of the path decide.
func PeerSpec(path string, rank int) sharding.Spec {
	spec := sharding.Whole(rank)
	parts := strings.Split(path, "/")
	if len(parts) < 2 {
		return spec
	}
	parent, leaf := parts[len(parts)-2], parts[len(parts)-1]
	switch {
	case slices.Contains(peerColumns, parent) && leaf == "kernel" && rank == 2:
		return spec.WithDim(1, mesh.TP)
	case slices.Contains(peerColumns, parent) && (leaf == "bias" || leaf == "scale") && rank == 1:
		return spec.WithDim(0, mesh.TP)
	case slices.Contains(peerRows, parent) && leaf == "kernel" && rank == 2:
		return spec.WithDim(0, mesh.TP)
	}
	return spec
}

// PeerWhole is a model that may say that the peer replicates it, whatever the names of
// its parameters are.
type PeerWhole interface {
	Model
	PeerWhole() bool
}

// Layout says whose names and dim order a listing of parameters has.
type Layout string

// The layouts.
const (
	Torch Layout = "torch" // the official checkpoint's names and dim order
	Flax  Layout = "flax"  // the peer's
)

// ParamSpec is one line of a listing.
type ParamSpec struct {
	Path  string        `json:"path"`
	Shape []int         `json:"shape"`
	Spec  sharding.Spec `json:"spec"`
	// Rule is the pattern that decided; empty for the peer's.
	Rule string `json:"rule,omitempty"`
	// Layout is the rule's.
	Layout sharding.Layout `json:"layout,omitzero"`
}

// Local returns the shape of a device's shard of a parameter.
func (p ParamSpec) Local(on *mesh.Mesh) ([]int, error) {
	return sharding.Assigned{Param: sharding.Param{Name: p.Path, Shape: p.Shape}, Spec: p.Spec, Layout: p.Layout}.Local(on)
}

// peerPath returns the peer's path of a parameter. Where the peer stores the parameter
// in pieces, it is the path of the first, because the peer shards all pieces alike.
func peerPath(p Param) string {
	if len(p.FlaxPieces) > 0 {
		return p.FlaxPieces[0]
	}
	return p.Flax
}

// List returns a model's parameters in a layout, with their sharding by weft's rules or,
// if peer is set, by the peer's.
func List(m Model, assigned []sharding.Assigned, layout Layout, peer bool) []ParamSpec {
	params := m.Params(0)
	out := make([]ParamSpec, 0, len(params))
	w, whole := m.(PeerWhole)
	whole = whole && w.PeerWhole()
	for i, p := range params {
		spec := assigned[i].Spec
		if p.View != nil { // a view merges whole dims behind the first
			spec = sharding.Whole(len(p.Shape)).WithDim(0, spec.Dim(0)...)
		}
		perm, shape := p.FlaxPerm, p.Shape
		if p.FlaxView {
			shape = p.View
		}
		if perm == nil {
			perm = make([]int, len(shape))
			for d := range perm {
				perm[d] = d
			}
		}
		flaxShape, flaxSpec := make([]int, len(perm)), sharding.Whole(len(perm))
		for d, from := range perm {
			flaxShape[d] = shape[from]
			flaxSpec = flaxSpec.WithDim(d, spec.Dim(from)...)
		}
		line := ParamSpec{Path: p.Name, Shape: p.Shape, Spec: spec, Rule: assigned[i].Rule, Layout: assigned[i].Layout}
		if peer {
			line.Rule, line.Layout = "", sharding.Layout{}
			flaxSpec = sharding.Whole(len(perm))
			if !whole {
				flaxSpec = PeerSpec(peerPath(p), len(perm))
			}
			line.Spec = sharding.Whole(len(p.Shape))
			for d, from := range perm {
				line.Spec = line.Spec.WithDim(from, flaxSpec.Dim(d)...)
			}
		}
		if layout == Flax {
			line.Path, line.Shape, line.Spec = p.Flax, flaxShape, flaxSpec
			if !line.Layout.IsZero() {
				line.Layout.Dim = slices.Index(perm, line.Layout.Dim)
			}
		}
		if layout != Flax || len(p.FlaxPieces) == 0 {
			out = append(out, line)
			continue
		}
		for k, path := range p.FlaxPieces {
			piece := line
			piece.Path, piece.Shape, piece.Layout = path, slices.Clone(line.Shape), sharding.Layout{}
			piece.Shape[slices.Index(perm, 0)] = p.Pieces[k].Rows
			if peer {
				piece.Spec = PeerSpec(path, len(perm))
			}
			out = append(out, piece)
		}
	}
	return out
}
