package graph

import (
	"fmt"
	"slices"

	"weft/mesh"
	"weft/sharding"
)

// Offload says which weights of a graph do not stay on the devices between the calls that
// read them. The zero value keeps all of them there, but for those that only the beginning
// of a request needs.
type Offload struct {
	// Stream has the weights of layers come with the calls that read them. Call.Layer says
	// which calls are a layer's; only weights that no other call reads are streamed.
	Stream bool
	// Keep is how many of the step's layers, the first that run, keep their weights on the
	// devices. As many as there are, or more, is as if nothing were streamed.
	Keep int
	// Depth is how many calls the reading runs ahead of the call that computes. With 0 a
	// call's weights are read once the call before it has ended.
	Depth int
}

// Residence says how long a weight is on the devices.
type Residence uint8

// How long a weight is on the devices.
const (
	// Stays: from loading to the end.
	Stays Residence = iota
	// Leaves: from loading until the calls of the request have run, because only these read
	// it. It is loaded again when a request begins again.
	Leaves
	// Streams: it is read for the one call that uses it, and goes with that call.
	Streams
	// Follows: from the moment at which those that leave have gone for the first time to the
	// end, because no call of the request reads it. So the two are not there together in
	// the first request.
	Follows
)

func (r Residence) String() string { return [...]string{"stays", "leaves", "streams", "follows"}[r] }

// SlotAlignment is where a weight begins within a slot: what an engine needs to read host
// memory in place.
const SlotAlignment = 64

// AlignedSize is the room that so many bytes take in a slot.
func AlignedSize(bytes int64) int64 { return (bytes + SlotAlignment - 1) &^ (SlotAlignment - 1) }

// Placement is what an Offload means for a graph. Its Stream is false where no layer of the step
// is streamed.
type Placement struct {
	Offload
	// Of has the residence of every weight that some call reads, by name.
	Of map[string]Residence
	// Streamed has, for each call, the weights that are streamed with it, by their index in
	// Weights.
	Streamed [][]int
	// Layers is how many layers of the step have weights that could be streamed. Keep of
	// them, or all, keep them.
	Layers int
	// AnyLeaves says that some weight leaves.
	AnyLeaves bool

	shares []layerShare // by call
}

// layerShare says, of a call, how many of the model's layers it stands for, and how many of
// these keep their weights.
type layerShare struct{ layers, kept fraction }

// Place decides where each weight of the graph is, and when. A weight follows only where others
// leave.
func (g *Graph) Place(o Offload) Placement { return g.place(Passes{Offload: o}) }

// place is Place for a graph whose calls may stand for several layers. Such a call has its
// weights in Streamed if any of these layers streams them.
func (g *Graph) place(passes Passes) Placement {
	o := passes.Offload
	readers, uses := g.weightReaders()
	layers := g.layerWeights(readers)
	var all fraction
	before := map[string]fraction{} // by layer: those of the step that run before it
	for i, list := range layers {
		c := g.Calls[i]
		if _, known := before[c.Layer]; len(list) > 0 && !c.Request && !known {
			before[c.Layer] = all
			all = all.plus(passes.layersOf(c.Program))
		}
	}
	o.Stream = o.Stream && wholeFraction(o.Keep).less(all)
	p := Placement{Offload: o, Of: map[string]Residence{}, Streamed: make([][]int, len(g.Calls)), shares: make([]layerShare, len(g.Calls))}
	for i, list := range layers {
		if len(list) == 0 {
			continue
		}
		c, at := g.Calls[i], &p.shares[i]
		at.layers = passes.layersOf(c.Program)
		switch {
		case !o.Stream:
			at.kept = at.layers
		case !c.Request:
			at.kept = wholeFraction(o.Keep).minus(before[c.Layer]).between(fraction{}, at.layers)
		}
		if at.kept.less(at.layers) {
			p.Streamed[i] = list
		}
	}
	p.Layers = int(all.of(1))
	for _, list := range p.Streamed {
		for _, w := range list {
			p.Of[g.Weights[w].Name] = Streams
		}
	}
	for name, u := range uses {
		if _, streams := p.Of[name]; !streams && !u.step {
			p.Of[name], p.AnyLeaves = Leaves, true
		}
	}
	for name, u := range uses {
		switch _, known := p.Of[name]; {
		case known:
		case p.AnyLeaves && !u.request:
			p.Of[name] = Follows
		default:
			p.Of[name] = Stays
		}
	}
	return p
}

