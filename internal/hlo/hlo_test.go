package hlo_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"weft/dtype"
	"weft/internal/hlo"
	"weft/internal/meshtest"
	"weft/program"
	"weft/program/cost"
	"weft/program/stablehlo"
	"weft/sharding"
	"weft/spmd"
	"weft/xla"
)

// Small modules written by hand, field by field.

func num(f protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, f, protowire.VarintType), v)
}

func msg(f protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, f, protowire.BytesType), cat(parts...))
}

func str(f protowire.Number, s string) []byte { return msg(f, []byte(s)) }

func cat(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func packed(f protowire.Number, vs ...uint64) []byte {
	var b []byte
	for _, v := range vs {
		b = protowire.AppendVarint(b, v)
	}
	return msg(f, b)
}

const (
	pred = 1
	s32  = 4
	f32  = 11
	bf16 = 16
)

func array(kind uint64, dims ...uint64) []byte { return cat(num(2, kind), packed(3, dims...)) }

func tuple(shapes ...[]byte) []byte {
	out := num(2, 13)
	for _, s := range shapes {
		out = append(out, msg(4, s)...)
	}
	return out
}

func instr(id uint64, op string, shape []byte, rest ...[]byte) []byte {
	return msg(2, str(1, fmt.Sprint(op, ".", id)), str(2, op), msg(3, shape), num(35, id), cat(rest...))
}

func operands(ids ...uint64) []byte { return packed(36, ids...) }
func calls(ids ...uint64) []byte    { return packed(38, ids...) }
func group(ids ...uint64) []byte    { return packed(1, ids...) }

func comp(id uint64, instrs ...[]byte) []byte { return msg(3, num(5, id), cat(instrs...)) }

// module has entry computation 1.
func module(comps ...[]byte) []byte { return msg(1, str(1, "m"), num(6, 1), cat(comps...)) }

func read(t *testing.T, code []byte) []hlo.Collective {
	t.Helper()
	got, err := hlo.Collectives(code, 4)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// The forms that replica groups have had.
func TestGroups(t *testing.T) {
	mesh := msg(1, msg(1, str(1, "a"), num(2, 2)), msg(1, str(1, "b"), num(2, 4)))
	for _, c := range []struct {
		what  string
		field []byte
		want  [][]int
	}{
		{"none: all devices", nil, [][]int{{0, 1, 2, 3}}},
		{"replica_groups", cat(msg(49, group(0, 2)), msg(49, group(1, 3))), [][]int{{0, 2}, {1, 3}}},
		{"a list of devices", msg(87, msg(1, group(0, 1)), msg(1, group(2, 3))), [][]int{{0, 1}, {2, 3}}},
		{"a list of devices, unpacked", msg(87, msg(1, num(1, 0), num(1, 1))), [][]int{{0, 1}}},
		{"iota within the list", msg(87, msg(2, num(1, 2), num(2, 2), packed(3, 4))), [][]int{{0, 1}, {2, 3}}},
		{"iota transposed", msg(92, num(1, 2), num(2, 2), packed(3, 2, 2), packed(4, 1, 0)), [][]int{{0, 2}, {1, 3}}},
		{"iota of three dims", msg(92, num(1, 4), num(2, 2), packed(3, 2, 2, 2), packed(4, 0, 2, 1)), [][]int{{0, 2}, {1, 3}, {4, 6}, {5, 7}}},
		{"an axis", msg(93, mesh, msg(2, num(1, 0))), [][]int{{0, 4}, {1, 5}, {2, 6}, {3, 7}}},
		{"the other axis", msg(93, mesh, msg(2, num(1, 1))), [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}},
		{"both, the second major", msg(93, mesh, msg(2, num(1, 1)), msg(2, num(1, 0))), [][]int{{0, 4, 1, 5, 2, 6, 3, 7}}},
		{"the major half of an axis", msg(93, mesh, msg(2, num(1, 1), msg(2, num(1, 1), num(2, 2)))), [][]int{{0, 2}, {1, 3}, {4, 6}, {5, 7}}},
		{"the minor half of an axis", msg(93, mesh, msg(2, num(1, 1), msg(2, num(1, 2), num(2, 2)))), [][]int{{0, 1}, {2, 3}, {4, 5}, {6, 7}}},
		{"a mesh of listed devices", msg(93, msg(1, msg(1, num(2, 2)), msg(1, num(2, 2)), packed(2, 3, 1, 2, 0)), msg(2, num(1, 1))), [][]int{{3, 1}, {2, 0}}},
		{"a mesh of transposed devices", msg(93, msg(1, msg(1, num(2, 2)), msg(1, num(2, 2)), msg(3, packed(1, 2, 2), packed(2, 1, 0))), msg(2, num(1, 1))),
			[][]int{{0, 2}, {1, 3}}},
	} {
		x := array(f32, 3, 2)
		got := read(t, module(comp(1, instr(7, "parameter", x), instr(8, "all-reduce", x, operands(7), c.field))))
		if len(got) != 1 || !reflect.DeepEqual(got[0].Groups, c.want) {
			t.Errorf("%s: %+v, want groups %v", c.what, got, c.want)
		}
	}
}

func TestOperandsAndHalves(t *testing.T) {
	pair := msg(52, num(1, 1), num(2, 0))
	const upper = 9 << 32
	got := read(t, module(comp(1,
		instr(upper+1, "parameter", array(bf16, 2, 3)), instr(upper+2, "parameter", array(f32, 5)), instr(upper+3, "parameter", tuple(array(f32, 4), array(f32))),
		instr(4, "all-reduce", tuple(array(bf16, 2, 3), array(f32, 5)), operands(1, 2), calls(2)),
		instr(5, "all-gather-start", tuple(array(f32, 5), array(f32, 20)), operands(2)),
		instr(6, "all-gather-done", array(f32, 20), operands(5)),
		instr(7, "collective-permute", array(f32, 5), operands(2), pair),
		instr(8, "reduce-scatter", array(f32), operands(3)),
		instr(9, "async-start", array(f32, 5), operands(2), calls(3)),
		instr(10, "async-done", array(f32, 5), operands(9), calls(3)),
		instr(11, "fusion", array(f32, 5), operands(2), calls(4)),
	), comp(2, instr(1, "add", array(f32))), comp(3, instr(1, "parameter", array(f32, 5)), instr(2, "all-to-all", array(f32, 5), operands(1))),
		comp(4, instr(1, "parameter", array(f32, 5)), instr(2, "negate", array(f32, 5), operands(1)))))
	var text []string
	for _, c := range got {
		text = append(text, fmt.Sprint(c.Op, " ", c.Type, " ", c.Elements, " ", c.Times, " ", c.Pairs))
	}
	want := "all-reduce 16 11 1 []|all-gather 11 5 1 []|collective-permute 11 5 1 [[1 0]]|reduce-scatter 11 5 1 []|all-to-all 11 5 1 []"
	if s := strings.Join(text, "|"); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// Trip counts: as noted, by the condition's constant, multiplied when nested, 0
// where nothing tells.
func TestLoops(t *testing.T) {
	x := array(f32, 3)
	body := func(id uint64, rest ...[]byte) []byte {
		return comp(id, instr(1, "parameter", x), instr(2, "all-reduce", x, operands(1)), cat(rest...))
	}
	constant := func(id, v uint64) []byte { return instr(id, "constant", array(s32), msg(8, packed(4, v))) }
	cond := func(id uint64, instrs ...[]byte) []byte {
		return comp(id, cat(instrs...), instr(99, "compare", array(pred)))
	}
	noted := str(43, `{"known_trip_count":{"n":"8"},"known_init_step":{"init":"0"}}`)
	for _, c := range []struct {
		what  string
		comps [][]byte
		want  []int
	}{
		{"noted", [][]byte{comp(1, instr(1, "while", x, calls(2, 3), noted)), body(2), cond(3)}, []int{8}},
		{"noted wins", [][]byte{comp(1, instr(1, "while", x, calls(2, 3), noted)), body(2), cond(3, constant(1, 5))}, []int{8}},
		{"constant", [][]byte{comp(1, instr(1, "while", x, calls(3, 2))), body(2), cond(3, constant(1, 5))}, []int{5}},
		{"constant in a fusion", [][]byte{comp(1, instr(1, "while", x, calls(2, 3))), body(2), cond(3, instr(1, "fusion", array(pred), calls(4))),
			comp(4, constant(1, 6))}, []int{6}},
		{"nested", [][]byte{comp(1, instr(1, "while", x, calls(2, 3))), body(2, instr(3, "while", x, calls(4, 5), noted)), cond(3, constant(1, 5)), body(4),
			cond(5)}, []int{5, 40}},
		{"unknown", [][]byte{comp(1, instr(1, "while", x, calls(2, 3))), body(2), cond(3)}, []int{0}},
		{"two constants", [][]byte{comp(1, instr(1, "while", x, calls(2, 3))), body(2), cond(3, constant(1, 5), constant(2, 6))}, []int{0}},
	} {
		var got []int
		for _, x := range read(t, module(c.comps...)) {
			got = append(got, x.Times)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: runs %v times, want %v", c.what, got, c.want)
		}
	}
}

func TestRefuses(t *testing.T) {
	x := array(f32, 3)
	with := func(field []byte) []byte {
		return module(comp(1, instr(7, "parameter", x), instr(8, "all-reduce", x, operands(7), field)))
	}
	for what, code := range map[string][]byte{
		"nothing":                  nil,
		"no proto":                 []byte("HloModule m"),
		"no entry":                 msg(1, num(6, 3), comp(1)),
		"an operand that is gone":  module(comp(1, instr(8, "all-reduce", x, operands(7)))),
		"a call to nowhere":        module(comp(1, instr(8, "fusion", x, calls(5)))),
		"iota of another size":     with(msg(92, num(1, 2), num(2, 2), packed(3, 2, 3))),
		"iota of a wrong dim":      with(msg(92, num(1, 2), num(2, 2), packed(3, 2, 2), packed(4, 0, 2))),
		"an axis that is not":      with(msg(93, msg(1, msg(1, num(2, 4))), msg(2, num(1, 1)))),
		"a factor that is none":    with(msg(93, msg(1, msg(1, num(2, 4))), msg(2, num(1, 0), msg(2, num(1, 1), num(2, 3))))),
		"a mesh of too few":        with(msg(93, msg(1, msg(1, num(2, 4)), packed(2, 0, 1)), msg(2, num(1, 0)))),
		"groups that are no proto": with(str(87, "\xff")),
	} {
		if got, err := hlo.Collectives(code, 4); err == nil {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// Nothing panics on a module that is cut or damaged.
func FuzzCollectives(f *testing.F) {
	x := array(f32, 3)
	f.Add(module(comp(1, instr(7, "parameter", x), instr(8, "all-reduce", x, operands(7), msg(92, num(1, 2), num(2, 2), packed(3, 2, 2), packed(4, 1, 0))))))
	f.Add(module(comp(1, instr(1, "while", x, calls(2, 3))), comp(2, instr(1, "all-gather", x, msg(49, group(0, 1)))), comp(3, instr(99, "compare", array(pred)))))
	f.Fuzz(func(t *testing.T, code []byte) { _, _ = hlo.Collectives(code, 4) })
}

// A program with every collective, some in loops within loops, as XLA compiles
// it: what is read from the module is what the program says.
func TestCompiled(t *testing.T) {
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set")
	}
	ctx := context.Background()
	c, err := xla.Open(ctx, xla.Options{Devices: 4, Install: true})
	if err != nil {
		t.Fatal(err)
	}
	m := meshtest.Mesh(t, "a=2,b=2")
	a, ab := []string{"a"}, []string{"b", "a"}
	p := meshtest.Build(t, m, func(b *spmd.Builder) {
		x := b.Local(b.Input("x", dtype.F32, []int{8, 4}, sharding.Whole(2)))
		x = b.LAllReduce(program.Sum, b.LUnary(program.OpTanh, x), a, "why")
		x = b.LAllGather(b.LReduceScatter(x, 0, ab, "why"), 0, a, "why")
		x = b.LPermute(b.LUnary(program.OpTanh, x), m.Pairs("b", 1, true), []string{"b"}, "why")
		x = b.LLoop(5, []spmd.Local{x}, func(_ spmd.Local, v []spmd.Local) []spmd.Local {
			y := b.LAllToAll(b.LUnary(program.OpTanh, v[0]), 1, 0, a, "why")
			y = b.LAllToAll(b.LUnary(program.OpSin, y), 0, 1, a, "why")
			return b.LLoop(3, []spmd.Local{y}, func(_ spmd.Local, v []spmd.Local) []spmd.Local {
				return []spmd.Local{b.LAllReduce(program.Maximum, b.LUnary(program.OpSin, v[0]), []string{"b"}, "why")}
			})
		})[0]
		b.Output("y", b.Global(x, x.Shape, sharding.Whole(2)), "")
	})
	x, err := c.Compile(ctx, []byte(stablehlo.Text(p)), xla.CompileOptions{Replicas: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	code, format, err := x.Optimized()
	if err != nil || format != "hlo_with_config" {
		t.Fatal(format, err)
	}
	found, err := hlo.Collectives(code, 4)
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]int64{}, map[string]int64{}
	for _, f := range found {
		axes := meshtest.TextCollective{Op: program.Op(f.Op), Groups: f.Groups, Pairs: f.Pairs}.Axes(m)
		got[fmt.Sprint(f.Op, axes, f.Type)] += int64(f.Times) * f.Elements
	}
	for _, w := range cost.Collectives(p) {
		want[fmt.Sprint(w.Op, w.Axes, 11)] += w.Elements
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("compiled to %v, want %v", got, want)
	}
}
