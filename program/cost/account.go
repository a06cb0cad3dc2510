package cost

import (
	"slices"

	"weft/program"
)

// Account has the work and the memory of a program, and their parts.
type Account struct {
	Work   Work
	Memory Memory
	// Held lists the buffers that the program makes and holds at the peak, in the order
	// in which they are made. The values that a loop carries share memory, and so may the
	// operand and the result of an instruction that writes in place, so the buffers can
	// add up to more than the peak without the arguments.
	Held []program.ID
	// Moved is the part of Work.BytesMoved that one run of an instruction has; 0 where
	// the instruction happens inside another.
	Moved func(in *program.Instr) int64
	// PeakParts lists what is held at the peak beside the arguments, each byte once.
	PeakParts func() []PeakPart
}

// AccountOf accounts for the work and the memory of a program with one model of its buffers.
func AccountOf(p *program.Program) Account {
	f := newBufferModel(p)
	w := newLiveModel(p, f)
	return Account{Work: costOf(p, f, w.result), Memory: w.result, Held: w.heldAt(w.main),
		Moved: func(in *program.Instr) int64 {
			if !f.writesOwnBuffer(in) {
				return 0
			}
			return f.bytesMoved(in)
		}, PeakParts: w.peakParts}
}

// heldAt lists the buffers of a body that are held at its peak.
func (w *liveModel) heldAt(b *schedule) []program.ID {
	if b.at < 0 {
		return nil
	}
	left := map[program.ID]int{}
	for i := range b.steps {
		for _, id := range b.steps[i].reads {
			left[id]++
		}
	}
	var held []program.ID
	for n, i := range b.order {
		k := &b.steps[i]
		if n == b.peakStep {
			held = append(held, k.writes...)
			if k.inner != nil {
				held = append(held, k.in.Loop.Params...)
				held = append(held, w.heldAt(k.inner)...)
			}
			break
		}
		for _, id := range k.reads {
			left[id]--
		}
		held = append(held, k.writes...)
		held = slices.DeleteFunc(held, func(id program.ID) bool { return left[id] == 0 && !w.pinned[id] })
	}
	return held
}
