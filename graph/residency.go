package graph

import (
	"fmt"
	"slices"

	"weft/mesh"
	"weft/program"
)

// Residency says what a device holds while the calls of a graph run, apart from what a
// program holds within itself. All figures are bytes on one device.
type Residency struct {
	// Weights is what it holds of the weights.
	Weights WeightMemory
	// Moments has, for each call, the values that the device holds as the call begins.
	Moments []Moment
	// Values has the size of each input and value, by name.
	Values map[string]int64
}

// Moment says what a device holds as a call begins: the call's arguments are there, and its
// results are not yet.
type Moment struct {
	// Weights is what there is of the weights, with the slots of those that are streamed.
	Weights int64
	// Kept is what stays for the whole request: its inputs, and what request-only calls made.
	Kept int64
	// Alive is what the step has made and still needs, and the step's inputs.
	Alive int64
}

// Passes says how a graph is run. The zero value runs it once, as it stands.
type Passes struct {
	// N is how many passes run one after the other over the same weights, each with values
	// of its own, as the passes with and without the text do; 0 means 1. While one
	// runs, the latents of the others stay on the device, and so does what the others
	// keep for the request.
	N int
	// Times says how many calls of the model one call of a program stands for, as a
	// fraction: a graph of two layers may stand for a model of forty. nil means one.
	Times func(program string) (num, den int)
	// Offload says which weights stay. Where some are streamed, the passes run together, call
	// by call, so that a call's weights come once for all of them: the values of every pass are
	// there at the same time.
	Offload Offload
}

// layersOf is how many of the model's layers one call of a program stands for.
func (p Passes) layersOf(program string) fraction {
	if p.Times == nil {
		return fraction{1, 1}
	}
	num, den := p.Times(program)
	return fraction{int64(num), int64(den)}
}

// scaled gives the function that turns what one call of a program counts for into what the
// calls count for that it stands for.
func (p Passes) scaled() func(program string, n int64) int64 {
	if p.Times == nil {
		return func(_ string, n int64) int64 { return n }
	}
	return func(program string, n int64) int64 {
		num, den := p.Times(program)
		return n * int64(num) / int64(den)
	}
}

// Residency follows the calls in order. An argument whose memory a program's result takes
// over is there until then and no longer. A frame of an input comes with the first call that
// reads it. Other values of a step go after their last use
// (LastUse), and what a request-only call made stays. Error: a graph with a pipeline, because
// its stages hold different things.
func (g *Graph) Residency(p Passes) (*Residency, error) { return g.followCalls(p, nil) }

