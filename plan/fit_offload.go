package plan

import (
	"weft/graph"
	"weft/mesh"
)

// Load is a graph that runs somewhere, for counting what it holds.
type Load struct {
	Graph *graph.Graph
	// Passes run one after another over the same weights; Micro is how many microbatches flow
	// through a pipeline. 0 means 1.
	Passes, Micro int
	// Shared says that the devices share one memory, and in it the weights that they hold alike.
	Shared  bool
	Offload graph.Offload
	// LeaversStay says that the weights that only the beginning of a request reads stay.
	LeaversStay bool
	// Again says that requests begin again: what only their beginning reads comes back then,
	// beside what followed it in the first request.
	Again bool

	temps map[string]int64 // by program: what it holds beside its arguments
}

// measureTemps measures the programs.
func (l *Load) measureTemps() {
	if l.temps != nil {
		return
	}
	l.temps = map[string]int64{}
	for _, name := range l.Graph.ProgramNames() {
		l.temps[name] = measureProgram(name, l.Graph.Programs[name], nil).temps
	}
}

// Bytes is the most that is held at a time, by what the graph's programs hold: by the device that
// holds most, or in the memory that all share. Error: that of Spec.Local.
func (l Load) Bytes() (int64, error) {
	l.measureTemps()
	weights, err := l.Graph.WeightMemory(l.Offload)
	if err != nil {
		return 0, err
	}
	moments, err := l.moments()
	if err != nil {
		return 0, err
	}
	var shared graph.WeightMemory
	if l.Shared {
		if shared, err = sharedWeights(l.Graph, l.Offload, weights); err != nil {
			return 0, err
		}
	}
	// What the stages hold at their fullest, apart for the request's calls and for a step's: stages
	// work at the same time, on the calls of one kind.
	type kind struct {
		stage   int
		request bool
	}
	most, on := map[kind]int64{}, map[int]*mesh.Mesh{}
	for i, c := range l.Graph.Calls {
		k := kind{c.Stage, c.Request}
		most[k] = max(most[k], moments[i]+l.temps[c.Program])
		on[c.Stage] = l.Graph.Programs[c.Program].Mesh
	}
	all, fullest := map[bool]int64{}, int64(0)
	for k, n := range most {
		devices := on[k.stage].Devices()
		all[k.request] += n * int64(len(devices))
		fullest = max(fullest, n+l.weightsAt(weights[l.Graph.Mesh.PositionOf(devices[0].ID)], k.request))
	}
	if !l.Shared {
		return fullest, nil
	}
	for request, n := range all {
		fullest = max(fullest, n+l.weightsAt(shared, request))
	}
	return fullest, nil
}

// weightsAt is what there is of weights during a call of the request, or of a step.
func (l Load) weightsAt(w graph.WeightMemory, request bool) int64 {
	if l.LeaversStay || l.Again && request {
		return w.Together()
	}
	return w.At(request)
}

// moments gives the bytes of the values that a device holds as each call begins, of all lanes.
func (l Load) moments() ([]int64, error) {
	g, passes := l.Graph, max(1, l.Passes)
	out := make([]int64, len(g.Calls))
	if g.Stages() > 1 {
		moments, err := g.StageMoments()
		for i, m := range moments {
			out[i] = int64(passes*max(1, l.Micro)) * (m.Kept + m.Alive)
		}
		return out, err
	}
	held, err := g.Residency(graph.Passes{N: passes, Offload: l.Offload})
	if err != nil {
		return nil, err
	}
	for i, m := range held.Moments {
		out[i] = m.Kept + m.Alive
	}
	return out, nil
}

// Fitting is how many layers' weights can stay in a memory.
type Fitting struct {
	// Keep is -1 where all weights can stay, else the most layers with which everything fits, or
	// 0 where nothing does.
	Keep int
	Need int64 // the most that is held at a time then
	Fits bool
}

// FitOffload finds how many layers' weights can stay in a memory of limit bytes. Of l it takes all
// but Offload and LeaversStay. Error: that of Load.Bytes.
func FitOffload(l Load, depth int, limit int64) (f Fitting, err error) {
	l.measureTemps()
	try := func(o graph.Offload) (int64, error) {
		l.Offload, l.LeaversStay = o, false
		return l.Bytes()
	}
	if f.Need, err = try(graph.Offload{}); err != nil || f.Need <= limit {
		return Fitting{-1, f.Need, err == nil}, err
	}
	layers := l.Graph.Place(graph.Offload{Stream: true}).Layers
	if f.Need, err = try(graph.Offload{Stream: true, Depth: depth}); err != nil || f.Need > limit || layers == 0 {
		return f, err
	}
	f.Fits = true
	f.Keep, err = mostThatFit(layers, func(keep int) (bool, error) {
		n, err := try(graph.Offload{Stream: true, Keep: keep, Depth: depth})
		if n <= limit {
			f.Need = max(f.Need, n) // fewer kept layers never need more
		}
		return n <= limit, err
	})
	return f, err
}

// sharedWeights is the memory of weights that all devices share. The slots are counted for each
// device, of which that is an upper bound.
func sharedWeights(g *graph.Graph, o graph.Offload, each []graph.WeightMemory) (out graph.WeightMemory, err error) {
	p := g.Place(o)
	for _, w := range each {
		out.Slots += w.Slots
	}
	if out.Stay, err = g.HostBytes(p, graph.Stays, graph.Follows); err != nil {
		return out, err
	}
	if out.Leave, err = g.HostBytes(p, graph.Leaves); err != nil {
		return out, err
	}
	out.Follow, err = g.HostBytes(p, graph.Follows)
	return out, err
}
