package program_test

import (
	"errors"
	"strings"
	"testing"

	"weft/dtype"
	"weft/fault"
	"weft/internal/spmdtest"
	"weft/mesh"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
)

// Each change breaks one rule of a good program, and is found.
func TestValidateFinds(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(p *program.Program, at func(op program.Op) *program.Instr)
	}{
		{"nothing", "", func(*program.Program, func(program.Op) *program.Instr) {}},
		{"use before definition", "not in sight", func(p *program.Program, _ func(program.Op) *program.Instr) { p.Body[0].Args[0] = p.Body[3].Out[0] }},
		{"loop value outside", "not in sight", func(p *program.Program, at func(program.Op) *program.Instr) {
			p.Body[len(p.Body)-1].Args[0] = at(program.OpLoop).Loop.Params[0]
		}},
		{"output from a loop", "not defined outside of loops", func(p *program.Program, at func(program.Op) *program.Instr) {
			p.Outputs[0].Value = at(program.OpLoop).Loop.Results[1]
		}},
		{"defined twice", "defined twice", func(p *program.Program, _ func(program.Op) *program.Instr) { p.Body[1].Out[0] = p.Body[0].Out[0] }},
		{"no type", "has no type", func(p *program.Program, at func(program.Op) *program.Instr) { at(program.OpLoop).Loop.Index = 999 }},
		{"unknown operation", "no such operation", func(p *program.Program, at func(program.Op) *program.Instr) { at(program.OpSub).Op = "frobnicate" }},
		{"operands", "has 1 operands", func(p *program.Program, at func(program.Op) *program.Instr) {
			at(program.OpSub).Args = at(program.OpSub).Args[:1]
		}},
		{"types differ", "differ", func(p *program.Program, at func(program.Op) *program.Instr) { at(program.OpSub).Args[1] = 1 }},
		{"declared shape", "comes out as", func(p *program.Program, at func(program.Op) *program.Instr) {
			p.Values[at(program.OpDot).Out[0]].Shape[0]++
		}},
		{"float operation", "for floats", func(p *program.Program, at func(program.Op) *program.Instr) {
			in := at(program.OpDynSlice)
			in.Op, in.Args = program.OpExp, in.Args[1:]
		}},
		{"groups", "has groups", func(p *program.Program, at func(program.Op) *program.Instr) {
			at(program.OpAllReduce).Groups = [][]int{{0, 1}, {1, 2}}
		}},
		{"axis", "not in mesh", func(p *program.Program, at func(program.Op) *program.Instr) {
			at(program.OpAllReduce).Axes = []string{"zz"}
		}},
		{"reason", "no reason", func(p *program.Program, at func(program.Op) *program.Instr) { at(program.OpAllGather).Reason = " " }},
		{"pairs", "sends once", func(p *program.Program, at func(program.Op) *program.Instr) { at(program.OpPermute).Pairs[1][0] = 0 }},
		{"pair outside", "pair [0 9]", func(p *program.Program, at func(program.Op) *program.Instr) { at(program.OpPermute).Pairs[0][1] = 9 }},
		{"slice bounds", "bounds", func(p *program.Program, at func(program.Op) *program.Instr) { at(program.OpSlice).Hi[1] = 99 }},
		{"trips", "at least once", func(p *program.Program, at func(program.Op) *program.Instr) { at(program.OpLoop).Loop.Trips = 0 }},
		{"carried type", "carries", func(p *program.Program, at func(program.Op) *program.Instr) {
			p.Values[at(program.OpLoop).Loop.Params[0]].DType = dtype.BF16
		}},
		{"donor", "takes over", func(p *program.Program, _ func(program.Op) *program.Instr) { p.Outputs[1].Donor = 1 }},
		{"donor twice", "taken already", func(p *program.Program, _ func(program.Op) *program.Instr) { p.Outputs[1].Donor = 0 }},
		{"port layout", "leaves", func(p *program.Program, _ func(program.Op) *program.Instr) { p.Inputs[0].Shape[0] *= 2 }},
		{"port type", "says", func(p *program.Program, _ func(program.Op) *program.Instr) { p.Inputs[0].DType = dtype.F64 }},
	} {
		p := spmdtest.Block(t)
		at := func(op program.Op) *program.Instr {
			var found *program.Instr
			p.Walk(func(in *program.Instr, _ int) {
				if in.Op == op && found == nil {
					found = in
				}
			})
			return found
		}
		c.change(p, at)
		err := program.Validate(p)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (!errors.Is(err, program.ErrMalformed) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// A program that breaks a rule is not built: here a value leaves the loop that makes it.
func TestBuildRefusesMalformed(t *testing.T) {
	m := spmdtest.NewMesh(t)
	_, err := spmd.Build("leak", m, func(b *spmd.Builder) {
		x := b.Local(b.Input("x", dtype.F32, []int{2}, sharding.Whole(1)))
		var inner spmd.Local
		b.LLoop(2, []spmd.Local{x}, func(_ spmd.Local, c []spmd.Local) []spmd.Local {
			inner = b.LAdd(c[0], x)
			return []spmd.Local{inner}
		})
		b.Output("y", b.Global(inner, []int{2}, sharding.Whole(1)), "")
	})
	if !errors.Is(err, program.ErrMalformed) || !strings.Contains(err.Error(), "not defined outside of loops") {
		t.Errorf("error %v", err)
	}
}

// All violations come at once, each with its fields.
func TestValidateReportsAll(t *testing.T) {
	p := spmdtest.Block(t)
	n := 0
	p.Walk(func(in *program.Instr, _ int) {
		if in.IsCollective() {
			in.Reason = ""
			n++
		}
	})
	err := program.Validate(p)
	if got := len(fault.Violations(err)); got != n {
		t.Errorf("%d violations, want %d: %v", got, n, err)
	}
	if f, ok := fault.Fields[program.Malformed](err); !ok || f.Op != program.OpAllGather || f.Program != "block" {
		t.Errorf("fields %+v", f)
	}
}

// The operations that only move elements take 8-bit floats; the others do not.
func TestValidateNarrowFloats(t *testing.T) {
	m := spmdtest.NewMesh(t, mesh.Axis{Name: "tp", Size: 1})
	x := []program.Type{{DType: dtype.F8E4M3, Shape: []int{4}}}
	spmdtest.Build(t, m, "", x, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		return []spmd.Local{b.LConvert(b.LSlice(in[0], 0, 1, 3), dtype.BF16)}
	})
	p := spmdtest.Build(t, m, "", []program.Type{{DType: dtype.BF16, Shape: []int{4}}}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		return []spmd.Local{b.LAdd(in[0], in[0])}
	})
	for i := range p.Values {
		p.Values[i].DType = dtype.F8E4M3
	}
	if err := program.Validate(p); err == nil || !strings.Contains(err.Error(), "storage") {
		t.Errorf("error %v", err)
	}
}
