package session

import (
	"context"
	"fmt"

	"weft/graph"
	"weft/internal/hostmemory"
)

// bringLeavers reads the weights again that left the devices after an earlier request began.
func (s *Session) bringLeavers(ctx context.Context, progress Progress) error {
	if !s.left {
		return nil
	}
	if err := s.loadTimed(ctx, progress, func(name string) bool { return s.placed.Of[name] == graph.Leaves }); err != nil {
		return fmt.Errorf("a request begins again: %w", err)
	}
	s.left = false
	for i, m := range s.loaded.Weights {
		s.loaded.ResidentBytes[i] = m.Together()
	}
	return nil
}

// bringFollowers reads the weights that waited until others had left.
func (s *Session) bringFollowers(ctx context.Context, progress Progress) error {
	if !s.waiting {
		return nil
	}
	err := s.loadTimed(ctx, progress, func(name string) bool { return s.placed.Of[name] == graph.Follows })
	s.waiting = err != nil
	return err
}

// sendLeavers lets go of the weights that only the calls of the request read. Where an engine
// keeps them in host memory, the memory goes back to the system.
func (s *Session) sendLeavers() {
	if s.keepLeavers {
		return
	}
	var gone int64
	for name, where := range s.placed.Of {
		if v := s.weights[name]; where == graph.Leaves && v != nil {
			v.Free()
			delete(s.weights, name)
			gone += v.Type().Bytes()
		}
	}
	s.left = s.left || gone > 0
	returnMemory(gone)
}

// KeepLeavers decides whether the weights that only the calls of the request read stay once a
// request has begun, for requests that follow.
func (s *Session) KeepLeavers(keep bool) { s.keepLeavers = keep }

// SendLeavers lets the weights go at once that only the calls of the request read. They are read
// again as a request begins.
func (s *Session) SendLeavers() {
	s.keepLeavers = false
	s.sendLeavers()
}

// LeaversLeft reports whether the weights that only the calls of the request read have left.
func (s *Session) LeaversLeft() bool { return s.left }

// ForgetLanes frees the inputs and values of all lanes. Programs and weights stay.
func (s *Session) ForgetLanes() {
	for _, l := range s.lanes {
		l.free()
	}
	s.lanes = map[string]*lane{}
}

// HostBytes is what the weights that are there between two requests take of host memory, with the
// slots of those that are streamed, where a part that several devices hold is there once.
func (s *Session) HostBytes() int64 {
	n, _ := s.g.HostBytes(s.placed, graph.Stays, graph.Follows) // loading has counted them, without an error
	if !s.left {
		leave, _ := s.g.HostBytes(s.placed, graph.Leaves)
		n += leave
	}
	for _, w := range s.streams {
		if w != nil {
			n += int64(w.pool.count) * int64(w.pool.bytes)
		}
	}
	return n
}

// worthCollecting is from how many bytes on weights that are gone are worth a collection.
const worthCollecting = 16 << 20

// returnMemory gives the memory of weights that are gone back to the system: what an engine holds
// of them in the collector's heap, and what an allocator keeps of freed blocks. Blocks outside the
// heap go by themselves, as soon as the engine has released them.
func returnMemory(gone int64) {
	if gone >= worthCollecting {
		hostmemory.Return()
	}
}
