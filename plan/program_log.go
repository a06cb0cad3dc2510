package plan

import (
	"weft/program"
	"weft/program/cost"
)

// The kinds of a device's memory, as Memory's fields are called.
const (
	weightsKind   = "weights"
	residualKind  = "residual"
	attentionKind = "attention"
	gatheredKind  = "gathered"
	tempKind      = "temp"
)

// flopsKind says by which efficiency the time of FLOPs is counted.
type flopsKind int

const (
	matmulFLOPs    flopsKind = iota // contractions without batch dims, and convolutions
	attentionFLOPs                  // contractions with batch dims
	kernelFLOPs                     // attention by a kernel
)

// programLog has what measureProgram added up, amount by amount, with the instruction that
// each is of. Its methods do nothing on nil.
type programLog struct {
	flops   []flopsEntry
	moved   []movedEntry
	dropped map[*program.Instr]bool // what they move is counted with attention's time
	held    []heldEntry
	parts   []cost.PeakPart
	account cost.Account
	// Of the values at the peak, those that all-gathers made and those of attention.
	gathers, attending map[program.ID]bool
}

// flopsEntry has the FLOPs of all rounds of an instruction, and those that a matrix unit takes
// as long over.
type flopsEntry struct {
	in           *program.Instr
	kind         flopsKind
	flops, tiles float64
}

// movedEntry has the bytes that all rounds of an instruction move.
type movedEntry struct {
	in    *program.Instr
	times int
	bytes int64
}

// heldEntry is a buffer that counts as gathered or as attention's at the peak.
type heldEntry struct {
	id    program.ID
	kind  string
	bytes int64
}

func (l *programLog) addFLOPs(in *program.Instr, kind flopsKind, flops, tiles float64) {
	if l == nil {
		return
	}
	if n := len(l.flops); n > 0 && l.flops[n-1].in == in { // the contractions of one kernel
		l.flops[n-1].flops += flops
		l.flops[n-1].tiles += tiles
		return
	}
	l.flops = append(l.flops, flopsEntry{in, kind, flops, tiles})
}

func (l *programLog) addMoved(in *program.Instr, times int, p cost.Account) {
	if l == nil || in.Op == program.OpLoop {
		return
	}
	if n := int64(times) * p.Moved(in); n > 0 {
		l.moved = append(l.moved, movedEntry{in, times, n})
	}
}

// dropMoved notes that measureProgram takes off what an instruction moves, and all in it.
func (l *programLog) dropMoved(in *program.Instr) {
	if l == nil {
		return
	}
	if l.dropped == nil {
		l.dropped = map[*program.Instr]bool{}
	}
	l.dropped[in] = true
	if in.Loop != nil {
		for i := range in.Loop.Body {
			l.dropMoved(&in.Loop.Body[i])
		}
	}
}

func (l *programLog) addHeld(id program.ID, kind string, bytes int64) {
	if l != nil && bytes > 0 {
		l.held = append(l.held, heldEntry{id, kind, bytes})
	}
}

func (l *programLog) finish(a cost.Account, gathers, attending map[program.ID]bool) {
	if l == nil {
		return
	}
	l.account, l.parts, l.gathers, l.attending = a, a.PeakParts(), gathers, attending
}

// kindOf gives the kind as which a value counts at the peak.
func (l *programLog) kindOf(id program.ID) string {
	switch {
	case l.gathers[id]:
		return gatheredKind
	case l.attending[id]:
		return attentionKind
	}
	return tempKind
}
