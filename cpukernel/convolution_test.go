package cpukernel

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
)

// convProblem is a convolution with its operands as numbers that its type can hold.
type convProblem struct {
	Convolution
	x, w []float32
}

func newConvProblem(c Convolution, seed uint64) convProblem {
	r := rand.New(rand.NewPCG(seed, 9))
	random := func(n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(r.NormFloat64())
			if c.DType == dtype.BF16 {
				out[i] = math.Float32frombits(uint32(roundToBF16(out[i])) << 16)
			}
		}
		return out
	}
	return convProblem{c, random(c.Batch * c.Frames * c.Rows * c.Cols * c.In), random(c.Out * c.In * c.Taps * c.Kernel[0] * c.Kernel[1])}
}

// solve runs the kernel at a level, with frames as one operand or as one each.
func (p convProblem) solve(t failer, level Level) []float32 {
	t.Helper()
	as := problem{Attention: Attention{DType: p.DType}}
	o := ConvOperands{X: [][]byte{as.bytes(p.x)}, W: as.bytes(p.w)}
	n := 1
	for _, d := range p.Result() {
		n *= d
	}
	if !p.Whole { // (B, T, ...) to T operands of (B, 1, ...)
		frame := p.Rows * p.Cols * p.In
		o.X = nil
		for f := range p.Frames {
			var part []float32
			for b := range p.Batch {
				part = append(part, p.x[(b*p.Frames+f)*frame:][:frame]...)
			}
			o.X = append(o.X, as.bytes(part))
		}
	}
	out := make([]float32, n)
	fill(out, float32(math.NaN()))
	o.Out = asBytes(out)
	if err := p.RunAt(level, o); err != nil {
		t.Fatalf("%v at %v: %v", p.Convolution, level, err)
	}
	return out
}

// reference computes a convolution as its definition says, in f64.
func (p convProblem) reference() []float64 {
	var out []float64
	size := p.Result()
	for b := range p.Batch {
		for f := range size[1] {
			for y := range size[2] {
				for x := range size[3] {
					for o := range p.Out {
						out = append(out, p.sum(b, f, y, x, o))
					}
				}
			}
		}
	}
	return out
}

func (p convProblem) sum(b, f, y, x, o int) (sum float64) {
	for t := range p.Taps {
		for ky := range p.Kernel[0] {
			for kx := range p.Kernel[1] {
				row, col := y+ky-p.Before[0], x+kx-p.Before[1]
				if row < 0 || row >= p.Rows || col < 0 || col >= p.Cols {
					continue
				}
				pixel := p.x[(((b*p.Frames+f+t)*p.Rows+row)*p.Cols+col)*p.In:]
				for i := range p.In {
					sum += float64(pixel[i]) * float64(p.w[(((o*p.In+i)*p.Taps+t)*p.Kernel[0]+ky)*p.Kernel[1]+kx])
				}
			}
		}
	}
	return sum
}

// check compares a level's result with the reference: sums run in f32 whatever the operands are.
func (p convProblem) check(t failer, level Level, want []float64) {
	t.Helper()
	have := p.solve(t, level)
	terms := float64(p.In * p.Taps * p.Kernel[0] * p.Kernel[1])
	for i, w := range want {
		if d := math.Abs(float64(have[i]) - w); !(d <= 1e-6*math.Sqrt(terms)*(4+math.Abs(w))) {
			t.Errorf("%v at %v: number %d is %g, want %g", p.Convolution, level, i, have[i], w)
			return
		}
	}
}

func TestConvolutionAgainstReference(t *testing.T) {
	needKernel(t)
	same := [2]int{1, 1}
	for _, c := range []Convolution{
		{Batch: 1, Frames: 1, Rows: 1, Cols: 1, In: 1, Out: 1, Taps: 1, Kernel: [2]int{1, 1}},
		{Batch: 1, Frames: 3, Rows: 9, Cols: 13, In: 16, Out: 48, Taps: 3, Kernel: [2]int{3, 3}, Before: same, After: same},
		{Batch: 2, Frames: 3, Rows: 5, Cols: 50, In: 96, Out: 96, Taps: 3, Kernel: [2]int{3, 3}, Before: same, After: same},
		{Batch: 2, Frames: 4, Rows: 7, Cols: 49, In: 6, Out: 130, Taps: 2, Kernel: [2]int{3, 1}, Before: [2]int{2, 0}, After: [2]int{0, 0}},
		{Batch: 1, Frames: 1, Rows: 20, Cols: 97, In: 3, Out: 3, Taps: 1, Kernel: [2]int{3, 3}, Before: same, After: same},
		{Batch: 1, Frames: 3, Rows: 10, Cols: 8, In: 200, Out: 70, Taps: 3, Kernel: [2]int{1, 1}},
		{Batch: 1, Frames: 1, Rows: 6, Cols: 40, In: 40, Out: 24, Taps: 1, Kernel: [2]int{5, 5}, Before: [2]int{2, 1}, After: [2]int{1, 3}},
	} {
		for _, c.DType = range []dtype.DType{dtype.F32, dtype.BF16} {
			for _, c.Whole = range []bool{false, true} {
				p := newConvProblem(c, 1)
				want := p.reference()
				for _, level := range Levels() {
					p.check(t, level, want)
				}
			}
		}
	}
}

func TestConvolutionOfAnyShape(t *testing.T) {
	needKernel(t)
	rapid.Check(t, func(t *rapid.T) {
		n := func(lo, hi int, what string) int { return rapid.IntRange(lo, hi).Draw(t, what) }
		c := Convolution{DType: rapid.SampledFrom([]dtype.DType{dtype.F32, dtype.BF16}).Draw(t, "type"), Batch: n(1, 2, "batch"), Taps: n(1, 3, "taps"),
			Rows: n(1, 20, "rows"), Cols: n(1, 70, "columns"), In: n(1, 40, "in"), Out: n(1, 70, "out"), Kernel: [2]int{n(1, 3, "kernel rows"), n(1, 3, "kernel columns")},
			Before: [2]int{n(0, 2, "above"), n(0, 2, "left")}, After: [2]int{n(0, 2, "below"), n(0, 2, "right")}, Whole: rapid.Bool().Draw(t, "whole")}
		c.Frames = c.Taps + n(0, 1, "frames more")
		if c.Check() != nil {
			return // the kernel does not fit
		}
		p := newConvProblem(c, rapid.Uint64().Draw(t, "seed"))
		p.check(t, rapid.SampledFrom(Levels()).Draw(t, "level"), p.reference())
	})
}

func TestConvolutionRefusals(t *testing.T) {
	good := Convolution{DType: dtype.F32, Batch: 1, Frames: 2, Rows: 3, Cols: 3, In: 2, Out: 2, Taps: 2, Kernel: [2]int{3, 3}}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Convolution){
		"type": func(c *Convolution) { c.DType = dtype.F16 }, "no channels": func(c *Convolution) { c.In = 0 },
		"a kernel larger than the picture": func(c *Convolution) { c.Cols = 2 }, "fewer frames than the kernel's": func(c *Convolution) { c.Frames = 1 },
		"a negative edge": func(c *Convolution) { c.Before[0] = -1 },
	} {
		c := good
		change(&c)
		if err := c.Check(); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	needKernel(t)
	if err := good.Run(ConvOperands{X: [][]byte{nil, nil}}); !errors.Is(err, ErrOperand) {
		t.Errorf("operands that are too short: %v", err)
	}
	if err := good.Run(ConvOperands{X: [][]byte{nil}}); !errors.Is(err, ErrOperand) {
		t.Errorf("a frame is missing: %v", err)
	}
}
