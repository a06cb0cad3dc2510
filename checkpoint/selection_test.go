package checkpoint

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"
	"weft/dtype"
)

// drawRanges draws ascending, disjoint ranges in [0,size).
func drawRanges(t *rapid.T, size int) [][2]int {
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return [][2]int{{0, size}}
	}
	var list [][2]int
	at := 0
	for range rapid.IntRange(0, 3).Draw(t, "ranges") {
		lo := rapid.IntRange(at, size).Draw(t, "lo")
		hi := rapid.IntRange(lo, size).Draw(t, "hi")
		list = append(list, [2]int{lo, hi})
		at = hi
	}
	return append([][2]int{}, list...)
}

func drawShape(t *rapid.T) []int {
	return rapid.SliceOfN(rapid.IntRange(0, 6), 0, 5).Draw(t, "shape")
}

// Walking a selection from any position gives exactly the bytes that slicing in memory gives.
func TestSelectionWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := drawShape(t)
		elem := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "elem")
		total := elem
		for _, s := range shape {
			total *= s
		}
		ranges := make([][][2]int, len(shape))
		for d := range ranges {
			ranges[d] = drawRanges(t, shape[d])
		}
		// mark[i] is 1 + the place of byte i in the destination, 0 if it is not selected.
		mark := make([]int, total)
		for i, pos := range positions(shape, elem, ranges) {
			mark[pos] = i + 1
		}
		s := newSelection(shape, elem, ranges)
		count := 0
		for _, m := range mark {
			if m > 0 {
				count++
			}
		}
		if int64(count) != s.bytes {
			t.Fatalf("%d bytes, want %d", s.bytes, count)
		}
		if s.bytes == 0 {
			return
		}
		for _, start := range []int{0, rapid.IntRange(0, total-1).Draw(t, "start")} {
			c := s.newCursor()
			c.seek(int64(start))
			for i := start; i < total; i++ {
				if mark[i] == 0 {
					continue
				}
				if c.n == 0 || c.pos != int64(i) || c.local != int64(mark[i]-1) {
					t.Fatalf("from %d at byte %d: cursor %d (%d left), local %d; want local %d", start, i, c.pos, c.n, c.local, mark[i]-1)
				}
				n := int64(1)
				if c.n > 1 {
					n = int64(rapid.IntRange(1, int(c.n)).Draw(t, "n"))
				}
				for k := range int(n) {
					if mark[i+k] != mark[i]+k {
						t.Fatalf("run at %d is no run at %d", i, i+k)
					}
				}
				c.moveBy(n)
				i += int(n) - 1
			}
			if c.n != 0 {
				t.Fatalf("bytes after the end: at %d", c.pos)
			}
		}
		lo, hi := s.extent()
		for i, m := range mark {
			if m > 0 && (int64(i) < lo || int64(i) >= hi) {
				t.Fatalf("byte %d outside [%d,%d)", i, lo, hi)
			}
		}
	})
}

// positions lists the selected bytes, in the order of the destination.
func positions(shape []int, elem int, ranges [][][2]int) []int {
	total := elem
	for _, s := range shape {
		total *= s
	}
	// cut needs bytes; positions are cut as numbers of four.
	data := make([]byte, 0, 4*total)
	for i := range total {
		data = append(data, byte(i), byte(i>>8), byte(i>>16), byte(i>>24))
	}
	cutBytes := cut(data, append(append([]int{}, shape...), elem), 4, append(append([][][2]int{}, ranges...), nil))
	var out []int
	for i := 0; i < len(cutBytes); i += 4 {
		out = append(out, int(cutBytes[i])|int(cutBytes[i+1])<<8|int(cutBytes[i+2])<<16|int(cutBytes[i+3])<<24)
	}
	return out
}

// Merging keeps runs long: what is contiguous in the file is one run.
func TestSelectionRuns(t *testing.T) {
	for _, test := range []struct {
		name   string
		shape  []int
		ranges [][][2]int
		runs   int64
		dims   int
	}{
		{"whole", []int{4, 3, 5}, [][][2]int{nil, nil, nil}, 1, 1},
		{"rows", []int{4, 3, 5}, [][][2]int{{{1, 3}}, nil, nil}, 1, 1},
		{"columns", []int{4, 3, 5}, [][][2]int{nil, nil, {{1, 3}}}, 12, 2},
		{"middle", []int{4, 3, 5}, [][][2]int{nil, {{1, 3}}, nil}, 4, 2},
		{"rows and columns", []int{4, 3, 5}, [][][2]int{{{1, 3}}, nil, {{1, 3}}}, 6, 2},
		{"rows, middle and columns", []int{4, 3, 5}, [][][2]int{{{1, 3}}, {{0, 2}}, {{1, 3}}}, 4, 3},
		{"fused rows", []int{12, 5}, [][][2]int{{{0, 2}, {4, 6}, {8, 10}}, nil}, 3, 1},
		{"neighbouring rows", []int{12, 5}, [][][2]int{{{0, 2}, {2, 6}, {7, 7}}, nil}, 1, 1},
		{"scalar", nil, nil, 1, 1},
		{"a dim of 1", []int{1, 1, 8}, [][][2]int{{{0, 1}}, {{0, 1}}, {{2, 4}}}, 1, 2},
	} {
		s := newSelection(test.shape, 2, test.ranges)
		if s.countRuns() != test.runs || len(s.dims) != test.dims {
			t.Errorf("%s: %d runs in %d dims, want %d in %d", test.name, s.countRuns(), len(s.dims), test.runs, test.dims)
		}
	}
}

