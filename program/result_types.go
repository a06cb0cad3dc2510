package program

import (
	"fmt"
	"math"
	"slices"

	"weft/dtype"
)

// The types that results have: a rule for each operation. A rule gives an error
// where the operands do not fit the operation.

// sameAsOperands is for operations whose operands and result all have one type.
func sameAsOperands(t typing) (Type, error) { return t.args[0], checkSameTypes(t.args...) }

func checkSameTypes(types ...Type) error {
	for _, t := range types[1:] {
		if t.DType != types[0].DType || !slices.Equal(t.Shape, types[0].Shape) {
			return fmt.Errorf("operands %s and %s differ", types[0], t)
		}
	}
	return nil
}

func constType(t typing) (Type, error) {
	x, d := t.in.Value, t.out.DType
	if d.IsFloat() {
		return t.out, nil
	}
	lo, hi := IntRange(d)
	if !(x >= lo && x <= hi) || x != math.Trunc(x) || d.Size() == 8 && x == hi { // 2^63-1 is no float64
		return t.out, fmt.Errorf("%g is no %s", x, d)
	}
	return t.out, nil
}

// IntRange is the range of an integer type or Bool.
func IntRange(d dtype.DType) (lo, hi float64) {
	bits := 8 * d.Size()
	switch d {
	case dtype.Bool:
		return 0, 1
	case dtype.U8, dtype.U16, dtype.U32, dtype.U64:
		return 0, math.Ldexp(1, bits) - 1
	}
	return -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1) - 1
}

func iotaType(t typing) (Type, error) { return t.out, checkDims(t.in.Dims, 1, t.out) }

func axisIndexType(t typing) (Type, error) {
	if len(t.in.Axes) != 1 || !t.mesh.Has(t.in.Axes[0]) {
		return t.out, fmt.Errorf("axes %v; one axis of the mesh is needed", t.in.Axes)
	}
	return Type{dtype.I32, nil}, nil
}

func convertType(t typing) (Type, error) { return Type{t.out.DType, t.args[0].Shape}, nil }

// Comparisons are the values of Instr.Cmp.
var Comparisons = []string{"EQ", "NE", "LT", "LE", "GT", "GE"}

func compareType(t typing) (Type, error) {
	if !slices.Contains(Comparisons, t.in.Cmp) {
		return t.out, fmt.Errorf("comparison %q", t.in.Cmp)
	}
	return Type{dtype.Bool, t.args[0].Shape}, checkSameTypes(t.args...)
}

func selectType(t typing) (Type, error) {
	pred, x := t.args[0], t.args[1]
	if pred.DType != dtype.Bool || !slices.Equal(pred.Shape, x.Shape) {
		return t.out, fmt.Errorf("predicate %s for values %s", pred, x)
	}
	return x, checkSameTypes(t.args[1:]...)
}

// checkDims checks that dims are n distinct dims of t; n < 0 is any number.
func checkDims(dims []int, n int, t Type) error {
	for i, d := range dims {
		if d < 0 || d >= len(t.Shape) || slices.Contains(dims[:i], d) {
			return fmt.Errorf("dims %v of %s", dims, t)
		}
	}
	if n >= 0 && len(dims) != n {
		return fmt.Errorf("dims %v; there should be %d", dims, n)
	}
	return nil
}

// misfitError is the error of an operand that cannot become the declared result.
func misfitError(t typing) error { return fmt.Errorf("of %s does not give %s", t.args[0], t.out) }

func broadcastType(t typing) (Type, error) {
	x, dims := t.args[0], t.in.Dims
	if err := checkDims(dims, len(x.Shape), t.out); err != nil {
		return t.out, err
	}
	for i, d := range dims {
		if x.Shape[i] != 1 && x.Shape[i] != t.out.Shape[d] || i > 0 && d <= dims[i-1] {
			return t.out, misfitError(t)
		}
	}
	return Type{x.DType, t.out.Shape}, nil
}

func reshapeType(t typing) (Type, error) {
	if t.args[0].Elements() != t.out.Elements() {
		return t.out, misfitError(t)
	}
	return Type{t.args[0].DType, t.out.Shape}, nil
}

func transposeType(t typing) (Type, error) {
	x := t.args[0]
	if err := checkDims(t.in.Dims, len(x.Shape), x); err != nil {
		return t.out, err
	}
	to := cloneType(x)
	for i, d := range t.in.Dims {
		to.Shape[i] = x.Shape[d]
	}
	return to, nil
}

// cloneType is t with a shape of its own.
func cloneType(t Type) Type { return Type{t.DType, slices.Clone(t.Shape)} }

func sliceType(t typing) (Type, error) {
	return boundedType(t, func(size, lo, hi int) (int, bool) { return hi - lo, lo <= hi && hi <= size })
}

func padType(t typing) (Type, error) {
	return boundedType(t, func(size, lo, hi int) (int, bool) { return size + lo + hi, true })
}

