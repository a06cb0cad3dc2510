package denoise

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/models"
	"weft/tensor"
)

func idsOf(numbers []int32, shape ...int) *tensor.Tensor {
	t := tensor.New(dtype.I32, shape...)
	for i, n := range numbers {
		binary.LittleEndian.PutUint32(t.Data[4*i:], uint32(n))
	}
	return t
}

// Two texts of any lengths become one batch, the negative first: each text's rows are
// there, and behind the shorter one's end are zeros or, for ids, -1.
func TestJoinedTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		videos := rapid.IntRange(1, 3).Draw(t, "videos")
		lengths := [2]int{rapid.IntRange(1, 5).Draw(t, "negative"), rapid.IntRange(1, 5).Draw(t, "text")}
		rows, dim := max(lengths[0], lengths[1]), rapid.IntRange(1, 4).Draw(t, "dim")
		var texts, ids [2]*tensor.Tensor
		for i, n := range lengths {
			fs, numbers := make([]float32, videos*n*dim), make([]int32, videos*n)
			for k := range fs {
				fs[k] = float32(100*i + k + 1)
			}
			for k := range numbers {
				numbers[k] = int32(100*i + k + 1)
			}
			var err error
			if texts[i], err = tensor.FromFloat32s(dtype.F32, fs, videos, n, dim); err != nil {
				t.Fatal(err)
			}
			ids[i] = idsOf(numbers, videos, n)
		}
		joined, err := joinTexts(texts[0], texts[1], rows)
		if err != nil || len(joined) != 1 || !slices.Equal(joined[0].Shape, []int{2 * videos, rows, dim}) {
			t.Fatalf("%v: %v", joined, err)
		}
		joinedIDs, err := joinTexts(ids[0], ids[1], rows)
		if err != nil || len(joinedIDs) != 1 || !slices.Equal(joinedIDs[0].Shape, []int{2 * videos, rows}) {
			t.Fatalf("%v: %v", joinedIDs, err)
		}
		fs, err := joined[0].Float32s()
		if err != nil {
			t.Fatal(err)
		}
		numbers, err := joinedIDs[0].Int64s()
		if err != nil {
			t.Fatal(err)
		}
		for b := range 2 * videos {
			of, video, n := b/videos, b%videos, lengths[b/videos]
			for r := range rows {
				id := int64(-1)
				if r < n {
					id = int64(100*of + video*n + r + 1)
				}
				if got := numbers[b*rows+r]; got != id {
					t.Errorf("id %d of video %d is %d, want %d", r, b, got, id)
				}
				for c := range dim {
					want := float32(0)
					if r < n {
						want = float32(100*of + (video*n+r)*dim + c + 1)
					}
					if got := fs[(b*rows+r)*dim+c]; got != want {
						t.Errorf("row %d of video %d has %g in channel %d, want %g", r, b, got, c, want)
					}
				}
			}
		}
		if padded := isPadded(joinedIDs[0], rows); padded != (lengths[0] != lengths[1]) {
			t.Errorf("ids of %v rows: padded is %v", lengths, padded)
		}
	})
}

// A text without a batch dim gets one, and what is no text is refused.
func TestBatchedTexts(t *testing.T) {
	wide := tensor.New(dtype.I64, 2)
	binary.LittleEndian.PutUint64(wide.Data, math.MaxInt32+1)
	for _, c := range []struct {
		of    func(*tensor.Tensor, string) (*tensor.Tensor, error)
		text  *tensor.Tensor
		shape []int // nil: refused
	}{
		{batchedRows, tensor.New(dtype.BF16, 3, 4), []int{1, 3, 4}},
		{batchedRows, tensor.New(dtype.F32, 2, 3, 4), []int{2, 3, 4}},
		{batchedRows, tensor.New(dtype.F32, 4), nil},
		{batchedRows, tensor.New(dtype.F32, 0, 4), nil},
		{batchedRows, tensor.New(dtype.I32, 3, 4), nil},
		{batchedRows, nil, nil},
		{batchedIDs, tensor.New(dtype.I64, 3), []int{1, 3}},
		{batchedIDs, tensor.New(dtype.I32, 2, 3), []int{2, 3}},
		{batchedIDs, tensor.New(dtype.I32, 2, 3, 4), nil},
		{batchedIDs, tensor.New(dtype.F32, 2, 3), nil},
		{batchedIDs, wide, nil},
		{batchedIDs, nil, nil},
	} {
		got, err := c.of(c.text, "context")
		if c.shape == nil {
			if !errors.Is(err, models.ErrInputs) {
				t.Errorf("%v: %v", c.text, err)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Shape, c.shape) {
			t.Errorf("%v becomes %v: %v", c.text, got, err)
		}
	}
}
