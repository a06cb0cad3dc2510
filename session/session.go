// Package session runs a graph: it places weights and inputs on an engine's devices, issues
// the calls in order, and fetches the results.
//
// Values live in lanes. A lane is one pass through the graph: a microbatch, or one of the
// two texts of guidance. Lanes share the programs and the weights; each has its own inputs
// and the values computed from them. If the graph has several pipeline stages, each stage is
// a goroutine that takes the lanes in turn, so that stages work on different lanes at the
// same time.
//
// Weights that are streamed are transferred outside of programs, by engine.Engine.Put, while the
// programs before run. A program reads them as it reads weights that stay: every input and output
// is in the device's own memory. So no program's text names a kind of memory, and programs compiled
// ahead of time are the same with streamed weights and without. The kinds are those of the transfer:
// it goes from a slot of host memory that is pinned for the devices, where the engine pins
// (engine.Pinner; PJRT's DmaMap), to the default memory of the device. No device has run this:
// tests show it with an engine and with a plugin's table of functions that only record what they
// are asked for.
package session

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"weft/array"
	"weft/engine"
	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/sharding"
	"weft/tensor"
)

// Session is a graph with its programs compiled and its weights in place. Its
// methods are called from one goroutine at a time.
type Session struct {
	g           *graph.Graph
	eng         engine.Engine
	exes        map[string]engine.Executable
	weights     map[string]engine.Value
	homes       map[string]*mesh.Mesh // the meshes that hold weights and inputs
	placed      graph.Placement       // of the weights
	source      weightSource          // which they were loaded from
	addend      AddendOf              // to the weights as they are read
	left        bool                  // the weights that only a request needs are gone
	keepLeavers bool                  // these weights shall not go
	waiting     bool                  // the weights that follow these have not come yet
	streams     []*weightStream       // of weights that are not on the devices, by pipeline stage
	lanes       map[string]*lane
	lastUses    [][]string
	inputs      map[string]*graph.Input
	parts       map[string]outputPart // of the outputs, by the value that each is
	made        []string              // names of the values that the calls of a step make
	flow        [][]string            // names of the values that each stage reads from others
	loaded      Loaded
	compile     float64
	shapes      map[string]shardedShape // how to assemble each value from its shards
	spans       []Span
	finiteMu    sync.Mutex
	finite      map[string]*finiteCheck // programs that look for NaN and infinities, by what they look at
}

// shardedShape is the whole shape of a value and how it is sharded.
type shardedShape struct {
	full []int // shape
	spec sharding.Spec
}

// Progress is called as work proceeds: done of total units of the work named what. It may be
// called from several goroutines.
type Progress func(what string, done, total int64)

// report calls p, unless it is nil.
func (p Progress) report(what string, done, total int64) {
	if p != nil {
		p(what, done, total)
	}
}

// New compiles the programs of g.
func New(ctx context.Context, g *graph.Graph, eng engine.Engine, progress Progress) (*Session, error) {
	s := &Session{g: g, eng: eng, exes: map[string]engine.Executable{}, weights: map[string]engine.Value{},
		lanes: map[string]*lane{}, homes: g.Homes(), lastUses: g.LastUse(), flow: g.Flow(), shapes: map[string]shardedShape{}, parts: map[string]outputPart{}, inputs: map[string]*graph.Input{}}
	start := time.Now()
	if err := s.compileAll(ctx, progress); err != nil {
		s.Close()
		return nil, err
	}
	s.compile = time.Since(start).Seconds()
	for i, in := range g.Inputs {
		s.shapes[in.Name], s.inputs[in.Name] = shardedShape{in.Shape, in.Spec}, &g.Inputs[i]
	}
	for _, c := range g.Calls {
		if !c.Request {
			s.made = append(s.made, c.Outs...)
		}
		for i, o := range g.Programs[c.Program].Outputs {
			s.shapes[c.Outs[i]] = shardedShape{o.Shape, o.Spec}
		}
	}
	s.listOutputParts()
	return s, nil
}

// compileAll compiles the programs, a few at a time, since a compiler uses one core for most
// of its work.
func (s *Session) compileAll(ctx context.Context, progress Progress) error {
	names := s.g.ProgramNames()
	var mu sync.Mutex
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	progress.report("compile", 0, int64(len(names)))
	for _, name := range names {
		work.Go(func() (err error) {
			defer fault.Recover(&err)
			exe, err := s.eng.Compile(ctx, s.g.Programs[name])
			if err != nil {
				return fmt.Errorf("program %s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			s.exes[name] = exe
			progress.report("compile "+name, int64(len(s.exes)), int64(len(names)))
			return nil
		})
	}
	return work.Wait()
}

// Close frees the programs and the values that the session holds on the devices. The engine
// stays open.
func (s *Session) Close() {
	s.closeStreams()
	var gone int64
	for _, v := range s.weights {
		gone += v.Type().Bytes()
		v.Free()
	}
	for _, l := range s.lanes {
		l.free()
	}
	for _, e := range s.exes {
		e.Close()
	}
	s.closeFiniteChecks()
	s.weights, s.lanes, s.exes = nil, nil, nil
	returnMemory(gone)
}

// laneOf returns the lane of a name, which it makes on first use.
func (s *Session) laneOf(name string) *lane {
	l := s.lanes[name]
	if l == nil {
		l = newLane()
		s.lanes[name] = l
	}
	return l
}

// Feed places inputs of the graph on the devices, for a lane. A new name makes a new lane.
// Frames are placed later, each as the first call that reads it is issued; until then they
// must not change.
// Feeding an input of the request makes the next Run repeat the calls that run once per
// request.
func (s *Session) Feed(ctx context.Context, name string, inputs map[string]*tensor.Tensor) error {
	l := s.laneOf(name)
	for _, in := range s.g.Inputs {
		t := inputs[in.Name]
		if t == nil {
			continue
		}
		if t.DType != in.DType || !slices.Equal(t.Shape, in.Shape) {
			return fmt.Errorf("input %q is %v, the graph wants %v%v", in.Name, t, in.DType, in.Shape)
		}
		if s.homes[in.Name] == nil {
			continue // no call reads it
		}
		if in.Of != "" {
			l.dropValue(in.Name)
			l.frames[in.Name] = t
			continue
		}
		if err := s.placeInput(ctx, l, in, t); err != nil {
			return err
		}
		l.requestRun = l.requestRun && in.Step
	}
	return nil
}

// placeInput puts an input on the devices that read it.
func (s *Session) placeInput(ctx context.Context, l *lane, in graph.Input, t *tensor.Tensor) error {
	home := s.homes[in.Name]
	a, err := array.Place(ctx, s.eng, home, t, in.Spec)
	if err != nil {
		return fmt.Errorf("input %q: %w", in.Name, err)
	}
	l.setValue(in.Name, home, a.Value())
	return nil
}

// fetchValue assembles a value from its shards as one tensor on the host.
func (s *Session) fetchValue(ctx context.Context, l *lane, name string) (*tensor.Tensor, error) {
	v, m, ok := l.peekValue(name)
	if !ok {
		return nil, fmt.Errorf("no value %q", name)
	}
	p := s.shapes[name]
	return array.Of(s.eng, m, v, p.full, p.spec).Tensor(ctx)
}
