package cost

import (
	"slices"

	"weft/program"
)

// Memory is how much of a device's memory a program takes while it runs.
type Memory struct {
	// Peak is the most that is held at one time: arguments, results and the buffers
	// in between.
	Peak int64 `json:"peak_bytes"`
	// Arguments and Outputs are the program's inputs and results; Aliased is the part
	// of the results that lies in the memory of donated inputs. They are resident
	// whatever the program does.
	Arguments int64 `json:"argument_bytes"`
	Outputs   int64 `json:"output_bytes"`
	Aliased   int64 `json:"aliased_bytes"`
	// At is the first value that needs Peak when it is made; -1 when the arguments alone
	// are the peak.
	At program.ID `json:"-"`
}

// MemoryOf goes through the program step by step, one step for every value with a buffer
// (buffers.go), and adds up what is held:
//
//  1. A buffer is held from the step that writes it to the last one that reads it,
//     directly or through values without a buffer.
//  2. Inputs are held throughout. An output is written into the memory of its donated
//     input, and nothing else is written there; the other outputs are held from when
//     they are made to the end.
//  3. An elementwise step writes over an operand of the result's size that no later
//     step reads. A dynamic update writes over the operand that it updates.
//  4. A loop carries values in place: it takes over a value that it starts from, unless
//     something later reads that, and the results of a round become the parameters of
//     the next one. So one round stands for all. The values that the body reads from
//     outside are held until the loop ends.
//  5. The operand and the result of a collective are two buffers. An all-reduce that
//     widens (rule 7 of buffers.go) holds the device's own shard between its halves
//     instead.
//  6. Elementwise steps of one shape that read a buffer in common, and not each other's
//     result, run as one step and hold all their operands together.
//  7. The order is that of the program, or the greedy one, which always takes the ready
//     step that frees most, whichever needs less. XLA schedules by the same two orders.
//
// A compiler may need less, where it computes values again or has a faster memory
// beside, or more, where it pads to tiles and leaves gaps between buffers. The model
// has nothing of that.
func MemoryOf(p *program.Program) Memory { return newLiveModel(p, newBufferModel(p)).result }

// liveStep is one step of a body: it reads some buffers and writes others.
type liveStep struct {
	in     *program.Instr
	reads  []program.ID // each once
	writes []program.ID
	over   []program.ID // the buffers of reads that are read element by element, and so may be written over
	// For an all-reduce that widens: the bytes of the device's own shard before and after.
	narrow, wide int64
	inner        *schedule // of a loop
	needed       []int     // the steps of the body that read what this one writes
	waits        int       // the number of steps of the body whose results this one reads
}

// schedule is the steps of a body, the order in which they run, and what that takes.
type schedule struct {
	steps    []liveStep
	order    []int
	peak     int64      // the most that is held at one time, apart from what was there before
	end      int64      // what is held when all steps have run
	at       program.ID // the first value that needs the peak when it is made; -1 where none does
	peakStep int        // the index in order of the step that makes it
}

// liveModel is the state of the walk that MemoryOf describes, and its result.
type liveModel struct {
	*bufferModel
	// Of the current body, by buffer:
	maker  []int32      // the step that writes it, plus 1; 0 for a buffer from outside
	left   []int32      // the number of steps that will still read it
	pinned []bool       // it is held to the end, whatever reads it
	donor  []program.ID // the buffer whose memory it takes over; -1 for none
	main   *schedule
	result Memory
}

func newLiveModel(p *program.Program, f *bufferModel) *liveModel {
	n := len(p.Values)
	w := &liveModel{bufferModel: f, maker: make([]int32, n), left: make([]int32, n), pinned: make([]bool, n), donor: make([]program.ID, n)}
	for i := range w.donor {
		w.donor[i] = -1
	}
	r := Memory{At: -1}
	copies := int64(0)
	taken := make([]bool, n)
	for _, in := range p.Inputs {
		r.Arguments += f.size[in.Value]
		taken[in.Value] = true
	}
	for _, out := range p.Outputs {
		id := f.root[out.Value]
		bytes := p.Values[out.Value].Bytes()
		r.Outputs += bytes
		if out.Donor >= 0 {
			r.Aliased += bytes
			w.donor[id] = p.Inputs[out.Donor].Value
		}
		if taken[id] { // the compiler copies: each output has memory of its own
			copies += bytes
		}
		taken[id], w.pinned[id] = true, true
	}
	w.main = w.scheduleBody(p.Body)
	r.Peak = r.Arguments + max(w.main.peak, w.main.end+copies)
	r.At = w.main.at
	w.result = r
	return w
}

