package graph

import (
	"fmt"
	"slices"

	"weft/dtype"
	"weft/mesh"
	"weft/program"
	"weft/sharding"
)

// Check verifies that every name resolves, that types and layouts fit, that no value is made
// twice or used after a program's result took its memory over, and that no weight is given
// away. A broken graph is a fault in a model's code; Check finds it before anything runs.
func (g *Graph) Check() error {
	c := checker{homes: g.Homes(), weights: make(map[string]globalType, len(g.Weights)), values: map[string]globalType{}, made: map[string]bool{}}
	for _, w := range g.Weights {
		c.weights[w.Name] = globalType{w.DType, w.Shape, w.Spec.Canonical(g.Mesh, len(w.Shape))}
	}
	for _, in := range g.Inputs {
		c.values[in.Name] = globalType{in.DType, in.Shape, in.Spec.Canonical(g.Mesh, len(in.Shape))}
	}
	for _, in := range g.Inputs {
		if in.Of != "" && !in.Step {
			return fmt.Errorf("graph: input %q is a frame of %q and no input of the step", in.Name, in.Of)
		}
	}
	for _, call := range g.Calls {
		p := g.Programs[call.Program]
		if p == nil {
			return fmt.Errorf("graph: call %q names the unknown program %q", call.Name, call.Program)
		}
		if err := c.followCall(call, p); err != nil {
			return err
		}
	}
	for _, o := range g.Outputs {
		for _, v := range o.Values() {
			if _, ok := c.values[v]; !ok {
				return fmt.Errorf("graph: output %q wants the value %q, which nothing provides", o.Name, v)
			}
		}
	}
	return nil
}

// globalType is the type of a whole tensor and how it is laid out.
type globalType struct {
	dtype dtype.DType
	shape []int
	spec  sharding.Spec
}

// checker follows the calls of a graph in order.
type checker struct {
	homes   map[string]*mesh.Mesh
	weights map[string]globalType
	values  map[string]globalType // those that exist now
	made    map[string]bool       // those that some call has made
}

// followCall checks what a call reads and makes, and updates which values exist.
func (c *checker) followCall(call Call, p *program.Program) error {
	if len(call.Args) != len(p.Inputs) || len(call.Outs) != len(p.Outputs) {
		return fmt.Errorf("graph: call %q binds %d of %d inputs and %d of %d outputs", call.Name, len(call.Args), len(p.Inputs), len(call.Outs), len(p.Outputs))
	}
	var donated []string
	for i, arg := range call.Args {
		if err := c.checkArgument(call, p, arg, p.Inputs[i]); err != nil {
			return err
		}
		if !slices.ContainsFunc(p.Outputs, func(o program.Port) bool { return o.Donor == i }) {
			continue
		}
		if arg.Weight {
			return fmt.Errorf("graph: call %q gives away the weight %q", call.Name, arg.Name)
		}
		donated = append(donated, arg.Name)
	}
	for _, name := range donated {
		delete(c.values, name)
	}
	for i, name := range call.Outs {
		if c.made[name] {
			return fmt.Errorf("graph: call %q makes the value %q a second time", call.Name, name)
		}
		c.made[name] = true
		o := p.Outputs[i]
		c.values[name] = globalType{o.DType, o.Shape, o.Spec}
	}
	return nil
}

// checkArgument checks that what is bound to an input exists there and has its type.
func (c *checker) checkArgument(call Call, p *program.Program, arg Ref, in program.Port) error {
	got, ok := c.values[arg.Name]
	if arg.Weight {
		got, ok = c.weights[arg.Name]
		if c.homes[arg.Name] != p.Mesh {
			return fmt.Errorf("graph: call %q reads the weight %q, which another stage keeps", call.Name, arg.Name)
		}
	}
	if !ok {
		return fmt.Errorf("graph: call %q: input %q is bound to %q, which nothing provides", call.Name, in.Name, arg.Name)
	}
	if got.dtype != in.DType || !slices.Equal(got.shape, in.Shape) || !got.spec.Equal(in.Spec) {
		return fmt.Errorf("graph: call %q: input %q wants %v%v %v, %q is %v%v %v", call.Name, in.Name, in.DType, in.Shape, in.Spec, arg.Name, got.dtype, got.shape, got.spec)
	}
	return nil
}
