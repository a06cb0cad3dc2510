package spmd

// Which values take memory, and which instructions read and write it. A
// compiler computes chains of cheap operations in one pass and keeps no value in
// between; the model of that is small, and the same for every device:
//
//  1. Elementwise operations (convert, compare and select among them),
//     broadcasts and reshapes take their operand on the fly, and so does a
//     reduce: call these its readers.
//  2. A const, iota, axis index or broadcast has no buffer when all its uses are
//     by readers: it is made again for each. A loop makes consts and iotas of
//     the outside again for itself, and those that it starts from in its own memory.
//  3. Another elementwise value has no buffer when all its uses are by readers. With
//     more uses than one that holds only where computing it again is cheap: not
//     when it is computed from more than one buffer of at least as many elements, as a
//     residual stream is after an addition, and not when it is dear to compute
//     (costly), but for one reduce beside one other use: the exponentials of attention
//     are computed for their sum and again for the product.
//  4. A contraction takes an operand on the fly too when that is the only use of
//     the value, or beside it there are reduces alone: a norm before a single
//     matmul, the exponentials before the second product of attention. A value that
//     several contractions read has a buffer.
//  5. A contraction is finished by what reads it: its result has no buffer when it
//     has a single use, by an elementwise operation, and so on up to a value
//     that has one. So a bias, an activation and the convert after it cost nothing.
//  6. A reshape has no buffer of its own: it names its operand's. Where the
//     operand has none, it is treated as an elementwise operation.
//  7. An all-reduce over more than two devices whose only use is a convert to a
//     wider type runs in two halves with the convert between them: its result's
//     buffer is of the wider type.
//  8. Everything else has a buffer: results of contractions, reductions,
//     collectives, transposes, slices, pads and concats, what a loop carries or
//     takes from outside, inputs and outputs.
//
// An instruction whose result has no buffer happens inside the next one that
// has: it costs arithmetic, but no memory traffic of its own.
//
// The rules were read off libtpu 0.0.52's optimised programs for blocks of Wan2.1
// compiled ahead of time; what they are worth is in bench/results, *-plan-score.
// Slices, pads and concats fused as well were tried and came out up to 30 % too low.

// bufferModel is the answer for one program.
type bufferModel struct {
	p        *Program
	defs     []*Instr
	uses     []int    // how many
	user     []*Instr // the last one found, for values of one use; nil is no instruction
	other    []bool   // some use is by something else than a reader
	dots     []int8   // uses by contractions, up to 2
	reduced  []bool   // some use is by a reduce
	beyond   []bool   // some use is by neither a contraction nor a reduce
	none     []bool   // takes no memory
	root     []ID     // whose buffer it names
	size     []int64  // of the buffer, in bytes
	captured map[*Loop][]ID

	stamp []int32 // of leaves: when a buffer was last seen
	now   int32
	stack []ID
}

func newBufferModel(p *Program) *bufferModel {
	n := len(p.Values)
	f := &bufferModel{p: p, defs: make([]*Instr, n), uses: make([]int, n), user: make([]*Instr, n), other: make([]bool, n), dots: make([]int8, n), reduced: make([]bool, n),
		beyond: make([]bool, n), none: make([]bool, n), root: make([]ID, n), size: make([]int64, n), captured: map[*Loop][]ID{}, stamp: make([]int32, n)}
	for i := range f.root {
		f.root[i] = ID(i)
		f.size[i] = p.Values[i].Bytes()
	}
	f.noteUses(p.Body)
	for _, out := range p.Outputs {
		f.noteUse(out.Value, nil)
	}
	f.decideBuffers(p.Body)
	return f
}

// noteUse notes a use by an instruction; nil is the program's end, a round's or a loop's.
func (f *bufferModel) noteUse(id ID, by *Instr) {
	f.uses[id]++
	f.user[id] = by
	reader := by != nil && (by.Op.Facts().ReadsOnTheFly || by.Op == OpLoop && f.defs[id] != nil && f.defs[id].Op.Is(SourceOp))
	f.other[id] = f.other[id] || !reader
	switch {
	case by != nil && by.Op == OpDot:
		f.dots[id] = min(2, f.dots[id]+1)
	case by != nil && by.Op == OpReduce:
		f.reduced[id] = true
	default:
		f.beyond[id] = true
	}
}

