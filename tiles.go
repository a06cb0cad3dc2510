package weft

import (
	"context"
	"fmt"
	"slices"

	"weft/dtype"
	"weft/engine"
	"weft/fault"
	"weft/models"
	"weft/nonfinite"
	"weft/tensor"
)

// ForwardTiled is Forward in tiles of the given sizes, or where there are none of those of the release, for an autoencoder whose pictures would not
// fit whole: memory on the devices is that of one tile. It gives other values than Forward does,
// those of the release's own tiling, and the report notes it. Pictures no larger than a tile are
// computed whole, which is noted too. Errors: models.ErrSize for sizes that do not fit,
// models.ErrInputs for a model without tiles.
func (m *Model) ForwardTiled(ctx context.Context, inputs map[string]*tensor.Tensor, tiles models.Tiles, o Options) (map[string]*tensor.Tensor, Report, error) {
	tiler := m.Features().Tiled
	if tiler == nil {
		return nil, Report{}, fault.New(models.ErrInputs, nil, "%s is not computed in tiles: only an autoencoder is", m.Name())
	}
	tiles = tiler.Sizes(tiles)
	req, err := m.Request(inputs)
	if err != nil {
		return nil, Report{}, err
	}
	rows, cols, cut, err := tiler.Tile(req, tiles)
	if err != nil {
		return nil, Report{}, err
	}
	if !cut {
		return m.forwardWhole(ctx, inputs, tiles, o)
	}
	odd := nonfinite.Checker{Allow: o.AllowNonFinite}
	if err := odd.CheckTensors("input", nil, inputs); err != nil {
		return nil, Report{}, err
	}
	if o, err = m.checkOutputRoom(req, o); err != nil {
		return nil, Report{}, err
	}
	t := &tiledRun{m: m, o: o, inputs: inputs, rows: rows, cols: cols, done: make([]map[string]*tensor.Tensor, len(rows.Spans)*len(cols.Spans))}
	if err := t.runTiles(ctx); err != nil {
		return nil, Report{}, err
	}
	out, err := t.blendTiles(tiler)
	if err != nil {
		return nil, Report{}, err
	}
	if err := odd.CheckTensors("output", nil, out); err != nil {
		return nil, Report{}, err
	}
	t.report.Notes = append(t.report.Notes, append(odd.Notes, fmt.Sprintf("computed in %d x %d tiles of %d x %d pixels that lie %d x %d apart and are blended where they overlap: other values than the whole gives",
		len(rows.Spans), len(cols.Spans), tiles.Height, tiles.Width, tiles.StrideHeight, tiles.StrideWidth))...)
	return out, t.report, nil
}

// checkOutputRoom tells the options' OutputBytes how large the outputs of the whole are, so that
// it need not be told of each tile's.
func (m *Model) checkOutputRoom(req models.Request, o Options) (Options, error) {
	if o.OutputBytes == nil {
		return o, nil
	}
	on, req, micro, err := m.applyOptions(req, o)
	if err != nil {
		return o, err
	}
	g, err := m.Graph(on, req)
	if err != nil {
		return o, err
	}
	outputs, _ := g.OutputBytes()
	err = o.OutputBytes(outputs*int64(micro), 0)
	o.OutputBytes = nil
	return o, err
}

// forwardWhole computes pictures whole that are no larger than a tile.
func (m *Model) forwardWhole(ctx context.Context, inputs map[string]*tensor.Tensor, tiles models.Tiles, o Options) (map[string]*tensor.Tensor, Report, error) {
	r, err := m.Start(ctx, inputs, o)
	if err != nil {
		return nil, Report{}, err
	}
	defer r.Close()
	out, err := r.Forward(ctx)
	report := r.Report()
	report.Notes = append(report.Notes, fmt.Sprintf("computed whole: the pictures are no larger than a tile of %d x %d pixels", tiles.Height, tiles.Width))
	return out, report, err
}

// tiledRun is a step in tiles under way.
type tiledRun struct {
	m          *Model
	o          Options
	inputs     map[string]*tensor.Tensor
	rows, cols models.TiledDim
	done       []map[string]*tensor.Tensor // outputs by tile, row by row
	report     Report
	eng        engine.Engine
}

// runTiles computes all tiles. Tiles of one size share their programs and weights, and all use
// one engine.
func (t *tiledRun) runTiles(ctx context.Context) error {
	if t.eng = t.o.Running; t.eng == nil {
		on, err := t.o.LocalMesh()
		if err != nil {
			return err
		}
		if t.eng, err = engine.Open(ctx, t.o.Device, on.NumDevices(), t.o.Engine); err != nil {
			return err
		}
		defer t.eng.Close()
	}
	size := func(at int) [2]int {
		r, c := t.rows.Spans[at/len(t.cols.Spans)], t.cols.Spans[at%len(t.cols.Spans)]
		return [2]int{r[1] - r[0], c[1] - c[0]}
	}
	for first := range t.done {
		if t.done[first] != nil {
			continue
		}
		var alike []int
		for at := first; at < len(t.done); at++ {
			if size(at) == size(first) {
				alike = append(alike, at)
			}
		}
		if err := t.runAlike(ctx, alike); err != nil {
			return err
		}
	}
	return nil
}

