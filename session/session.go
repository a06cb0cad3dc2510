// Package session runs a graph: it places weights and inputs on an engine's
// devices, issues the calls in order, and brings results back.
package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weft/engine"
	"weft/graph"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

// Session is a graph with its programs compiled and its weights in place. It
// serves one goroutine at a time.
type Session struct {
	g       *graph.Graph
	eng     engine.Engine
	exes    map[string]engine.Executable
	weights map[string]engine.Value
	values  map[string]engine.Value
	drop    [][]string
	textRun bool // the calls of the request have run on the present inputs
	// Requests set aside by Select, by name, with what they computed.
	current string
	aside   map[string]request
	loaded  Loaded
	compile float64
	shapes  map[string]port // of values, by name, for bringing them back
}

type request struct {
	values  map[string]engine.Value
	textRun bool
}

type port struct {
	t    spmd.Type
	full []int
	spec sharding.Spec
}

// Progress is called as work proceeds: done of total units of what.
type Progress func(what string, done, total int64)

func (p Progress) report(what string, done, total int64) {
	if p != nil {
		p(what, done, total)
	}
}

// New compiles the programs of g.
func New(ctx context.Context, g *graph.Graph, eng engine.Engine, progress Progress) (*Session, error) {
	s := &Session{g: g, eng: eng, exes: map[string]engine.Executable{}, weights: map[string]engine.Value{},
		values: map[string]engine.Value{}, drop: g.LastUse(), shapes: map[string]port{}, aside: map[string]request{}}
	start := time.Now()
	names := g.ProgramNames()
	for i, name := range names {
		progress.report("compile "+name, int64(i), int64(len(names)))
		exe, err := eng.Compile(ctx, g.Programs[name])
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("program %s: %w", name, err)
		}
		s.exes[name] = exe
	}
	progress.report("compile", int64(len(names)), int64(len(names)))
	s.compile = time.Since(start).Seconds()
	for _, in := range g.Inputs {
		local, err := in.Spec.Local(g.Mesh, in.Shape)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.shapes[in.Name] = port{spmd.Type{DType: in.DType, Shape: local}, in.Shape, in.Spec}
	}
	for _, c := range g.Calls {
		for i, o := range g.Programs[c.Program].Outputs {
			s.shapes[c.Outs[i]] = port{spmd.Type{DType: o.DType, Shape: o.Local}, o.Shape, o.Spec}
		}
	}
	return s, nil
}

// Close frees what the session holds on the devices; the engine stays open.
func (s *Session) Close() {
	for _, v := range s.weights {
		v.Free()
	}
	for _, v := range s.values {
		v.Free()
	}
	for _, r := range s.aside {
		for _, v := range r.values {
			v.Free()
		}
	}
	for _, e := range s.exes {
		e.Close()
	}
	s.weights, s.values, s.exes = nil, nil, nil
}

// Feed places inputs of the graph on the devices. Feeding an input of the
// request makes the next Run compute what depends on it again.
func (s *Session) Feed(ctx context.Context, inputs map[string]*tensor.Tensor) error {
	for _, in := range s.g.Inputs {
		t := inputs[in.Name]
		if t == nil {
			continue
		}
		if t.DType != in.DType || !slices.Equal(t.Shape, in.Shape) {
			return fmt.Errorf("input %q is %v, the graph wants %v%v", in.Name, t, in.DType, in.Shape)
		}
		v, err := s.place(ctx, t, in.Spec)
		if err != nil {
			return fmt.Errorf("input %q: %w", in.Name, err)
		}
		s.set(in.Name, v)
		s.textRun = s.textRun && in.Step
	}
	return nil
}

func (s *Session) set(name string, v engine.Value) {
	if old := s.values[name]; old != nil {
		old.Free()
	}
	s.values[name] = v
}

// Select changes to another request: its inputs and what was computed from them
// alone stay on the devices while another one is current. A new name starts
// with nothing fed.
func (s *Session) Select(name string) {
	if name == s.current {
		return
	}
	s.aside[s.current] = request{s.values, s.textRun}
	r, ok := s.aside[name]
	if !ok {
		r.values = map[string]engine.Value{}
	}
	delete(s.aside, name)
	s.values, s.textRun, s.current = r.values, r.textRun, name
}