// noteUses notes every use. A use inside a loop of a value from outside is a use
// by the loop.
func (f *bufferModel) noteUses(body []Instr) {
	for i := range body {
		in := &body[i]
		for _, o := range in.Out {
			f.defs[o] = in
		}
		for _, a := range in.Args {
			f.noteUse(a, in)
		}
		if in.Loop == nil {
			continue
		}
		f.noteUses(in.Loop.Body)
		for _, r := range in.Loop.Results {
			f.noteUse(r, nil)
		}
		f.captured[in.Loop] = in.Loop.Captured()
		for _, id := range f.captured[in.Loop] {
			if d := f.defs[id]; d == nil || !d.Op.Facts().MadeInLoops {
				f.other[id], f.beyond[id] = true, true
				f.uses[id]++ // so that it has no single use
			}
		}
	}
}

// decideBuffers applies the rules, 4 before 5: whether a contraction is finished by its
// reader depends on what becomes of that.
func (f *bufferModel) decideBuffers(body []Instr) {
	// Operands first: a reshape of a value without a buffer has none either.
	for i := range body {
		in := &body[i]
		if in.Loop != nil {
			f.decideBuffers(in.Loop.Body)
			continue
		}
		id, facts := in.Out[0], in.Op.Facts()
		if wide := f.widerResult(in); wide >= 0 {
			f.size[id] = f.size[wide]
		}
		switch {
		case facts.MadeForEachUse:
			f.none[id] = !f.other[id]
		case facts.SharesMemory && !f.none[in.Args[0]]:
			f.root[id] = f.root[in.Args[0]]
		case facts.Class == ElementwiseOp || facts.SharesMemory:
			f.none[id] = !f.other[id] && (f.uses[id] == 1 || f.isComputedAgain(in)) || f.dots[id] == 1 && !f.beyond[id]
		}
	}
	for i := range body {
		in := &body[i]
		if in.Op == OpDot && f.isFinishedByReader(in.Out[0]) {
			f.none[in.Out[0]] = true
		}
	}
}

// isComputedAgain reports whether a value of several uses is computed again for each (rule 3).
func (f *bufferModel) isComputedAgain(in *Instr) bool {
	id := in.Out[0]
	if in.Op.Facts().Costly && !(f.uses[id] == 2 && f.reduced[id]) {
		return false
	}
	large := 0
	for _, leaf := range f.buffersBehind(nil, true, in.Args...) {
		if f.p.Values[leaf].Elements() >= f.p.Values[id].Elements() {
			large++
		}
	}
	return large <= 1
}

// isFinishedByReader reports whether what reads a contraction writes its result.
func (f *bufferModel) isFinishedByReader(id ID) bool {
	for {
		if f.uses[id] != 1 {
			return false
		}
		in := f.user[id]
		if in == nil || !in.Op.Is(ElementwiseOp) {
			return false
		}
		id = in.Out[0]
		if !f.none[id] {
			return true
		}
	}
}

// widerResult is the value that an all-reduce is converted to between its halves, or -1.
func (f *bufferModel) widerResult(in *Instr) ID {
	if in.Op != OpAllReduce || f.uses[in.Out[0]] != 1 || len(in.Groups[0]) <= 2 {
		return -1
	}
	by := f.user[in.Out[0]]
	if by == nil || by.Op != OpConvert || f.size[by.Out[0]] <= f.p.Values[in.Out[0]].Bytes() {
		return -1
	}
	return by.Out[0]
}

// writesOwnBuffer reports whether an instruction reads and writes memory: it is no loop,
// its result has a buffer, and the buffer is its own.
func (f *bufferModel) writesOwnBuffer(in *Instr) bool {
	return in.Op != OpLoop && !f.none[in.Out[0]] && f.root[in.Out[0]] == in.Out[0]
}

// buffersBehind adds to out the buffers that ids are computed from, each once, in
// order. Without all it leaves out those behind a contraction or a reduce: what is
// left is read element by element.
func (f *bufferModel) buffersBehind(out []ID, all bool, ids ...ID) []ID {
	f.now++
	f.stack = f.stack[:0]
	push := func(ids []ID) {
		for i := len(ids) - 1; i >= 0; i-- {
			f.stack = append(f.stack, ids[i])
		}
	}
	push(ids)
	for len(f.stack) > 0 {
		id := f.root[f.stack[len(f.stack)-1]]
		f.stack = f.stack[:len(f.stack)-1]
		if f.stamp[id] == f.now {
			continue
		}
		f.stamp[id] = f.now
		if !f.none[id] {
			out = append(out, id)
		} else if d := f.defs[id]; all || d.Op != OpDot && d.Op != OpReduce {
			push(d.Args)
		}
	}
	return out
}
