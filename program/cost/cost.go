package cost

import (
	"weft/program"
)

// Work is the work of one device in one run of a program. All rounds of a loop count.
type Work struct {
	// Flops are the FLOPs of contractions, two for each multiply and add.
	Flops int64 `json:"flops"`
	// ElementOps counts the elements of the results of elementwise operations, converts
	// among them, and of the operands of reductions. They are counted apart from FLOPs
	// because they run on other units than contractions and mostly wait for memory.
	ElementOps int64 `json:"element_ops"`
	// BytesMoved is the bytes read from the device's memory and written to it. An
	// instruction reads each of its buffers once and writes its result; a chain of
	// elementwise operations counts as one instruction. A slice and a take read what
	// they keep, and a dynamic update writes in place. A contraction reads each operand
	// once, as if all of it fitted into a cache.
	BytesMoved int64 `json:"bytes_moved"`
	// AxisBytes is Traffic.Bytes summed by Traffic.Axis.
	AxisBytes map[string]int64 `json:"axis_bytes"`
	// LiveBytes is the most memory that is held at one time: the peak of MemoryOf.
	LiveBytes int64 `json:"live_bytes"`
}

// WorkOf counts the program's work.
func WorkOf(p *program.Program) Work {
	f := newBufferModel(p)
	return costOf(p, f, newLiveModel(p, f).result)
}

func costOf(p *program.Program, f *bufferModel, l Memory) Work {
	c := Work{AxisBytes: map[string]int64{}, LiveBytes: l.Peak}
	for _, t := range Collectives(p) {
		c.AxisBytes[t.Axis] += t.Bytes
	}
	p.Walk(func(in *program.Instr, times int) {
		flops, elements := countArithmetic(p, in)
		c.Flops += int64(times) * flops
		c.ElementOps += int64(times) * elements
		if f.writesOwnBuffer(in) {
			c.BytesMoved += int64(times) * f.bytesMoved(in)
		}
	})
	return c
}

// countArithmetic counts one run of an instruction. The body of a loop is not counted,
// since its instructions are visited by themselves.
func countArithmetic(p *program.Program, in *program.Instr) (flops, elements int64) {
	f := in.Op.Facts()
	switch f.Arithmetic {
	case program.MultiplyAdds:
		flops = 2 * int64(p.Values[in.Out[0]].Elements()) * int64(f.Summed(in, p.Values[in.Args[0]], p.Values[in.Args[1]]))
	case program.OncePerOperand:
		elements = int64(p.Values[in.Args[0]].Elements())
	case program.OncePerResult:
		elements = int64(p.Values[in.Out[0]].Elements())
	case program.ArithmeticOfBody:
		if in.Kernel != nil {
			in.Kernel.Walk(func(in *program.Instr, times int) {
				f, e := countArithmetic(p, in)
				flops, elements = flops+int64(times)*f, elements+int64(times)*e
			})
		}
	}
	return flops, elements
}

// bytesMoved is the number of bytes that one run of an instruction reads and writes.
func (f *bufferModel) bytesMoved(in *program.Instr) int64 {
	out := f.p.Values[in.Out[0]].Bytes()
	switch in.Op.Facts().Memory {
	case program.ReadsWhatItKeeps:
		return 2 * out
	case program.WritesInPlace:
		return 2 * f.p.Values[in.Args[1]].Bytes()
	case program.ReadsPlaces:
		return 2*out + f.p.Values[in.Args[1]].Bytes()
	}
	n := out
	for _, id := range f.buffersBehind(nil, true, in.Args...) {
		n += f.p.Values[id].Bytes()
	}
	return n
}
