package lora

import (
	"context"
	"sync"

	"weft/checkpoint"
	"weft/dtype"
)

// delta is what one module of a file adds to rows of a parameter.
type delta struct {
	f    *file
	at   place
	rank int // 0 for a whole difference
	// scale multiplies the product or the difference; the caller's is in it.
	scale float32
	down  string // keys
	up    string // of a product; else of the difference
}

// flops is what the product takes for all rows.
func (d *delta) flops() int64 { return 2 * int64(d.rank) * int64(d.at.rows) * int64(d.at.columns()) }

// deltasOf makes the deltas of a module.
func deltasOf(f *file, m *module, at, bias []place) []*delta {
	var out []*delta
	scale := func(of float64) float32 { return float32(of * f.asked.Scale) }
	for _, p := range at {
		if m.keys[up] != "" {
			out = append(out, &delta{f, p, m.rank, scale(m.scale), m.keys[down], m.keys[up]})
		}
		if m.keys[diff] != "" {
			out = append(out, &delta{f, p, 0, scale(1), "", m.keys[diff]})
		}
	}
	for _, p := range bias {
		if m.keys[upBias] != "" {
			out = append(out, &delta{f, p, 0, scale(m.scale), "", m.keys[upBias]})
		}
		if m.keys[diffBias] != "" {
			out = append(out, &delta{f, p, 0, scale(1), "", m.keys[diffBias]})
		}
	}
	return out
}

// addend is what all files add to a stored tensor.
type addend struct {
	set    *Set
	deltas []*delta
	row    int // of the parameter, that row 0 of the stored tensor is
}

// tileColumns is how many columns of a row are computed together: the rows of down that they need
// stay in a core's cache from one row to the next.
const tileColumns = 1024

// AddTo adds the deltas to elements of the stored tensor, in the order of the files.
func (a *addend) AddTo(values []float32, at int64) error {
	for _, d := range a.deltas {
		if err := d.addTo(&a.set.factors, values, at+int64(a.row)*int64(d.at.columns())); err != nil {
			return err
		}
	}
	return nil
}

// addTo adds a delta to elements of its parameter, from the one with index at on.
func (d *delta) addTo(c *factorCache, values []float32, at int64) error {
	columns := int64(d.at.columns())
	lo, hi := max(at, int64(d.at.row)*columns), min(at+int64(len(values)), int64(d.at.row+d.at.rows)*columns)
	if lo >= hi {
		return nil
	}
	values = values[lo-at : hi-at]
	// From here on, indices are those of the module's own tensors.
	first := lo + int64(d.at.from-d.at.row)*columns
	if d.rank == 0 {
		return d.addDifference(values, first, columns)
	}
	f, err := c.load(d)
	if err != nil {
		return err
	}
	f.addProduct(values, first, columns, d.scale)
	return nil
}

// addDifference reads the rows of the difference that have the elements, and adds these.
func (d *delta) addDifference(values []float32, first, columns int64) error {
	lo, hi := first/columns, (first+int64(len(values))+columns-1)/columns
	e, _ := d.f.c.Lookup(d.up)
	slices := make([][2]int, len(e.Shape))
	for i, n := range e.Shape {
		slices[i] = [2]int{0, n}
	}
	slices[0] = [2]int{int(lo), int(hi)}
	rows := make([]byte, (hi-lo)*columns*4)
	part := checkpoint.Part{Name: d.up, Slices: slices, As: dtype.F32, Dst: rows}
	if _, err := d.f.c.Read(context.Background(), []checkpoint.Part{part}, checkpoint.ReadOptions{Workers: 1}); err != nil {
		return err
	}
	differences := float32sOf(rows)[first-lo*columns:]
	for i := range values {
		values[i] += d.scale * differences[i]
	}
	return nil
}

// factors are the two matrices of a module.
type factors struct {
	rank     int
	down, up []float32
}

// sumBuffers hold the products of a tile of a row.
var sumBuffers = sync.Pool{New: func() any { return new([tileColumns]float32) }}

// addProduct adds scale * up @ down to elements of the matrix, from the one with index first on.
func (f *factors) addProduct(values []float32, first, columns int64, scale float32) {
	sums := sumBuffers.Get().(*[tileColumns]float32)
	defer sumBuffers.Put(sums)
	end := first + int64(len(values))
	for tile := int64(0); tile < columns; tile += tileColumns {
		for row := first / columns; row*columns < end; row++ {
			lo := max(row*columns+tile, first)
			hi := min(row*columns+min(tile+tileColumns, columns), end)
			if lo >= hi {
				continue
			}
			sum := sums[:hi-lo]
			clear(sum)
			f.sumRanks(sum, row, lo-row*columns, columns)
			part := values[lo-first : hi-first]
			for i, v := range sum {
				part[i] += scale * v
			}
		}
	}
}

// sumRanks adds up[row] @ down to sum, for the columns from the given one on. Ranks are added in their
// order, whatever part of a row is asked for.
func (f *factors) sumRanks(sum []float32, row, column, columns int64) {
	up := f.up[row*int64(f.rank) : (row+1)*int64(f.rank)]
	at := func(k int) []float32 {
		return f.down[int64(k)*columns+column:][:len(sum)]
	}
	k := 0
	for ; k+4 <= f.rank; k += 4 {
		d0, d1, d2, d3 := at(k), at(k+1), at(k+2), at(k+3)
		u0, u1, u2, u3 := up[k], up[k+1], up[k+2], up[k+3]
		for i := range sum {
			sum[i] = sum[i] + u0*d0[i] + u1*d1[i] + u2*d2[i] + u3*d3[i]
		}
	}
	for ; k < f.rank; k++ {
		d, u := at(k), up[k]
		for i := range sum {
			sum[i] += u * d[i]
		}
	}
}
