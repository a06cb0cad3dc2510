package aot

import (
	"context"
	"slices"

	"weft/graph"
	"weft/mesh"
	"weft/phases"
	"weft/plan"
	"weft/request"
	"weft/topology"
)

// Phase has the compiled runs of a phase of making a video.
type Phase struct {
	Name string `json:"name"` // text, image, denoise or decode
	// Runs are those of the models, one after another.
	Runs []PhaseRun `json:"runs"`
}

// PhaseRun says what one model's run in a phase needs of a device. Without programs only Model
// is known: weft does not have the model, or no mesh of the slice is legal.
type PhaseRun struct {
	Model string `json:"model"`
	Mesh  string `json:"mesh,omitempty"`
	DType string `json:"dtype,omitempty"`
	// PlannedBytes are what plan counts for the same run on a device; nil where it counts none.
	PlannedBytes *int64 `json:"planned_bytes"`
	// ResidentWeightBytes, At and Need are as in Report.
	ResidentWeightBytes int64  `json:"resident_weight_bytes"`
	At                  string `json:"at,omitempty"`
	Need
	Programs       []Program `json:"programs"`
	CompileSeconds float64   `json:"compile_seconds"`
	Notes          []string  `json:"notes"`
}

// CompilePhases compiles the programs of the phases beside denoising as well, each on its own
// mesh of the slice that o.On names, and adds all phases to the report of the step, which
// Compile has made with the same options. Where phases are named, only these are compiled. It
// keeps no executables. Errors: those of Compile and of plan.Search.
func (c *Compilation) CompilePhases(ctx context.Context, o Options, only ...string) error {
	runs, err := phases.Of(c.Step.Model, o.Request)
	if err != nil {
		return err
	}
	planned, err := planPhases(ctx, c.Step, o)
	if err != nil {
		return err
	}
	var list []Phase
	for i, run := range runs {
		r := PhaseRun{Model: run.Name, Programs: []Program{}, Notes: []string{}}
		if run.Phase == phases.Denoise {
			r.fill(&c.Report)
		} else if len(only) > 0 && !slices.Contains(only, run.Phase) {
			r.Notes = append(r.Notes, "not compiled: "+run.Phase+" is not asked for")
		} else if err := r.compile(ctx, run, c.Step, o); err != nil {
			return err
		}
		if planned != nil {
			r.PlannedBytes = planned[i]
		}
		if n := len(list); n == 0 || list[n-1].Name != run.Phase {
			list = append(list, Phase{Name: run.Phase})
		}
		at := &list[len(list)-1]
		at.Runs = append(at.Runs, r)
	}
	c.Report.Phases = list
	return nil
}

// compile compiles the programs of a run beside the step.
func (r *PhaseRun) compile(ctx context.Context, run phases.Run, of *Step, o Options) error {
	s, err := newPhaseStep(run, of, o)
	if err != nil || s == nil {
		return err
	}
	if told := o.Progress; told != nil {
		o.Progress = func(program string, done, total int) { told(run.Phase+": "+program, done, total) }
	}
	c, err := CompileStep(ctx, s, o)
	if err != nil {
		return err
	}
	defer c.Close()
	r.fill(&c.Report)
	return nil
}

// fill takes a report's figures.
func (r *PhaseRun) fill(of *Report) {
	r.Mesh, r.DType, r.ResidentWeightBytes, r.At, r.Need = of.Mesh, of.DType, of.ResidentWeightBytes, of.At, of.Need
	r.Programs, r.CompileSeconds, r.Notes = of.Programs, of.CompileSeconds, slices.Clone(of.Notes)
}

// newPhaseStep builds the graph of a run beside the step, on the first mesh of the slice that its
// model allows; nil where there is none.
func newPhaseStep(run phases.Run, of *Step, o Options) (*Step, error) {
	r := run.Request
	r.Target = run.Target(of.Request.Target)
	axes := run.Place(of.On.Devices, r)
	if axes == nil {
		return nil, nil
	}
	axes = mesh.Standard(axes)
	devices, order := of.On.Plain(), "plain"
	build := func() (*graph.Graph, error) {
		n := 1
		for _, a := range axes {
			n *= a.Size
		}
		on, err := mesh.New(axes, devices[:n])
		if err != nil {
			return nil, err
		}
		return run.Model.Graph(on, r)
	}
	g, err := build()
	if err != nil {
		return nil, err
	}
	if g.Mesh.NumDevices() == of.On.Devices {
		var layout topology.Layout
		if devices, layout, err = of.On.Order(axes, bytesAlongAxes(g)); err != nil {
			return nil, err
		}
		if order = layout.Order; !slices.Equal(devices, of.On.Plain()) {
			if g, err = build(); err != nil {
				return nil, err
			}
		}
	}
	s := &Step{Model: run.Model, On: of.On, Request: r, Passes: run.Passes, Graph: g, Order: order, FSDP: []string{}, Memory: of.Memory}
	asked := o.Request
	if asked.Offload.Policy == request.OffloadKeep { // layers of the transformer
		asked.Offload = request.Offload{Policy: request.OffloadAll}
	}
	return s, s.decideOffload(asked)
}

// planPhases gives what plan counts for each run on a device, nil for those it does not count;
// nil in place of all where it counts nothing of the kind, because only some layers are asked
// for.
func planPhases(ctx context.Context, s *Step, o Options) ([]*int64, error) {
	if o.Layers > 0 {
		return nil, nil
	}
	asked := o.Request
	asked.Mesh, asked.FSDP = s.Graph.Mesh.Axes(), append([]string{}, o.FSDP...)
	res, err := plan.Search(ctx, s.Model, plan.Options{Request: asked, Machine: o.Machine})
	if err != nil || len(res.Plans) == 0 {
		return nil, err
	}
	var out []*int64
	for _, ph := range res.Plans[0].Phases {
		for _, r := range ph.Runs {
			var n *int64
			if r.Breakdown.Memory != nil {
				n = &r.Breakdown.TotalBytes
			}
			out = append(out, n)
		}
	}
	return out, nil
}
