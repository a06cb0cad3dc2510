package session

import (
	"context"
	"fmt"
	"runtime/debug"

	"weft/graph"
)

// bringLeavers reads the weights again that left the devices after an earlier request began.
func (s *Session) bringLeavers(ctx context.Context, progress Progress) error {
	if !s.left {
		return nil
	}
	n, err := s.loadWeights(ctx, progress, func(name string) bool { return s.placed.Of[name] == graph.Leaves })
	s.loaded.BytesRead += n
	if err != nil {
		return fmt.Errorf("a request begins again: %w", err)
	}
	s.left = false
	return nil
}

// sendLeavers lets go of the weights that only the calls of the request read. Where an engine
// keeps them in host memory, the memory goes back to the system.
func (s *Session) sendLeavers() {
	gone := false
	for name, where := range s.placed.Of {
		if v := s.weights[name]; where == graph.Leaves && v != nil {
			v.Free()
			delete(s.weights, name)
			gone = true
		}
	}
	if gone {
		s.left = true
		debug.FreeOSMemory()
	}
}
