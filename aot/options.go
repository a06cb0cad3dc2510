package aot

import (
	"slices"

	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/plan"
	"weft/request"
	"weft/targets"
	"weft/topology"
	"weft/xla/plugin"
)

// Kinds of errors.
var (
	// ErrSlice: a slice that nothing here compiles for.
	ErrSlice = fault.NewKind("aot-slice")
	// ErrOptions: options of which no compilation can be made.
	ErrOptions = fault.NewKind("aot-options")
	// ErrPlatform: a program that was lowered for other hardware than the slice.
	ErrPlatform = fault.NewKind("program-platform")
)

// Platform are the fields of ErrPlatform, in JAX's names: cpu, tpu, cuda, rocm. Calls
// are the custom calls that show it, where the file itself says nothing.
type Platform struct {
	Asked string   `json:"asked"`
	Has   []string `json:"has"`
	Calls []string `json:"calls,omitempty"`
}

// Options say what is compiled, and how.
type Options struct {
	// Request says what is compiled, for what. Mesh must be given (plan.Best answers auto),
	// and FSDP without axes stands for the axis fsdp. Layers is the number of layers of
	// which memory is counted: programs are the same for any number.
	request.Request
	Machine plan.Machine // whose memory the devices of cpu:N share
	// Plugin is an engine's name or a plugin file in place of the slice's own.
	Plugin string
	// Install fetches the cpu engine where it is missing; Progress is told. The tpu
	// engine is large and is fetched on demand only (weft engine install tpu).
	Install  bool
	Fetching func(plugin.Progress)
	// Parallel is how many programs are compiled at a time; 0 is one for every processor.
	Parallel int
	// Progress is told of each program when it is compiled.
	Progress func(program string, done, total int)
}

// Step is a graph on a slice, which Compile compiles.
type Step struct {
	Model   models.Model
	On      topology.Slice
	Request models.Request
	Passes  int // of the graph, in a denoising step
	Graph   *graph.Graph
	Order   string // of the devices, as topology.Layout has it
	FSDP    []string
	Layers  int
	Memory  topology.DeviceMemory // of one device
	// Offload says which weights are streamed, Policy the same as --offload takes it.
	Offload graph.Offload
	Policy  request.Offload
}

// NewStep builds the graph that Compile compiles, its mesh laid on the slice as
// Order lays it by what each axis moves. Errors: those of request.Request.OfVideo,
// Model.Check and Slice.Order.
func NewStep(m models.Model, o Options) (*Step, error) {
	if !o.On.IsNamed() || o.On.All {
		return nil, fault.New(ErrOptions, nil, "no slice is named: programs are compiled for one, such as v4-8 or cpu:4")
	}
	on := o.On.Slice
	if len(o.Mesh) == 0 {
		return nil, fault.New(ErrOptions, nil, "no mesh is given: a program is compiled for one split, such as tp=%d", on.Devices)
	}
	if o.As != "" {
		return nil, fault.New(ErrOptions, nil, "as %s: the programs that are compiled are weft's; the peer's are planned only", o.As)
	}
	r, passes, err := o.OfVideo(m)
	if err != nil {
		return nil, err
	}
	axes := mesh.Standard(o.Mesh)
	if i := slices.IndexFunc(axes, func(a mesh.Axis) bool { return mesh.Canonical(a.Name) == mesh.PP && a.Size > 1 }); i >= 0 {
		return nil, fault.New(models.ErrAxis, nil, "axis %s=%d: a pipeline's stages are not compiled ahead of time; dp, fsdp, tp and sp are", axes[i].Name, axes[i].Size)
	}
	r.FSDP, r.Target = o.FSDP, o.Adapt(targets.For(on))
	local, err := mesh.Local(axes...)
	if err != nil {
		return nil, err
	}
	check := func(candidate *mesh.Mesh) error {
		_, _, err := on.Order(candidate.Axes(), nil)
		return fault.Join(err, m.Check(candidate, r))
	}
	if err := models.Advise(check(local), local, on.Devices, check); err != nil {
		return nil, err
	}
	plain, err := mesh.New(axes, on.Plain())
	if err != nil {
		return nil, err
	}
	g, err := m.Graph(plain, r)
	if err != nil {
		return nil, err
	}
	devices, layout, err := on.Order(axes, bytesAlongAxes(g))
	if err != nil {
		return nil, err
	}
	s := &Step{Model: m, On: on, Request: r, Passes: passes, Graph: g, Order: layout.Order, FSDP: models.FSDPAxes(plain, r), Layers: o.Layers, Memory: o.Machine.Memory(on)}
	if err := s.decideOffload(o.Request); err != nil {
		return nil, err
	}
	if slices.Equal(devices, on.Plain()) {
		return s, nil
	}
	ordered, err := mesh.New(axes, devices)
	if err != nil {
		return nil, err
	}
	s.Graph, err = m.Graph(ordered, r)
	return s, err
}

// bytesAlongAxes is what a device sends in a step along each axis.
func bytesAlongAxes(g *graph.Graph) map[string]int64 {
	bytes := map[string]int64{}
	for _, t := range g.Traffic(false) {
		for _, a := range t.Axes {
			bytes[a] += t.Bytes
		}
	}
	return bytes
}

// decideOffload takes the policy of a request. auto keeps as many layers as fit a device.
func (s *Step) decideOffload(r request.Request) error {
	if r.Offload.Policy == request.OffloadAuto {
		if s.Memory.UsableBytes == nil {
			return fault.New(ErrOptions, nil, "offload auto on %s, whose memory is not known: none, all or keep=K", s.On)
		}
		fit, err := plan.FitOffload(plan.Load{Graph: s.Graph, Passes: s.Passes}, r.Depth(), *s.Memory.UsableBytes)
		if err != nil {
			return err
		}
		if r.Offload.Policy = request.OffloadNone; fit.Keep >= 0 {
			r = r.Streaming(fit.Keep)
		}
	}
	s.Offload, s.Policy = r.Offloading(), r.Offload
	return nil
}
