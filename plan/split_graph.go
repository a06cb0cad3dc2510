package plan

import (
	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/topology"
)

// Graph builds the step that a plan was read from, with every layer: the very
// weights, inputs and values that a device holds, each with its spec. o.Mesh and
// o.FSDP are the plan's. Errors: those of Search, and what makes Search refuse the split.
func Graph(m models.Model, o Options) (*graph.Graph, error) {
	if !o.On.IsNamed() || o.On.All {
		return nil, errNoHardware()
	}
	on := o.On.Slice
	if o.Mesh == nil {
		return nil, fault.New(ErrOptions, nil, "no mesh is named: a step is built for one split, as in dp=1,tp=4,sp=1")
	}
	s, err := newSearch(m, o)
	if err != nil {
		return nil, err
	}
	splits, err := s.listSplits(on)
	if err != nil {
		return nil, err
	}
	sp := splits[0]
	sp.shardedOver = o.FSDP
	local, r, err := s.requestForSplit(on, sp)
	if err != nil {
		return nil, s.adviseOnSplit(on, sp, err)
	}
	return m.Graph(local, r)
}

// requestForSplit gives the mesh of a split and the request that a model builds on it. The
// error has every reason why the split is not legal.
func (s *search) requestForSplit(on topology.Slice, sp split) (*mesh.Mesh, models.Request, error) {
	r := s.r
	r.FSDP, r.Target = sp.shardedOver, s.o.Target(on)
	local, err := mesh.Local(axesOf(sp)...)
	if err != nil {
		return nil, r, err
	}
	var l fault.List
	if sp.countDevices() != on.Devices {
		_, _, err := on.Order(axesOf(sp), nil)
		l.Add(err)
	}
	// A pipeline's programs run one microbatch, which is as small as dp allows.
	if sp.pp > 1 && r.Batch%sp.dp == 0 {
		r.Batch = sp.dp
	}
	l.Add(s.m.Check(local, r))
	return local, r, l.Err()
}