// Rows of fused q, k and v are cut part by part, so that each rank has rows of all three.
func TestFusedRows(t *testing.T) {
	data := f32s(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	c, err := openBytes(t, fileBytes(object(tensorJSON("qkv", "F32", "[12,1]", 0, 48)), data...))
	if err != nil {
		t.Fatal(err)
	}
	dst := [2][]byte{make([]byte, 24), make([]byte, 24)}
	st, err := c.Read(context.Background(), []Part{
		{Name: "qkv", Runs: [][][2]int{{{0, 2}, {4, 6}, {8, 10}}, nil}, Dst: dst[0]},
		{Name: "qkv", Runs: [][][2]int{{{2, 4}, {6, 8}, {10, 12}}, nil}, Slices: [][2]int{{0, 0}, {0, 1}}, Dst: dst[1]},
	}, ReadOptions{})
	if err != nil || st.BytesRead != 48 {
		t.Fatal(st, err)
	}
	for i, want := range [][]float32{{0, 1, 4, 5, 8, 9}, {2, 3, 6, 7, 10, 11}} {
		for k, v := range floats(dst[i]) {
			if v != want[k] {
				t.Errorf("rank %d: %v, want %v", i, floats(dst[i]), want)
				break
			}
		}
	}
}

func TestBadParts(t *testing.T) {
	c, _ := openLargeTensor(t)
	f4, err := openBytes(t, fileBytes(object(tensorJSON("n", "F4", "[8]", 0, 4)), 0, 0, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 32768)
	for _, test := range []struct {
		name string
		c    *Checkpoint
		p    Part
		kind error
	}{
		{"unknown", c, Part{Name: "x", Dst: dst}, ErrMissingTensors},
		{"too few slices", c, Part{Name: "w", Slices: [][2]int{{0, 8}}, Dst: dst}, ErrSlice},
		{"too many slices", c, Part{Name: "w", Slices: [][2]int{{0, 8}, {0, 1024}, {0, 1}}, Dst: dst}, ErrSlice},
		{"past the end", c, Part{Name: "w", Slices: [][2]int{{0, 9}, {0, 1024}}, Dst: dst}, ErrSlice},
		{"negative", c, Part{Name: "w", Slices: [][2]int{{-1, 7}, {0, 1024}}, Dst: dst}, ErrSlice},
		{"reversed", c, Part{Name: "w", Slices: [][2]int{{3, 2}, {0, 1024}}, Dst: dst}, ErrSlice},
		{"rows overlap", c, Part{Name: "w", Runs: [][][2]int{{{0, 4}, {3, 7}}, nil}, Dst: dst}, ErrSlice},
		{"rows out of order", c, Part{Name: "w", Runs: [][][2]int{{{4, 8}, {0, 4}}, nil}, Dst: dst}, ErrSlice},
		{"small destination", c, Part{Name: "w", Dst: dst[:100]}, ErrDestination},
		{"large destination", c, Part{Name: "w", As: dtype.BF16, Dst: dst}, ErrDestination},
		{"float as int", c, Part{Name: "w", As: dtype.I32, Dst: dst}, ErrConversion},
		{"nibbles", f4, Part{Name: "n", Dst: dst[:4]}, ErrDType},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.c.BytesRead()
			_, err := test.c.Read(context.Background(), []Part{test.p}, ReadOptions{})
			if !errors.Is(err, test.kind) {
				t.Errorf("error %v, want %v", err, test.kind)
			}
			if test.c.BytesRead() != before {
				t.Error("data was read")
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		_, err := c.Read(context.Background(), []Part{{Name: "x"}, {Name: "y"}, {Name: "w", Dst: dst[:1]}}, ReadOptions{})
		if !errors.Is(err, ErrMissingTensors) || !errors.Is(err, ErrDestination) {
			t.Error(err)
		}
	})
	t.Run("scalar", func(t *testing.T) {
		s, err := openBytes(t, fileBytes(object(tensorJSON("s", "F32", "[]", 0, 4)), f32s(7)...))
		if err != nil {
			t.Fatal(err)
		}
		if v := loadFloats(t, s, "s", dtype.Invalid); v[0] != 7 {
			t.Error(v)
		}
		if _, err := s.Read(context.Background(), []Part{{Name: "s", Runs: [][][2]int{{{0, 1}}}, Dst: dst[:4]}}, ReadOptions{}); !errors.Is(err, ErrSlice) {
			t.Error(err)
		}
	})
}
