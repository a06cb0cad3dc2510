package cpukernel

import (
	"unsafe"

	"weft/dtype"
	"weft/fault"
)

// ConvOperands is the memory of a call of a convolution: X has one operand, or one for each frame.
type ConvOperands struct {
	X   [][]byte
	W   []byte
	Out []byte
}

// Run computes a convolution at the best level of this processor, on Workers goroutines. Errors: ErrUnsupported,
// ErrOperand.
func (c Convolution) Run(o ConvOperands) error { return c.RunAt(Best(c.DType), o) }

// RunAt is Run at a level of Levels.
func (c Convolution) RunAt(level Level, o ConvOperands) error {
	if err := c.Check(); err != nil {
		return err
	}
	if err := checkLevel(level); err != nil {
		return err
	}
	if err := c.checkOperands(o); err != nil {
		return err
	}
	r := &convolver{Convolution: c, tiling: c.cut(level), o: o, result: c.Result()}
	r.compute(Workers())
	return nil
}

// checkOperands holds the memory of operands and result against their shapes. Error: ErrOperand.
func (c Convolution) checkOperands(o ConvOperands) error {
	var l fault.List
	check := func(what string, have, want int) {
		if have != want {
			l.Add(fault.New(ErrOperand, nil, "%s has %d bytes, and %v needs %d", what, have, c, want))
		}
	}
	size, parts := c.DType.Size(), c.Frames
	if c.Whole {
		parts = 1
	}
	if len(o.X) != parts {
		return fault.New(ErrOperand, nil, "%d operands of frames; %v needs %d", len(o.X), c, parts)
	}
	for _, x := range o.X {
		check("x", len(x), c.Batch*c.Frames/parts*c.Rows*c.Cols*c.In*size)
	}
	check("w", len(o.W), c.Out*c.In*c.Taps*c.Kernel[0]*c.Kernel[1]*size)
	out := 4
	for _, n := range c.Result() {
		out *= n
	}
	check("result", len(o.Out), out)
	return l.Err()
}

// convolver computes one call.
type convolver struct {
	Convolution
	tiling
	o      ConvOperands
	result []int
	packed []float32 // the weights, panel by panel
	ones   []float32 // a factor of 1 for each row of a tile
}

// panelBytes is the memory of a panel's weights for one row of one frame of the kernel.
func (c *convolver) panelBytes(p panel) int { return c.Kernel[1] * c.depth * p.width * c.elt }

// compute packs the weights and then computes tile by tile.
func (c *convolver) compute(workers int) {
	columns := c.panels[len(c.panels)-1].from + c.panels[len(c.panels)-1].width
	weights := roundUp(c.Taps*c.Kernel[0]*c.Kernel[1]*c.depth*columns*c.elt/4, 16)
	input := roundUp(c.inputBytes(c.Convolution)/4, 16)
	sums := c.tileRows * c.tileCols * columns
	ones := roundUp(c.tileCols, 16)
	m := takeMemory(weights + ones + workers*(input+sums))
	defer giveMemory(m)
	left := m.floats
	take := func(n int) []float32 {
		part := left[:n:n]
		left = left[n:]
		return part
	}
	c.packed, c.ones = take(weights), take(ones)
	fill(c.ones, 1)
	states := make([]*tileWorker, workers)
	for i := range states {
		states[i] = &tileWorker{convolver: c, input: take(input), sums: take(sums)}
	}
	taps := c.Taps * c.Kernel[0]
	inParallel(states, len(c.panels)*taps, func(w *tileWorker, i int) { w.pack(c.panels[i/taps], i%taps) })
	down, across := (c.result[2]+c.tileRows-1)/c.tileRows, (c.result[3]+c.tileCols-1)/c.tileCols
	inParallel(states, c.Batch*c.result[1]*down*across, func(w *tileWorker, i int) {
		picture, tile := i/(down*across), i%(down*across)
		w.computeTile(picture/c.result[1], picture%c.result[1], tile/across*c.tileRows, tile%across*c.tileCols)
	})
}

// weightsAt are a panel's weights for one row of one frame of the kernel: tap counts these.
func (c *convolver) weightsAt(p panel, tap int) unsafe.Pointer {
	all := c.Taps * c.Kernel[0]
	return unsafe.Add(unsafe.Pointer(&c.packed[0]), all*c.Kernel[1]*c.depth*c.elt*p.from+tap*c.panelBytes(p))
}

// tileWorker is the memory of one goroutine.
type tileWorker struct {
	*convolver
	input, sums []float32
	mm          matmulArgs
}

// pack writes a panel's weights for one row of one frame of the kernel: a row for each number of a run of
// the input, or for each pair, with a column for each output channel.
func (w *tileWorker) pack(p panel, tap int) {
	cols := min(p.width, w.Out-p.from)
	places := w.Taps * w.Kernel[0] * w.Kernel[1] // of the kernel, for each pair of channels
	to := w.weightsAt(p, tap)
	if w.elt == 4 {
		dst := unsafe.Slice((*float32)(to), w.panelBytes(p)/4)
		clear(dst)
		for o := range cols {
			for k := range w.Kernel[1] {
				from := (p.from+o)*w.In*places + tap*w.Kernel[1] + k
				for i := range w.In {
					dst[(k*w.depth+i)*p.width+o] = w.weight(from + i*places)
				}
			}
		}
		return
	}
	dst := halves(to, w.panelBytes(p)/2)
	clear(dst)
	src := halves(unsafe.Pointer(&w.o.W[0]), len(w.o.W)/2)
	for o := range cols {
		for k := range w.Kernel[1] {
			from := (p.from+o)*w.In*places + tap*w.Kernel[1] + k
			for i := range w.In {
				at := k*w.depth + i
				dst[(at/2*p.width+o)*2+at%2] = src[from+i*places]
			}
		}
	}
}

