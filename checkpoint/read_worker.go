package checkpoint

import (
	"context"
	"errors"
	"fmt"
)

const (
	// bufferBytes is small enough for a core's second-level cache.
	bufferBytes = 256 << 10
	// maxPieces bounds the runs handled at once; the kernel takes 1024 in one read.
	maxPieces = 1024
	// copyBytes bounds a read that fills one destination and is then copied to others, so
	// that the bytes are still in the cache.
	copyBytes = 256 << 10
	// readBytes bounds any single read, so that a cancelled context is seen soon.
	readBytes = 1 << 20
)

// piece is a run of selected bytes of one target, inside one read.
type piece struct {
	target *target
	pos    int64 // in the tensor
	n      int64 // bytes
	local  int64 // in the target's selected bytes
	next   int   // number of the target's next piece; -1 for its last
}

// worker reads chunks, one at a time. The buffers of its workers are all the memory that a
// Read uses besides the destinations: 400 KB each, and at most 2 MB each where a tensor
// that is not row-major is converted.
type worker struct {
	ctx     context.Context
	reading *reading
	buf     []byte
	tmp     []byte // a converted piece, before it is scattered
	sums    sums   // of elements and what is added to them
	pieces  []piece
	heads   []int // the first and last piece of each target
	tails   []int
	vec     vector
	merge   merge
}

// readChunk reads one chunk.
func (w *worker) readChunk(c chunk) error {
	w.merge.startChunk(c)
	for {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		span, ok := w.gatherPieces(c.job)
		if !ok {
			return nil
		}
		var err error
		if c.job.direct {
			err = w.readScattered(c.job, span)
		} else {
			err = w.readBuffered(c.job, span)
		}
		if errors.Is(err, ErrFileChanged) {
			return fmt.Errorf("tensor %s: %w", c.job.rec.Name, err)
		}
		if err != nil {
			return err
		}
	}
}

// gatherPieces collects the next pieces for one read: the gaps between them are at most
// the job's bridge, and the read is not larger than its limit.
func (w *worker) gatherPieces(j *job) (span [2]int64, ok bool) {
	limit := int64(bufferBytes)
	if j.direct {
		limit = readBytes
		for _, t := range j.targets {
			if len(t.dsts) > 1 {
				limit = copyBytes
			}
		}
	}
	w.pieces = w.pieces[:0]
	for len(w.pieces) < maxPieces {
		c := w.merge.nextCursor()
		if c == nil {
			break
		}
		if len(w.pieces) == 0 {
			span = [2]int64{c.pos, c.pos}
		} else if c.pos > span[1]+j.bridge {
			break
		}
		n := min(c.n, w.merge.hi-c.pos, span[0]+limit-c.pos)
		if n <= 0 {
			break
		}
		w.pieces = append(w.pieces, piece{c.target, c.pos, n, c.local, -1})
		span[1] = max(span[1], c.pos+n)
		w.merge.end = c.pos + n
		c.moveBy(n)
	}
	return span, len(w.pieces) > 0
}

// readScattered reads straight into the first destination of each target and copies from
// there to the others.
func (w *worker) readScattered(j *job, span [2]int64) error {
	w.vec.reset()
	for i := range w.pieces {
		p := &w.pieces[i]
		w.vec.add(p.target.dsts[0][p.local : p.local+p.n])
	}
	if err := w.vec.read(j.rec.file, j.rec.Offset+span[0], span[1]-span[0]); err != nil {
		return err
	}
	w.reading.bytes.Add(span[1] - span[0])
	for i := range w.pieces {
		p := &w.pieces[i]
		for _, dst := range p.target.dsts[1:] {
			copy(dst[p.local:p.local+p.n], p.target.dsts[0][p.local:p.local+p.n])
		}
	}
	return nil
}

