// Package meshtest runs programs on whole tensors, for tests: it shards the inputs by
// their specs, puts the results together from their shards, and compares every replicated
// shard with its copies.
package meshtest

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"

	"weft/dtype"
	"weft/engine"
	"weft/mesh"
	"weft/program"
	"weft/program/cost"
	"weft/program/interp"
	"weft/program/stablehlo"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

// TB has the methods of testing.TB that this package needs; a property test's T has them
// too.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Skip(args ...any)
}

// Values maps the name of a port to a whole tensor.
type Values map[string]*interp.Array

// Mesh makes a mesh from its text, "tp=2,sp=2"; "" is one device.
func Mesh(t TB, text string) *mesh.Mesh {
	t.Helper()
	var axes []mesh.Axis
	var err error
	if text != "" {
		axes, err = mesh.Parse(text)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	m, err := mesh.Local(axes...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return m
}

// One makes a mesh of one device with the axes of m, so that m's specs are legal on it.
func One(t TB, m *mesh.Mesh) *mesh.Mesh {
	t.Helper()
	axes := m.Axes()
	for i := range axes {
		axes[i].Size = 1
	}
	one, err := mesh.Local(axes...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return one
}

// Build makes a program and checks it.
func Build(t TB, m *mesh.Mesh, define func(b *spmd.Builder), opts ...spmd.Option) *program.Program {
	t.Helper()
	p, err := spmd.Build("test", m, define, opts...)
	if err != nil {
		t.Fatalf("build on %s: %v", m, err)
	}
	if err := program.Validate(p); err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	return p
}

// Arr makes an array from its elements in row-major order.
func Arr(d dtype.DType, shape []int, vals ...float64) *interp.Array {
	a := interp.NewArray(d, shape...)
	if len(vals) != a.Len() {
		panic(fmt.Sprintf("%d values for shape %v", len(vals), shape))
	}
	for i, v := range vals {
		a.Set(i, v)
	}
	return a
}

// Fill makes an array whose element i is f(i).
func Fill(d dtype.DType, f func(i int) float64, shape ...int) *interp.Array {
	a := interp.NewArray(d, shape...)
	for i := range a.Len() {
		a.Set(i, f(i))
	}
	return a
}

// Scatter cuts a whole tensor into the shards of all positions. For a partial tensor, it
// makes addends: small integers, and a last one that makes the sum equal to x. They add
// up exactly where x is a small multiple of a power of two.
func Scatter(m *mesh.Mesh, spec sharding.Spec, x *interp.Array) ([]*interp.Array, error) {
	out := make([]*interp.Array, m.NumDevices())
	axes := spec.Partial()
	parts := 1
	for _, a := range axes {
		parts *= m.Size(a)
	}
	for pos := range out {
		whole := x
		if parts > 1 {
			whole = makeAddend(x, m.Index(pos, axes...), parts)
		}
		r, err := spec.Ranges(m, x.Shape, pos)
		if err != nil {
			return nil, err
		}
		out[pos] = cutArray(whole, r)
	}
	return out, nil
}

// makeAddend makes addend i of the n addends that a partial tensor x is the sum of.
func makeAddend(x *interp.Array, i, n int) *interp.Array {
	small := func(i, k int) float64 { return float64((7*i+3*k+i*k)%5 - 2) }
	return Fill(x.DType, func(k int) float64 {
		if i < n-1 {
			return small(i, k)
		}
		v := x.At(k)
		for j := range n - 1 {
			v -= small(j, k)
		}
		return v
	}, x.Shape...)
}

// cutArray cuts the block of the ranges out of an array.
func cutArray(x *interp.Array, r []sharding.Range) *interp.Array {
	lo, hi, shape := rangeBounds(r)
	src := x.Tensor()
	dst := tensor.New(x.DType, shape...)
	tensor.Cut(dst.Data, src.Data, x.Shape, lo, hi, x.DType.Size())
	return interp.FromTensor(dst)
}

func rangeBounds(r []sharding.Range) (lo, hi, shape []int) {
	for _, x := range r {
		lo, hi, shape = append(lo, x.Lo), append(hi, x.Hi), append(shape, x.Len())
	}
	return lo, hi, shape
}

// Gather puts a tensor together from the shards of all positions. Replicated shards must
// be equal bit by bit. The addends of a partial tensor are added.
func Gather(m *mesh.Mesh, spec sharding.Spec, d dtype.DType, shape []int, pieces []*interp.Array) (*interp.Array, error) {
	axes := spec.Partial()
	parts := 1
	for _, a := range axes {
		parts *= m.Size(a)
	}
	wholes := make([]*tensor.Tensor, parts)
	seen := map[string]int{}
	for pos, piece := range pieces {
		r, err := spec.Ranges(m, shape, pos)
		if err != nil {
			return nil, err
		}
		i := 0
		if parts > 1 {
			i = m.Index(pos, axes...)
		}
		lo, hi, local := rangeBounds(r)
		if piece.DType != d || fmt.Sprint(piece.Shape) != fmt.Sprint(append([]int{}, local...)) {
			return nil, fmt.Errorf("position %d holds %v%v of %v%v %v", pos, piece.DType, piece.Shape, d, shape, spec)
		}
		key := fmt.Sprint(i, r)
		data := piece.Tensor().Data
		if first, ok := seen[key]; ok {
			if string(pieces[first].Tensor().Data) != string(data) {
				return nil, fmt.Errorf("positions %d and %d hold copies of %v that differ", first, pos, r)
			}
			continue
		}
		seen[key] = pos
		if wholes[i] == nil {
			wholes[i] = tensor.New(d, shape...)
		}
		tensor.Paste(wholes[i].Data, data, shape, lo, hi, d.Size())
	}
	out := interp.FromTensor(wholes[0])
	for _, w := range wholes[1:] {
		x := interp.FromTensor(w)
		for k := range out.Len() {
			out.Set(k, out.At(k)+x.At(k))
		}
	}
	return out, nil
}

// Rows shards the inputs of p: for each position, the shard of each input.
func Rows(p *program.Program, in Values) ([][]*interp.Array, error) {
	out := make([][]*interp.Array, p.Mesh.NumDevices())
	for _, port := range p.Inputs {
		x := in[port.Name]
		if x == nil || x.DType != port.DType || fmt.Sprint(x.Shape) != fmt.Sprint(port.Shape) {
			return nil, fmt.Errorf("input %q is %v%v", port.Name, port.DType, port.Shape)
		}
		pieces, err := Scatter(p.Mesh, port.Spec, x)
		if err != nil {
			return nil, err
		}
		for pos, piece := range pieces {
			out[pos] = append(out[pos], piece)
		}
	}
	return out, nil
}

// Results puts the outputs of p together; at gives the shard of output i at a position.
func Results(p *program.Program, at func(pos, i int) *interp.Array) (Values, error) {
	out := Values{}
	for i, port := range p.Outputs {
		pieces := make([]*interp.Array, p.Mesh.NumDevices())
		for pos := range pieces {
			pieces[pos] = at(pos, i)
		}
		x, err := Gather(p.Mesh, port.Spec, port.DType, port.Shape, pieces)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", port.Name, err)
		}
		out[port.Name] = x
	}
	return out, nil
}

// Interp runs p on the interpreter, and checks that the collectives that ran are those
// that the cost of the program lists.
func Interp(t TB, p *program.Program, in Values) Values {
	t.Helper()
	devices, err := Rows(p, in)
	if err != nil {
		t.Fatalf("%v", err)
	}
	out, report, err := interp.New(p.Mesh, interp.Options{}).Run(context.Background(), p, devices)
	if err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	if got, want := Table(report.Collectives), Table(cost.Collectives(p)); got != want {
		t.Fatalf("the interpreter exchanged\n%s\nand the program says\n%s\n%s", got, want, p)
	}
	got, err := Results(p, func(pos, i int) *interp.Array { return out[pos][i] })
	if err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	return got
}

var cpu = sync.OnceValues(func() (engine.Engine, error) {
	return engine.Open(context.Background(), engine.CPU, 8, engine.Options{NoCache: true})
})

// XLA gives an engine of eight devices, which the tests of a package share. It skips the
// test if WEFT_SKIP_XLA is set.
func XLA(t TB) engine.Engine {
	t.Helper()
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set")
	}
	e, err := cpu()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return e
}

// Run runs p on an engine.
func Run(t TB, e engine.Engine, p *program.Program, in Values) Values {
	t.Helper()
	out, err := runOnEngine(e, p, in)
	if err != nil {
		t.Fatalf("%v\n%s", err, stablehlo.Text(p))
	}
	return out
}

func runOnEngine(e engine.Engine, p *program.Program, in Values) (Values, error) {
	ctx := context.Background()
	devices, err := Rows(p, in)
	if err != nil {
		return nil, err
	}
	exe, err := e.Compile(ctx, p)
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	args := make([]engine.Value, len(p.Inputs))
	for i, port := range p.Inputs {
		blocks := make([]*engine.Block, len(devices))
		for pos := range blocks {
			blocks[pos] = &engine.Block{Data: devices[pos][i].Tensor().Data}
		}
		v, err := e.Put(ctx, p.Mesh, program.Type{DType: port.DType, Shape: port.Local}, blocks)
		if err != nil {
			return nil, err
		}
		defer v.Free()
		args[i] = v
	}
	outs, err := exe.Run(ctx, args)
	if err != nil {
		return nil, err
	}
	arrays := map[[2]int]*interp.Array{}
	for i, v := range outs {
		defer v.Free()
		port := p.Outputs[i]
		for pos := range p.Mesh.NumDevices() {
			x := tensor.New(port.DType, port.Local...)
			if err := v.Get(ctx, pos, x.Data); err != nil {
				return nil, err
			}
			arrays[[2]int{pos, i}] = interp.FromTensor(x)
		}
	}
	return Results(p, func(pos, i int) *interp.Array { return arrays[[2]int{pos, i}] })
}

// Table writes one line for each row of traffic, in their order: operation, axis, type,
// count, elements, bytes.
func Table(ts []cost.Traffic) string {
	var s strings.Builder
	for _, t := range ts {
		fmt.Fprintf(&s, "%-18s %-6s %-4s %3d %8d %9d\n", t.Op, t.Axis, t.Type, t.Count, t.Elements, t.Bytes)
	}
	return s.String()
}

// Differ describes the element in which two arrays differ most, if by more than tolerance,
// else it gives "". The difference is relative to wanted values above 1 and absolute for
// others.
func Differ(got, want *interp.Array, tolerance float64) string {
	if got == nil || want == nil {
		return fmt.Sprintf("got %v, want %v", got != nil, want != nil)
	}
	if got.DType != want.DType || fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) {
		return fmt.Sprintf("%v%v, want %v%v", got.DType, got.Shape, want.DType, want.Shape)
	}
	worst, at := 0.0, -1
	for i := range want.Len() {
		g, w := got.At(i), want.At(i)
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		d := math.Abs(g-w) / max(1, math.Abs(w))
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		if d > worst {
			worst, at = d, i
		}
	}
	if worst > tolerance {
		return fmt.Sprintf("element %d is %v, want %v", at, got.At(at), want.At(at))
	}
	return ""
}

