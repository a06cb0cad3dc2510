package spmd

import "slices"

// Price has the work and the memory of a program, and their parts.
type Price struct {
	Cost Cost
	Live Live
	// Held lists the buffers that the program makes and holds at the peak, in the order
	// in which they are made. The values that a loop carries share memory, and so may the
	// operand and the result of an instruction that writes in place, so the buffers can
	// add up to more than the peak without the arguments.
	Held []ID
	// Moved is the part of Cost.BytesMoved that one run of an instruction has; 0 where
	// the instruction happens inside another.
	Moved func(in *Instr) int64
}

// Price accounts for the work and the memory of a program with one model of its buffers.
func (p *Program) Price() Price {
	f := newBufferModel(p)
	w := newLiveModel(p, f)
	return Price{Cost: costOf(p, f, w.result), Live: w.result, Held: w.heldAt(w.main), Moved: func(in *Instr) int64 {
		if !f.writesOwnBuffer(in) {
			return 0
		}
		return f.bytesMoved(in)
	}}
}

// heldAt lists the buffers of a body that are held at its peak.
func (w *liveModel) heldAt(b *schedule) []ID {
	if b.at < 0 {
		return nil
	}
	left := map[ID]int{}
	for i := range b.steps {
		for _, id := range b.steps[i].reads {
			left[id]++
		}
	}
	var held []ID
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
		held = slices.DeleteFunc(held, func(id ID) bool { return left[id] == 0 && !w.pinned[id] })
	}
	return held
}
