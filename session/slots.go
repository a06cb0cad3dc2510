package session

import (
	"sync"
	"sync/atomic"

	"weft/checkpoint"
	"weft/engine"
)

// slot is host memory that the streamed weights of one call after another take turns in. Its
// pages stay touched, so that only the first use of a slot pays for them.
type slot struct {
	pool   *slotPool
	memory *checkpoint.Block
	unpin  func()       // nil where the memory is not pinned for devices
	users  atomic.Int32 // blocks that devices may still read, and the call that computes
}

// use says by how many the slot is used from here on.
func (s *slot) use(n int) { s.users.Store(int32(n)) }

// done ends one use. The last gives the slot back to its pool.
func (s *slot) done() {
	if s.users.Add(-1) == 0 {
		s.pool.giveBack(s)
	}
}

// slotPool are the slots of one stream. A slot is handed on by the word of the engine alone:
// once it has released every block of the slot, and the call that read them has ended.
type slotPool struct {
	free   chan *slot
	count  int
	bytes  int // of a slot
	pinned bool

	mu     sync.Mutex
	closed bool
}

// newSlotPool makes n slots of so many bytes. Their memory is outside the collector's heap and
// is taken when it is first written to.
//
// An engine that copies from host memory has each slot pinned once, because pinning takes longer
// than a copy.
func newSlotPool(eng engine.Engine, n, bytes int) (*slotPool, error) {
	p := &slotPool{free: make(chan *slot, n), count: n, bytes: bytes}
	for range n {
		m, err := checkpoint.Alloc(bytes)
		if err != nil {
			p.close()
			return nil, err
		}
		s := &slot{pool: p, memory: m}
		p.free <- s
		pinner, can := eng.(engine.Pinner)
		if !can {
			continue
		}
		unpin, pinned, err := pinner.PinHost(m.Bytes())
		if err != nil {
			p.close()
			return nil, err
		}
		if pinned {
			s.unpin, p.pinned = unpin, true
		}
	}
	return p, nil
}

// giveMemoryBack unpins the slot's memory and gives it to the system.
func (s *slot) giveMemoryBack() {
	if s.unpin != nil {
		s.unpin()
	}
	_ = s.memory.Free()
}

// giveBack makes a slot free for the next use, or gives its memory to the system where the
// pool is closed.
func (p *slotPool) giveBack(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		s.giveMemoryBack()
		return
	}
	p.free <- s // never waits: there is room for all
}

// close gives the memory of all slots to the system: of those that a device still reads, as
// soon as it is done.
func (p *slotPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for {
		select {
		case s := <-p.free:
			s.giveMemoryBack()
		default:
			return
		}
	}
}
