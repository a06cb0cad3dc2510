package interp

import (
	"context"
	"slices"
	"sync"
	"time"

	"weft/spmd"
)

// meetingHub is where devices meet for collectives. A meeting is named by how many
// collectives its members have been through and by its first member: all
// devices run one program, so the members of a group count alike.
type meetingHub struct {
	limit time.Duration

	mu     sync.Mutex
	open   map[meetingKey]*meeting
	groups map[*spmd.Instr][][]int
	busy   int       // devices that compute or wait for a processor
	idle   time.Time // since when busy is 0
}

type meetingKey struct{ seq, first int }

// meeting is one collective of one group. Slots are filled under the hub's
// lock; once ready is closed nothing changes any more.
type meeting struct {
	in      *spmd.Instr
	members []int
	slots   []*Array // by member; nil has not arrived
	arrived int
	ready   chan struct{}
	shared  *Array // a result that is the same for every member
}

func newMeetingHub(devices int, limit time.Duration) *meetingHub {
	return &meetingHub{limit: limit, open: map[meetingKey]*meeting{}, groups: map[*spmd.Instr][][]int{}, busy: devices}
}

// noteRest notes that a device is not at work any more: it waits, or has ended. Who
// waits in a meeting is woken by the last to arrive.
func (h *meetingHub) noteRest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteRestLocked()
}

func (h *meetingHub) noteRestLocked() {
	h.busy--
	h.idle = time.Now()
}

// joinMeeting brings a device's operand and tells whether it is the last of its
// group. The last one computes what all share and closes ready; the
// others rest until then.
func (h *meetingHub) joinMeeting(in *spmd.Instr, seq, pos, devices int, x *Array) (mt *meeting, last bool) {
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

// membersOf are the devices that pos meets in a collective.
func (h *meetingHub) membersOf(in *spmd.Instr, pos, devices int) []int {
	groups, ok := h.groups[in]
	if !ok {
		groups = in.Groups
		if in.Op == spmd.OpPermute {
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

// linkedPositions are the devices that a permute's pairs connect, directly or through others.
func linkedPositions(pairs [][2]int, devices int) [][]int {
	set := make([]int, devices) // the least position that it is linked with
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

// watchForStall ends the run when, for as long as the limit, no device has been at work
// while some wait. Devices that compute, however long, are not missing. The
// collective to blame is the first in program order that is incomplete: its
// missing devices wait nowhere else.
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
