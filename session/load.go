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
	ResidentBytes []int64 // the most that each device has held of the weights, by mesh position
	Seconds       float64
	// Weights has, for each device by mesh position, what stays, leaves and is streamed.
	Weights []graph.WeightMemory
}

// MaxResident is the largest of ResidentBytes.
func (l Loaded) MaxResident() int64 {
	var most int64
	for _, n := range l.ResidentBytes {
		most = max(most, n)
	}
	return most
}

// Load reads the weights of the graph from a checkpoint. Each device's shard is read
// straight into the memory that the device uses. stored translates an official name into the
// checkpoint's. The weights that only calls of the request read leave the devices once these
// calls have run; only then the others are read, in the first Run. What has left is read again
// when a request begins again. So the checkpoint stays open as long as the session.
func (s *Session) Load(ctx context.Context, c *checkpoint.Checkpoint, stored func(string) string, progress Progress) error {
	return s.LoadOffloaded(ctx, c, stored, graph.Offload{}, progress)
}

// LoadOffloaded is Load of the weights that are not streamed. Those that are come with the
// calls that read them.
func (s *Session) LoadOffloaded(ctx context.Context, c *checkpoint.Checkpoint, stored func(string) string, o graph.Offload, progress Progress) error {
	s.stopStreams()
	s.placed, s.source = s.g.Place(o), weightSource{c, stored, s.addend}
	s.waiting = s.placed.AnyLeaves && !s.keepLeavers
	held, err := s.g.WeightMemory(o)
	if err != nil {
		return err
	}
	s.loaded = Loaded{Weights: held}
	for _, m := range held {
		most := m.Together()
		if s.waiting {
			most = m.Most()
		}
		s.loaded.ResidentBytes = append(s.loaded.ResidentBytes, most)
	}
	if err := s.makeStreams(); err != nil {
		return err
	}
	return s.loadTimed(ctx, progress, func(name string) bool {
		where := s.placed.Of[name]
		return where != graph.Streams && !(s.waiting && where == graph.Follows)
	})
}

// loadTimed is loadWeights, and adds the bytes and the time to what loading took.
func (s *Session) loadTimed(ctx context.Context, progress Progress, which func(name string) bool) error {
	start := time.Now()
	n, err := s.loadWeights(ctx, progress, which)
	s.loaded.BytesRead += n
	s.loaded.Seconds += time.Since(start).Seconds()
	return err
}

// loadWeights reads those weights that which picks, puts them on the devices, and says how
// many bytes were read.
func (s *Session) loadWeights(ctx context.Context, progress Progress, which func(name string) bool) (int64, error) {
	var all []*weightShards
	var blocks [][]*engine.Block
	var parts []checkpoint.Part
	var total int64
	for _, w := range s.g.Weights {
		if s.homes[w.Name] == nil || !which(w.Name) {
			continue
		}
		h, err := shardsOf(w, s.homes[w.Name])
		if err != nil {
			return 0, err
		}
		own := make([]*engine.Block, len(h.shards))
		for i := range own {
			if own[i], err = array.NewBlock(int(h.t.Bytes())); err != nil {
				return 0, err
			}
			parts = append(parts, s.source.partsOf(h, i, own[i].Data)...)
			total += h.t.Bytes()
		}
		all, blocks = append(all, h), append(blocks, own)
	}
	progress.report("load", 0, total)
	stats, err := s.source.checkpoint.Read(ctx, parts, checkpoint.ReadOptions{Progress: func(done int64) { progress.report("load", done, total) }})
	if err != nil {
		return 0, err
	}
	for i, h := range all {
		v, err := s.eng.Put(ctx, h.m, h.t, h.byPosition(blocks[i]))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", h.w.Name, err)
		}
		if old := s.weights[h.w.Name]; old != nil {
			old.Free()
		}
		s.weights[h.w.Name] = v
	}
	return stats.BytesRead, nil
}

// weightSource is where weights are read from.
type weightSource struct {
	checkpoint *checkpoint.Checkpoint
	stored     func(string) string // the checkpoint's name of an official one
	addend     AddendOf            // nil adds nothing
}

// AddendOf gives what is added to the elements of a weight, by its official name, as they are
// read; nil for nothing. row is the weight's row that row 0 of the stored tensor would be: 0, but
// for a tensor that is one of several that the weight stacks, where it may be less than 0 too.
type AddendOf func(weight string, row int) checkpoint.Addend

// AddWhileLoading has something added to weights whenever they are read. It is called before
// they are loaded.
func (s *Session) AddWhileLoading(of AddendOf) { s.addend = of }

// addendOf is what is added to a tensor of the checkpoint that has rows of a weight.
func (c weightSource) addendOf(weight string, row int) checkpoint.Addend {
	if c.addend == nil {
		return nil
	}
	return c.addend(weight, row)
}

// weightShards says how the devices of a mesh hold a weight: its distinct shards, and which of
// them each position has.
type weightShards struct {
	w      graph.Weight
	m      *mesh.Mesh
	t      program.Type // of a shard
	shards []fileShard
	at     []int // index in shards, by position
}

// fileShard is where a shard is in the file.
type fileShard struct {
	slices [][2]int
	runs   [][][2]int
}

// shardsOf finds the shards of a weight on its devices.
func shardsOf(w graph.Weight, on *mesh.Mesh) (*weightShards, error) {
	local, err := w.Spec.Local(on, w.Shape)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	h := &weightShards{w: w, m: on, t: program.Type{DType: w.DType, Shape: local}, at: make([]int, on.NumDevices())}
	index := map[string]int{}
	for pos := range h.at {
		lo, hi, _, err := array.Bounds(on, w.Spec, w.Shape, pos)
		if err != nil {
			return nil, err
		}
		slices, err := fileSlices(w, lo, hi)
		if err != nil {
			return nil, err
		}
		key := fmt.Sprint(slices)
		i, known := index[key]
		if !known {
			runs, err := fileRuns(w, on, pos)
			if err != nil {
				return nil, err
			}
			i = len(h.shards)
			index[key], h.shards = i, append(h.shards, fileShard{slices, runs})
		}
		h.at[pos] = i
	}
	return h, nil
}

// byPosition gives each position the block of its shard.
func (h *weightShards) byPosition(blocks []*engine.Block) []*engine.Block {
	out := make([]*engine.Block, len(h.at))
	for pos, i := range h.at {
		out[pos] = blocks[i]
	}
	return out
}

// partsOf lists what to read of the checkpoint to fill dst with a shard.
func (c weightSource) partsOf(h *weightShards, shard int, dst []byte) []checkpoint.Part {
	f := h.shards[shard]
	if _, whole := c.checkpoint.Lookup(c.stored(h.w.Name)); !whole && len(h.w.Pieces) > 0 {
		return c.partsOfPieces(h.w, f.slices, f.runs, dst)
	}
	return []checkpoint.Part{{Name: c.stored(h.w.Name), As: h.w.DType, Dst: dst, Slices: f.slices, Runs: f.runs, Add: c.addendOf(h.w.Name, 0)}}
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
func (c weightSource) partsOfPieces(w graph.Weight, slices [][2]int, runs [][][2]int, dst []byte) []checkpoint.Part {
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
				part := checkpoint.Part{Name: c.stored(p.Name), As: w.DType, Dst: dst[:(hi-lo)*row], Add: c.addendOf(w.Name, first-p.Row)}
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
