package session

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"weft/graph"
	"weft/tensor"
)

// outputPart says which part of an output a value is.
type outputPart struct {
	output  int  // of the graph's
	at      int  // the part's place along the output's dim
	dropped bool // once it is on the host, because no call reads it
}

// listOutputParts finds out which values are parts of outputs. A value of several outputs is
// taken for the first of them, since the others are the same tensor.
func (s *Session) listOutputParts() {
	for k, o := range s.g.Outputs {
		at := 0
		values := o.Values()
		for _, v := range values {
			if _, ok := s.parts[v]; !ok {
				s.parts[v] = outputPart{output: k, at: at}
			}
			if len(values) > 1 {
				at += s.shapes[v].full[o.Dim]
			}
		}
	}
	for i := range s.g.Calls {
		for _, v := range s.lastUses[i] {
			if part, ok := s.parts[v]; ok {
				part.dropped = true
				s.parts[v] = part
			}
		}
	}
}

// outputValues lists those of a call's values that are parts of outputs.
func (s *Session) outputValues(c graph.Call) []string {
	return slices.DeleteFunc(slices.Clone(c.Outs), func(v string) bool {
		_, ok := s.parts[v]
		return !ok
	})
}

// oneRun is what one Run has been asked for and has handed over so far.
type oneRun struct {
	s     *Session
	o     RunOptions
	lanes []string
	tick  func(call string)

	mu   sync.Mutex // stages of a pipeline hand over at the same time
	outs []map[string]*tensor.Tensor
	done []map[string]bool // by lane: values that were handed over
}

func (s *Session) newRun(o RunOptions, lanes []string, tick func(string)) *oneRun {
	r := &oneRun{s: s, o: o, lanes: lanes, tick: tick, outs: make([]map[string]*tensor.Tensor, len(lanes)), done: make([]map[string]bool, len(lanes))}
	for i := range lanes {
		r.outs[i], r.done[i] = map[string]*tensor.Tensor{}, map[string]bool{}
	}
	return r
}

// handOver takes values of outputs to the host: to Visit, or into the outputs that Run
// returns. A value that no call reads then goes from the devices.
func (r *oneRun) handOver(ctx context.Context, lane int, values []string) error {
	l := r.s.laneOf(r.lanes[lane])
	for _, v := range values {
		part := r.s.parts[v]
		o := r.s.g.Outputs[part.output]
		t, err := r.s.fetchValue(ctx, l, v)
		if err != nil {
			return fmt.Errorf("output %s: %w", o.Name, err)
		}
		t, whole := cropPart(o, part.at, t)
		if err := r.checkFinite(ctx, l, lane, v, o.Name, t); err != nil {
			return fmt.Errorf("output %s: %w", o.Name, err)
		}
		if part.dropped {
			l.dropValue(v)
		}
		r.mu.Lock()
		r.done[lane][v] = true
		r.mu.Unlock()
		if r.o.Visit != nil {
			if t.Elements() > 0 || whole {
				err = r.o.Visit(r.lanes[lane], o.Name, part.at, t)
			}
			if err != nil {
				return fmt.Errorf("output %s: %w", o.Name, err)
			}
			continue
		}
		r.mu.Lock()
		r.putPart(lane, o, part.at, t)
		r.mu.Unlock()
	}
	return nil
}

// checkFinite tells the run's Finite, where it is set, what the devices see in a part of an output
// that is on the host as t.
func (r *oneRun) checkFinite(ctx context.Context, l *lane, lane int, value, output string, t *tensor.Tensor) error {
	if r.o.Finite == nil {
		return nil
	}
	seen, err := r.s.countNonFinite(ctx, l, value, output, t)
	if err != nil {
		return err
	}
	return r.o.Finite(r.lanes[lane], seen)
}

// cropPart cuts off a part of an output what padding added, and says whether the part is the
// whole output.
func cropPart(o graph.Output, at int, t *tensor.Tensor) (_ *tensor.Tensor, whole bool) {
	if len(o.Then) == 0 {
		return t.Crop(o.Shape), true
	}
	if o.Shape == nil {
		return t, false
	}
	shape := slices.Clone(o.Shape)
	shape[o.Dim] = max(0, min(t.Shape[o.Dim], o.Shape[o.Dim]-at))
	return t.Crop(shape), false
}

// putPart puts a part of an output in its place.
func (r *oneRun) putPart(lane int, o graph.Output, at int, t *tensor.Tensor) {
	outs := r.outs[lane]
	if len(o.Then) == 0 {
		outs[o.Name] = t
		return
	}
	all := outs[o.Name]
	if all == nil {
		shape := slices.Clone(t.Shape)
		shape[o.Dim] = 0
		for _, v := range o.Values() {
			shape[o.Dim] += r.s.shapes[v].full[o.Dim]
		}
		if o.Shape != nil {
			shape[o.Dim] = min(shape[o.Dim], o.Shape[o.Dim])
		}
		all = tensor.New(t.DType, shape...)
		outs[o.Name] = all
	}
	lo, hi := make([]int, len(t.Shape)), slices.Clone(t.Shape)
	lo[o.Dim], hi[o.Dim] = at, at+t.Shape[o.Dim]
	tensor.Paste(all.Data, t.Data, all.Shape, lo, hi, t.DType.Size())
}

// handOverRest hands over what no call of this run made, such as the values of calls that run
// once a request, and gives outputs their further names.
func (r *oneRun) handOverRest(ctx context.Context, lane int) error {
	var rest []string
	for _, o := range r.s.g.Outputs {
		for _, v := range o.Values() {
			if !r.done[lane][v] && !slices.Contains(rest, v) {
				rest = append(rest, v)
			}
		}
	}
	if err := r.handOver(ctx, lane, rest); err != nil || r.o.Visit != nil {
		return err
	}
	for _, o := range r.s.g.Outputs {
		first := r.s.g.Outputs[r.s.parts[o.Value].output]
		r.outs[lane][o.Name] = r.outs[lane][first.Name]
	}
	return nil
}

// placeFrame puts the input of that name on the devices if it is a frame that is not there
// yet.
func (s *Session) placeFrame(ctx context.Context, run *oneRun, l *lane, lane, name string) error {
	in := s.inputs[name]
	if in == nil || in.Of == "" || l.hasValue(name) {
		return nil
	}
	t := l.frames[name]
	delete(l.frames, name)
	if t == nil && run.o.Frame != nil {
		var err error
		if t, err = run.o.Frame(ctx, lane, *in); err != nil {
			return fmt.Errorf("frame %d of %q: %w", in.Frame, in.Of, err)
		}
	}
	if t == nil {
		return nil // told as an input that is not in place
	}
	if t.DType != in.DType || !slices.Equal(t.Shape, in.Shape) {
		return fmt.Errorf("frame %d of %q is %v, the graph wants %v%v", in.Frame, in.Of, t, in.DType, in.Shape)
	}
	return s.placeInput(ctx, l, *in, t)
}
