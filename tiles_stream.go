package weft

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/internal/userfile"
	"weft/models"
	"weft/nonfinite"
	"weft/tensor"
)

// StreamTiled is ForwardTiled, but hands over each frame of the outputs as soon as it is whole, and
// keeps none in memory. A frame is whole when its last tile is computed, and tiles are computed one
// after another with all their frames: until then their values are in a file without a name in
// the folder spool, which takes as many bytes as all tiles together. visit is called as Run.Stream
// calls it, in the order of the frames. Errors: those of ForwardTiled, and userfile.ErrOutput for a
// folder that has no room.
func (m *Model) StreamTiled(ctx context.Context, inputs map[string]*tensor.Tensor, tiles models.Tiles, spool string, o Options,
	visit func(name string, frame int, t *tensor.Tensor) error) (Report, error) {
	tiles = m.tileSizes(tiles)
	tiler, t, err := m.cutIntoTiles(inputs, tiles, o)
	if err != nil {
		return Report{}, err
	}
	if t == nil {
		return m.streamWhole(ctx, inputs, tiles, o, visit)
	}
	kept, err := newTileSpool(spool, len(t.rows.Spans)*len(t.cols.Spans))
	if err != nil {
		return Report{}, err
	}
	defer kept.close()
	t.compute = func(ctx context.Context, run *Run, at int) error {
		return run.Stream(ctx, func(name string, frame int, part *tensor.Tensor) error { return kept.write(at, name, frame, part) })
	}
	if err := t.runTiles(ctx); err != nil {
		return t.report, err
	}
	odd := nonfinite.Checker{Allow: o.AllowNonFinite}
	for _, p := range kept.parts {
		if err := ctx.Err(); err != nil {
			return t.report, err
		}
		blended, err := t.blendPart(tiler, kept, p)
		if err != nil {
			return t.report, err
		}
		if err := odd.CheckTensors("output", nil, map[string]*tensor.Tensor{p.output: blended}); err != nil {
			return t.report, err
		}
		if err := visit(p.output, p.frame, blended); err != nil {
			return t.report, err
		}
	}
	t.report.Notes = append(t.report.Notes, append(odd.Notes, t.describeTiles(tiles))...)
	return t.report, nil
}

// streamWhole streams pictures whole that are no larger than a tile.
func (m *Model) streamWhole(ctx context.Context, inputs map[string]*tensor.Tensor, tiles models.Tiles, o Options,
	visit func(name string, frame int, t *tensor.Tensor) error) (Report, error) {
	r, err := m.Start(ctx, inputs, o)
	if err != nil {
		return Report{}, err
	}
	defer r.Close()
	err = r.Stream(ctx, visit)
	report := r.Report()
	report.Notes = append(report.Notes, describeUncut(tiles))
	return report, err
}

// blendPart puts the tiles of one part of an output together.
func (t *tiledRun) blendPart(tiler *models.Tiled, kept *tileSpool, p outputPart) (*tensor.Tensor, error) {
	tiles := make([]blendedTile, len(kept.at))
	for i := range tiles {
		var err error
		if tiles[i], err = kept.read(i, p); err != nil {
			return nil, err
		}
	}
	whole, err := t.blendOutput(tiles)
	if err != nil {
		return nil, err
	}
	values, err := whole.Float32s()
	if err != nil {
		return nil, err
	}
	tiler.Finish(p.output, values)
	return tensor.FromFloat32s(dtype.F32, values, whole.Shape...)
}

// outputPart is a frame of an output, or several that came together.
type outputPart struct {
	output string
	frame  int
}

// tileSpool keeps the parts of all tiles' outputs in a file.
type tileSpool struct {
	f     *os.File
	named bool // the file still has its name, where a file that is open cannot lose it
	end   int64
	parts []outputPart // in the order in which a tile's come
	at    []map[outputPart]spooledPart
}

// spooledPart is where a part of one tile is, and its shape.
type spooledPart struct {
	offset int64
	shape  []int
}

// newTileSpool makes the file in a folder, for so many tiles. It loses its name at once, so that it
// goes with the process, however that ends.
func newTileSpool(dir string, tiles int) (*tileSpool, error) {
	f, err := os.CreateTemp(dir, ".weft-tiles-*")
	if err != nil {
		return nil, fault.New(userfile.ErrOutput, userfile.Path{Path: dir}, "a file for the tiles cannot be made: %v", err)
	}
	s := &tileSpool{f: f, at: make([]map[outputPart]spooledPart, tiles)}
	s.named = os.Remove(f.Name()) != nil
	return s, nil
}

func (s *tileSpool) close() {
	s.f.Close()
	if s.named {
		os.Remove(s.f.Name())
	}
}

// write keeps a part of a tile as f32.
func (s *tileSpool) write(tile int, output string, frame int, t *tensor.Tensor) error {
	t, err := t.As(dtype.F32)
	if err != nil {
		return err
	}
	p := outputPart{output, frame}
	if s.at[tile] == nil {
		s.at[tile] = map[outputPart]spooledPart{}
	}
	if !slices.Contains(s.parts, p) {
		s.parts = append(s.parts, p)
	}
	s.at[tile][p] = spooledPart{s.end, slices.Clone(t.Shape)}
	if _, err := s.f.WriteAt(t.Data, s.end); err != nil {
		return fault.New(userfile.ErrOutput, userfile.Path{Path: s.f.Name()}, "the tiles' values cannot be kept on the way: %v", err)
	}
	s.end += int64(len(t.Data))
	return nil
}

// read reads a part of a tile.
func (s *tileSpool) read(tile int, p outputPart) (blendedTile, error) {
	at, ok := s.at[tile][p]
	if !ok {
		return blendedTile{}, fault.New(models.ErrOutput, nil, "tile %d has no %s at frame %d, as the first one has", tile, p.output, p.frame)
	}
	raw := make([]byte, tensor.Elements(at.shape)*dtype.F32.Size())
	if _, err := s.f.ReadAt(raw, at.offset); err != nil {
		return blendedTile{}, fault.New(userfile.ErrOutput, userfile.Path{Path: s.f.Name()}, "the tiles' values cannot be read again: %v", err)
	}
	values := make([]float32, len(raw)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return blendedTile{values, at.shape}, nil
}

// describeTiles says in how many tiles pictures were computed.
func (t *tiledRun) describeTiles(tiles models.Tiles) string {
	return fmt.Sprintf("computed in %d x %d tiles of %d x %d pixels that lie %d x %d apart and are blended where they overlap: other values than the whole gives",
		len(t.rows.Spans), len(t.cols.Spans), tiles.Height, tiles.Width, tiles.StrideHeight, tiles.StrideWidth)
}

// describeUncut says why pictures were not computed in tiles.
func describeUncut(tiles models.Tiles) string {
	return fmt.Sprintf("computed whole: the pictures are no larger than a tile of %d x %d pixels", tiles.Height, tiles.Width)
}
