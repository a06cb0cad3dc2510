package wanvae

import (
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/models"
	"weft/sharding"
	"weft/strategy"
)

// Axes are the mesh axes that the programs use: dp shards the batch, sp rows, tp columns.
// fsdp shards the weights alone: its devices compute the same.
var Axes = strategy.Axes(strategy.Batch, strategy.AtRest, strategy.Columns, strategy.Rows)

// CheckSplit reports axes over which the decoder cannot be sharded.
func (m *Model) CheckSplit(on *mesh.Mesh) error {
	var l fault.List
	for _, a := range on.Axes() {
		if a.Size > 1 && !slices.Contains(Axes, a.Name) {
			l.Add(fault.New(models.ErrAxis, struct {
				Axis  string   `json:"axis"`
				Known []string `json:"known"`
			}{a.Name, Axes}, "axis %s=%d: %s is split over dp (the batch), sp (rows) and tp (columns), its weights over fsdp", a.Name, a.Size, m.name))
		}
	}
	return l.Err()
}

// Check reports every reason why a mesh cannot run a request.
func (m *Model) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(m.CheckSplit(on))
	l.Add(models.CheckFSDP(on, r))
	if r.Batch < 1 {
		l.Add(fault.New(models.ErrInputs, nil, "batch %d: want 1 or more", r.Batch))
	} else {
		l.Add(models.CheckDim(on, models.ErrBatch, "batch", r.Batch, strategy.Batch))
	}
	if r.DType != dtype.F32 && r.DType != dtype.BF16 {
		l.Add(fault.New(models.ErrInputs, nil, "compute type %v: want f32 or bf16", r.DType))
	}
	if r.Layers > 0 {
		l.Add(fault.New(models.ErrInputs, nil, "%d layers: a decoder's stages cannot be left out", r.Layers))
	}
	err := m.checkLatent(r.Latent)
	l.Add(err)
	if r.Strict && err == nil {
		for _, d := range m.splitDims(r.Latent) {
			if n := on.Size(d.axis); d.size%n != 0 {
				l.Add(models.NotDivisible(models.ErrSize, d.what+", whose padding is refused in strict mode,", d.size, d.axis, n))
			}
		}
	}
	return l.Err()
}

// split is a dim of the pictures and the mesh axis over which it is sharded.
type split struct {
	what, axis string
	size       int // in latents
}

// splitDims are the two dims of the pictures that are sharded: rows over sp, columns over
// tp.
func (m *Model) splitDims(latent []int) [2]split {
	return [2]split{{"latent rows", strategy.Axis(strategy.Rows), latent[2]}, {"latent columns", strategy.Axis(strategy.Columns), latent[3]}}
}

func (m *Model) checkLatent(latent []int) error {
	if len(latent) != 4 {
		return fault.New(models.ErrInputs, nil, "latents of shape %v: want (channels, frames, height, width)", latent)
	}
	var l fault.List
	if latent[0] != m.c.ZDim {
		l.Add(fault.New(models.ErrInputs, nil, "latents of %d channels: the decoder reads z_dim %d", latent[0], m.c.ZDim))
	}
	for i, what := range []string{"frames", "height", "width"} {
		if n := latent[1+i]; n < 1 || n > 1<<16 {
			l.Add(fault.New(models.ErrSize, nil, "latent %s %d: want 1 or more, at most 65536", what, n))
		}
	}
	return l.Err()
}

// VideoShape is (channels, frames, height, width) of the video that latents
// (channels, frames, height, width) decode to. The first latent frame gives one picture,
// each later one FramesPerLatent.
func (m *Model) VideoShape(latent []int) ([]int, error) {
	if err := m.checkLatent(latent); err != nil {
		return nil, err
	}
	s := m.c.Scale()
	return []int{pictureChannels, 1 + (latent[1]-1)*m.c.FramesPerLatent(), s * latent[2], s * latent[3]}, nil
}

// layout says how the tensors of a request are sharded over a mesh.
type layout struct {
	frames     int           // latent
	rows, cols int           // of latents
	padded     [2]int        // rows and cols on the mesh: multiples of sp and tp
	pictures   sharding.Spec // (B, T, H, W, C)
	batch      sharding.Spec
}

func (m *Model) layOutRequest(on *mesh.Mesh, r models.Request) layout {
	l := layout{frames: r.Latent[1], rows: r.Latent[2], cols: r.Latent[3],
		pictures: strategy.SpecOf(strategy.Batch, strategy.None, strategy.Rows, strategy.Columns), batch: strategy.SpecOf(strategy.Batch)}
	for i, d := range m.splitDims(r.Latent) {
		l.padded[i] = numbers.RoundUp(d.size, on.Size(d.axis))
	}
	return l
}
