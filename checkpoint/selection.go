package checkpoint

import (
	"strconv"

	"weft/fault"
)

// selection is the set of a tensor's bytes that one shard needs: the product of a list of
// ranges for each dim. A dim that is selected whole is merged into the dim before it, and
// the last dim counts bytes. So the selection can be read run by run, whatever the rank,
// shape and dtype of the tensor.
//
// Invariants: dims is not empty; in each dim the ranges are ascending, disjoint,
// not adjacent and not empty, unless bytes is 0; no dim but the first is selected
// whole.
type selection struct {
	dims  []selDim
	bytes int64 // selected
}

// selDim is one merged dim.
type selDim struct {
	size   int64
	step   int64 // bytes from one index of this dim to the next
	ranges [][2]int64
	before []int64 // number of selected indices before each range
	count  int64   // number of selected indices
	inner  int64   // number of selected bytes for each index
}

// newSelection selects ranges[d] of each dim d; nil stands for the whole dim. The caller
// has checked the ranges.
func newSelection(shape []int, elem int, ranges [][][2]int) *selection {
	s := &selection{}
	var dims []selDim // from the last to the first
	add := func(size int64, r [][2]int64) {
		if n := len(dims); n > 0 && dims[n-1].isWhole() {
			in := dims[n-1].size
			for i := range r {
				r[i][0], r[i][1] = r[i][0]*in, r[i][1]*in
			}
			dims[n-1] = selDim{size: size * in, ranges: r}
			return
		}
		dims = append(dims, selDim{size: size, ranges: r})
	}
	add(int64(elem), [][2]int64{{0, int64(elem)}})
	for d := len(shape) - 1; d >= 0; d-- {
		add(int64(shape[d]), joinRanges(shape[d], ranges[d]))
	}
	s.dims = make([]selDim, len(dims))
	step, inner := int64(1), int64(1)
	for i := range dims {
		d := &dims[i]
		for _, r := range d.ranges {
			d.before = append(d.before, d.count)
			d.count += r[1] - r[0]
		}
		d.step, d.inner = step, inner
		step, inner = step*d.size, inner*d.count
		s.dims[len(dims)-1-i] = *d
	}
	s.bytes = inner
	return s
}

// joinRanges drops empty ranges and joins adjacent ones; nil becomes the range of the
// whole dim.
func joinRanges(size int, ranges [][2]int) [][2]int64 {
	if ranges == nil {
		return [][2]int64{{0, int64(size)}}
	}
	tidied := make([][2]int64, 0, len(ranges))
	for _, r := range ranges {
		lo, hi := int64(r[0]), int64(r[1])
		switch n := len(tidied); {
		case lo == hi:
		case n > 0 && tidied[n-1][1] == lo:
			tidied[n-1][1] = hi
		default:
			tidied = append(tidied, [2]int64{lo, hi})
		}
	}
	return tidied
}

func (d selDim) isWhole() bool {
	return len(d.ranges) == 1 && d.ranges[0] == [2]int64{0, d.size}
}

// extent gives the range of the tensor's bytes from the first selected byte to the last.
func (s *selection) extent() (lo, hi int64) {
	for _, d := range s.dims {
		lo += d.ranges[0][0] * d.step
		hi += (d.ranges[len(d.ranges)-1][1] - 1) * d.step
	}
	return lo, hi + 1
}

// countRuns counts the runs of contiguous bytes.
func (s *selection) countRuns() int64 {
	last := s.dims[len(s.dims)-1]
	return s.bytes / last.count * int64(len(last.ranges))
}

// key identifies the selection among those of one tensor.
func (s *selection) key() string {
	var b []byte
	for _, d := range s.dims {
		b = strconv.AppendInt(append(b, '|'), d.size, 10)
		for _, r := range d.ranges {
			b = strconv.AppendInt(append(b, ' '), r[0], 10)
			b = strconv.AppendInt(append(b, ':'), r[1], 10)
		}
	}
	return string(b)
}

