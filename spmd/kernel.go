package spmd

import (
	"slices"
	"strconv"

	"weft/fault"
	"weft/mesh"
	"weft/sharding"
)

// ErrPlatform: a program with code for one platform was given to another.
var ErrPlatform = fault.NewKind("wrong-platform")

// Platform are the fields of ErrPlatform.
type Platform struct {
	Program string `json:"program"`
	Kernel  string `json:"kernel"`
	For     string `json:"for"`
	Given   string `json:"given"`
}

// Kernel is a computation within a device for which a platform has code of its
// own. It reads its operands and gives one result; it exchanges nothing.
//
// What it computes is there as instructions too: the interpreter runs them, their
// arithmetic is the kernel's, and the code is held against them.
type Kernel struct {
	Name     string // what it computes: "attention"
	Platform string // that has the code: "tpu"
	Call     string // the target of the custom call
	// Config makes the call's configuration, when the text is emitted.
	Config func() string
	// Params are the operands in Body, which uses nothing else from outside.
	Params []ID
	Body   []Instr
	Result ID
}

// Walk visits every instruction of what the kernel means, as Program.Walk does.
func (k *Kernel) Walk(visit func(in *Instr, times int)) { walkBody(k.Body, 1, visit) }

// Kernels are the program's kernels, in order.
func (p *Program) Kernels() []*Instr {
	var all []*Instr
	p.Walk(func(in *Instr, _ int) {
		if in.Op == OpKernel {
			all = append(all, in)
		}
	})
	return all
}

// RunsOn says why a platform cannot run the program. Error: ErrPlatform.
func (p *Program) RunsOn(platform string) error {
	for _, in := range p.Kernels() {
		if k := in.Kernel; k.Platform != platform {
			return fault.New(ErrPlatform, Platform{p.Name, k.Name, k.Platform, platform},
				"program %s has its %s as a kernel for %s and was given to %s: build it for the target that runs it", p.Name, k.Name, k.Platform, platform)
		}
	}
	return nil
}

// The outputs of Compared.
const (
	ByKernel  = "kernel"
	ByMeaning = "meaning"
)

// Compared is a program for one device that runs a kernel of p and beside it what
// it means, on the same inputs: its operands, named "0", "1" and so on.
func (p *Program) Compared(in *Instr) (*Program, error) {
	one, err := mesh.Local()
	if err != nil {
		return nil, err
	}
	k, n := in.Kernel, ID(len(p.Values))
	// Beside the kernel's own instructions stand the same once more, n values on.
	c := &Program{Name: k.Name + "_compared", Mesh: one, Values: append(slices.Clip(p.Values), p.Values...)}
	port := func(name string, id ID) Port {
		t := c.Values[id]
		return Port{Name: name, DType: t.DType, Shape: t.Shape, Local: t.Shape, Spec: sharding.Whole(len(t.Shape)), Value: id, Donor: -1}
	}
	call := *in
	call.Args = shiftIDs(k.Params, n)
	c.Body = append([]Instr{call}, shiftBody(k.Body, n)...)
	for i, id := range call.Args {
		c.Inputs = append(c.Inputs, port(strconv.Itoa(i), id))
	}
	c.Outputs = []Port{port(ByKernel, in.Out[0]), port(ByMeaning, k.Result+n)}
	return c, Validate(c)
}

// shiftBody is a body with other values: each n further.
func shiftBody(body []Instr, n ID) []Instr {
	out := slices.Clone(body)
	for i := range out {
		in := &out[i]
		in.Args, in.Out = shiftIDs(in.Args, n), shiftIDs(in.Out, n)
		if in.Loop != nil {
			l := *in.Loop
			l.Index += n
			l.Params, l.Results, l.Body = shiftIDs(l.Params, n), shiftIDs(l.Results, n), shiftBody(l.Body, n)
			in.Loop = &l
		}
	}
	return out
}

func shiftIDs(ids []ID, n ID) []ID {
	out := slices.Clone(ids)
	for i := range out {
		out[i] += n
	}
	return out
}
