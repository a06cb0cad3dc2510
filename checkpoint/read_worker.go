package checkpoint

import "context"

const (
	// bufferBytes fits a core's second-level cache beside the code that empties it.
	bufferBytes = 256 << 10
	// maxPieces bounds the runs handled at once; the kernel takes 1024 in one read.
	maxPieces = 1024
	// copyBytes bounds a read whose bytes are then copied to replicas, so that they
	// are still in the cache.
	copyBytes = 256 << 10
	// readBytes bounds any single read, so that a cancelled context is seen soon.
	readBytes = 1 << 20
)

// piece is a run of selected bytes of one target, inside one read.
type piece struct {
	target *target
	pos    int64 // in the tensor
	n      int64
	local  int64 // in the target's selected bytes
	next   int   // the target's next piece, -1 at its last
}

// worker reads chunks, one at a time. Its buffers are all the memory that a Read
// uses beside the destinations: 400 KB, and 2 MB at most where it converts a tensor
// that is not row-major.
type worker struct {
	ctx     context.Context
	reading *reading
	buf     []byte
	tmp     []byte // a converted piece, before it is scattered
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
		if err != nil {
			return err
		}
	}
}

// gatherPieces collects the next pieces that one read can serve: no gap between them
// beyond the job's bridge, and no more than a read's share.
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

// readScattered reads straight into the destinations.
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

// linkPieces links the pieces of each target, so that a destination is written from one
// end to the other and not a few bytes at a time by turns with all the others.
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

// placePiece puts the bytes of a piece where they belong, converted if need be.
func (w *worker) placePiece(p *piece, src []byte) error {
	t := p.target
	if t.scatter != nil {
		return w.scatterPiece(p, src)
	}
	lo, hi := t.localOffset(p.local), t.localOffset(p.local+p.n)
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

// scatterPiece is place for a tensor whose order in the file is another.
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

// merge walks the cursors of a chunk's targets in the order of the file.
type merge struct {
	cursors  []targetCursor
	hi       int64
	disjoint bool  // from the job
	last     int   // the cursor given last
	end      int64 // where what was taken of it ended
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
// caller takes from it.
func (m *merge) nextCursor() *targetCursor {
	if len(m.cursors) == 0 {
		return nil
	}
	k := m.last + 1
	if k == len(m.cursors) {
		k = 0
	}
	// In a column split the shards take turns: where targets share no byte and the
	// one after the last begins where that ended, nothing begins earlier.
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

// findFirst sets last to the cursor with the smallest position; it is false if all are at their end.
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