// cursor goes through the runs of a selection in the order of the file, which is also
// the order of the destination.
type cursor struct {
	s     *selection
	at    []int64 // index in each dim
	in    []int   // number of the range that has the index
	pos   int64   // where in the tensor the run begins
	n     int64   // bytes of the run; 0 at the end
	local int64   // number of selected bytes before the run
}

func (s *selection) newCursor() *cursor {
	return &cursor{s: s, at: make([]int64, len(s.dims)), in: make([]int, len(s.dims))}
}

// seek moves to the first selected byte at or after pos, which is inside the tensor.
func (c *cursor) seek(pos int64) {
	for d := range c.s.dims {
		dim := &c.s.dims[d]
		at := pos / dim.step % dim.size
		i := 0
		for i < len(dim.ranges) && dim.ranges[i][1] <= at {
			i++
		}
		switch {
		case i == len(dim.ranges): // nothing selected is left in this dim: step the one before
			c.resetFrom(d)
			if !c.stepDim(d - 1) {
				c.n = 0
				return
			}
			c.setPosition()
			return
		case dim.ranges[i][0] > at:
			c.in[d], c.at[d] = i, dim.ranges[i][0]
			c.resetFrom(d + 1)
			c.setPosition()
			return
		}
		c.in[d], c.at[d] = i, at
	}
	c.setPosition()
}

// resetFrom sets dim d and all dims after it to their first selected index.
func (c *cursor) resetFrom(d int) {
	for ; d < len(c.s.dims); d++ {
		c.in[d], c.at[d] = 0, c.s.dims[d].ranges[0][0]
	}
}

// stepDim moves dim d to its next selected index. When dim d is at its end, it starts
// again and the dim before it is moved. stepDim is false at the end of the selection.
func (c *cursor) stepDim(d int) bool {
	for ; d >= 0; d-- {
		dim := &c.s.dims[d]
		c.at[d]++
		if c.at[d] < dim.ranges[c.in[d]][1] {
			return true
		}
		if c.in[d]++; c.in[d] < len(dim.ranges) {
			c.at[d] = dim.ranges[c.in[d]][0]
			return true
		}
		c.in[d], c.at[d] = 0, dim.ranges[0][0]
	}
	return false
}

// setPosition computes pos, n and local from the indices.
func (c *cursor) setPosition() {
	c.pos, c.local = 0, 0
	for d := range c.s.dims {
		dim := &c.s.dims[d]
		r := c.in[d]
		c.pos += c.at[d] * dim.step
		c.local += (dim.before[r] + c.at[d] - dim.ranges[r][0]) * dim.inner
	}
	last := len(c.at) - 1
	c.n = c.s.dims[last].ranges[c.in[last]][1] - c.at[last]
}

// moveBy moves n bytes forward, at most to the end of the run.
func (c *cursor) moveBy(n int64) {
	last := len(c.at) - 1
	if n < c.n {
		c.at[last] += n
		c.pos, c.local, c.n = c.pos+n, c.local+n, c.n-n
		return
	}
	dim := &c.s.dims[last]
	from := c.pos - c.at[last]
	c.local += n
	c.in[last]++
	if c.in[last] == len(dim.ranges) {
		c.in[last] = 0
		if !c.stepDim(last - 1) {
			c.n = 0
			return
		}
		from = 0
		for d := range last {
			from += c.at[d] * c.s.dims[d].step
		}
	}
	r := dim.ranges[c.in[last]]
	c.at[last], c.pos, c.n = r[0], from+r[0], r[1]-r[0]
}

// checkRanges reports every range that lies outside its dim or is out of order.
func checkRanges(tensor string, shape []int, ranges [][][2]int) error {
	var faults fault.List
	for d, list := range ranges {
		end := 0
		for _, r := range list {
			if r[0] < end || r[1] < r[0] || r[1] > shape[d] {
				faults.Add(fault.New(ErrSlice, Slice{tensor, d, r[0], r[1], shape[d]},
					"tensor %s: range [%d,%d) of dim %d, whose size is %d; ranges must be in order and inside [%d,%d)",
					tensor, r[0], r[1], d, shape[d], end, shape[d]))
				break
			}
			end = r[1]
		}
	}
	return faults.Err()
}
