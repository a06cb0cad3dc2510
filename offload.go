package weft

import (
	"fmt"

	"weft/engine"
	"weft/fault"
	"weft/graph"
	"weft/internal/hostmemory"
	"weft/plan"
	"weft/request"
	"weft/session"
)

// OffloadReport says which weights were streamed, and why.
type OffloadReport struct {
	Policy string `json:"policy"` // that was taken: none, all or keep=K
	Asked  string `json:"asked"`
	// LeftBytes is what a device held of weights that left it once the request had begun: the
	// most that any device held.
	LeftBytes int64 `json:"left_bytes"`
	*session.Offloaded
}

// decideOffload answers auto, and gives what a graph takes, with a note for people.
func decideOffload(o Options, g *graph.Graph, micro int, eng engine.Engine) (request.Request, string, error) {
	r := o.Request
	switch {
	case r.Offload.Streams():
		if g.Place(r.Offloading()).Layers == 0 {
			return r, fmt.Sprintf("offload %s: the model has no layers whose weights one call alone reads, so that all of them stay", r.Offload), nil
		}
		return r, "", nil
	case r.Offload.Policy != request.OffloadAuto:
		return r, "", nil
	}
	limit, err := memoryLimit(o, eng)
	if err != nil {
		return r, "", err
	}
	load := heldBy(o, g, micro, eng)
	fit, err := plan.FitOffload(load, r.Depth(), limit)
	if err != nil {
		return r, "", err
	}
	need := fit.Need
	switch {
	case fit.Keep < 0:
		r.Offload, r.OffloadDepth = request.Offload{Policy: request.OffloadNone}, nil
		return r, fmt.Sprintf("offload auto: all weights stay, because %s of %s are needed", Bytes(need), Bytes(limit)), nil
	case fit.Fits:
		r = r.Streaming(fit.Keep)
		return r, fmt.Sprintf("offload auto: %s is taken, because all weights do not fit; %s of %s are needed", r.Offload, Bytes(need), Bytes(limit)), nil
	}
	r = r.Streaming(0)
	return r, fmt.Sprintf("offload auto: all is taken, and does not fit either; %s are needed, there are %s", Bytes(need), Bytes(limit)), nil
}

// availableMemory is how many bytes this machine has for the process. Tests put others in its place.
var availableMemory = hostmemory.Available

// isHost reports whether an engine's devices are this machine's processors and memory.
func isHost(eng engine.Engine) bool {
	name := eng.Info().Name
	return name == engine.CPU || name == engine.RefDevice
}

// memoryLimit is how many bytes there are: of the machine for an engine on its processors, else
// of a device of the hardware that the request names.
func memoryLimit(o Options, eng engine.Engine) (int64, error) {
	if isHost(eng) {
		if n := availableMemory(); n > 0 {
			return n, nil
		}
	} else if o.On.IsNamed() && !o.On.All {
		if n := (plan.Machine{}).Memory(o.On.Slice).UsableBytes; n != nil {
			return *n, nil
		}
	}
	return 0, fault.New(request.ErrOptions, request.Refused{Flag: "offload", Value: request.OffloadAuto},
		"offload auto: the memory of %s is not known; name the hardware with --on, or say all, keep=K or none", eng.Info().Name)
}