// readBuffered reads into the worker's buffer and copies or converts from there.
func (w *worker) readBuffered(j *job, span [2]int64) error {
	if w.buf == nil {
		w.buf = make([]byte, bufferBytes)
	}
	buf := w.buf[:span[1]-span[0]]
	if err := j.rec.file.readAt(buf, j.rec.Offset+span[0]); err != nil {
		return err
	}
	w.reading.bytes.Add(int64(len(buf)))
	w.linkPieces()
	for _, i := range w.heads {
		for ; i >= 0; i = w.pieces[i].next {
			p := &w.pieces[i]
			if err := w.placePiece(p, buf[p.pos-span[0]:][:p.n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// linkPieces links the pieces of each target, so that each destination is written from
// its beginning to its end. In the order of the file, a few bytes of every destination
// would be written in turn, which is slower.
func (w *worker) linkPieces() {
	w.heads, w.tails = w.heads[:0], w.tails[:0]
	for i := range w.pieces {
		p := &w.pieces[i]
		p.next = -1
		for len(w.heads) <= p.target.index {
			w.heads, w.tails = append(w.heads, -1), append(w.tails, -1)
		}
		if tail := w.tails[p.target.index]; tail < 0 {
			w.heads[p.target.index] = i
		} else {
			w.pieces[tail].next = i
		}
		w.tails[p.target.index] = i
	}
}

// placePiece copies the bytes of a piece to the destinations of its target, and converts
// them where the target asks for another dtype.
func (w *worker) placePiece(p *piece, src []byte) error {
	t := p.target
	if t.scatter != nil {
		return w.scatterPiece(p, src)
	}
	lo, hi := t.localOffset(p.local), t.localOffset(p.local+p.n)
	if t.add != nil {
		if err := w.sums.convertAndAdd(t, t.dsts[0][lo:hi], src, p.pos); err != nil {
			return err
		}
		for _, dst := range t.dsts[1:] {
			copy(dst[lo:hi], t.dsts[0][lo:hi])
		}
		return nil
	}
	if t.convert == nil {
		for _, dst := range t.dsts {
			copy(dst[lo:hi], src)
		}
		return nil
	}
	if err := t.convertAt(t.dsts[0][lo:hi], src, p.pos); err != nil {
		return err
	}
	for _, dst := range t.dsts[1:] {
		copy(dst[lo:hi], t.dsts[0][lo:hi])
	}
	return nil
}

// scatterPiece is placePiece for a tensor that is not row-major in the file.
func (w *worker) scatterPiece(p *piece, src []byte) error {
	t := p.target
	if t.convert != nil {
		if n := int(t.localOffset(p.n)); n > len(w.tmp) {
			w.tmp = make([]byte, n)
		}
		tmp := w.tmp[:t.localOffset(p.n)]
		if err := t.convert(tmp, src); err != nil {
			return err
		}
		src = tmp
	}
	for _, dst := range t.dsts {
		t.scatter.putElements(dst, src, p.local/t.from, int(t.to))
	}
	return nil
}

// merge goes through the runs of all targets of a chunk in the order of the file.
type merge struct {
	cursors  []targetCursor
	hi       int64
	disjoint bool  // as in the job
	last     int   // number of the cursor that was given last
	end      int64 // where in the tensor its last piece ended
}

type targetCursor struct {
	cursor
	target *target
}

// startChunk puts a cursor of every target at the beginning of the chunk.
func (m *merge) startChunk(c chunk) {
	m.cursors, m.hi, m.last = m.cursors[:0], c.hi, 0
	m.disjoint, m.end = c.job.disjoint, -1
	for _, t := range c.job.targets {
		tc := targetCursor{*t.sel.newCursor(), t}
		if tc.seek(c.lo); tc.n > 0 && tc.pos < c.hi {
			m.cursors = append(m.cursors, tc)
		}
	}
}

// nextCursor gives the cursor whose run begins first, nil at the end of the chunk. The
// caller moves the cursor past the bytes that it uses.
func (m *merge) nextCursor() *targetCursor {
	if len(m.cursors) == 0 {
		return nil
	}
	k := m.last + 1
	if k == len(m.cursors) {
		k = 0
	}
	// Where the shards are columns, their runs come in turn: if the targets are disjoint and
	// the next target's run begins where the last one ended, no other run begins earlier.
	if c := &m.cursors[k]; m.disjoint && c.n > 0 && c.pos == m.end {
		m.last = k
	} else if !m.findFirst() {
		return nil
	}
	c := &m.cursors[m.last]
	if c.pos >= m.hi {
		return nil
	}
	return c
}

// findFirst sets last to the cursor with the smallest position. It is false if all cursors
// are at their end.
func (m *merge) findFirst() bool {
	m.last = -1
	for i := range m.cursors {
		c := &m.cursors[i]
		if c.n > 0 && (m.last < 0 || c.pos < m.cursors[m.last].pos) {
			m.last = i
		}
	}
	if m.last < 0 {
		m.last = 0
		return false
	}
	return true
}
