package cogvideox

import "testing"

// Where grids lie in the one of 30 x 45 tokens, by diffusers'
// get_resize_crop_region_for_grid: tall, wide, a half rounded to even, the same.
func TestCrop(t *testing.T) {
	for _, c := range []struct {
		rows, cols int
		want       [4]float64 // top, bottom, left, right
	}{
		{10, 3, [4]float64{0, 30, 18, 27}},
		{3, 10, [4]float64{8, 22, 0, 45}},
		{7, 11, [4]float64{0, 29, 0, 45}},
		{30, 45, [4]float64{0, 30, 0, 45}},
		{1, 1, [4]float64{0, 30, 8, 38}},
	} {
		top, bottom, left, right := fitToBaseGrid(c.rows, c.cols, 30, 45)
		if got := [4]float64{top, bottom, left, right}; got != c.want {
			t.Errorf("%d x %d: %v, want %v", c.rows, c.cols, got, c.want)
		}
	}
}
