package plan

import (
	"weft/graph"
)

// FitOffload finds how many layers' weights can stay where a memory of limit bytes is shared by
// so many devices: keep is -1 where all weights can, else the most layers with which everything
// fits, or 0 where nothing does. need is the most that is held at a time then, by what the
// graph's programs hold. Devices that share memory share the weights that they hold alike.
// Error: that of graph.Residency.
func FitOffload(g *graph.Graph, passes, devices, depth int, limit int64) (keep int, need int64, fits bool, err error) {
	temps := map[string]int64{}
	for _, name := range g.ProgramNames() {
		temps[name] = measureProgram(name, g.Programs[name], nil).temps
	}
	try := func(o graph.Offload) (int64, error) {
		held, err := g.Residency(graph.Passes{N: passes, Offload: o})
		if err != nil {
			return 0, err
		}
		shared := held.Weights
		if devices > 1 {
			if shared, err = sharedWeights(g, o, held.Weights); err != nil {
				return 0, err
			}
		}
		most := int64(0)
		for i, c := range g.Calls {
			at := held.Moments[i]
			most = max(most, shared.At(c.Request)+int64(devices)*(at.Kept+at.Alive+temps[c.Program]))
		}
		return most, nil
	}
	if need, err = try(graph.Offload{}); err != nil || need <= limit {
		return -1, need, err == nil, err
	}
	lo, hi := 0, g.Place(graph.Offload{Stream: true}).Layers
	if need, err = try(graph.Offload{Stream: true, Depth: depth}); err != nil || need > limit || hi == 0 {
		return 0, need, false, err
	}
	for lo+1 < hi { // lo fits; fewer kept layers never need more
		mid := (lo + hi) / 2
		n, err := try(graph.Offload{Stream: true, Keep: mid, Depth: depth})
		if err != nil {
			return 0, 0, false, err
		}
		if n <= limit {
			lo, need = mid, n
		} else {
			hi = mid
		}
	}
	return lo, need, true, nil
}

// sharedWeights is the memory of weights that all devices share. The slots are counted for each
// device, of which that is an upper bound.
func sharedWeights(g *graph.Graph, o graph.Offload, one graph.WeightMemory) (graph.WeightMemory, error) {
	p := g.Place(o)
	var err error
	out := graph.WeightMemory{SlotCount: one.SlotCount, Slots: one.Slots * int64(g.Mesh.NumDevices())}
	if out.Stay, err = g.HostBytes(p, graph.Stays); err == nil {
		out.Leave, err = g.HostBytes(p, graph.Leaves)
	}
	return out, err
}