// place cuts a host tensor by its spec; devices that hold the same part share one block.
func (s *Session) place(ctx context.Context, t *tensor.Tensor, spec sharding.Spec) (engine.Value, error) {
	local, err := spec.Local(s.g.Mesh, t.Shape)
	if err != nil {
		return nil, err
	}
	typ := spmd.Type{DType: t.DType, Shape: local}
	blocks := make([]*engine.Block, s.g.Mesh.NumDevices())
	shared := map[string]*engine.Block{}
	for pos := range blocks {
		lo, hi, key, err := rangesAt(s.g, spec, t.Shape, pos)
		if err != nil {
			return nil, err
		}
		if shared[key] == nil {
			b, err := newBlock(int(typ.Bytes()))
			if err != nil {
				return nil, err
			}
			tensor.Cut(b.Data, t.Data, t.Shape, lo, hi, t.DType.Size())
			shared[key] = b
		}
		blocks[pos] = shared[key]
	}
	return s.eng.Put(ctx, s.g.Mesh, typ, blocks)
}

func rangesAt(g *graph.Graph, spec sharding.Spec, shape []int, pos int) (lo, hi []int, key string, err error) {
	rs, err := spec.Ranges(g.Mesh, shape, pos)
	if err != nil {
		return nil, nil, "", err
	}
	for _, r := range rs {
		lo, hi = append(lo, r.Lo), append(hi, r.Hi)
	}
	return lo, hi, fmt.Sprint(lo, hi), nil
}

// RunOptions of one run.
type RunOptions struct {
	// Trace gets every value the graph names for comparing, in order.
	Trace func(name string, t *tensor.Tensor) error
	// Progress counts calls.
	Progress Progress
}

// Run issues the calls, those of the request only where their inputs changed
// since the last run, and returns the graph's outputs. Inputs that change from
// step to step are used up.
func (s *Session) Run(ctx context.Context, o RunOptions) (map[string]*tensor.Tensor, error) {
	for i, c := range s.g.Calls {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if c.Request && s.textRun {
			continue
		}
		o.Progress.report(c.Name, int64(i), int64(len(s.g.Calls)))
		if err := s.call(ctx, i, o.Trace); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	s.textRun = true
	out := map[string]*tensor.Tensor{}
	for _, r := range s.g.Outputs {
		t, err := s.Fetch(ctx, r.Value)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", r.Name, err)
		}
		out[r.Name] = t
	}
	o.Progress.report("run", int64(len(s.g.Calls)), int64(len(s.g.Calls)))
	return out, nil
}

func (s *Session) call(ctx context.Context, i int, trace func(string, *tensor.Tensor) error) error {
	c := s.g.Calls[i]
	p := s.g.Programs[c.Program]
	args := make([]engine.Value, len(c.Args))
	for k, r := range c.Args {
		from := s.values
		if r.Weight {
			from = s.weights
		}
		if args[k] = from[r.Name]; args[k] == nil {
			return fmt.Errorf("%q is not in place: weights are loaded and inputs fed before a run", r.Name)
		}
	}
	outs, err := s.exes[c.Program].Run(ctx, args)
	if err != nil {
		return err
	}
	for _, o := range p.Outputs {
		if o.Donor >= 0 {
			delete(s.values, c.Args[o.Donor].Name) // the run took it over
		}
	}
	for k, name := range c.Outs {
		s.set(name, outs[k])
	}
	if trace != nil {
		for k := range c.Outs {
			value, ok := c.Trace[k]
			if !ok {
				continue
			}
			t, err := s.Fetch(ctx, c.Outs[k])
			if err != nil {
				return err
			}
			if err := trace(value.Name, t.Crop(value.Shape)); err != nil {
				return err
			}
		}
	}
	for _, name := range s.drop[i] {
		if v := s.values[name]; v != nil {
			v.Free()
			delete(s.values, name)
		}
	}
	return nil
}

// Fetch brings a value back as one host tensor. Parts held by several devices
// are read from the first.
func (s *Session) Fetch(ctx context.Context, name string) (*tensor.Tensor, error) {
	v, p := s.values[name], s.shapes[name]
	if v == nil {
		return nil, fmt.Errorf("no value %q", name)
	}
	t := tensor.New(p.t.DType, p.full...)
	buf := make([]byte, p.t.Bytes())
	seen := map[string]bool{}
	for pos := range s.g.Mesh.NumDevices() {
		lo, hi, key, err := rangesAt(s.g, p.spec, p.full, pos)
		if err != nil {
			return nil, err
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		if err := v.Get(ctx, pos, buf); err != nil {
			return nil, err
		}
		tensor.Paste(t.Data, buf, t.Shape, lo, hi, t.DType.Size())
	}
	return t, nil
}
