package session

import (
	"sync"
	"sync/atomic"

	"weft/checkpoint"
)

// slot is host memory that the streamed weights of one call after another take turns in. Its
// pages stay touched, so that only the first use of a slot pays for them.
type slot struct {
	pool   *slotPool
	memory *checkpoint.Block
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
	free  chan *slot
	count int
	bytes int // of a slot

	mu     sync.Mutex
	closed bool
}

// newSlotPool makes n slots of so many bytes. Their memory is outside the collector's heap and
// is taken when it is first written to.
func newSlotPool(n, bytes int) (*slotPool, error) {
	p := &slotPool{free: make(chan *slot, n), count: n, bytes: bytes}
	for range n {
		m, err := checkpoint.Alloc(bytes)
		if err != nil {
			p.close()
			return nil, err
		}
		p.free <- &slot{pool: p, memory: m}
	}
	return p, nil
}

// giveBack makes a slot free for the next use, or gives its memory to the system where the
// pool is closed.
func (p *slotPool) giveBack(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = s.memory.Free()
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
			_ = s.memory.Free()
		default:
			return
		}
	}
}
