package spmd

import "slices"

// Live is how much of a device's memory a program takes while it runs.
type Live struct {
	// Peak is the most that is held at one time: arguments, results and what
	// lies between.
	Peak int64 `json:"peak_bytes"`
	// Arguments, Outputs and Aliased are resident whatever the program does:
	// its inputs, its results, and the part of the results that lies in the
	// memory of inputs taken over.
	Arguments int64 `json:"argument_bytes"`
	Outputs   int64 `json:"output_bytes"`
	Aliased   int64 `json:"aliased_bytes"`
	// At is the first value whose making needs Peak, -1 when the arguments alone do.
	At ID `json:"-"`
}

// LiveBytes is Live().Peak.
func (p *Program) LiveBytes() int64 { return p.Live().Peak }

// Live walks the program in its order and adds up what is held:
//
//  1. Which values have a buffer at all: see count_fuse.go. A buffer is held
//     from the instruction that writes it to the last that reads it, be it
//     through values without a buffer.
//  2. Inputs are held throughout, except those that an output takes over: they
//     go with their last use. Outputs are held from their making to the end.
//  3. An elementwise instruction writes over an operand of its size that it is
//     the last to read; so does a dynamic update over what it updates.
//  4. A loop carries values in place: what it starts from is taken over unless
//     something later reads it, and a round's results become the next round's
//     parameters. One round stands for all. What the body reads from outside is
//     held until the loop ends.
//  5. A collective's operand and result are two buffers.
//
// A compiler may do better, by another order or by computing again, or worse,
// by padding to tiles; nothing of that is in here.
func (p *Program) Live() Live { return p.live(newFusion(p)).result }

// live is the walk of Live, with what it found.
func (p *Program) live(f *fusion) *liveWalk {
	w := &liveWalk{fusion: f, last: make([]int, len(p.Values)), ends: map[int][]ID{}}
	r := Live{At: -1}
	pinned := map[ID]bool{}
	for i, in := range p.Inputs {
		r.Arguments += p.Values[in.Value].Bytes()
		pinned[in.Value] = !slices.ContainsFunc(p.Outputs, func(o Port) bool { return o.Donor == i })
	}
	w.schedule(p.Body)
	for id, pos := range w.last {
		if !pinned[ID(id)] {
			w.ends[pos] = append(w.ends[pos], ID(id))
		} else {
			w.last[id] = never
		}
	}
	held := map[ID]bool{}
	for _, out := range p.Outputs {
		id := w.root[out.Value]
		bytes := p.Values[out.Value].Bytes()
		r.Outputs += bytes
		if out.Donor >= 0 {
			r.Aliased += bytes
		}
		if held[id] || pinned[id] { // the compiler copies: each output has memory of its own
			w.copies += bytes
		}
		held[id] = true
		w.last[id] = never
	}
	w.now, w.peak, w.at = r.Arguments, r.Arguments, -1
	w.pos = 0
	w.run(p.Body)
	w.raise(w.copies, -1)
	r.Peak, r.At = w.peak, w.at
	w.result = r
	return w
}

// never is the last use of what is held to the end.
const never = int(^uint(0) >> 1)

// liveWalk goes over the program twice, with the same positions: schedule finds
// each buffer's last use, run adds up. A loop has a position before its body
// and one after.
type liveWalk struct {
	*fusion
	pos    int
	last   []int        // by buffer; 0 is unused
	ends   map[int][]ID // the buffers whose last use is at a position
	now    int64
	peak   int64
	at     ID
	copies int64
	result Live
}

func (w *liveWalk) read(ids []ID) {
	for _, id := range w.leaves(ids) {
		w.last[id] = max(w.last[id], w.pos)
	}
}

func (w *liveWalk) schedule(body []Instr) {
	for i := range body {
		in := &body[i]
		w.pos++
		if in.Loop == nil {
			if w.runs(in) {
				w.last[in.Out[0]] = w.pos
				w.read(in.Args)
			}
			continue
		}
		w.read(in.Args)
		for _, id := range append([]ID{in.Loop.Index}, in.Loop.Params...) {
			w.last[id] = w.pos
		}
		w.schedule(in.Loop.Body)
		w.pos++
		w.read(in.Loop.Results)
		for _, id := range in.Loop.Captured() {
			if !w.none[id] {
				w.read([]ID{id})
			}
		}
		for _, id := range in.Out {
			w.last[id] = w.pos
		}
	}
}

func (w *liveWalk) raise(bytes int64, id ID) {
	w.now += bytes
	if w.now > w.peak {
		w.peak, w.at = w.now, id
	}
}

// release frees what is read here for the last time.
func (w *liveWalk) release() {
	for _, id := range w.ends[w.pos] {
		if w.last[id] == w.pos {
			w.now -= w.p.Values[id].Bytes()
		}
	}
}

func (w *liveWalk) run(body []Instr) {
	for i := range body {
		in := &body[i]
		w.pos++
		if in.Loop == nil {
			if w.runs(in) {
				w.step(in)
				w.release()
			}
			continue
		}
		w.raise(w.p.Values[in.Loop.Index].Bytes(), in.Loop.Index)
		w.handOver(in.Args, in.Loop.Params)
		w.release()
		w.run(in.Loop.Body)
		w.pos++
		w.handOver(in.Loop.Results, in.Out)
		w.release()
	}
}

func (w *liveWalk) step(in *Instr) {
	bytes := w.p.Values[in.Out[0]].Bytes()
	var over []ID
	switch {
	case isElementwise(in.Op):
		over = w.leaves(in.Args)
	case in.Op == OpDynUpdate:
		over = w.leaves(in.Args[:1])
	}
	if slices.ContainsFunc(over, func(id ID) bool { return w.last[id] == w.pos && w.p.Values[id].Bytes() == bytes }) {
		w.raise(0, in.Out[0])
		w.now += bytes // the operand's own bytes go with release
		return
	}
	w.raise(bytes, in.Out[0])
}

// handOver gives the buffers of from to the values to. A buffer that is read
// later, or given twice, is copied.
func (w *liveWalk) handOver(from, to []ID) {
	given := map[ID]bool{}
	extra := int64(0)
	for i, id := range from {
		id = w.root[id]
		bytes := w.p.Values[to[i]].Bytes()
		switch {
		case w.none[id] || given[id] || w.last[id] != w.pos:
			w.raise(bytes, to[i])
		default:
			given[id] = true
			extra += bytes // goes again with release, as the one that gave it
		}
	}
	w.now += extra
}
