package cost

import (
	"weft/program"
)

// A compiler computes chains of cheap operations in one pass and keeps no buffer for
// the values in between. This file models which values have a buffer, and so which
// instructions read memory and write it. The model is small, and but for one rule the same for
// every device:
//
//  1. Elementwise operations (convert, compare and select among them), broadcasts,
//     reshapes and reduces take an operand as it is computed. They are called readers.
//  2. A const, iota, axis index or broadcast has no buffer when only readers use it: it
//     is made again for each of them. A loop makes consts and iotas from outside again,
//     and those that it starts from in the memory that it carries.
//  3. Any other elementwise value has no buffer when only readers use it and it has one
//     use. With several uses it has none only where computing it again is cheap. That is
//     not so when it is computed from more than one buffer of at least as many elements,
//     as a residual stream is after an addition. Nor is it so when the operation is
//     costly, unless the uses are a reduce and one other: the exponentials of attention
//     are computed for their sum and again for the product.
//  4. A contraction takes an operand as it is computed when that is the only use of
//     the value, or when all its other uses are reduces: so the norm before a single
//     matmul and the exponentials before the second product of attention have no
//     buffer. A value that several contractions read has one.
//  5. The instruction that reads a contraction's result may write it: the result has no
//     buffer when it has a single use, by an elementwise operation, and so on up to a
//     value that has a buffer. So a bias, an activation and the convert after it cost
//     nothing.
//  6. A reshape has no buffer of its own: it names that of its operand. Where the
//     operand has none, the reshape is treated as an elementwise operation.
//  7. An all-reduce over more than two devices whose only use is a convert to a wider
//     type runs in two halves with the convert between them, so its result has a buffer
//     of the wider type.
//  8. On GPUs rule 7 does not hold: an all-reduce sums in place, so its result names the
//     buffer of its operand where nothing else uses that.
//  9. Every other value has a buffer: the results of contractions, reductions,
//     collectives, transposes, slices, pads and concats, what a loop carries or takes
//     from outside, inputs and outputs.
//
// An instruction whose result has no buffer happens inside the next one that has a
// buffer: it costs arithmetic, but no memory traffic of its own.
//
// The rules were read off programs for blocks of Wan2.1 that libtpu 0.0.52, and for rule 8 XLA's
// CUDA plugin, optimised when they compiled them ahead of time; the files *-plan-score and
// *-gpu-aot in bench/results say how well they predict. With slices, pads and concats fused as well, predictions came out
// up to 30 % too low.

// bufferModel says which values of a program have buffers. Slices are indexed by value.
type bufferModel struct {
	p        *program.Program
	defs     []*program.Instr
	uses     []int            // the number of uses
	user     []*program.Instr // the last use that was found; nil where it is no instruction
	other    []bool           // some use is not by a reader
	dots     []int8           // uses by contractions, counted up to 2
	reduced  []bool           // some use is by a reduce
	beyond   []bool           // some use is by neither a contraction nor a reduce
	none     []bool           // the value has no buffer
	root     []program.ID     // the value whose buffer this one names; mostly itself
	size     []int64          // of the buffer, in bytes
	captured map[*program.Loop][]program.ID

	// Of buffersBehind: the call that saw a value last, the number of the call, and the
	// values still to visit.
	stamp []int32
	now   int32
	stack []program.ID
}

func newBufferModel(p *program.Program) *bufferModel {
	n := len(p.Values)
	f := &bufferModel{p: p, defs: make([]*program.Instr, n), uses: make([]int, n), user: make([]*program.Instr, n), other: make([]bool, n), dots: make([]int8, n), reduced: make([]bool, n),
		beyond: make([]bool, n), none: make([]bool, n), root: make([]program.ID, n), size: make([]int64, n), captured: map[*program.Loop][]program.ID{}, stamp: make([]int32, n)}
	for i := range f.root {
		f.root[i] = program.ID(i)
		f.size[i] = p.Values[i].Bytes()
	}
	f.noteUses(p.Body)
	for _, out := range p.Outputs {
		f.noteUse(out.Value, nil)
	}
	f.decideBuffers(p.Body)
	return f
}

