package program

import (
	"slices"
	"strconv"

	"weft/fault"
	"weft/mesh"
	"weft/sharding"
)

// ErrPlatform is a program with code for one platform that was given to another.
var ErrPlatform = fault.NewKind("wrong-platform")

// Platform are the fields of ErrPlatform.
type Platform struct {
	Program string `json:"program"`
	Kernel  string `json:"kernel"`
	For     string `json:"for"`
	Given   string `json:"given"`
}

// ForeignConfig is the name of the attribute that has a foreign kernel's configuration.
const ForeignConfig = "config"

// Kernel is a computation for which one platform has code of its own. It reads its
// operands and gives one result; it exchanges nothing with other devices.
//
// The same computation stands in Body as instructions, which are the kernel's meaning:
// the interpreter runs them, the kernel's arithmetic is counted by them, and the code's
// results are compared with theirs (Compared).
type Kernel struct {
	Name     string // of the computation: "attention"
	Platform string // "tpu", "cuda" or "cpu"
	Call     string // the target of the custom call
	// Foreign says that XLA calls a function of this process, through its foreign function interface.
	Foreign bool
	// InPlace says that the result takes over the memory of operand 0, which the kernel writes to.
	InPlace bool
	// Config makes the configuration of the call: a text, or where Typed is set the attributes
	// of an MLIR dictionary without its braces, as XLA's typed calls take them. It is called
	// when the StableHLO text is written.
	Config func() string
	Typed  bool
	// Params stand for the operands in Body, which uses no other value from outside.
	Params []ID
	Body   []Instr
	Result ID
}

// Walk visits every instruction of Body, as Program.Walk does.
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

// RunsOn gives an error where a platform cannot run the program. Error: ErrPlatform.
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

// Compared is a program for one device that runs a kernel of p and its meaning on the
// same inputs, so that their results can be compared. The inputs are the kernel's
// operands, named "0", "1" and so on; the outputs are ByKernel and ByMeaning.
func (p *Program) Compared(in *Instr) (*Program, error) {
	one, err := mesh.Local()
	if err != nil {
		return nil, err
	}
	k, n := in.Kernel, ID(len(p.Values))
	// The body is there twice: inside the kernel, and as instructions of the program whose
	// values are numbered n higher.
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

// shiftBody is a copy of a body whose values are numbered n higher.
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
