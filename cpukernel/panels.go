package cpukernel

import (
	"unsafe"

	"weft/dtype"
)

// fillPanels puts keys [from, to) of a head, with zeros behind the real ones, into the panels
// at a place.
func (w *worker) fillPanels(place, kvHead, from, to int) {
	for at := from; at < to; at += w.panel {
		n := min(w.panel, w.Real-at)
		w.fillKeyPanel(unsafe.Add(w.keyPanels(place), at*w.depth*w.elt), kvHead, at, n)
	}
	for col := 0; col < w.width; col += w.panel {
		w.fillValuePanel(unsafe.Add(w.valuePanels(place), (col*w.keys+from*w.panel)*w.elt), kvHead, col, from, to)
	}
}

// keyOffset is where the row of a key begins in k and v, in bytes; keyStride is from one key to the next.
func (r *runner) keyOffset(kvHead, key int) int {
	return ((kvHead/r.KVHeads*r.Keys+key)*r.KVHeads + kvHead%r.KVHeads) * r.HeadDim * r.DType.Size()
}

func (r *runner) keyStride() int { return r.KVHeads * r.HeadDim * r.DType.Size() }

// fillKeyPanel writes n keys from number first on as columns: a row of the panel has one number, or pair of
// bf16, of each key.
func (w *worker) fillKeyPanel(panel unsafe.Pointer, kvHead, first, n int) {
	dst := unsafe.Slice((*uint32)(panel), w.panel*w.depth*w.elt/4)
	perKey := w.HeadDim // dwords
	if w.pairs {
		perKey /= 2
	}
	if n < w.panel {
		clear(dst)
	} else {
		clear(dst[perKey*w.panel:])
	}
	for at := 0; at < n; at += 16 {
		rows := min(16, n-at)
		src, stride := unsafe.Pointer(&w.o.K[w.keyOffset(kvHead, first+at)]), w.keyStride()
		if w.DType == dtype.BF16 && !w.pairs {
			for i := range rows {
				widen(w.wide[i*perKey:][:perKey], halves(unsafe.Add(src, i*stride), perKey))
			}
			src, stride = unsafe.Pointer(&w.wide[0]), perKey*4
		}
		if rows == 16 && w.transpose != nil {
			w.rows = rowsArgs{from: src, fromStride: uintptr(stride), to: unsafe.Pointer(&dst[at]), toStride: uintptr(w.panel * 4), vectors: uintptr(perKey)}
			w.transpose(&w.rows)
			continue
		}
		for i := range rows {
			to := dst[at+i:]
			for d, x := range unsafe.Slice((*uint32)(unsafe.Add(src, i*stride)), perKey) {
				to[d*w.panel] = x
			}
		}
	}
}

// fillValuePanel writes the columns from col on of the values [from, to): in f32 a row for each key, in bf16
// a row of pairs for two keys. Columns behind the head dim and keys behind the real ones are zero.
func (w *worker) fillValuePanel(panel unsafe.Pointer, kvHead, col, from, to int) {
	n, cols := min(to, w.Real)-from, min(w.panel, w.HeadDim-col)
	dst := unsafe.Slice((*uint32)(panel), (to-from)*w.panel*w.elt/4)
	if n < to-from || cols < w.panel {
		clear(dst)
	}
	stride := w.keyStride()
	src := unsafe.Add(unsafe.Pointer(&w.o.V[w.keyOffset(kvHead, from)]), col*w.DType.Size())
	switch {
	case w.pairs:
		w.fillPairs(dst, src, stride, n, cols)
	case w.DType == dtype.BF16:
		wide := unsafe.Slice((*float32)(panel), len(dst))
		for i := range n {
			widen(wide[i*w.panel:][:cols], halves(unsafe.Add(src, i*stride), cols))
		}
	default:
		for i := range n {
			copy(dst[i*w.panel:], unsafe.Slice((*uint32)(unsafe.Add(src, i*stride)), cols))
		}
	}
}

// fillPairs writes n rows of bf16 as rows of pairs.
func (w *worker) fillPairs(dst []uint32, src unsafe.Pointer, stride, n, cols int) {
	done := 0
	if cols%16 == 0 && n > 1 {
		done = n / 2 * 2
		w.rows = rowsArgs{from: src, fromStride: uintptr(stride), to: unsafe.Pointer(&dst[0]), toStride: uintptr(w.panel * 4), rows: uintptr(n / 2), vectors: uintptr(cols / 16)}
		w.pairRows(&w.rows)
	}
	for i := done; i < n; i++ {
		to := dst[i/2*w.panel:][:cols]
		for j, x := range halves(unsafe.Add(src, i*stride), cols) {
			if i%2 == 0 {
				to[j] = uint32(x)
			} else {
				to[j] |= uint32(x) << 16
			}
		}
	}
}

// loadQueries takes n queries from an offset in q on. Rows that fill up the last group are zero.
func (w *worker) loadQueries(offset, n int) {
	stride := w.Heads * w.HeadDim * w.DType.Size()
	clear(w.queries[n*w.depth*w.elt/4:])
	for i := range n {
		src := unsafe.Pointer(&w.o.Q[offset+i*stride])
		row := unsafe.Add(unsafe.Pointer(&w.queries[0]), i*w.depth*w.elt)
		switch {
		case w.DType == dtype.F32:
			to := unsafe.Slice((*float32)(row), w.depth)
			copy(to, unsafe.Slice((*float32)(src), w.HeadDim))
			clear(to[w.HeadDim:])
		case w.pairs:
			to := halves(row, w.depth)
			copy(to, halves(src, w.HeadDim))
			clear(to[w.HeadDim:])
		default:
			to := unsafe.Slice((*float32)(row), w.depth)
			widen(to[:w.HeadDim], halves(src, w.HeadDim))
			clear(to[w.HeadDim:])
		}
	}
}

// storeResult divides the accumulator by the sums and writes n rows of the result.
func (w *worker) storeResult(offset, n int) {
	stride := w.Heads * w.HeadDim * w.DType.Size()
	for i := range n {
		w.factor[i] = 1 / w.sum[i]
	}
	out := unsafe.Pointer(&w.o.Out[offset])
	write := w.scaleRows
	if w.DType == dtype.BF16 {
		write = w.roundRows
	}
	if write != nil && w.HeadDim%w.lanes == 0 {
		w.rows = rowsArgs{from: unsafe.Pointer(&w.acc[0]), fromStride: uintptr(w.width * 4), to: out, toStride: uintptr(stride),
			rows: uintptr(n), vectors: uintptr(w.HeadDim / w.lanes), factor: unsafe.Pointer(&w.factor[0])}
		write(&w.rows)
		return
	}
	for i := range n {
		from, f := w.acc[i*w.width:][:w.HeadDim], w.factor[i]
		if w.DType == dtype.F32 {
			to := unsafe.Slice((*float32)(unsafe.Add(out, i*stride)), w.HeadDim)
			for j, x := range from {
				to[j] = x * f
			}
			continue
		}
		to := halves(unsafe.Add(out, i*stride), w.HeadDim)
		for j, x := range from {
			to[j] = roundToBF16(x * f)
		}
	}
}