// noteUse notes a use by an instruction, or with nil by the end of the program or of a
// round of a loop.
func (f *bufferModel) noteUse(id program.ID, by *program.Instr) {
	f.uses[id]++
	f.user[id] = by
	reader := by != nil && (by.Op.Facts().ReadsOnTheFly || by.Op == program.OpLoop && f.defs[id] != nil && f.defs[id].Op.Is(program.SourceOp))
	f.other[id] = f.other[id] || !reader
	switch {
	case by != nil && by.Op == program.OpDot:
		f.dots[id] = min(2, f.dots[id]+1)
	case by != nil && by.Op == program.OpReduce:
		f.reduced[id] = true
	default:
		f.beyond[id] = true
	}
}

// noteUses notes every use in a body. Where a loop uses a value from outside, that is
// also a use by the loop.
func (f *bufferModel) noteUses(body []program.Instr) {
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
				f.uses[id]++ // each round uses it: it is not a value of one use
			}
		}
	}
}

// decideBuffers applies the rules to a body. Rule 5 comes last, because whether a
// reader writes a contraction's result depends on which readers have buffers.
func (f *bufferModel) decideBuffers(body []program.Instr) {
	// Operands come before their uses: a reshape of a value without a buffer has none either.
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
		case f.sumsInPlace(in):
			f.root[id] = f.root[in.Args[0]]
		case facts.SharesMemory && !f.none[in.Args[0]]:
			f.root[id] = f.root[in.Args[0]]
		case facts.Class == program.ElementwiseOp || facts.SharesMemory:
			f.none[id] = !f.other[id] && (f.uses[id] == 1 || f.isComputedAgain(in)) || f.dots[id] == 1 && !f.beyond[id]
		}
	}
	for i := range body {
		in := &body[i]
		if in.Op == program.OpDot && f.isFinishedByReader(in.Out[0]) {
			f.none[in.Out[0]] = true
		}
	}
}

// isComputedAgain reports whether a value with several uses is computed again for each
// of them (rule 3).
func (f *bufferModel) isComputedAgain(in *program.Instr) bool {
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

// isFinishedByReader reports whether the instruction that reads a contraction's result
// writes it (rule 5).
func (f *bufferModel) isFinishedByReader(id program.ID) bool {
	for {
		if f.uses[id] != 1 {
			return false
		}
		in := f.user[id]
		if in == nil || !in.Op.Is(program.ElementwiseOp) {
			return false
		}
		id = in.Out[0]
		if !f.none[id] {
			return true
		}
	}
}

// sumsInPlace reports whether an all-reduce writes its result over its operand (rule 8).
func (f *bufferModel) sumsInPlace(in *program.Instr) bool {
	return f.p.Platform == onGPUs && in.Op == program.OpAllReduce && f.uses[in.Args[0]] == 1 && f.defs[in.Args[0]] != nil && !f.none[in.Args[0]]
}

// onGPUs is the platform of programs for GPUs.
const onGPUs = "cuda"

// widerResult is the value to which an all-reduce is converted between its halves
// (rule 7), or -1.
func (f *bufferModel) widerResult(in *program.Instr) program.ID {
	if f.p.Platform == onGPUs || in.Op != program.OpAllReduce || f.uses[in.Out[0]] != 1 || len(in.Groups[0]) <= 2 {
		return -1
	}
	by := f.user[in.Out[0]]
	if by == nil || by.Op != program.OpConvert || f.size[by.Out[0]] <= f.p.Values[in.Out[0]].Bytes() {
		return -1
	}
	return by.Out[0]
}

// writesOwnBuffer reports whether an instruction reads memory and writes it by itself:
// it is no loop, and its result has a buffer of its own.
func (f *bufferModel) writesOwnBuffer(in *program.Instr) bool {
	return in.Op != program.OpLoop && !f.none[in.Out[0]] && f.root[in.Out[0]] == in.Out[0]
}

// buffersBehind adds to out the buffers from which ids are computed, each once, in
// order. Without all it leaves out the buffers behind a contraction or a reduce, so that
// the rest are read element by element.
func (f *bufferModel) buffersBehind(out []program.ID, all bool, ids ...program.ID) []program.ID {
	f.now++
	f.stack = f.stack[:0]
	push := func(ids []program.ID) {
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
		} else if d := f.defs[id]; all || d.Op != program.OpDot && d.Op != program.OpReduce {
			push(d.Args)
		}
	}
	return out
}
