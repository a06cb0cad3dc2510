// Package params lists the parameters of a model as vidax 0.1.0 has them: under its paths, in
// its order of dims, and sharded by its rules. The tests of families compare these lists with
// what vidax itself made; weft specs prints them.
package params

import (
	"slices"
	"strings"

	"weft/mesh"
	"weft/models"
	"weft/sharding"
)

// vidax shards all families by one pair of sets of names. They are copied to the letter,
// collisions included, so that a list can be compared with vidax's sharding.
var (
	columns = strings.Fields(`self_attn_q self_attn_k self_attn_v cross_attn_q cross_attn_k cross_attn_v
		self_attn_norm_q self_attn_norm_k cross_attn_norm_q cross_attn_norm_k ffn_0 attn_q attn_k attn_v ffn_gate_0 ffn_fc1
		self_attn_q_proj self_attn_k_proj self_attn_v_proj cross_attn_q_proj cross_attn_k_proj cross_attn_v_proj mlp_layer1
		q_proj k_proj v_proj gate_proj up_proj to_q to_k to_v add_q_proj add_k_proj add_v_proj ff_proj w_gate w_up
		linear1_q linear1_k linear1_v linear1_mlp fc1`)
	rows = strings.Fields(`self_attn_o cross_attn_o ffn_2 attn_o ffn_fc2 self_attn_output_proj cross_attn_output_proj
		mlp_layer2 o_proj down_proj to_out_0 to_out to_add_out ff_out w_down img_attn_proj txt_attn_proj linear2 fc2`)
)

// shardByName returns the sharding that vidax's shard_wan_params gives a parameter with a path and a
// number of dims in vidax's layout. The last two names of the path decide.
func shardByName(path string, rank int) sharding.Spec {
	spec := sharding.Whole(rank)
	parts := strings.Split(path, "/")
	if len(parts) < 2 {
		return spec
	}
	parent, leaf := parts[len(parts)-2], parts[len(parts)-1]
	switch {
	case slices.Contains(columns, parent) && leaf == "kernel" && rank == 2:
		return spec.WithDim(1, mesh.TP)
	case slices.Contains(columns, parent) && (leaf == "bias" || leaf == "scale") && rank == 1:
		return spec.WithDim(0, mesh.TP)
	case slices.Contains(rows, parent) && leaf == "kernel" && rank == 2:
		return spec.WithDim(0, mesh.TP)
	}
	return spec
}

// Layout says whose names and dim order a list of parameters has.
type Layout string

// The layouts.
const (
	Torch Layout = "torch" // the official checkpoint's names and dim order
	Flax  Layout = "flax"  // vidax's
)

// Line is one line of a list.
type Line struct {
	Path  string        `json:"path"`
	Shape []int         `json:"shape"`
	Spec  sharding.Spec `json:"spec"`
	// Rule is the pattern that decided; empty for vidax's.
	Rule string `json:"rule,omitempty"`
	// Layout is the rule's.
	Layout sharding.Layout `json:"layout,omitzero"`
}

// Local returns the shape of a device's shard of a parameter.
func (l Line) Local(on *mesh.Mesh) ([]int, error) {
	return sharding.Assigned{Param: sharding.Param{Name: l.Path, Shape: l.Shape}, Spec: l.Spec, Layout: l.Layout}.Local(on)
}

// List returns a model's parameters in a layout, sharded as assigned by weft's rules or, if
// vidax is set, by vidax's. Error: peer.ErrPeer where the list needs vidax's names and vidax
// does not run the family.
func List(m models.Model, assigned []sharding.Assigned, layout Layout, vidax bool) ([]Line, error) {
	n, err := namingOf(m)
	if err != nil && (vidax || layout == Flax) {
		return nil, err
	}
	params := m.Params(0)
	out := make([]Line, 0, len(params))
	for i, p := range params {
		line := Line{Path: p.Name, Shape: p.Shape, Spec: assigned[i].Spec, Rule: assigned[i].Rule, Layout: assigned[i].Layout}
		if p.View != nil { // a view merges whole dims behind the first
			line.Spec = sharding.Whole(len(p.Shape)).WithDim(0, line.Spec.Dim(0)...)
		}
		if vidax {
			line.Spec, line.Rule, line.Layout = n.officialSpec(p), "", sharding.Layout{}
		}
		if layout == Flax {
			out = append(out, n.translate(line, p)...)
		} else {
			out = append(out, line)
		}
	}
	return out, nil
}

// officialSpec returns vidax's sharding of a parameter, in the official order of dims.
func (n naming) officialSpec(p models.Param) sharding.Spec {
	spec, h := sharding.Whole(len(p.Shape)), n.hold(p)
	if n.whole {
		return spec
	}
	path := h.path
	if len(h.parts) > 0 {
		path = h.parts[0] // vidax shards all parts alike
	}
	own := shardByName(path, len(h.perm))
	for d, from := range h.perm {
		spec = spec.WithDim(from, own.Dim(d)...)
	}
	return spec
}

// translate turns the official line of a parameter into vidax's: one line, or one for each part
// of a stacked matrix that vidax keeps apart.
func (n naming) translate(line Line, p models.Param) []Line {
	h := n.hold(p)
	shape, spec := p.Shape, line.Spec
	if h.viewed {
		shape = p.View
	}
	line.Path, line.Shape, line.Spec = h.path, make([]int, len(h.perm)), sharding.Whole(len(h.perm))
	for d, from := range h.perm {
		line.Shape[d] = shape[from]
		line.Spec = line.Spec.WithDim(d, spec.Dim(from)...)
	}
	if !line.Layout.IsZero() {
		line.Layout.Dim = slices.Index(h.perm, line.Layout.Dim)
	}
	if len(h.parts) == 0 {
		return []Line{line}
	}
	var out []Line
	for i, path := range h.parts {
		part := line
		part.Path, part.Shape, part.Layout = path, slices.Clone(line.Shape), sharding.Layout{}
		part.Shape[slices.Index(h.perm, 0)] = p.Pieces[i].Rows
		out = append(out, part)
	}
	return out
}
