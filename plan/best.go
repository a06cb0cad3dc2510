package plan

import (
	"context"

	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/request"
	"weft/topology"
)

// Best answers a mesh of auto: it gives the request with the mesh and the FSDP axes of the
// best plan on the slice that On names, and with On all, the slice of the best plan. A
// request with a mesh, or for no hardware, comes back as it is. Layers and Micro, which a plan does not depend on, stay. Errors: those of
// Search, and ErrNoPlan.
func Best(ctx context.Context, m models.Model, o Options) (request.Request, error) {
	r := o.Request
	if r.Mesh != nil || !r.On.IsNamed() {
		return r, nil
	}
	o.Layers, o.Micro = 0, 0
	res, err := Search(ctx, m, o)
	if err != nil {
		return r, err
	}
	if len(res.Plans) == 0 {
		return r, fault.New(ErrNoPlan, nil, "no split of %s is legal; weft plan --all says why", r.On)
	}
	p := res.Plans[0]
	axes, err := mesh.Parse(p.Mesh)
	if err != nil {
		return r, err
	}
	r.Mesh, r.FSDP = axes, p.FSDP
	if p.Offload != nil {
		r = r.Streaming(p.split.offload.Keep)
	} else if r.Offload.Policy == request.OffloadAuto {
		r.Offload, r.OffloadDepth = request.Offload{Policy: request.OffloadNone}, nil
	}
	if r.On.All {
		if r.On.Slice, err = topology.Lookup(p.Slice); err != nil {
			return r, err
		}
		r.On.All = false
	}
	return r, nil
}
