package lora

import (
	"context"
	"encoding/binary"
	"math"
	"sync"

	"weft/dtype"
)

// maxFactorBytes bounds the factors that are kept, in f32. Weights are read in the order of their
// file, so that those of a few are in use at a time; 256 MB are those of some forty matrices of a
// model of 14 billion parameters at rank 128.
const maxFactorBytes = 256 << 20

// factorCache reads the factors of modules when they are first asked for, and forgets those that were
// read the longest ago.
type factorCache struct {
	mu    sync.Mutex
	known map[*delta]*loading
	order []*delta
	bytes int64
}

// loading is a module's factors, which one goroutine reads.
type loading struct {
	once    sync.Once
	factors *factors
	err     error
}

// load gives the factors of a delta.
func (c *factorCache) load(d *delta) (*factors, error) {
	c.mu.Lock()
	if c.known == nil {
		c.known = map[*delta]*loading{}
	}
	l := c.known[d]
	if l == nil {
		l = &loading{}
		c.known[d] = l
		c.order = append(c.order, d)
		for c.bytes += d.factorBytes(); c.bytes > maxFactorBytes && len(c.order) > 1; c.order = c.order[1:] {
			c.bytes -= c.order[0].factorBytes()
			delete(c.known, c.order[0])
		}
	}
	c.mu.Unlock()
	l.once.Do(func() { l.factors, l.err = d.readFactors() })
	return l.factors, l.err
}

// factorBytes is the size of a delta's factors in f32.
func (d *delta) factorBytes() int64 {
	return 4 * int64(d.rank) * (int64(d.at.of) + int64(d.at.columns()))
}

func (d *delta) readFactors() (*factors, error) {
	f := &factors{rank: d.rank}
	for _, m := range []struct {
		key string
		to  *[]float32
	}{{d.down, &f.down}, {d.up, &f.up}} {
		t, err := d.f.c.Load(context.Background(), m.key, dtype.F32)
		if err != nil {
			return nil, err
		}
		*m.to = float32sOf(t.Data)
	}
	return f, nil
}

// float32sOf decodes little-endian numbers.
func float32sOf(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}
