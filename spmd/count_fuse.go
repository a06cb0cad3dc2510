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
//     the outside again for itself.
//  3. Another elementwise value has no buffer when all its uses are by readers;
//     but one that is dear to compute (costly) only when it has a single use.
//  4. A reshape has no buffer of its own: it names its operand's. Where the
//     operand has none, it is treated as an elementwise operation.
//  5. Everything else has a buffer: results of contractions, reductions,
//     collectives, transposes, slices, pads and concats, what a loop carries or
//     takes from outside, inputs and outputs.
//
// Held against libtpu 0.0.52 ahead of time for v4 (bytes of arguments, outputs and
// temporaries), blocks of Wan2.1 at 832x480x81: 14B on tp=4 2367 MB against 2369,
// with the stream split over tp 1864 against 1530; 1.3B on one chip 1832 against
// 1515, on tp=4 710 against 762. Two more rules were tried: slices, pads and
// concats fused as well came out up to 30 % too low; contractions finished by
// their reader are right on TPU, and change no block's peak.
//
// An instruction whose result has no buffer happens inside the next one that
// has: it costs arithmetic, but no memory traffic of its own.

// fusion is the answer for one program.
type fusion struct {
	p     *Program
	defs  []*Instr
	uses  []int  // how many
	other []bool // some use is by something else than a reader
	none  []bool // takes no memory
	root  []ID   // whose buffer it names
}

func isSource(op Op) bool { return op == OpConst || op == OpIota || op == OpAxisIndex }

func isElementwise(op Op) bool {
	switch op {
	case OpConvert, OpCompare, OpSelect:
		return true
	}
	_, ok := plainOps[op]
	return ok
}

func isReader(op Op) bool {
	return isElementwise(op) || op == OpBroadcast || op == OpReshape || op == OpReduce
}

// costly reports whether a compiler would rather keep a value of op than compute it twice.
func costly(op Op) bool {
	switch op {
	case OpExp, OpLog, OpSqrt, OpRsqrt, OpTanh, OpSigmoid, OpSin, OpCos, OpDiv, OpRem:
		return true
	}
	return false
}

func newFusion(p *Program) *fusion {
	n := len(p.Values)
	f := &fusion{p: p, defs: make([]*Instr, n), uses: make([]int, n), other: make([]bool, n), none: make([]bool, n), root: make([]ID, n)}
	for i := range f.root {
		f.root[i] = ID(i)
	}
	f.count(p.Body)
	for _, out := range p.Outputs {
		f.use(out.Value, false)
	}
	p.Walk(func(in *Instr, _ int) {
		if in.Op != OpLoop {
			f.decide(in)
		}
	})
	return f
}

func (f *fusion) use(id ID, reader bool) {
	f.uses[id]++
	f.other[id] = f.other[id] || !reader
}

// count notes every use. A use inside a loop of a value from outside is a use
// by the loop.
func (f *fusion) count(body []Instr) {
	for i := range body {
		in := &body[i]
		for _, o := range in.Out {
			f.defs[o] = in
		}
		for _, a := range in.Args {
			f.use(a, isReader(in.Op))
		}
		if in.Loop == nil {
			continue
		}
		f.count(in.Loop.Body)
		for _, r := range in.Loop.Results {
			f.use(r, false)
		}
		for _, id := range in.Loop.Captured() {
			if d := f.defs[id]; d == nil || d.Op != OpConst && d.Op != OpIota {
				f.other[id] = true
			}
		}
	}
}

func (f *fusion) decide(in *Instr) {
	id := in.Out[0]
	switch {
	case isSource(in.Op) || in.Op == OpBroadcast:
		f.none[id] = !f.other[id]
	case in.Op == OpReshape && !f.none[in.Args[0]]:
		f.root[id] = f.root[in.Args[0]]
	case isElementwise(in.Op) || in.Op == OpReshape:
		f.none[id] = !f.other[id] && (f.uses[id] == 1 || !costly(in.Op))
	}
}

// runs reports whether an instruction reads and writes memory: it is no loop,
// its result has a buffer, and the buffer is its own.
func (f *fusion) runs(in *Instr) bool {
	return in.Op != OpLoop && !f.none[in.Out[0]] && f.root[in.Out[0]] == in.Out[0]
}

// leaves are the buffers that ids are computed from, each once, in order.
func (f *fusion) leaves(ids []ID) []ID {
	var out []ID
	seen := map[ID]bool{}
	var visit func(id ID)
	visit = func(id ID) {
		id = f.root[id]
		if seen[id] {
			return
		}
		seen[id] = true
		if !f.none[id] {
			out = append(out, id)
			return
		}
		for _, a := range f.defs[id].Args {
			visit(a)
		}
	}
	for _, id := range ids {
		visit(id)
	}
	return out
}
