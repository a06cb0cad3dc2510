package session

import (
	"context"
	"fmt"
	"time"

	"weft/array"
	"weft/checkpoint"
	"weft/engine"
	"weft/graph"
	"weft/mesh"
	"weft/program"
	"weft/sharding"
)

// Loaded reports the bytes and the time of a Load.
type Loaded struct {
	BytesRead     int64   // of tensor data, from files
	ResidentBytes []int64 // bytes of weights on each device, by mesh position
	Seconds       float64
}

// MaxResident is the largest of ResidentBytes.
func (l Loaded) MaxResident() int64 {
	var most int64
	for _, n := range l.ResidentBytes {
		most = max(most, n)
	}
	return most
}

// Load reads every weight of the graph from a checkpoint. Each device's shard is read
// straight into the memory that the device uses. stored translates an official name into the
// checkpoint's.
func (s *Session) Load(ctx context.Context, c *checkpoint.Checkpoint, stored func(string) string, progress Progress) error {
	start := time.Now()
	resident, err := s.g.WeightBytes()
	if err != nil {
		return err
	}
	s.loaded = Loaded{ResidentBytes: resident}
	type loading struct {
		w      graph.Weight
		m      *mesh.Mesh
		t      program.Type
		blocks []*engine.Block
	}
	var all []loading
	var parts []checkpoint.Part
	var total int64
	for _, w := range s.g.Weights {
		home := s.homes[w.Name]
		if home == nil {
			continue // no call reads it
		}
		local, err := w.Spec.Local(home, w.Shape)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		h := loading{w: w, m: home, t: program.Type{DType: w.DType, Shape: local}, blocks: make([]*engine.Block, home.NumDevices())}
		shared := map[string]*engine.Block{}
		for pos := range home.Devices() {
			lo, hi, _, err := array.Bounds(home, w.Spec, w.Shape, pos)
			if err != nil {
				return err
			}
			slices, err := fileSlices(w, lo, hi)
			if err != nil {
				return err
			}
			key := fmt.Sprint(slices)
			if shared[key] == nil {
				b, err := array.NewBlock(int(h.t.Bytes()))
				if err != nil {
					return err
				}
				runs, err := fileRuns(w, home, pos)
				if err != nil {
					return err
				}
				if _, whole := c.Lookup(stored(w.Name)); !whole && len(w.Pieces) > 0 {
					parts = append(parts, partsOfPieces(w, stored, slices, runs, b.Data)...)
				} else {
					parts = append(parts, checkpoint.Part{Name: stored(w.Name), As: w.DType, Dst: b.Data, Slices: slices, Runs: runs})
				}
				shared[key] = b
				total += int64(len(b.Data))
			}
			h.blocks[pos] = shared[key]
		}
		all = append(all, h)
	}
	progress.report("load", 0, total)
	stats, err := c.Read(ctx, parts, checkpoint.ReadOptions{Progress: func(done int64) { progress.report("load", done, total) }})
	if err != nil {
		return err
	}
	for _, h := range all {
		v, err := s.eng.Put(ctx, h.m, h.t, h.blocks)
		if err != nil {
			return fmt.Errorf("%s: %w", h.w.Name, err)
		}
		if old := s.weights[h.w.Name]; old != nil {
			old.Free()
		}
		s.weights[h.w.Name] = v
	}
	s.loaded.BytesRead = stats.BytesRead
	s.loaded.Seconds = time.Since(start).Seconds()
	return nil
}

// fileRuns are the ranges of every dim of a weight that a device holds, if the weight stacks
// matrices, since a device then holds a range of each. It is nil for other weights.
func fileRuns(w graph.Weight, on *mesh.Mesh, pos int) ([][][2]int, error) {
	if w.Layout.IsZero() {
		return nil, nil
	}
	ranges, err := sharding.Assigned{Param: sharding.Param{Name: w.Name, Shape: w.File}, Spec: w.Spec, Layout: w.Layout}.Ranges(on, pos)
	if err != nil {
		return nil, err
	}
	runs := make([][][2]int, len(ranges))
	for d, stretches := range ranges {
		for _, r := range stretches {
			runs[d] = append(runs[d], [2]int{r.Lo, r.Hi})
		}
	}
	return runs, nil
}

// partsOfPieces lists the parts to read for a device's shard of a weight that stacks
// matrices along dim 0, from a checkpoint that keeps these matrices apart. Each range of
// rows is cut at the borders of the matrices, and the parts fill dst one after another.
func partsOfPieces(w graph.Weight, stored func(string) string, slices [][2]int, runs [][][2]int, dst []byte) []checkpoint.Part {
	stretches := slices[:1]
	if len(runs) > 0 && len(runs[0]) > 0 {
		stretches = runs[0]
	}
	rows := 0
	for _, s := range stretches {
		rows += s[1] - s[0]
	}
	if rows == 0 {
		return nil
	}
	row := len(dst) / rows
	var out []checkpoint.Part
	for _, s := range stretches {
		first := 0 // row of the stack at which the piece starts
		for _, p := range w.Pieces {
			lo, hi := max(s[0], first), min(s[1], first+p.Rows)
			if lo < hi {
				part := checkpoint.Part{Name: stored(p.Name), As: w.DType, Dst: dst[:(hi-lo)*row]}
				part.Slices = append([][2]int{{p.Row + lo - first, p.Row + hi - first}}, slices[1:]...)
				if len(runs) > 0 {
					part.Runs = append([][][2]int{{part.Slices[0]}}, runs[1:]...)
				}
				out, dst = append(out, part), dst[(hi-lo)*row:]
			}
			first += p.Rows
		}
	}
	return out
}

// fileSlices converts a device's ranges in the weight's view, as programs see it, to ranges
// in the shape of the file. A view may merge dims that are not sharded; a sharded dim must
// be the same in both.
func fileSlices(w graph.Weight, lo, hi []int) ([][2]int, error) {
	out := make([][2]int, len(w.File))
	for d, n := range w.File {
		out[d] = [2]int{0, n}
	}
	var from, to int
	if len(lo) > 0 {
		var err error
		if from, to, err = w.FileRows(lo[0], hi[0]); err != nil {
			return nil, err
		}
	}
	same := len(w.File) == len(w.Shape)
	for d := 1; d < len(w.Shape); d++ {
		same = same && w.File[d] == w.Shape[d]
	}
	for d := range w.Shape {
		whole := lo[d] == 0 && hi[d] == w.Shape[d]
		switch {
		case d == 0 && (same || !whole):
			out[d] = [2]int{from, to}
		case same:
			out[d] = [2]int{lo[d], hi[d]}
		case !whole:
			return nil, fmt.Errorf("%s: dim %d of the view %v of %v cannot be split", w.Name, d, w.Shape, w.File)
		}
	}
	return out, nil
}