// Slots is how many slots the calls of one pipeline stage take turns in: one for the call that
// computes and one for each that is read ahead, and no more than there are calls to fill them.
func (p Placement) Slots(g *Graph, stage int) int {
	var request, step fraction
	for i, c := range g.Calls {
		streamed := p.shares[i].layers.minus(p.shares[i].kept)
		switch {
		case c.Stage != stage:
		case c.Request:
			request = request.plus(streamed)
		default:
			step = step.plus(streamed)
		}
	}
	return min(p.Depth+1, int(max(request.of(1), step.of(1))))
}

// weightUse says by which calls a weight is read.
type weightUse struct{ request, step bool }

// weightReaders counts the calls that read each weight, and says of what kinds they are.
func (g *Graph) weightReaders() (readers map[string]int, uses map[string]weightUse) {
	readers, uses = map[string]int{}, map[string]weightUse{}
	for _, c := range g.Calls {
		seen := map[string]bool{}
		for _, r := range c.Args {
			if !r.Weight || seen[r.Name] {
				continue
			}
			seen[r.Name] = true
			readers[r.Name]++
			u := uses[r.Name]
			uses[r.Name] = weightUse{u.request || c.Request, u.step || !c.Request}
		}
	}
	return readers, uses
}

// layerWeights lists, for each call of a layer, the weights that it alone reads.
func (g *Graph) layerWeights(readers map[string]int) [][]int {
	index := make(map[string]int, len(g.Weights))
	for i, w := range g.Weights {
		index[w.Name] = i
	}
	out := make([][]int, len(g.Calls))
	for i, c := range g.Calls {
		if c.Layer == "" {
			continue
		}
		seen := map[string]bool{}
		for _, r := range c.Args {
			if r.Weight && readers[r.Name] == 1 && !seen[r.Name] {
				seen[r.Name] = true
				out[i] = append(out[i], index[r.Name])
			}
		}
	}
	return out
}

// WeightMemory is what a device holds of the weights.
type WeightMemory struct {
	// Stay is there in every step. Leave is there from loading until the calls of the request
	// have run. Follow is the part of Stay that comes only then, in the first request.
	Stay, Leave, Follow int64
	// Slots is the memory in which streamed weights take turns: SlotCount slots, each as large
	// as what the largest of the calls streams.
	Slots     int64
	SlotCount int
	// Step is what is streamed to the device in a step, Request what is once a request.
	Step, Request int64
}

// Most is the most that a device holds of the weights at a time, up to the end of the first request.
func (m WeightMemory) Most() int64 { return max(m.At(true), m.At(false)) }

// At is what a device holds of the weights during a call of the first request, or of a step.
func (m WeightMemory) At(request bool) int64 {
	if request {
		return m.Stay - m.Follow + m.Leave + m.Slots
	}
	return m.Stay + m.Slots
}

// Together is what a device holds of the weights where those that leave are there beside those that
// follow: as a request begins again, and throughout if none shall leave.
func (m WeightMemory) Together() int64 { return m.Stay + m.Leave + m.Slots }

// WeightMemory counts what each device holds of the weights, by the position in the graph's
// mesh. Error: that of Spec.Local.
func (g *Graph) WeightMemory(o Offload) ([]WeightMemory, error) {
	out := make([]WeightMemory, g.Mesh.NumDevices())
	err := g.eachPlaced(Passes{Offload: o}, func(home *mesh.Mesh, add func(*WeightMemory)) {
		for _, d := range home.Devices() {
			add(&out[g.Mesh.PositionOf(d.ID)])
		}
	}, nil)
	return out, err
}

// eachPlaced counts the weights. It calls on with the devices that hold a weight, or that a
// call's weights are streamed to, and with what that adds to their memory. visit, unless it
// is nil, hears of each weight that some call reads: its size, and what it adds, for all layers
// that its call stands for.
func (g *Graph) eachPlaced(passes Passes, on func(home *mesh.Mesh, add func(*WeightMemory)), visit func(w Weight, once int64, add WeightMemory)) error {
	p := g.place(passes)
	of := map[string]int{} // by weight: the call that it is streamed with
	for i, list := range p.Streamed {
		for _, w := range list {
			of[g.Weights[w].Name] = i
		}
	}
	aligned := make([]int64, len(g.Calls))
	homes := g.Homes()
	err := g.eachWeight(passes.scaled(), func(w Weight, once, all int64) {
		home := homes[w.Name]
		if home == nil {
			return // no call reads it
		}
		var add WeightMemory
		switch p.Of[w.Name] {
		case Leaves:
			add.Leave = all
		case Stays:
			add.Stay = all
		case Follows:
			add.Stay, add.Follow = all, all
		default:
			i := of[w.Name]
			aligned[i] += AlignedSize(once)
			add.Stay = p.shares[i].kept.of(once)
			if g.Calls[i].Request {
				add.Request = all - add.Stay
			} else {
				add.Step = all - add.Stay
				if p.AnyLeaves {
					add.Follow = add.Stay
				}
			}
		}
		on(home, func(m *WeightMemory) {
			m.Stay, m.Leave, m.Follow = m.Stay+add.Stay, m.Leave+add.Leave, m.Follow+add.Follow
			m.Step, m.Request = m.Step+add.Step, m.Request+add.Request
		})
		if visit != nil {
			visit(w, once, add)
		}
	})
	if err != nil {
		return err
	}
	for i, n := range aligned {
		if n == 0 {
			continue
		}
		slots := p.Slots(g, g.Calls[i].Stage)
		on(g.Programs[g.Calls[i].Program].Mesh, func(m *WeightMemory) { m.SlotCount, m.Slots = slots, max(m.Slots, int64(slots)*n) })
	}
	return nil
}

