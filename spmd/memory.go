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

// Live runs the program's kernels, one for every value with a buffer
// (count_fuse.go), and adds up what is held:
//
//  1. A buffer is held from the kernel that writes it to the last that reads it, be
//     it through values without a buffer.
//  2. Inputs are held throughout. A result that takes an input over is written
//     into its memory, and nothing else is; the other results are held from their
//     making to the end.
//  3. An elementwise kernel writes over an operand of its size that it is
//     the last to read; so does a dynamic update over what it updates.
//  4. A loop carries values in place: what it starts from is taken over unless
//     something later reads it, and a round's results become the next round's
//     parameters. One round stands for all. What the body reads from outside is
//     held until the loop ends.
//  5. A collective's operand and result are two buffers. An all-reduce that
//     widens (rule 7 there) holds its own part between its halves instead.
//  6. Elementwise kernels of one shape that read a buffer in common and not each
//     other run as one, and so hold all their operands together.
//  7. The order is the program's, or the one that at every point takes of the
//     kernels that could run the one that frees most: whichever needs less. XLA
//     schedules by the same two.
//
// A compiler may do better, by computing again or in a faster memory beside, or
// worse, by padding to tiles and by gaps between buffers; nothing of that is in here.
func (p *Program) Live() Live { return newLiveModel(p, newBufferModel(p)).result }

// liveStep is one step of a body: it reads buffers and writes others.
type liveStep struct {
	in     *Instr
	reads  []ID // each once
	writes []ID
	over   []ID // of reads: what is read element by element, and so may be written over
	// Of an all-reduce that widens: a device's own part before and after.
	narrow, wide int64
	inner        *schedule // of a loop
	needed       []int     // kernels of the body that read what this one writes
	waits        int       // kernels of the body that this one reads
}

// schedule is a list of kernels, the order they run in, and what that takes.
type schedule struct {
	steps    []liveStep
	order    []int
	peak     int64 // the most held at one time, apart from what was there before
	end      int64 // what is held when all have run
	at       ID    // the first value whose making needs the peak, -1 when none does
	peakStep int   // of order, that makes it
}

// liveModel is the walk of Live, with what it found.
type liveModel struct {
	*bufferModel
	// Of the body at hand, by buffer:
	maker  []int32 // the kernel that writes it, plus 1; 0 for what comes from outside
	left   []int32 // kernels that will still read it
	pinned []bool  // held to the end, whoever reads it
	donor  []ID    // whose memory it takes over, -1 for none
	main   *schedule
	result Live
}

func newLiveModel(p *Program, f *bufferModel) *liveModel {
	n := len(p.Values)
	w := &liveModel{bufferModel: f, maker: make([]int32, n), left: make([]int32, n), pinned: make([]bool, n), donor: make([]ID, n)}
	for i := range w.donor {
		w.donor[i] = -1
	}
	r := Live{At: -1}
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

// scheduleBody makes a body's kernels, those of loops within first, and finds the
// order that takes least.
func (w *liveModel) scheduleBody(instrs []Instr) *schedule {
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
		case k.in.Op.Is(ElementwiseOp):
			k.over = w.buffersBehind(nil, false, k.in.Args...)
		case k.in.Op == OpDynUpdate:
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

// scheduleRound plans one round of a loop. Its parameters are there throughout, in
// the memory that the loop carries, and a result goes where its parameter was.
func (w *liveModel) scheduleRound(l *Loop) *schedule {
	for i, id := range l.Results {
		id = w.root[id]
		if !slices.ContainsFunc(l.Body, func(in Instr) bool { return slices.Contains(in.Out, id) }) {
			continue // from outside, or carried as it is
		}
		w.pinned[id] = true
		if w.donor[id] < 0 {
			w.donor[id] = l.Params[i]
		}
	}
	return w.scheduleBody(l.Body)
}

// joinBytes is how large a buffer is that is worth reading once for two kernels.
const joinBytes = 1 << 20

// joinSteps makes one of elementwise kernels of one shape that read a buffer in common
// and not each other (rule 6). The first one takes the others' reads and writes.
func (w *liveModel) joinSteps(b *schedule) {
	var sharing map[ID][]int
	for i := range b.steps {
		k := &b.steps[i]
		if !k.in.Op.Is(ElementwiseOp) {
			continue
		}
		for _, id := range k.reads {
			if w.size[id] >= joinBytes && (w.maker[id] == 0 || w.pinned[id]) {
				if sharing == nil {
					sharing = map[ID][]int{}
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

func (w *liveModel) haveSameType(a, b ID) bool {
	x, y := w.p.Values[a], w.p.Values[b]
	return x.DType == y.DType && slices.Equal(x.Shape, y.Shape)
}

// dependsOn reports whether kernel j reads what kernel i writes, through others or not.
func (w *liveModel) dependsOn(b *schedule, j, i int) bool {
	for _, id := range b.steps[j].reads {
		m := int(w.maker[id]) - 1
		if m == i || m > i && m != j && w.dependsOn(b, m, i) {
			return true
		}
	}
	return false
}

// pickFirst takes kernels in the program's order.
func (w *liveModel) pickFirst(_ *schedule, ready []int) int {
	return slices.Index(ready, slices.Min(ready))
}

// pickFreeingMost takes the kernel after which least is held.
func (w *liveModel) pickFreeingMost(b *schedule, ready []int) int {
	best, least := 0, int64(0)
	for n, i := range ready {
		_, takes := w.bytesTaken(&b.steps[i])
		grows := takes - w.bytesFreed(&b.steps[i])
		if n == 0 || grows < least || grows == least && i < ready[best] {
			best, least = n, grows
		}
	}
	return best
}

// canFree reports whether a buffer is the body's to free.
func (w *liveModel) canFree(id ID) bool { return w.maker[id] > 0 && !w.pinned[id] }

// bytesFreed is what is held no more when a kernel has run.
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

// bytesTaken is what a kernel's results hold, and how much of that they need beside
// what it reads: the rest lies in operands' memory.
func (w *liveModel) bytesTaken(k *liveStep) (beside, all int64) {
	over := k.over
	for i, id := range k.writes {
		if d := w.donor[id]; d >= 0 && (w.left[d] == 0 || w.left[d] == 1 && w.writesOver(k, i, d)) {
			continue // in memory that is there for it
		}
		all += w.size[id]
		if k.inner != nil {
			if a := w.root[k.in.Args[i]]; !w.canFree(a) || w.left[a] > 1 || !w.writesOver(k, i, a) {
				beside += w.size[id]
			}
			continue
		}
		at := slices.IndexFunc(over, func(o ID) bool { return w.left[o] == 1 && w.canFree(o) && w.size[o] == w.size[id] })
		if at < 0 {
			beside += w.size[id]
			continue
		}
		over = over[at+1:]
	}
	return beside, all
}

// writesOver reports whether result i of a kernel may lie in the operand d, when
// nothing else reads that any more.
func (w *liveModel) writesOver(k *liveStep, i int, d ID) bool {
	if k.inner == nil {
		return slices.Contains(k.over, d)
	}
	first := slices.IndexFunc(k.in.Args, func(a ID) bool { return w.root[a] == d })
	return first == i && !slices.Contains(w.captured[k.in.Loop], d)
}

// simulateOrder goes through a body's kernels in the order that next chooses of those that
// could run, and notes the order and what it takes. next gives an index of ready.
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

// bytesDuring is what is held at most while a kernel runs, and afterwards.
func (w *liveModel) bytesDuring(k *liveStep, now int64) (most, after int64) {
	beside, all := w.bytesTaken(k)
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
