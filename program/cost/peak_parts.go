package cost

import (
	"maps"
	"slices"

	"weft/program"
)

// PeakPart is a piece of the memory that a program holds at its peak beside its arguments.
type PeakPart struct {
	Value program.ID // the value that lies there
	Bytes int64
	Why   string // why it is held at the peak
}

// The reasons for which a buffer is held at the peak.
const (
	heldForReaders = "made before the peak and still to be read"
	heldToTheEnd   = "held to the end: an output, or what a loop hands to its next round"
	heldNew        = "made at the peak"
	heldCounter    = "the loop's counter"
	heldShard      = "the all-reduce's own shard, before it is widened"
	heldWideShard  = "the all-reduce's own shard, widened"
	heldCopy       = "a copy: each output has memory of its own"
)

// placedResult is a result of a step that bytesTaken counts. apart says that it needs memory
// beside the step's operands.
type placedResult struct {
	id    program.ID
	apart bool
}

// peakParts lists what the program holds at its peak beside its arguments, in the order in
// which it is made. The bytes add up to Memory.Peak - Memory.Arguments.
func (w *liveModel) peakParts() []PeakPart {
	var copies []PeakPart
	copied := int64(0)
	taken := map[program.ID]bool{}
	for _, in := range w.p.Inputs {
		taken[in.Value] = true
	}
	for _, out := range w.p.Outputs {
		id := w.root[out.Value]
		if taken[id] {
			copies = append(copies, PeakPart{out.Value, w.p.Values[out.Value].Bytes(), heldCopy})
			copied += w.p.Values[out.Value].Bytes()
		}
		taken[id] = true
	}
	if w.main.end+copied > w.main.peak {
		return append(w.partsBefore(w.main, len(w.main.order)), copies...)
	}
	return w.partsAtPeak(w.main)
}

// beginAgain sets up the state of the walk for a body, as it is before the body's first step.
func (w *liveModel) beginAgain(b *schedule) {
	clear(w.left)
	clear(w.maker)
	for i := range b.steps {
		for _, id := range b.steps[i].reads {
			w.left[id]++
		}
		for _, id := range b.steps[i].writes {
			w.maker[id] = int32(i + 1)
		}
	}
}

// partsBefore runs the steps of a body that come before step n of its order, and lists what
// is held then.
func (w *liveModel) partsBefore(b *schedule, n int) []PeakPart {
	w.beginAgain(b)
	held := map[program.ID]bool{}
	var order []program.ID
	for _, i := range b.order[:n] {
		k := &b.steps[i]
		var placed []placedResult
		w.bytesTaken(k, &placed)
		for _, p := range placed {
			held[p.id] = true
			order = append(order, p.id)
		}
		for _, id := range w.freedBy(k) {
			delete(held, id)
		}
		for _, id := range k.reads {
			w.left[id]--
		}
	}
	parts := []PeakPart{}
	for _, id := range order {
		if !held[id] {
			continue
		}
		why := heldForReaders
		if w.pinned[id] {
			why = heldToTheEnd
		}
		parts = append(parts, PeakPart{id, w.size[id], why})
	}
	return parts
}

// freedBy lists the buffers that bytesFreed counts.
func (w *liveModel) freedBy(k *liveStep) []program.ID {
	freed := map[program.ID]bool{}
	for _, id := range k.reads {
		if w.left[id] == 1 && w.canFree(id) {
			freed[id] = true
		}
	}
	for _, id := range k.writes {
		if w.left[id] == 0 && w.canFree(id) {
			freed[id] = true
		}
	}
	return slices.Sorted(maps.Keys(freed))
}

// partsAtPeak lists what a body holds while the step runs that needs most, with what the
// bodies of loops hold in it. It takes the larger of two moments where bytesDuring does.
func (w *liveModel) partsAtPeak(b *schedule) []PeakPart {
	if b.at < 0 {
		return nil
	}
	parts := w.partsBefore(b, b.peakStep)
	k := &b.steps[b.order[b.peakStep]]
	var placed []placedResult
	beside, _ := w.bytesTaken(k, &placed)
	frees := w.bytesFreed(k)
	switch {
	case k.narrow > 0 && k.narrow >= k.wide+beside-frees:
		return append(parts, PeakPart{k.in.Out[0], k.narrow, heldShard})
	case k.narrow > 0:
		freed := w.freedBy(k)
		parts = slices.DeleteFunc(parts, func(p PeakPart) bool { return slices.Contains(freed, p.Value) })
		parts = append(parts, PeakPart{k.in.Out[0], k.wide, heldWideShard})
	}
	for _, p := range placed {
		if p.apart {
			parts = append(parts, PeakPart{p.id, w.size[p.id], heldNew})
		}
	}
	if k.inner == nil {
		return parts
	}
	index := k.in.Loop.Index
	switch counted := w.uses[index] > 0; {
	case !counted && k.inner.peak < w.size[index]:
		return append(parts, PeakPart{index, w.size[index], heldCounter})
	case counted:
		parts = append(parts, PeakPart{index, w.size[index], heldCounter})
	}
	return append(parts, w.partsAtPeak(k.inner)...)
}