// weight is a number of w as f32.
func (w *tileWorker) weight(at int) float32 {
	if w.DType == dtype.F32 {
		return *(*float32)(unsafe.Pointer(&w.o.W[4*at]))
	}
	var wide [1]float32
	widen(wide[:], halves(unsafe.Pointer(&w.o.W[2*at]), 1))
	return wide[0]
}

// computeTile computes the tile that begins at a row and a column of one frame of the result.
func (w *tileWorker) computeTile(batch, frame, row, col int) {
	rows, cols := min(w.tileRows, w.result[2]-row), min(w.tileCols, w.result[3]-col)
	groups := (cols + w.levelRoutines.rowGroup - 1) / w.levelRoutines.rowGroup
	inputRow := (w.tileCols + w.Kernel[1] - 1) * w.depth * w.elt
	run := w.Kernel[1] * w.depth
	for t := range w.Taps {
		w.loadInput(batch, frame+t, row, col, rows+w.Kernel[0]-1)
		for _, p := range w.panels {
			for k := range w.Kernel[0] {
				weights := w.weightsAt(p, t*w.Kernel[0]+k)
				for at := 0; at < run; at += w.chunk {
					n := min(w.chunk, run-at)
					for r := range rows {
						w.mm = matmulArgs{c: w.sumsAt(p, r), ldc: uintptr(p.width * 4),
							a: unsafe.Add(unsafe.Pointer(&w.input[0]), (r+k)*inputRow+at*w.elt), lda: uintptr(w.depth * w.elt),
							b: unsafe.Add(weights, at*p.width*w.elt), steps: uintptr(n * w.elt / 4), groups: uintptr(groups), panels: 1}
						if t > 0 || k > 0 || at > 0 {
							w.mm.factor = unsafe.Pointer(&w.ones[0])
						}
						p.matmul(&w.mm)
					}
				}
			}
		}
	}
	w.storeTile(batch, frame, row, col, rows, cols)
}

// sumsAt is the memory of a panel's sums of a row of the tile: a row for each pixel.
func (w *tileWorker) sumsAt(p panel, row int) unsafe.Pointer {
	return unsafe.Pointer(&w.sums[w.tileRows*w.tileCols*p.from+row*w.tileCols*p.width])
}

// loadInput copies what a tile reads of a frame, rows from the one above row row on, with zeros beyond the edges.
func (w *tileWorker) loadInput(batch, frame, row, col, rows int) {
	x := w.o.X[0]
	picture := batch*w.Frames + frame
	if !w.Whole {
		x, picture = w.o.X[frame], batch
	}
	size := w.DType.Size()
	width := w.tileCols + w.Kernel[1] - 1
	first := col - w.Before[1]
	lo, hi := max(0, -first), min(width, w.Cols-first) // columns of the tile that lie in the picture
	for r := range rows {
		to := unsafe.Add(unsafe.Pointer(&w.input[0]), r*width*w.depth*w.elt)
		line := row - w.Before[0] + r
		if line < 0 || line >= w.Rows || hi <= lo {
			clear(unsafe.Slice((*byte)(to), width*w.depth*w.elt))
			continue
		}
		clear(unsafe.Slice((*byte)(to), lo*w.depth*w.elt))
		clear(unsafe.Slice((*byte)(unsafe.Add(to, hi*w.depth*w.elt)), (width-hi)*w.depth*w.elt))
		src := x[((picture*w.Rows+line)*w.Cols+first+lo)*w.In*size:][:(hi-lo)*w.In*size]
		w.loadPixels(unsafe.Add(to, lo*w.depth*w.elt), src, hi-lo)
	}
}

// loadPixels copies n pixels, each padded to depth numbers, and widens them where the level wants f32.
func (w *tileWorker) loadPixels(to unsafe.Pointer, src []byte, n int) {
	size := w.DType.Size()
	if w.elt == size && w.depth == w.In {
		copy(unsafe.Slice((*byte)(to), len(src)), src)
		return
	}
	for i := range n {
		pixel := src[i*w.In*size:][:w.In*size]
		dst := unsafe.Add(to, i*w.depth*w.elt)
		if w.elt == size {
			copy(unsafe.Slice((*byte)(dst), len(pixel)), pixel)
		} else {
			widen(unsafe.Slice((*float32)(dst), w.In), halves(unsafe.Pointer(&pixel[0]), w.In))
		}
		clear(unsafe.Slice((*byte)(unsafe.Add(dst, w.In*w.elt)), (w.depth-w.In)*w.elt))
	}
}

// storeTile writes a tile's sums into the result.
func (w *tileWorker) storeTile(batch, frame, row, col, rows, cols int) {
	out := floatsOf(w.o.Out)
	for r := range rows {
		at := (((batch*w.result[1]+frame)*w.result[2]+row+r)*w.result[3] + col) * w.Out
		for _, p := range w.panels {
			n := min(p.width, w.Out-p.from)
			from := unsafe.Slice((*float32)(w.sumsAt(p, r)), cols*p.width)
			for i := range cols {
				copy(out[at+i*w.Out+p.from:][:n], from[i*p.width:])
			}
		}
	}
}
