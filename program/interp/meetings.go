package interp

import (
	"context"
	"slices"
	"sync"
	"time"

	"weft/program"
)

// meetingHub is where devices meet for collectives. The key of a meeting is the number of
// collectives that its members have been through, and its first member: all devices run
// one program, so the members of a group count alike.
type meetingHub struct {
	limit time.Duration

	mu     sync.Mutex
	open   map[meetingKey]*meeting
	groups map[*program.Instr][][]int
	busy   int       // devices that compute or wait for a processor
	idle   time.Time // when busy last went down
}

type meetingKey struct{ seq, first int }

// meeting is one collective of one group. Slots are filled under the hub's lock. Nothing
// changes after ready is closed.
type meeting struct {
	in      *program.Instr
	members []int
	slots   []*Array // by member; nil has not arrived
	arrived int
	ready   chan struct{}
	shared  *Array // a result that is the same for every member
}

func newMeetingHub(devices int, limit time.Duration) *meetingHub {
	return &meetingHub{limit: limit, open: map[meetingKey]*meeting{}, groups: map[*program.Instr][][]int{}, busy: devices}
}

// noteRest notes that a device no longer computes: it waits in a meeting, until the last
// device to arrive wakes it, or it has ended.
func (h *meetingHub) noteRest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteRestLocked()
}

func (h *meetingHub) noteRestLocked() {
	h.busy--
	h.idle = time.Now()
}

// joinMeeting brings a device's operand to its meeting and reports whether the device is
// the last of its group. The last one computes what all share and closes ready; the
// others wait until then.
func (h *meetingHub) joinMeeting(in *program.Instr, seq, pos, devices int, x *Array) (mt *meeting, last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	members := h.membersOf(in, pos, devices)
	key := meetingKey{seq, members[0]}
	mt = h.open[key]
	if mt == nil {
		mt = &meeting{in: in, members: members, slots: make([]*Array, len(members)), ready: make(chan struct{})}
		h.open[key] = mt
	}
	mt.slots[mt.memberIndex(pos)] = x
	mt.arrived++
	if mt.arrived < len(members) {
		h.noteRestLocked()
		return mt, false
	}
	delete(h.open, key)
	h.busy += len(members) - 1
	return mt, true
}

func (mt *meeting) memberIndex(pos int) int { return slices.Index(mt.members, pos) }

// membersOf lists the devices that meet in a collective with the one at pos.
func (h *meetingHub) membersOf(in *program.Instr, pos, devices int) []int {
	groups, ok := h.groups[in]
	if !ok {
		groups = in.Groups
		if in.Op == program.OpPermute {
			groups = linkedPositions(in.Pairs, devices)
		}
		h.groups[in] = groups
	}
	for _, g := range groups {
		if slices.Contains(g, pos) {
			return g
		}
	}
	panic("a collective without a group for this device")
}

// linkedPositions groups the devices that a permute's pairs connect, directly or through
// others.
func linkedPositions(pairs [][2]int, devices int) [][]int {
	set := make([]int, devices) // by position: the least position that it is linked with
	for i := range set {
		set[i] = i
	}
	for _, p := range pairs {
		a, b := set[p[0]], set[p[1]]
		for i, s := range set {
			if s == a || s == b {
				set[i] = min(a, b)
			}
		}
	}
	groups := make([][]int, devices)
	for i, s := range set {
		groups[s] = append(groups[s], i)
	}
	return slices.DeleteFunc(groups, func(g []int) bool { return g == nil })
}

// watchForStall ends the run when some devices wait and none has computed for as long as
// the limit. A device that computes, however long, is not missing. The error names the
// first incomplete collective in program order, because its missing devices wait nowhere
// else.
func (h *meetingHub) watchForStall(ctx context.Context, fail context.CancelCauseFunc) {
	tick := time.NewTicker(min(max(h.limit/50, time.Millisecond), 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if mt := h.findStuck(); mt != nil {
				fail(timeoutError(mt, h.limit))
				return
			}
		}
	}
}

func (h *meetingHub) findStuck() *meeting {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy > 0 || time.Since(h.idle) < h.limit {
		return nil
	}
	var first *meeting
	var at meetingKey
	for key, mt := range h.open {
		if first == nil || key.seq < at.seq || key.seq == at.seq && key.first < at.first {
			first, at = mt, key
		}
	}
	return first
}