// runAlike computes tiles of one size.
func (t *tiledRun) runAlike(ctx context.Context, tiles []int) error {
	cut := func(at int) map[string]*tensor.Tensor {
		r, c := t.rows.Spans[at/len(t.cols.Spans)], t.cols.Spans[at%len(t.cols.Spans)]
		out := map[string]*tensor.Tensor{}
		for name, x := range t.inputs {
			if len(x.Shape) == 5 {
				x = x.Slice(3, r[0], r[1]).Slice(4, c[0], c[1])
			}
			out[name] = x
		}
		return out
	}
	req, err := t.m.Request(cut(tiles[0]))
	if err != nil {
		return err
	}
	req.Tile = true
	run, err := t.m.prepareRun(ctx, req, t.o, t.eng)
	if err != nil {
		return err
	}
	defer run.Close()
	seconds := 0.0
	for _, at := range tiles {
		run.lanes, run.inputs = nil, nil
		if err := run.feedInputs(cut(at)); err != nil {
			return err
		}
		run.odd.Allow = true // the whole is looked at
		before := run.seconds
		run.seconds = 0
		if t.done[at], err = run.Forward(ctx); err != nil {
			return err
		}
		seconds += run.seconds
		run.seconds = max(before, run.seconds)
	}
	t.addReport(run.Report(), seconds)
	return nil
}

// addReport adds up what the runs of all sizes took.
func (t *tiledRun) addReport(r Report, seconds float64) {
	r.Seconds, r.FirstSeconds = seconds, seconds
	if t.report.Mesh == "" {
		t.report = r
		return
	}
	all := &t.report
	all.Seconds, all.FirstSeconds, all.CompileSeconds, all.LoadSeconds = all.Seconds+seconds, all.FirstSeconds+seconds, all.CompileSeconds+r.CompileSeconds, all.LoadSeconds+r.LoadSeconds
	all.BytesRead, all.PeakRSS, all.Cache = all.BytesRead+r.BytesRead, max(all.PeakRSS, r.PeakRSS), r.Cache
	all.Resident = max(all.Resident, r.Resident)
	for _, n := range r.Notes {
		if !slices.Contains(all.Notes, n) {
			all.Notes = append(all.Notes, n)
		}
	}
}

// blendTiles puts the tiles of each output together: row by row, each tile's beginning is mixed
// with the end of the one above it and then of the one before it, which are mixed already.
func (t *tiledRun) blendTiles(tiler *models.Tiled) (map[string]*tensor.Tensor, error) {
	out, same := map[string]*tensor.Tensor{}, map[*tensor.Tensor]*tensor.Tensor{}
	for name, first := range t.done[0] {
		if whole := same[first]; whole != nil {
			out[name] = whole // another name of an output
			continue
		}
		tiles := make([]blendedTile, len(t.done))
		for i := range t.done {
			x := t.done[i][name]
			values, err := x.Float32s()
			if err != nil {
				return nil, err
			}
			tiles[i] = blendedTile{values, x.Shape}
		}
		whole, err := t.blendOutput(tiles)
		if err != nil {
			return nil, err
		}
		values, err := whole.Float32s()
		if err != nil {
			return nil, err
		}
		tiler.Finish(name, values)
		if whole, err = tensor.FromFloat32s(dtype.F32, values, whole.Shape...); err != nil {
			return nil, err
		}
		out[name], same[first] = whole, whole
	}
	return out, nil
}

// blendOutput puts the tiles of one output together.
func (t *tiledRun) blendOutput(tiles []blendedTile) (*tensor.Tensor, error) {
	cols := len(t.cols.Spans)
	shape := slices.Clone(tiles[0].shape)
	shape[3], shape[4] = t.rows.Size, t.cols.Size
	whole := tensor.New(dtype.F32, shape...)
	for i := range tiles {
		x, row, col := tiles[i], i/cols, i%cols
		if row > 0 {
			x.mixWith(tiles[i-cols], 3, t.rows)
		}
		if col > 0 {
			x.mixWith(tiles[i-1], 4, t.cols)
		}
		lo, hi := make([]int, 5), slices.Clone(x.shape)
		lo[3], lo[4] = row*t.rows.Keep, col*t.cols.Keep
		hi[3], hi[4] = min(lo[3]+min(t.rows.Keep, x.shape[3]), shape[3]), min(lo[4]+min(t.cols.Keep, x.shape[4]), shape[4])
		kept, err := tensor.FromFloat32s(dtype.F32, x.values, x.shape...)
		if err != nil {
			return nil, err
		}
		kept = kept.Slice(3, 0, hi[3]-lo[3]).Slice(4, 0, hi[4]-lo[4])
		tensor.Paste(whole.Data, kept.Data, shape, lo, hi, dtype.F32.Size())
	}
	return whole, nil
}

// blendedTile is one tile of an output (B, C, T, H, W), whose values change as it is mixed with
// its neighbours.
type blendedTile struct {
	values []float32
	shape  []int
}

// mixWith mixes the beginning of a tile along a dim with the end of the one before it: group k
// of n has the share k/n of its own.
func (x blendedTile) mixWith(before blendedTile, dim int, d models.TiledDim) {
	n := min(before.shape[dim]/d.Group, x.shape[dim]/d.Group, d.Blend)
	outer, inner := tensor.Elements(x.shape[:dim]), tensor.Elements(x.shape[dim+1:])
	// Tiles of one row or column may differ in the other dim: they do not where they touch.
	for o := range outer {
		for at := range n * d.Group {
			share := float32(at/d.Group) / float32(n)
			own := x.values[(o*x.shape[dim]+at)*inner:][:inner]
			other := before.values[(o*before.shape[dim]+before.shape[dim]-n*d.Group+at)*inner:][:inner]
			for k := range own {
				own[k] = other[k]*(1-share) + own[k]*share
			}
		}
	}
}
