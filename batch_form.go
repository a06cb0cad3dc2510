package weft

import (
	"fmt"
	"reflect"
	"slices"

	"weft/engine"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/program"
)

// batchForm is how videos of one shape are denoised at once: over dp, so that each device runs the
// program that it runs for one video alone, and makes the same bytes.
type batchForm struct {
	seats int            // videos at once; 1 where they go one after another
	micro int            // microbatches of a pipeline
	alone *graph.Graph   // of one video
	of    models.Request // what alone was built for
	req   models.Request // of all seats
	o     Options        // with the mesh of all seats
	cost  useCost        // of all seats
	note  string         // why videos go one after another, where several were asked for
}

// formBatch finds how up to so many videos of a request are denoised at once.
func (d *PhaseDevices) formBatch(m *Model, req models.Request, o Options) (*batchForm, error) {
	on, whole, micro, err := m.applyOptions(req, o)
	if err != nil {
		return nil, err
	}
	whole.Target = o.Adapt(d.eng.Target())
	f := &batchForm{seats: 1, micro: micro, of: whole, req: req, o: o}
	if f.alone, err = m.Graph(on, whole); err != nil {
		return nil, err
	}
	runs := f.alone
	if d.batch > 1 {
		joint, reason := d.formSeats(m, f, on, micro)
		if reason == "" {
			runs = joint
		} else {
			f.note = fmt.Sprintf("videos of %s are denoised one after another, and not %d at once: %s", m.Name(), d.batch, reason)
		}
	}
	f.cost = d.costOfGraph(runs, micro, f.o)
	return f, nil
}

// formSeats gives a form all seats, and returns their graph, or the reason why they cannot be had.
func (d *PhaseDevices) formSeats(m *Model, f *batchForm, on *mesh.Mesh, micro int) (*graph.Graph, string) {
	if f.alone.Stages() > 1 || micro > 1 {
		return nil, "a pipeline's stages take one video's parts in turn"
	}
	if f.o.Compiled != "" {
		return nil, "the programs were compiled for one video"
	}
	if d.eng.Info().Name == engine.CPU && d.costOfGraph(f.alone, micro, f.o).exchanges {
		return nil, "the devices of one video wait for each other, and on the CPU there are as many threads as for one, since its bytes depend on their number"
	}
	o, req := f.o, f.req
	o.Mesh = slices.Clone(on.Axes())
	for i := range o.Mesh {
		if o.Mesh[i].Name == mesh.DP {
			o.Mesh[i].Size *= d.batch
		}
	}
	req.Batch *= d.batch
	all, whole, _, err := m.applyOptions(req, o)
	if err != nil {
		return nil, err.Error()
	}
	whole.Target = f.of.Target
	joint, err := m.Graph(all, whole)
	if err != nil {
		return nil, err.Error()
	}
	if err := samePrograms(f.alone, joint, d.batch); err != "" {
		return nil, err
	}
	f.seats, f.o, f.req = d.batch, o, req
	return joint, ""
}

// samePrograms says why a device would compute something else in the graph of several videos than
// in that of one; "" where it computes the same.
func samePrograms(alone, joint *graph.Graph, seats int) string {
	untraced := func(c graph.Call) graph.Call { c.Trace = nil; return c } // which has the shapes of all videos
	if !slices.EqualFunc(alone.Calls, joint.Calls, func(a, b graph.Call) bool { return reflect.DeepEqual(untraced(a), untraced(b)) }) {
		return "its steps have other calls"
	}
	for i, in := range joint.Inputs {
		one := alone.Inputs[i]
		if in.Of != "" || in.Name != one.Name || in.DType != one.DType || !slices.Equal(in.Shape, one.Shape) && !isRows(in.Shape, one.Shape, seats) {
			return fmt.Sprintf("input %q has no rows for each video", in.Name)
		}
	}
	for _, name := range alone.ProgramNames() {
		a, b := alone.Programs[name], joint.Programs[name]
		if b == nil || !slices.EqualFunc(a.Values, b.Values, sameType) || !sameBody(a.Body, b.Body, a.Mesh.NumDevices(), seats) {
			return fmt.Sprintf("program %q would be another one", name)
		}
	}
	return ""
}

func sameType(a, b program.Type) bool { return a.DType == b.DType && slices.Equal(a.Shape, b.Shape) }

// sameBody reports whether instructions on seats times n devices are those on n devices, with the
// exchanges of each n among themselves.
func sameBody(alone, joint []program.Instr, n, seats int) bool {
	return slices.EqualFunc(alone, joint, func(a, b program.Instr) bool {
		if len(b.Axes) > 0 && len(b.Groups) == 0 && slices.Contains(b.Axes, mesh.DP) { // the place along dp
			return false
		}
		var groups [][]int
		var pairs [][2]int
		for seat := range seats {
			for _, g := range a.Groups {
				moved := slices.Clone(g)
				for i := range moved {
					moved[i] += seat * n
				}
				groups = append(groups, moved)
			}
			for _, p := range a.Pairs {
				pairs = append(pairs, [2]int{p[0] + seat*n, p[1] + seat*n})
			}
		}
		if !slices.EqualFunc(groups, b.Groups, slices.Equal[[]int]) || !slices.Equal(pairs, b.Pairs) {
			return false
		}
		if la, lb := a.Loop, b.Loop; la != nil && lb != nil {
			if !sameBody(la.Body, lb.Body, n, seats) {
				return false
			}
			one, other := *la, *lb
			one.Body, other.Body = nil, nil
			a.Loop, b.Loop = &one, &other
		}
		a.Groups, a.Pairs, a.Reason = nil, nil, ""
		b.Groups, b.Pairs, b.Reason = nil, nil, ""
		return reflect.DeepEqual(a, b)
	})
}

// isRows reports whether a shape is another one with so many times the rows.
func isRows(all, one []int, times int) bool {
	return len(one) > 0 && len(all) == len(one) && all[0] == times*one[0] && slices.Equal(all[1:], one[1:])
}
