package cogvideox

import (
	"math"

	"weft/dtype"
	"weft/models/step"
	"weft/tensor"
)

// fitToBaseGrid scales a grid of rows x cols tokens until it just fits into a base
// grid, centres it there, and returns which rows and columns of the base grid it
// covers. It repeats the reference's get_resize_crop_region_for_grid, which rounds
// halves to even.
func fitToBaseGrid(rows, cols, baseRows, baseCols int) (top, bottom, left, right float64) {
	h, w := float64(baseRows), float64(baseCols)
	if float64(rows)/float64(cols) > h/w {
		w = math.RoundToEven(h / float64(rows) * float64(cols))
	} else {
		h = math.RoundToEven(w / float64(cols) * float64(rows))
	}
	top = math.RoundToEven((float64(baseRows) - h) / 2)
	left = math.RoundToEven((float64(baseCols) - w) / 2)
	return top, top + h, left, left + w
}

// evenPositions returns n evenly spaced positions from start to stop*(n-1)/n.
func evenPositions(start, stop float64, n int) []float64 {
	out := make([]float64, n)
	last := stop * float64(n-1) / float64(n)
	for i := range out {
		out[i] = start
		if n > 1 {
			out[i] += (last - start) * float64(i) / float64(n-1)
		}
	}
	return out
}

// wholePositions returns 0, 1 and so on up to n-1.
func wholePositions(n int) []float64 { return evenPositions(0, float64(n), n) }

// rotaryPositions returns the positions of frames, rows and columns for the rotary
// tables. They are whole numbers for 1.5 (diffusers' grid_type "slice"). For 1.0, rows
// and columns are spaced evenly over the part of the sample_height x sample_width
// grid that the video's grid is fitted to ("linspace").
func (c Config) rotaryPositions(g step.Grid) [3][]float64 {
	if c.PatchT > 0 {
		return [3][]float64{wholePositions(g.Frames), wholePositions(g.Rows), wholePositions(g.Cols)}
	}
	most := c.sampleGrid()
	top, bottom, left, right := fitToBaseGrid(g.Rows, g.Cols, most.Rows, most.Cols)
	return [3][]float64{wholePositions(g.Frames), evenPositions(top, bottom, g.Rows), evenPositions(left, right, g.Cols)}
}

// visitTokens calls f for every token with its indices of frame, row and column.
func visitTokens(at [3][]float64, f func(token int, place [3]int)) {
	n := 0
	for i := range at[0] {
		for j := range at[1] {
			for k := range at[2] {
				f(n, [3]int{i, j, k})
				n++
			}
		}
	}
}

// rotaryTables returns the cosines and signed sines of the tokens (padded, d), each
// angle twice. Of a head's channels, 1/4 rotate by the frame, 3/8 by the row and 3/8
// by the column, each with frequencies 10000^(-2i/n) over its own n channels.
func (c Config) rotaryTables(g step.Grid, padded int) (cos, sin *tensor.Tensor) {
	d := c.HeadDim
	angles := step.Angles(c.rotaryPositions(g), [3]int{d / 4, d / 8 * 3, d / 8 * 3}, [3]float64{10000, 10000, 10000})
	return step.RotaryPairs(angles, padded, d)
}

// sinCosTable returns 2B's positions (padded, D), which are added to the tokens. A
// fourth of the channels encodes the frame, the next three eighths the column and
// the last three eighths the row. Sines stand before cosines in each.
func (c Config) sinCosTable(g step.Grid, padded int) *tensor.Tensor {
	d := c.Dim()
	out := tensor.New(dtype.F32, padded, d)
	parts := []struct {
		axis, width int
		scale       float64
	}{{0, d / 4, c.TimeScale}, {2, 3 * d / 8, c.SpatialScale}, {1, 3 * d / 8, c.SpatialScale}}
	at := [3][]float64{wholePositions(g.Frames), wholePositions(g.Rows), wholePositions(g.Cols)}
	rowsOf := make([][][]float64, len(parts)) // by part and place
	for p, part := range parts {
		half := part.width / 2
		for _, pos := range at[part.axis] {
			row := make([]float64, part.width)
			for i := range half {
				a := pos / part.scale * math.Pow(10000, -float64(i)/float64(half))
				row[i], row[half+i] = math.Sin(a), math.Cos(a)
			}
			rowsOf[p] = append(rowsOf[p], row)
		}
	}
	visitTokens(at, func(token int, place [3]int) {
		to := token * d
		for p, part := range parts {
			for _, v := range rowsOf[p][place[part.axis]] {
				step.Put(out, to, v)
				to++
			}
		}
	})
	return out
}