// HostBytes is the size of the weights with one of those residences in host memory that all devices
// share: a part that several devices hold is there once.
func (g *Graph) HostBytes(p Placement, of ...Residence) (int64, error) {
	n := int64(0)
	homes := g.Homes()
	for _, w := range g.Weights {
		home := homes[w.Name]
		if home == nil || !slices.Contains(of, p.Of[w.Name]) {
			continue
		}
		bytes, err := w.Bytes(home)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", w.Name, err)
		}
		n += bytes * int64(distinctParts(home, w.Spec)/max(1, w.Repeat))
	}
	return n, nil
}

// distinctParts is into how many parts a spec cuts a tensor.
func distinctParts(m *mesh.Mesh, spec sharding.Spec) int {
	n := 1
	for d := range spec.Rank() {
		for _, axis := range spec.Dim(d) {
			n *= m.Size(axis)
		}
	}
	return n
}

// fraction is a number of layers. The zero value is none.
type fraction struct{ num, den int64 }

func wholeFraction(n int) fraction { return fraction{int64(n), 1} }

func (f fraction) plus(o fraction) fraction {
	a, b := max(1, f.den), max(1, o.den)
	return fraction{f.num*b + o.num*a, a * b}.reduced()
}

func (f fraction) minus(o fraction) fraction { return f.plus(fraction{-o.num, o.den}) }

// reduced is the same number in lowest terms, so that a sum's terms stay small.
func (f fraction) reduced() fraction {
	a, b := f.num, f.den
	for b != 0 {
		a, b = b, a%b
	}
	if a < 0 {
		a = -a
	}
	return fraction{f.num / max(1, a), f.den / max(1, a)}
}

func (f fraction) less(o fraction) bool { return f.minus(o).num < 0 }

// between is the nearest number from lo to hi.
func (f fraction) between(lo, hi fraction) fraction {
	switch {
	case f.less(lo):
		return lo
	case hi.less(f):
		return hi
	}
	return f
}

// of is so many times n, rounded down.
func (f fraction) of(n int64) int64 { return f.num * n / max(1, f.den) }

// StreamedLayer is a call of a layer whose weights could be streamed.
type StreamedLayer struct {
	Program string
	Request bool
	First   bool  // of the calls of its layer in a step
	Bytes   int64 // of one layer's weights on one device
	// Layers is how many of the model's layers the call stands for, and Kept how many of these
	// keep their weights.
	Layers, Kept float64
}

// StreamedLayers lists the calls of layers whose weights could be streamed, in order. Error: that
// of Spec.Local.
func (g *Graph) StreamedLayers(passes Passes) ([]StreamedLayer, error) {
	p := g.place(passes)
	readers, _ := g.weightReaders()
	var out []StreamedLayer
	seen := map[string]bool{}
	for i, list := range g.layerWeights(readers) {
		if len(list) == 0 {
			continue
		}
		c := g.Calls[i]
		l := StreamedLayer{Program: c.Program, Request: c.Request, First: !c.Request && !seen[c.Layer], Layers: p.shares[i].layers.float(), Kept: p.shares[i].kept.float()}
		for _, w := range list {
			n, err := g.Weights[w].Bytes(g.Programs[c.Program].Mesh)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", g.Weights[w].Name, err)
			}
			l.Bytes += n
		}
		seen[c.Layer] = seen[c.Layer] || !c.Request
		out = append(out, l)
	}
	return out, nil
}

func (f fraction) float() float64 { return float64(f.num) / float64(max(1, f.den)) }