// scheduleBody makes a body's steps, after those of the loops inside it, and finds the
// order that takes least.
func (w *liveModel) scheduleBody(instrs []program.Instr) *schedule {
	b := &schedule{}
	for i := range instrs {
		in := &instrs[i]
		switch {
		case in.Loop != nil:
			b.steps = append(b.steps, liveStep{in: in, inner: w.scheduleRound(in.Loop)})
		case w.writesOwnBuffer(in):
			b.steps = append(b.steps, liveStep{in: in})
		}
	}
	for i := range b.steps {
		k := &b.steps[i]
		k.reads = w.buffersBehind(nil, true, k.in.Args...)
		k.writes = k.in.Out
		switch {
		case k.inner != nil:
			k.reads = w.buffersBehind(nil, true, append(slices.Clone(k.in.Args), w.captured[k.in.Loop]...)...)
		case k.in.Op.Is(program.ElementwiseOp):
			k.over = w.buffersBehind(nil, false, k.in.Args...)
		case k.in.Op == program.OpDynUpdate:
			k.over = w.buffersBehind(nil, false, k.in.Args[0])
		case w.widerResult(k.in) >= 0:
			n := int64(len(k.in.Groups[0]))
			k.narrow, k.wide = w.p.Values[k.in.Out[0]].Bytes()/n, w.size[k.in.Out[0]]/n
		}
		for _, id := range k.writes {
			w.maker[id] = int32(i + 1)
		}
	}
	w.joinSteps(b)
	for i := range b.steps {
		k := &b.steps[i]
		for _, id := range k.reads {
			if m := w.maker[id]; m > 0 {
				from := &b.steps[m-1]
				from.needed = append(from.needed, i)
				k.waits++
			}
		}
	}
	w.simulateOrder(b, w.pickFirst)
	if len(b.steps) > 2 {
		greedy := *b
		w.simulateOrder(&greedy, w.pickFreeingMost)
		if greedy.peak < b.peak {
			*b = greedy
		}
	}
	for i := range b.steps {
		for _, id := range b.steps[i].writes {
			w.maker[id] = 0
		}
	}
	return b
}

// scheduleRound schedules one round of a loop. Its parameters are there throughout, in
// the memory that the loop carries, and a result goes where its parameter was.
func (w *liveModel) scheduleRound(l *program.Loop) *schedule {
	for i, id := range l.Results {
		id = w.root[id]
		if !slices.ContainsFunc(l.Body, func(in program.Instr) bool { return slices.Contains(in.Out, id) }) {
			continue // from outside, or carried as it is
		}
		w.pinned[id] = true
		if w.donor[id] < 0 {
			w.donor[id] = l.Params[i]
		}
	}
	return w.scheduleBody(l.Body)
}

// joinBytes is the least size of a buffer that is worth reading once for two steps.
const joinBytes = 1 << 20

// joinSteps joins elementwise steps of one shape that read a buffer in common and not
// each other's result (rule 6). The first one takes over the reads and writes of the others.
func (w *liveModel) joinSteps(b *schedule) {
	var sharing map[program.ID][]int
	for i := range b.steps {
		k := &b.steps[i]
		if !k.in.Op.Is(program.ElementwiseOp) {
			continue
		}
		for _, id := range k.reads {
			if w.size[id] >= joinBytes && (w.maker[id] == 0 || w.pinned[id]) {
				if sharing == nil {
					sharing = map[program.ID][]int{}
				}
				sharing[id] = append(sharing[id], i)
			}
		}
	}
	if sharing == nil {
		return
	}
	for i := range b.steps {
		k := &b.steps[i]
		for _, id := range k.reads {
			for _, j := range sharing[id] {
				other := &b.steps[j]
				if j <= i || len(k.writes) == 0 || len(other.writes) == 0 || !w.haveSameType(k.writes[0], other.writes[0]) || w.dependsOn(b, j, i) {
					continue
				}
				k.reads = append(slices.Clone(k.reads), other.reads...)
				slices.Sort(k.reads)
				k.reads = slices.Compact(k.reads)
				k.over = append(slices.Clone(k.over), other.over...)
				k.writes = append(slices.Clone(k.writes), other.writes...)
				for _, o := range other.writes {
					w.maker[o] = int32(i + 1)
				}
				other.reads, other.writes, other.over = nil, nil, nil
			}
		}
	}
}

func (w *liveModel) haveSameType(a, b program.ID) bool {
	x, y := w.p.Values[a], w.p.Values[b]
	return x.DType == y.DType && slices.Equal(x.Shape, y.Shape)
}

// dependsOn reports whether step j reads what step i writes, directly or through other steps.
func (w *liveModel) dependsOn(b *schedule, j, i int) bool {
	for _, id := range b.steps[j].reads {
		m := int(w.maker[id]) - 1
		if m == i || m > i && m != j && w.dependsOn(b, m, i) {
			return true
		}
	}
	return false
}

