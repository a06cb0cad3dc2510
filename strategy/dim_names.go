package strategy

import (
	"fmt"
	"slices"

	"weft/mesh"
	"weft/sharding"
)

// DimName says what a dim of a tensor holds. Models write their specs in these names, and the
// strategies of this package find the axes that they split over by them when none are given.
// (Flax calls them logical axis names.)
type DimName string

// The names of dims. None is a dim that nothing splits.
const (
	None   DimName = ""
	Batch  DimName = "batch"  // the samples
	Tokens DimName = "tokens" // of the video or the text, also called the sequence
	Heads  DimName = "heads"  // of an attention, or the channels of all its heads
	FFN    DimName = "ffn"    // the hidden width of an FFN, or between the two matrices of an embedder
	Vocab  DimName = "vocab"  // the rows of a table of tokens
	Width  DimName = "width"  // of the residual stream, or of what is embedded into it
	// Rows and Columns are those of a picture or of its latents, where a decoder splits them.
	Rows    DimName = "rows"
	Columns DimName = "columns"
	Layers  DimName = "layers" // the layers, as a whole: no tensor has this dim
	AtRest  DimName = "rest"   // any one dim of a weight, in the time in which no program uses it
)

// dimAxes is the one table that maps names of dims to axes of the mesh, first major. A tensor
// may have dims of different names as long as their axes differ.
var dimAxes = map[DimName][]string{
	None:    nil,
	Batch:   {mesh.DP},
	Tokens:  {mesh.Ring, mesh.SP}, // the ring is major, so that what Ulysses gathers are neighbours
	Heads:   {mesh.TP},
	FFN:     {mesh.TP},
	Vocab:   {mesh.TP},
	Width:   {mesh.TP},
	Rows:    {mesh.SP},
	Columns: {mesh.TP},
	Layers:  {mesh.PP},
	AtRest:  {mesh.FSDP},
}

// Axes returns the axes of the mesh over which dims of these names are split, in the order of
// the names, each axis once. A name that is none of the constants is a mistake in the program,
// and Axes panics.
func Axes(dims ...DimName) []string {
	var axes []string
	for _, d := range dims {
		known, ok := dimAxes[d]
		if !ok {
			panic(fmt.Sprintf("strategy: no dim is named %q", string(d)))
		}
		for _, axis := range known {
			if !slices.Contains(axes, axis) {
				axes = append(axes, axis)
			}
		}
	}
	return axes
}

// AxesOfHeads returns the axes over which the heads of an attention are split while it is computed:
// their own, and those of the tokens that Ulysses moves to them. Along a ring the heads stay.
func AxesOfHeads() []string {
	return slices.DeleteFunc(Axes(Heads, Tokens), func(axis string) bool { return axis == mesh.Ring })
}

// Axis returns the axis over which dims of a name are split, for callers that take one axis
// alone: a pipeline's stages follow each other along one. It panics where the name has several.
func Axis(dim DimName) string {
	axes := Axes(dim)
	if len(axes) != 1 {
		panic(fmt.Sprintf("strategy: dim %q has axes %v: one is needed here", string(dim), axes))
	}
	return axes[0]
}

// SpecOf returns the spec of a tensor whose dims have these names. Dims behind the last name
// are whole.
func SpecOf(dims ...DimName) sharding.Spec {
	spec := make([][]string, len(dims))
	for i, d := range dims {
		spec[i] = Axes(d)
	}
	return sharding.NewSpec(spec...)
}

// ColumnParallel returns the spec of a matrix (out, in) whose outputs are split, and of its
// bias and of a norm over its outputs: Megatron-LM's column-parallel layer.
func ColumnParallel(out DimName) sharding.Spec { return SpecOf(out) }

// RowParallel returns the spec of a matrix (out, in) whose inputs are split. Each device
// computes an addend of the output; the bias is whole and is added once, after the sum.
func RowParallel(in DimName) sharding.Spec { return SpecOf(None, in) }
