package cpukernel

import (
	"fmt"

	"weft/dtype"
	"weft/fault"
)

// Convolution is one call: x as Frames operands (Batch, 1, Rows, Cols, In), or as one operand (Batch, Frames, Rows, Cols, In)
// where Whole says so; w (Out, In, Taps, KernelRows, KernelCols) and the result (Batch, Frames-Taps+1, R, C, Out) in f32, where
// zeros stand around rows and columns as Before and After say, and R and C are what the kernel makes of them. Each is
// row-major. The kernel is not flipped, and moves by one.
type Convolution struct {
	DType               dtype.DType // of x and w: F32 or BF16
	Batch, Frames       int
	Whole               bool
	Rows, Cols, In, Out int
	Taps                int // frames that the kernel covers
	Kernel              [2]int
	Before, After       [2]int
}

// Result is (Batch, Frames, Rows, Cols, Out) of the result.
func (c Convolution) Result() []int {
	return []int{c.Batch, c.Frames - c.Taps + 1, c.Rows + c.Before[0] + c.After[0] - c.Kernel[0] + 1, c.Cols + c.Before[1] + c.After[1] - c.Kernel[1] + 1, c.Out}
}

func (c Convolution) String() string {
	return fmt.Sprintf("convolution of %v, %d x %d frames of %d x %d, %d to %d channels, kernel %d x %d x %d",
		c.DType, c.Batch, c.Frames, c.Rows, c.Cols, c.In, c.Out, c.Taps, c.Kernel[0], c.Kernel[1])
}

// Check gives every reason why the kernel does not compute the convolution. Error: ErrUnsupported.
func (c Convolution) Check() error {
	var l fault.List
	bad := func(format string, args ...any) { l.Add(fault.New(ErrUnsupported, nil, format, args...)) }
	if c.DType != dtype.F32 && c.DType != dtype.BF16 {
		bad("operands are %v; the kernel takes f32 and bf16", c.DType)
	}
	for _, x := range []struct {
		what string
		n    int
	}{{"batch", c.Batch}, {"frames", c.Frames}, {"rows", c.Rows}, {"columns", c.Cols}, {"input channels", c.In}, {"output channels", c.Out},
		{"frames of the kernel", c.Taps}, {"rows of the kernel", c.Kernel[0]}, {"columns of the kernel", c.Kernel[1]}} {
		if x.n < 1 {
			bad("%d %s; want 1 or more", x.n, x.what)
		}
	}
	if min(c.Before[0], c.Before[1], c.After[0], c.After[1]) < 0 {
		bad("%v zeros before and %v after; want none or more", c.Before, c.After)
	}
	if l.Err() == nil {
		if out := c.Result(); min(out[1], out[2], out[3]) < 1 {
			bad("a kernel of %d x %v on %d frames of %d x %d; it has to fit", c.Taps, c.Kernel, c.Frames, c.Rows, c.Cols)
		}
	}
	return l.Err()
}

// tiling is how a convolution is cut. A task is a tile of the result: some rows and columns of pixels.
type tiling struct {
	levelRoutines routines
	elt           int // bytes of a number in tile and panels
	depth         int // In, padded
	panels        []panel
	tileRows      int // of the result
	tileCols      int // a multiple of rowGroup
	chunk         int // numbers of a run of the tile that are multiplied at a time
}

// panel is some columns of the result, and the routine that computes so many.
type panel struct {
	from, width int // width counts columns that only fill it up
	matmul      func(*matmulArgs)
}

// The sizes that tiles are kept near: the input of a tile with its edges and its result fit into a second-level
// cache of half a megabyte, a chunk of a panel into a first-level one of 32 KB.
const (
	wantTileBytes  = 256 << 10
	wantChunkBytes = 28 << 10
	wantTileCols   = 48
	mostTileRows   = 8
)

// cut chooses the sizes for a level.
func (c Convolution) cut(level Level) tiling {
	r := routinesOf(level, c.DType)
	t := tiling{levelRoutines: r, elt: 4}
	unit := 4 // numbers of a run that the routines take at a time
	if r.pairs {
		t.elt = 2
		if r.tiles {
			unit = 32
		}
	}
	t.depth = roundUp(c.In, 4)
	for c.Kernel[1]*t.depth%unit != 0 {
		t.depth += 4
	}
	out := c.Result()
	t.panels = cutColumns(c.Out, r)
	t.tileCols = evenly(out[3], wantTileCols, r.rowGroup)
	t.tileRows = min(mostTileRows, out[2])
	for t.inputBytes(c) > wantTileBytes && (t.tileRows > 1 || t.tileCols > r.rowGroup) {
		if t.tileCols > max(r.rowGroup, 4*t.tileRows) || t.tileRows == 1 {
			t.tileCols -= r.rowGroup
		} else {
			t.tileRows--
		}
	}
	run, widest := c.Kernel[1]*t.depth, t.panels[0].width
	t.chunk = evenly(run, max(unit, wantChunkBytes/(widest*t.elt)), unit)
	return t
}

// inputBytes is the memory of a frame's part that a tile reads.
func (t tiling) inputBytes(c Convolution) int {
	return (t.tileRows + c.Kernel[0] - 1) * (t.tileCols + c.Kernel[1] - 1) * t.depth * t.elt
}

// cutColumns cuts output channels into panels, with as few columns to fill up as the widths allow.
func cutColumns(n int, r routines) []panel {
	widths := r.widths
	best := widths[0]
	for _, w := range widths { // one width for all, where it divides and is not narrow
		if n%w.width == 0 && 2*w.width > widths[0].width {
			best = w
			break
		}
	}
	var out []panel
	for from := 0; from < n; {
		w := best
		for _, narrow := range widths {
			if narrow.width >= n-from && narrow.width < w.width {
				w = narrow
			}
		}
		out = append(out, panel{from, w.width, w.matmul})
		from += w.width
	}
	return out
}