// followCalls is Residency. Where l is not nil, it hears of every change.
func (g *Graph) followCalls(p Passes, l *ledger) (*Residency, error) {
	if n := g.Stages(); n > 1 {
		return nil, fmt.Errorf("graph: %d pipeline stages: what a device holds is counted for one stage only", n)
	}
	scaled, passes := p.scaled(), int64(max(1, p.N))
	together := int64(1) // passes whose values are there at the same time
	if g.place(p).Stream {
		together = passes
	}
	r := &Residency{Values: map[string]int64{}, Moments: make([]Moment, len(g.Calls))}
	err := g.eachPlaced(p, func(_ *mesh.Mesh, add func(*WeightMemory)) { add(&r.Weights) }, nil)
	if err != nil {
		return nil, err
	}
	inputs, steps := int64(0), int64(0) // of a pass, at its beginning
	frames := map[string]int64{}        // that no call has read yet
	for _, in := range g.Inputs {
		local, err := in.Spec.Local(g.Mesh, in.Shape)
		if err != nil {
			return nil, err
		}
		n := program.Type{DType: in.DType, Shape: local}.Bytes()
		r.Values[in.Name] = n
		switch {
		case in.Of != "": // comes with the first call that reads it
			frames[in.Name] = n
		case in.Step:
			steps += n
			l.addAlive(in.Name, n*passes)
		default:
			inputs += n
			l.addKept(in.Name, n*passes)
		}
	}
	made := make([]int64, len(g.Calls)) // by a call, less what it takes over where that would stay
	all := inputs                       // what one pass keeps in the end
	for i, c := range g.Calls {
		for k, o := range g.Programs[c.Program].Outputs {
			n := program.Type{DType: o.DType, Shape: o.Local}.Bytes()
			r.Values[c.Outs[k]] = n
			made[i] += n
			if c.Request && o.Donor >= 0 { // in the memory of what an earlier call of the request made
				made[i] -= r.Values[c.Args[o.Donor].Name]
			}
		}
		if c.Request {
			all += scaled(c.Program, made[i])
		}
	}
	last := g.LastUse()
	kept := all*(passes-1) + inputs // as the last pass makes what it keeps
	alive := steps * passes
	var leaving []string // outputs that the call before made, which are taken to the host during this one
	for i, c := range g.Calls {
		for _, arg := range c.Args {
			if n, ok := frames[arg.Name]; ok {
				alive += n * together
				l.addAlive(arg.Name, n*together)
				delete(frames, arg.Name)
			}
		}
		if c.Request {
			// The last of the calls that this one stands for.
			kept += scaled(c.Program, made[i]) - made[i]
			r.Moments[i] = Moment{r.Weights.At(true), kept, alive}
			kept += made[i]
			if l.isAt(i) {
				l.addRequestValues(g, p, r.Values)
				return r, nil
			}
			continue
		}
		r.Moments[i] = Moment{r.Weights.At(false), all * passes, alive}
		if l.isAt(i) {
			l.addRequestValues(g, p, r.Values)
			return r, nil
		}
		for _, o := range c.Outs {
			l.addAlive(o, r.Values[o]*together)
		}
		alive += made[i] * together
		gone := slices.Clone(last[i])
		for _, o := range g.Programs[c.Program].Outputs {
			if o.Donor >= 0 && !slices.Contains(gone, c.Args[o.Donor].Name) {
				gone = append(gone, c.Args[o.Donor].Name)
			}
		}
		for _, name := range leaving {
			alive -= r.Values[name] * together
			l.addAlive(name, -r.Values[name]*together)
		}
		leaving = nil
		for _, name := range gone {
			if slices.Contains(c.Outs, name) && g.isOutput(name) {
				leaving = append(leaving, name)
				continue
			}
			alive -= r.Values[name] * together
			l.addAlive(name, -r.Values[name]*together)
		}
	}
	return r, nil
}

// isOutput says whether a value is a part of an output.
func (g *Graph) isOutput(value string) bool {
	return slices.ContainsFunc(g.Outputs, func(o Output) bool { return slices.Contains(o.Values(), value) })
}

// eachWeight visits the weights with the size of each on one device, once and as often as it
// counts. A weight that only one call of a program reads belongs to one layer, and counts as
// often as that call stands for layers.
func (g *Graph) eachWeight(scaled func(string, int64) int64, visit func(w Weight, once, all int64)) error {
	type use struct{ weight, program string }
	readers := map[use]int{}
	programs := map[string][]string{} // by weight
	for _, c := range g.Calls {
		for _, r := range c.Args {
			if !r.Weight {
				continue
			}
			u := use{r.Name, c.Program}
			if readers[u]++; readers[u] == 1 {
				programs[r.Name] = append(programs[r.Name], c.Program)
			}
		}
	}
	for _, w := range g.Weights {
		n, err := w.Bytes(g.Mesh)
		if err != nil {
			return err
		}
		once := n
		for _, program := range programs[w.Name] {
			if readers[use{w.Name, program}] == 1 && scaled(program, n) != n {
				n = scaled(program, n)
				break
			}
		}
		visit(w, once, n)
	}
	return nil
}

// ArgumentBytes is the device memory of a call's arguments. An argument that is bound to
// several inputs counts once.
func (g *Graph) ArgumentBytes(call int) int64 {
	c := g.Calls[call]
	n, seen := int64(0), map[Ref]bool{}
	for i, in := range g.Programs[c.Program].Inputs {
		if !seen[c.Args[i]] {
			seen[c.Args[i]] = true
			n += program.Type{DType: in.DType, Shape: in.Local}.Bytes()
		}
	}
	return n
}