// pickFirst takes the steps in the program's order.
func (w *liveModel) pickFirst(_ *schedule, ready []int) int {
	return slices.Index(ready, slices.Min(ready))
}

// pickFreeingMost takes the step after which least is held.
func (w *liveModel) pickFreeingMost(b *schedule, ready []int) int {
	best, least := 0, int64(0)
	for n, i := range ready {
		_, takes := w.bytesTaken(&b.steps[i], nil)
		grows := takes - w.bytesFreed(&b.steps[i])
		if n == 0 || grows < least || grows == least && i < ready[best] {
			best, least = n, grows
		}
	}
	return best
}

// canFree reports whether the body makes a buffer and may free it.
func (w *liveModel) canFree(id program.ID) bool { return w.maker[id] > 0 && !w.pinned[id] }

// bytesFreed is the bytes that are no longer held when a step has run.
func (w *liveModel) bytesFreed(k *liveStep) int64 {
	n := int64(0)
	for _, id := range k.reads {
		if w.left[id] == 1 && w.canFree(id) {
			n += w.size[id]
		}
	}
	for _, id := range k.writes {
		if w.left[id] == 0 && w.canFree(id) {
			n += w.size[id]
		}
	}
	return n
}

// bytesTaken is the bytes of a step's results, all of them and those that need memory
// beside the step's operands: the rest lies in the memory of operands. Where placed is not
// nil, the results that all counts are added to it.
func (w *liveModel) bytesTaken(k *liveStep, placed *[]placedResult) (beside, all int64) {
	over := k.over
	add := func(id program.ID, apart bool) {
		all += w.size[id]
		if apart {
			beside += w.size[id]
		}
		if placed != nil {
			*placed = append(*placed, placedResult{id, apart})
		}
	}
	for i, id := range k.writes {
		if d := w.donor[id]; d >= 0 && (w.left[d] == 0 || w.left[d] == 1 && w.writesOver(k, i, d)) {
			continue // its memory is there already
		}
		if k.inner != nil {
			a := w.root[k.in.Args[i]]
			add(id, !w.canFree(a) || w.left[a] > 1 || !w.writesOver(k, i, a))
			continue
		}
		at := slices.IndexFunc(over, func(o program.ID) bool { return w.left[o] == 1 && w.canFree(o) && w.size[o] == w.size[id] })
		add(id, at < 0)
		over = over[at+1:]
	}
	return beside, all
}

// writesOver reports whether result i of a step may lie in the memory of operand d, when
// nothing else reads that any more.
func (w *liveModel) writesOver(k *liveStep, i int, d program.ID) bool {
	if k.inner == nil {
		return slices.Contains(k.over, d)
	}
	first := slices.IndexFunc(k.in.Args, func(a program.ID) bool { return w.root[a] == d })
	return first == i && !slices.Contains(w.captured[k.in.Loop], d)
}

// simulateOrder runs a body's steps in the order that next chooses, and records the order
// and the memory it takes. next gets the steps that are ready and returns the index in
// ready of the one to run.
func (w *liveModel) simulateOrder(b *schedule, next func(b *schedule, ready []int) int) {
	waits := make([]int, len(b.steps))
	ready := make([]int, 0, len(b.steps))
	for i := range b.steps {
		for _, id := range b.steps[i].reads {
			w.left[id]++
		}
		if waits[i] = b.steps[i].waits; waits[i] == 0 {
			ready = append(ready, i)
		}
	}
	b.order, b.peak, b.at, b.peakStep = make([]int, 0, len(b.steps)), 0, -1, 0
	now := int64(0)
	for len(ready) > 0 {
		n := next(b, ready)
		i := ready[n]
		ready = slices.Delete(ready, n, n+1)
		k := &b.steps[i]
		var most int64
		if most, now = w.bytesDuring(k, now); most > b.peak {
			b.peak, b.peakStep, b.at = most, len(b.order), k.writes[0]
			if k.inner != nil && k.inner.at >= 0 {
				b.at = k.inner.at
			}
		}
		b.order = append(b.order, i)
		for _, id := range k.reads {
			w.left[id]--
		}
		for _, j := range k.needed {
			if waits[j]--; waits[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	b.end = now
}

// bytesDuring is the most that is held while a step runs, and what is held after it.
func (w *liveModel) bytesDuring(k *liveStep, now int64) (most, after int64) {
	beside, all := w.bytesTaken(k, nil)
	frees := w.bytesFreed(k)
	most, after = now+beside, now+all-frees
	switch {
	case k.narrow > 0:
		most = max(now+k.narrow, now-frees+k.wide+beside)
	case k.inner != nil:
		index := w.size[k.in.Loop.Index]
		if w.uses[k.in.Loop.Index] > 0 {
			most += index
		}
		most = max(most+k.inner.peak, now+beside+index)
	}
	return most, after
}
