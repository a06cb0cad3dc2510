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

// worthCollecting is from how many bytes on weights that are gone are worth a collection.
const worthCollecting = 16 << 20

// returnMemory gives the memory of weights that are gone back to the system: what an engine holds
// of them in the collector's heap. Memory outside the heap goes by itself, as soon as the engine
// has released it.
func returnMemory(gone int64) {
	if gone >= worthCollecting {
		debug.FreeOSMemory()
	}
}