// Text reads the collectives out of the program's StableHLO text and adds them up as
// cost.Collectives does. The axes of a permute are those along which its text moves data.
func Text(t TB, p *program.Program) []cost.Traffic {
	t.Helper()
	found, err := CountText(stablehlo.Text(p))
	if err != nil {
		t.Fatalf("%v\n%s", err, stablehlo.Text(p))
	}
	var all []cost.Traffic
	for _, f := range found {
		axes := f.Axes(p.Mesh)
		n := p.Mesh.Size(axes...)
		size := f.Elements * int64(f.DType.Size())
		var sent map[int]int64
		if f.Op == program.OpPermute {
			n = 2
			sent = cost.PermuteSent(f.Pairs, int64(f.Times)*size)
		}
		all = cost.AddTraffic(all, []cost.Traffic{{Sent: sent, Op: f.Op, Axes: axes, Axis: strings.Join(axes, "+"), DType: f.DType, Type: f.DType.String(),
			Count: f.Times, Elements: int64(f.Times) * f.Elements, Bytes: int64(f.Times) * sharding.RingBytes(sharding.Op(f.Op), n, size)}}, 1)
	}
	return all
}

// Spec reads a spec from its text, "[tp,-]".
func Spec(t TB, text string) sharding.Spec {
	t.Helper()
	s, err := sharding.ParseSpec(text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

// SumProgram is a program that adds inputs in f32 of one shape and spec, the first of them
// twice. Where donate is named, the result takes over that input's memory.
func SumProgram(t TB, m *mesh.Mesh, shape []int, spec sharding.Spec, donate string, inputs ...string) *program.Program {
	return Build(t, m, func(b *spmd.Builder) {
		var sum spmd.Tensor
		for i, name := range inputs {
			x := b.Input(name, dtype.F32, shape, spec)
			if i == 0 {
				sum = b.Scale(x, 2)
			} else {
				sum = b.Add(sum, x)
			}
		}
		b.Output("y", sum, donate)
	})
}

// Holders counts the devices that hold each element of a tensor with a spec and no partial
// axes: the product of the sizes of the axes that the spec does not use.
func Holders(m *mesh.Mesh, s sharding.Spec) int {
	n := m.NumDevices()
	for _, a := range m.Axes() {
		if s.Uses(a.Name) {
			n /= a.Size
		}
	}
	return n
}
