package spmd

// Price is Cost and Live in one, with what they are made of.
type Price struct {
	Cost Cost
	Live Live
	// Held are the buffers held at the peak that the program makes itself, in the
	// order of their making. Values that carry a loop share memory, and so may the
	// operand and the result of an instruction that writes in place: the buffers can
	// add up to more or less than Live.Peak - Live.Arguments.
	Held []ID
	// Moved is an instruction's part of Cost.BytesMoved, of one run; 0 where it
	// happens inside another.
	Moved func(in *Instr) int64
}

// Price prices the program.
func (p *Program) Price() Price {
	f := newFusion(p)
	w := p.live(f)
	return Price{Cost: p.cost(f, w.result), Live: w.result, Held: w.heldAt(w.result.At), Moved: func(in *Instr) int64 {
		if !f.runs(in) {
			return 0
		}
		return f.moved(in)
	}}
}

// heldAt lists the buffers held when at is made.
func (w *liveWalk) heldAt(at ID) []ID {
	if at < 0 {
		return nil
	}
	made, order := make([]int, len(w.p.Values)), []ID{}
	pos := 0
	mark := func(ids ...ID) {
		for _, id := range ids {
			made[id] = pos
			order = append(order, id)
		}
	}
	var visit func(body []Instr)
	visit = func(body []Instr) {
		for i := range body {
			in := &body[i]
			pos++
			if in.Loop == nil {
				if w.runs(in) {
					mark(in.Out[0])
				}
				continue
			}
			mark(in.Loop.Index)
			mark(in.Loop.Params...)
			visit(in.Loop.Body)
			pos++
			mark(in.Out...)
		}
	}
	visit(w.p.Body)
	var held []ID
	for _, id := range order {
		ends := w.last[id] == made[at] && id != at
		inPlace := ends && w.p.Values[id].Bytes() == w.p.Values[at].Bytes()
		if made[id] <= made[at] && w.last[id] >= made[at] && !inPlace {
			held = append(held, id)
		}
	}
	return held
}