// boundedType is the type that resize gives of each dim's size and its bounds.
func boundedType(t typing, resize func(size, lo, hi int) (int, bool)) (Type, error) {
	x, in := t.args[0], t.in
	wrong := func() error { return fmt.Errorf("bounds %v %v of %s", in.Lo, in.Hi, x) }
	if len(in.Lo) != len(x.Shape) || len(in.Hi) != len(x.Shape) {
		return t.out, wrong()
	}
	to := cloneType(x)
	for d, size := range x.Shape {
		n, ok := resize(size, in.Lo[d], in.Hi[d])
		if !ok || in.Lo[d] < 0 || in.Hi[d] < 0 {
			return t.out, wrong()
		}
		to.Shape[d] = n
	}
	return to, nil
}

// fitsBeside reports whether a is x but for the size of dim d.
func fitsBeside(x, a Type, d int) bool {
	if a.DType != x.DType || len(a.Shape) != len(x.Shape) {
		return false
	}
	for i := range a.Shape {
		if i != d && a.Shape[i] != x.Shape[i] {
			return false
		}
	}
	return true
}

func concatType(t typing) (Type, error) {
	x := t.args[0]
	to := cloneType(x)
	if err := checkDims(t.in.Dims, 1, x); err != nil {
		return to, err
	}
	d := t.in.Dims[0]
	for _, a := range t.args[1:] {
		if !fitsBeside(x, a, d) {
			return to, fmt.Errorf("of %s and %s along dim %d", x, a, d)
		}
		to.Shape[d] += a.Shape[d]
	}
	return to, nil
}

// checkStart checks the dim and the start of a dynamic slice or update.
func checkStart(t typing) error {
	if err := checkDims(t.in.Dims, 1, t.args[0]); err != nil {
		return err
	}
	if start := t.args[len(t.args)-1]; start.DType != dtype.I32 || len(start.Shape) != 0 {
		return fmt.Errorf("start is %s, not i32[]", start)
	}
	return nil
}

func dynSliceType(t typing) (Type, error) {
	x, in := t.args[0], t.in
	to := cloneType(x)
	if err := checkStart(t); err != nil {
		return to, err
	}
	d := in.Dims[0]
	if len(in.Hi) != 1 || in.Hi[0] < 0 || in.Hi[0] > x.Shape[d] {
		return to, fmt.Errorf("of %v elements of dim %d of %s", in.Hi, d, x)
	}
	to.Shape[d] = in.Hi[0]
	return to, nil
}

func dynUpdateType(t typing) (Type, error) {
	x, update := t.args[0], t.args[1]
	if err := checkStart(t); err != nil {
		return x, err
	}
	if d := t.in.Dims[0]; !fitsBeside(x, update, d) || update.Shape[d] > x.Shape[d] {
		return x, fmt.Errorf("of %s by %s along dim %d", x, update, d)
	}
	return x, nil
}

func takeType(t typing) (Type, error) {
	x, places := t.args[0], t.args[1]
	if err := checkDims(t.in.Dims, 1, x); err != nil {
		return x, err
	}
	d := t.in.Dims[0]
	if places.DType != dtype.I32 || x.Shape[d] < 1 {
		return x, fmt.Errorf("of dim %d of %s by %s", d, x, places)
	}
	return Type{x.DType, slices.Concat(x.Shape[:d], places.Shape, x.Shape[d+1:])}, nil
}

func checkReduction(in *Instr) error {
	if r := in.Reduction; r != Sum && r != Maximum {
		return fmt.Errorf("reduction %q", in.Reduction)
	}
	return nil
}

func reduceType(t typing) (Type, error) {
	x := t.args[0]
	to := Type{x.DType, []int{}}
	if err := checkDims(t.in.Dims, -1, x); err != nil {
		return to, err
	}
	if err := checkReduction(t.in); err != nil {
		return to, err
	}
	for d, n := range x.Shape {
		if !slices.Contains(t.in.Dims, d) {
			to.Shape = append(to.Shape, n)
		}
	}
	return to, nil
}

func dotType(t typing) (Type, error) {
	if t.in.Dot == nil || t.args[0].DType != t.args[1].DType {
		return t.out, fmt.Errorf("operands %s and %s", t.args[0], t.args[1])
	}
	shape, err := DotShape(t.args[0].Shape, t.args[1].Shape, *t.in.Dot)
	return Type{t.out.DType, shape}, err
}

// DotShape is the shape of a contraction's result: the batch dims, then the free
// dims of x, then those of y.
func DotShape(x, y []int, d DotDims) ([]int, error) {
	if len(d.LeftBatch) != len(d.RightBatch) || len(d.LeftContract) != len(d.RightContract) {
		return nil, fmt.Errorf("dims do not pair up")
	}
	usedX, usedY := make([]bool, len(x)), make([]bool, len(y))
	pair := func(l, r []int) error {
		for i := range l {
			if l[i] < 0 || l[i] >= len(x) || r[i] < 0 || r[i] >= len(y) || usedX[l[i]] || usedY[r[i]] {
				return fmt.Errorf("dims %v and %v", l, r)
			}
			usedX[l[i]], usedY[r[i]] = true, true
			if x[l[i]] != y[r[i]] {
				return fmt.Errorf("dim %d of size %d meets dim %d of size %d", l[i], x[l[i]], r[i], y[r[i]])
			}
		}
		return nil
	}
	if err := pair(d.LeftBatch, d.RightBatch); err != nil {
		return nil, err
	}
	if err := pair(d.LeftContract, d.RightContract); err != nil {
		return nil, err
	}
	shape := make([]int, 0, len(x)+len(y))
	for _, i := range d.LeftBatch {
		shape = append(shape, x[i])
	}
	for i, s := range x {
		if !usedX[i] {
			shape = append(shape, s)
		}
	}
	for i, s := range y {
		if !usedY[i] {
			shape = append(shape, s)
		}
	}
	return shape, nil
}

