// Package graph describes one step of a model as a list of calls of named programs.
//
// A program is compiled once for all layers of its kind. A call binds it to one layer's
// weights and to the values that flow from call to call. Calls that depend on the request
// alone (on the text) are marked, and run once for all steps. Between calls, whoever runs
// the graph reports progress, may be cancelled, and loads and frees weights.
package graph

import (
	"fmt"
	"slices"

	"weft/dtype"
	"weft/mesh"
	"weft/program"
	"weft/program/cost"
	"weft/sharding"
	"weft/tensor"
)

// Weight is a parameter as the programs want it.
type Weight struct {
	Name  string        // in the official checkpoint
	File  []int         // shape in the checkpoint
	Shape []int         // shape in the programs: the same elements in the same order
	DType dtype.DType   // element type on the device
	Spec  sharding.Spec // of Shape
	Rule  string        // the rule that decided
	// Repeat above 1 says that dim 0 of Shape has each unit of Unit rows of the file so
	// often, one after another. Neighbouring shards then hold copies of one unit, such as
	// a key head that several devices share.
	Repeat, Unit int
	// Layout says how a split cuts a dim of File that stacks several matrices: each
	// device has its part of every matrix, one after another.
	Layout sharding.Layout
	// Pieces lists, in order, the tensors of a checkpoint that stores apart the matrices
	// that File stacks along dim 0. It is empty where every publisher stacks them.
	Pieces []Piece
}

// Piece is a range of rows of a tensor in a checkpoint.
type Piece struct {
	Name string // official, as a family calls it
	Of   int    // rows of the tensor
	Row  int    // the first of the range
	Rows int
}

// FileRows returns the rows of the file that rows [lo, hi) of Shape are read from. Where units
// repeat, the rows must lie within one unit; others are an error.
func (w Weight) FileRows(lo, hi int) (from, to int, err error) {
	if w.Repeat <= 1 {
		return lo, hi, nil
	}
	if lo%w.Unit+hi-lo > w.Unit {
		return 0, 0, fmt.Errorf("%s: rows %d to %d are of more than one unit of %d rows that repeats", w.Name, lo, hi, w.Unit)
	}
	from = lo/(w.Repeat*w.Unit)*w.Unit + lo%w.Unit
	return from, from + hi - lo, nil
}

// Bytes is the weight's size on one device. Error: that of Spec.Local.
func (w Weight) Bytes(m *mesh.Mesh) (int64, error) {
	local, err := w.Spec.Local(m, w.Shape)
	if err != nil {
		return 0, err
	}
	n := int64(w.DType.Size())
	for _, s := range local {
		n *= int64(s)
	}
	return n, nil
}

// Input is a value that the host provides.
type Input struct {
	Name  string
	DType dtype.DType
	Shape []int
	Spec  sharding.Spec
	// Step marks an input that changes from step to step; the others are fed once a request.
	Step bool
	// Of names the model's input of which this one is frame Frame; "" if it is no frame. A
	// frame is put on the devices as the first call that reads it is issued, and goes after
	// its last use, so that the devices never hold all frames. It is an input of the step.
	Of    string
	Frame int
}

// Ref names the value or weight that a program's input is bound to.
type Ref struct {
	Weight bool   // a parameter, else a value
	Name   string // of the parameter or value
}

// Call runs one program.
type Call struct {
	Name    string // for people: "block 3"
	Program string
	Args    []Ref    // by input of the program
	Outs    []string // value names, by output of the program
	// Stage is the pipeline stage whose devices run the call.
	Stage int
	// Request marks a call that depends on the request alone, so that it runs once.
	Request bool
	// Layer names the layer that the call is of, where several layers have the same weights
	// under names of their own: "blocks.3."; "" for other calls. The weights that a layer's call
	// alone reads may be streamed (Offload).
	Layer string
	// Trace names the outputs, by index, that are worth comparing with a reference.
	Trace map[int]Traced
}

// Traced names an intermediate value that is worth comparing with a reference.
type Traced struct {
	Name string // "block_3"
	// Shape is the value's shape without the padding that the split added behind it; nil
	// means that there is none.
	Shape []int
}

// Output is a result for the host.
type Output struct {
	Name  string
	Value string
	// Then lists values that follow Value along dim Dim: the frames that later calls made.
	Then []string
	Dim  int
	// Shape is the result's shape without the padding that the split added behind it; nil
	// means that there is none.
	Shape []int
}

// Values returns the names of all values that make up the output, in order.
func (o Output) Values() []string { return append([]string{o.Value}, o.Then...) }

// OutputBytes is how many bytes the outputs have on the host, and how many the
// values that calls name for comparing.
func (g *Graph) OutputBytes() (outputs, values int64) {
	made := map[string]program.Port{}
	for _, c := range g.Calls {
		for i, o := range g.Programs[c.Program].Outputs {
			made[c.Outs[i]] = o
			if v, ok := c.Trace[i]; ok {
				values += hostBytes(o, v.Shape)
			}
		}
	}
	for _, o := range g.Outputs {
		if o.Shape != nil {
			outputs += hostBytes(made[o.Value], o.Shape)
			continue
		}
		for _, name := range o.Values() {
			outputs += hostBytes(made[name], nil)
		}
	}
	return outputs, values
}

// hostBytes is the size of a value that is cut to a shape, nil for its own.
func hostBytes(p program.Port, shape []int) int64 {
	if shape == nil {
		shape = p.Shape
	}
	return int64(p.DType.Size()) * int64(tensor.Elements(shape))
}

