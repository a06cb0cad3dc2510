package step

import (
	"encoding/binary"
	"math/rand/v2"

	"weft/dtype"
	"weft/graph"
	"weft/models"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

// Rows looks ids (B, L) up in the table name.weight (V, D): (B, L, D) in f32, with the spec
// to. If the table is sharded by rows, each device finds the ids whose rows it has and gives
// zeros for the others; one reduction in the table's type adds them up, which is exact.
func (p *ProgramBuilder) Rows(name string, ids spmd.Tensor, to sharding.Spec) spmd.Tensor {
	x := p.Take(p.Weight(name+".weight"), ids)
	return p.Convert(p.Reshard(x, to, "rows of "+name+" brought together: each device has some"), dtype.F32)
}

// RMSNorm is the RMS norm over the last dim of x with the weight name.weight.
func (p *ProgramBuilder) RMSNorm(name string, x spmd.Tensor, eps float64) spmd.Tensor {
	return p.RMSNorms(eps, []spmd.Tensor{x}, []spmd.Tensor{p.Weight(name + ".weight")})[0]
}

// FeedIDs makes the inputs ids (B, Lp), padded with 0, and mask (B, L) of a text encoder's
// graph. The given ones may have any integer type.
func FeedIDs(g *graph.Graph, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	ids, err := inputs["ids"].Int64s()
	if err != nil {
		return nil, err
	}
	padded := tensor.New(dtype.I32, g.Input("ids").Shape...)
	batch, rows := inputs["ids"].Shape[0], inputs["ids"].Shape[1]
	for b := range batch {
		for i := range rows {
			binary.LittleEndian.PutUint32(padded.Data[4*(b*padded.Shape[1]+i):], uint32(ids[b*rows+i]))
		}
	}
	out, err := FeedMask(g, inputs)
	if err != nil {
		return nil, err
	}
	out["ids"] = padded
	return out, nil
}

// FeedMask makes the input mask (B, L) of a text encoder's graph that reads one.
func FeedMask(g *graph.Graph, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	if in := g.Input("mask"); in != nil {
		mask, err := inputs["mask"].Int64s()
		if err != nil {
			return nil, err
		}
		out["mask"] = tensor.New(dtype.Bool, in.Shape...)
		for i, v := range mask {
			if v > 0 {
				out["mask"].Data[i] = 1
			}
		}
	}
	return out, nil
}

// FeedText implements the Feed of a text encoder whose graph reads ids and a mask alone.
func FeedText(g *graph.Graph, _ models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	return FeedIDs(g, inputs)
}

// ExampleRows is the number of tokens of an example. It is odd, so that splits have to pad.
const ExampleRows = 13

// ExampleText makes ids (batch, rows) below vocab and a mask from a seed. The first text
// fills all rows, each further one two rows fewer.
func ExampleText(batch, rows, vocab int, seed uint64) map[string]*tensor.Tensor {
	g := rand.New(rand.NewPCG(seed, 0))
	ids, mask := tensor.New(dtype.I32, batch, rows), tensor.New(dtype.I32, batch, rows)
	for b := range batch {
		for i := range rows {
			at := 4 * (b*rows + i)
			binary.LittleEndian.PutUint32(ids.Data[at:], uint32(g.IntN(vocab)))
			if i < max(1, rows-2*b) {
				binary.LittleEndian.PutUint32(mask.Data[at:], 1)
			}
		}
	}
	return map[string]*tensor.Tensor{"ids": ids, "mask": mask}
}