func dotSummed(in *Instr, left, _ Type) int {
	n := 1
	for _, d := range in.Dot.LeftContract {
		n *= left.Shape[d]
	}
	return n
}

func convType(t typing) (Type, error) {
	if t.args[0].DType != t.args[1].DType || !t.out.DType.IsFloat() {
		return t.out, fmt.Errorf("operands %s and %s for %s", t.args[0], t.args[1], t.out)
	}
	shape, err := ConvShape(t.args[0].Shape, t.args[1].Shape, t.in.Lo, t.in.Hi, t.in.Strides)
	return Type{t.out.DType, shape}, err
}

// ConvShape is the shape of a convolution's result: x (N, S..., I) by w (O, I, K...)
// gives (N, S'..., O) with S' = (lo + S + hi - K) / stride + 1, rounded down. Without strides
// each is 1.
func ConvShape(x, w, lo, hi, strides []int) ([]int, error) {
	n := len(x) - 2
	switch {
	case n < 1 || len(w) != len(x) || len(lo) != n || len(hi) != n:
		return nil, fmt.Errorf("want (N, S..., I) by (O, I, K...) and padding for each S, not %v and %v", lo, hi)
	case strides != nil && len(strides) != n:
		return nil, fmt.Errorf("strides %v for %d spatial dims", strides, n)
	case x[n+1] != w[1] || w[1] < 1 || w[0] < 1:
		return nil, fmt.Errorf("%d channels meet a kernel from %d to %d", x[n+1], w[1], w[0])
	}
	shape := slices.Clone(x)
	shape[n+1] = w[0]
	for d := range n {
		stride := StrideOf(strides, d)
		if stride < 1 {
			return nil, fmt.Errorf("stride %d on spatial dim %d: want 1 or more", stride, d)
		}
		room := lo[d] + x[1+d] + hi[d] - w[2+d] // for the kernel to move in
		shape[1+d] = room/stride + 1
		if lo[d] < 0 || hi[d] < 0 || w[2+d] < 1 || room < 0 {
			return nil, fmt.Errorf("a kernel of %d on spatial dim %d of size %d with %d zeros before and %d after", w[2+d], d, x[1+d], lo[d], hi[d])
		}
	}
	return shape, nil
}

// StrideOf is by how much a convolution's kernel moves along spatial dim d: 1 where it has no
// strides.
func StrideOf(strides []int, d int) int {
	if strides == nil {
		return 1
	}
	return strides[d]
}

// convSummed counts the zeros around the operand too: they are multiplied like the rest.
func convSummed(_ *Instr, _, w Type) int { return w.Elements() / w.Shape[0] }

// Collectives: n is the size of a group.

func groupSize(in *Instr) int {
	if len(in.Groups) == 0 {
		return 1
	}
	return max(1, len(in.Groups[0]))
}

func allReduceType(t typing) (Type, error) { return t.args[0], checkReduction(t.in) }

func allGatherType(t typing) (Type, error) {
	to := cloneType(t.args[0])
	if err := checkDims(t.in.Dims, 1, to); err != nil {
		return to, err
	}
	to.Shape[t.in.Dims[0]] *= groupSize(t.in)
	return to, nil
}

func reduceScatterType(t typing) (Type, error) {
	if err := checkDims(t.in.Dims, 1, t.args[0]); err != nil {
		return t.args[0], err
	}
	return partType(t.args[0], t.in.Dims[0], groupSize(t.in))
}

// partType is one of n equal parts of dim d of x.
func partType(x Type, d, n int) (Type, error) {
	to := cloneType(x)
	if x.Shape[d]%n != 0 {
		return to, fmt.Errorf("dim %d of %s does not divide into %d parts", d, x, n)
	}
	to.Shape[d] /= n
	return to, nil
}

func allToAllType(t typing) (Type, error) {
	x, dims := t.args[0], t.in.Dims
	if len(dims) != 2 || checkDims(dims[:1], 1, x) != nil || checkDims(dims[1:], 1, x) != nil {
		return x, fmt.Errorf("dims %v of %s", dims, x)
	}
	to, err := partType(x, dims[0], groupSize(t.in))
	if err != nil {
		return to, err
	}
	to.Shape[dims[1]] *= groupSize(t.in)
	return to, nil
}

func permuteType(t typing) (Type, error) { return t.args[0], nil }