// Graph is one whole step of a model. A model builds it, and nobody changes it afterwards.
type Graph struct {
	Mesh     *mesh.Mesh
	Programs map[string]*program.Program
	Weights  []Weight
	Inputs   []Input
	Calls    []Call
	Outputs  []Output
	// Layers is how many of the model's layers run one after another, of an
	// autoencoder its residual blocks: what rounding grows with.
	Layers int
	// Notes tell the reader of a plan what weft did beyond the request: padding, copies of
	// heads, the form of attention.
	Notes []string
}

// Input returns the input of that name, or nil.
func (g *Graph) Input(name string) *Input {
	for i := range g.Inputs {
		if g.Inputs[i].Name == name {
			return &g.Inputs[i]
		}
	}
	return nil
}

// LastUse returns, for each call, the values that no later call needs. An output's value
// that no call reads is among those of the call that makes it: it is taken to the host before
// it goes. An output's value that calls do read stays to the end. Values
// that a request-only call made stay, and so do inputs that are fed once a request.
func (g *Graph) LastUse() [][]string {
	read := map[string]bool{}
	for _, c := range g.Calls {
		for _, r := range c.Args {
			read[r.Name] = read[r.Name] || !r.Weight
		}
	}
	keep := map[string]bool{}
	for _, o := range g.Outputs {
		for _, v := range o.Values() {
			keep[v] = read[v]
		}
	}
	for _, in := range g.Inputs {
		keep[in.Name] = keep[in.Name] || !in.Step
	}
	for _, c := range g.Calls {
		if c.Request {
			for _, n := range c.Outs {
				keep[n] = true
			}
		}
	}
	last := map[string]int{}
	for i, c := range g.Calls {
		for _, r := range c.Args {
			if !r.Weight {
				last[r.Name] = i
			}
		}
		for _, n := range c.Outs {
			last[n] = i
		}
	}
	out := make([][]string, len(g.Calls))
	for n, i := range last {
		if !keep[n] {
			out[i] = append(out[i], n)
		}
	}
	return out
}

// Stages is the number of pipeline stages; 1 without a pipeline.
func (g *Graph) Stages() int {
	n := 1
	for _, c := range g.Calls {
		n = max(n, c.Stage+1)
	}
	return n
}

// Homes returns, for each weight and input by name, the mesh of the first call that reads it:
// the devices of a stage.
func (g *Graph) Homes() map[string]*mesh.Mesh {
	home := map[string]*mesh.Mesh{}
	for _, c := range g.Calls {
		p := g.Programs[c.Program]
		if p == nil {
			continue
		}
		for _, r := range c.Args {
			if home[r.Name] == nil {
				home[r.Name] = p.Mesh
			}
		}
	}
	return home
}

// StageOf is the stage whose devices keep each weight and value, by name.
func (g *Graph) StageOf() map[string]int {
	stage := map[string]int{}
	for _, c := range g.Calls {
		for _, r := range c.Args {
			if _, ok := stage[r.Name]; !ok {
				stage[r.Name] = c.Stage
			}
		}
	}
	return stage
}

// Flow returns, for each stage, the values of a step that other stages make for it.
func (g *Graph) Flow() [][]string {
	from := map[string]int{}
	flow := make([][]string, g.Stages())
	for _, c := range g.Calls {
		if c.Request {
			continue
		}
		for _, r := range c.Args {
			if s, ok := from[r.Name]; ok && !r.Weight && s != c.Stage && !slices.Contains(flow[c.Stage], r.Name) {
				flow[c.Stage] = append(flow[c.Stage], r.Name)
			}
		}
		for _, n := range c.Outs {
			from[n] = c.Stage
		}
	}
	return flow
}

// ProgramNames returns the names of the programs in the order of their first calls.
func (g *Graph) ProgramNames() []string {
	names := []string{}
	for _, c := range g.Calls {
		if !slices.Contains(names, c.Program) {
			names = append(names, c.Program)
		}
	}
	return names
}

// Choice is a choice that the builder of a program made.
type Choice struct {
	Program string `json:"program"`
	program.Choice
}

// Choices returns what the builders chose, such as the form of each attention, in the order of
// the programs' first calls.
func (g *Graph) Choices() []Choice {
	out := []Choice{}
	for _, name := range g.ProgramNames() {
		for _, c := range g.Programs[name].Choices {
			out = append(out, Choice{name, c})
		}
	}
	return out
}

// Traffic returns the collectives of one run, program by program: those of the request-only
// calls where request is true, else those of each step.
func (g *Graph) Traffic(request bool) []cost.Traffic {
	calls := map[string]int{}
	for _, c := range g.Calls {
		if c.Request == request {
			calls[c.Program]++
		}
	}
	var out []cost.Traffic
	for _, name := range g.ProgramNames() {
		if n := calls[name]; n > 0 {
			out = append(out, cost.AddTraffic(nil, cost.Collectives(g.Programs[name]), n)...)
		}
	}
	return out
}

// WeightBytes is what each device keeps of the weights that some call reads, by the
// position in the graph's mesh.
func (g *Graph) WeightBytes() ([]int64, error) {
	out := make([]int64, g.Mesh.NumDevices())
	homes := g.Homes()
	for _, w := range g.Weights {
		home := homes[w.Name]
		if home == nil {
			continue // no call reads it
		}
		n, err := w.Bytes(home)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
		for _, d := range home.Devices() {
			out[g.Mesh.PositionOf(d.ID)] += n
		}
	}
	return out, nil
}
