package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/spmd"
)

// measured is what a graph says of a split, whatever the slice.
type measured struct {
	memory        Memory
	step, request []spmd.Traffic
	programs      []programCost // of a step
	padding       []string
	notes         []string
}

// programCost is one program of a step.
type programCost struct {
	name                   string
	calls                  int
	matmul, attention      float64 // FLOPs of one call, of contractions without and with batch dims
	moved                  int64   // bytes of one call, in and out of memory, without attention's loops
	traffic                []spmd.Traffic
	peak, arguments, temps int64
	// Of what is held at the peak beyond the inputs: made by all-gathers, held by attention.
	gathered, attending int64
}

// notPlanned refuses a pipeline.
func notPlanned(a mesh.Axis) error {
	return fault.New(models.ErrAxis, struct {
		Axis  string   `json:"axis"`
		Known []string `json:"known"`
	}{a.Name, []string{"dp", "fsdp", "tp", "sp"}}, "axis %s=%d: pipelines are not planned yet; dp, fsdp, tp and sp are", a.Name, a.Size)
}

// depth is the number of layers N if the parameters of N layers are those of
// one and N-1 times what the second adds: then a graph of two layers says all, since
// programs are shared by the layers. Otherwise 0.
func depth(m models.Model) int {
	count := func(layers int) (params, elements int) {
		for _, p := range m.Params(layers) {
			n := 1
			for _, d := range p.Shape {
				n *= d
			}
			params, elements = params+1, elements+n
		}
		return params, elements
	}
	p1, e1 := count(1)
	p2, e2 := count(2)
	pn, en := count(0)
	if p2 == p1 || (pn-p1)%(p2-p1) != 0 {
		return 0
	}
	n := 1 + (pn-p1)/(p2-p1)
	if n <= 2 || e1+(n-1)*(e2-e1) != en {
		return 0
	}
	return n
}

// measured builds the graph of a split once and reads it.
func (s *search) measured(on *mesh.Mesh, sp split, r models.Request) (*measured, error) {
	key := fmt.Sprint(sp.mesh(), sp.shares, r.Batch, r.DType, r.SplitResidual, r.Latent, r.Target)
	s.mu.Lock()
	got := s.measure[key]
	s.mu.Unlock()
	if got != nil {
		return got, nil
	}
	r.Layers = 0
	if s.layers > 0 {
		r.Layers = 2
	}
	g, err := s.m.Graph(on, r)
	if err != nil {
		return nil, err
	}
	got, err = read(g, s.layers, s.passes)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.measure[key] = got
	s.mu.Unlock()
	return got, nil
}

// reading is a graph, and how often its parts occur.
type reading struct {
	*graph.Graph
	layers int            // 0: as it is; otherwise programs called twice are called so often
	calls  map[string]int // by program, in the graph
	costs  map[string]*programCost
	values map[string]int64 // bytes on a device
}

// times is how often a call of the graph stands for one of the model: as a fraction.
func (g *reading) times(program string) (num, den int) {
	if g.layers > 0 && g.calls[program] == 2 {
		return g.layers, 2
	}
	return 1, 1
}

func (g *reading) scaled(program string, n int64) int64 {
	num, den := g.times(program)
	return n * int64(num) / int64(den)
}

// read measures a graph. Each of passes runs the whole graph on values of its own.
func read(whole *graph.Graph, layers, passes int) (*measured, error) {
	g := &reading{Graph: whole, layers: layers, calls: map[string]int{}, costs: map[string]*programCost{}, values: map[string]int64{}}
	for _, c := range g.Calls {
		g.calls[c.Program]++
	}
	m := &measured{}
	for _, name := range g.ProgramNames() {
		g.costs[name] = price(name, g.Programs[name])
	}
	var order []string
	for _, request := range []bool{true, false} {
		for _, name := range g.ProgramNames() {
			n := 0
			for _, c := range g.Calls {
				if c.Program == name && c.Request == request {
					n++
				}
			}
			if n == 0 {
				continue
			}
			n = int(g.scaled(name, int64(n))) * passes
			cost := g.costs[name]
			if request {
				m.request = spmd.AddTraffic(m.request, cost.traffic, n)
				continue
			}
			m.step = spmd.AddTraffic(m.step, cost.traffic, n)
			cost.calls = n
			order = append(order, name)
		}
	}
	for _, name := range order {
		m.programs = append(m.programs, *g.costs[name])
	}
	if m.step == nil {
		m.step = []spmd.Traffic{}
	}
	weights, err := g.weights()
	if err != nil {
		return nil, err
	}
	m.memory, err = g.memory(weights, passes)
	m.sort(whole.Notes, layers > 0)
	return m, err
}

var layerIndex = regexp.MustCompile(`\.[0-9]+\.`)

// sort parts notes on padding from others, and says once what every layer repeats.
func (m *measured) sort(notes []string, scaled bool) {
	m.padding, m.notes = []string{}, []string{}
	seen := map[string]bool{}
	for _, n := range notes {
		if at := layerIndex.FindString(n); at != "" && scaled {
			n = strings.Replace(n, at, ".*.", 1)
			if seen[n] {
				continue
			}
			seen[n] = true
		}
		if strings.Contains(n, "padded by") {
			m.padding = append(m.padding, n)
			continue
		}
		m.notes = append(m.notes, n)
	}
}

// price reads one program.
func price(name string, p *spmd.Program) *programCost {
	priced := p.Price()
	live, held := priced.Live, priced.Held
	c := &programCost{name: name, moved: priced.Cost.BytesMoved, traffic: p.Collectives(), peak: live.Peak, arguments: live.Arguments, temps: live.Peak - live.Arguments}
	attending := map[spmd.ID]bool{}
	gathers := map[spmd.ID]bool{}
	inner := map[*spmd.Loop]bool{} // within one that is counted
	p.Walk(func(in *spmd.Instr, times int) {
		switch {
		case in.Op == spmd.OpDot:
			// In floating point: products of absurd sizes must not wrap.
			f := 2 * float64(times) * float64(p.Values[in.Out[0]].Elements())
			for _, d := range in.Dot.LeftContract {
				f *= float64(p.Values[in.Args[0]].Shape[d])
			}
			if len(in.Dot.LeftBatch) > 0 {
				c.attention += f
			} else {
				c.matmul += f
			}
		case in.Op == spmd.OpAllGather:
			gathers[in.Out[0]] = true
		case in.Op == spmd.OpAllToAll:
			attending[in.Out[0]] = true
		case in.Op == spmd.OpLoop && attends(in.Loop.Body):
			for _, ids := range [][]spmd.ID{in.Loop.Params, in.Out, in.Loop.Captured()} {
				for _, id := range ids {
					attending[id] = true
				}
			}
			// How long a loop takes is in attention's efficiency, its blocks' way to memory included.
			if !inner[in.Loop] {
				c.moved -= int64(times) * movedIn(priced, in.Loop, inner)
			}
		}
	})
	left := c.temps
	take := func(into *int64, id spmd.ID) {
		n := min(left, p.Values[id].Bytes())
		*into, left = *into+n, left-n
	}
	for _, id := range held {
		switch {
		case gathers[id]:
			take(&c.gathered, id)
		case attending[id]:
			take(&c.attending, id)
		}
	}
	return c
}

// movedIn is what all rounds of a loop move. It notes the loops within.
func movedIn(p spmd.Price, l *spmd.Loop, inner map[*spmd.Loop]bool) int64 {
	n := int64(0)
	for i := range l.Body {
		if in := &l.Body[i]; in.Loop != nil {
			inner[in.Loop] = true
			n += movedIn(p, in.Loop, inner)
		} else {
			n += p.Moved(in)
		}
	}
	return n * int64(l.Trips)
}

// attends says whether a loop's body contracts with batch dims, which only attention does.
func attends(body []spmd.Instr) bool {
	return slices.ContainsFunc(body, func(in spmd.Instr) bool {
		return in.Op == spmd.OpDot && len(in.Dot.LeftBatch) > 0 || in.Loop != nil && attends(in.Loop.Body)
	})
}

// weights is what a device keeps of them.
func (g *reading) weights() (int64, error) {
	readers := map[string]map[string]int{} // by weight and program
	for _, c := range g.Calls {
		for _, r := range c.Args {
			if !r.Weight {
				continue
			}
			if readers[r.Name] == nil {
				readers[r.Name] = map[string]int{}
			}
			readers[r.Name][c.Program]++
		}
	}
	total := int64(0)
	for _, w := range g.Weights {
		n, err := w.Bytes(g.Mesh)
		if err != nil {
			return 0, err
		}
		// A weight that one call of a layer's program reads is that layer's own.
		for program, times := range readers[w.Name] {
			if num, den := g.times(program); times == 1 && num != den {
				n = n * int64(num) / int64(den)
				break
			}
		}
		total += n
	}
	return total, nil
}

// memory walks the calls as they run and finds the fullest moment. Weights are
// there throughout, and what a request keeps is there throughout each step.
func (g *reading) memory(weights int64, passes int) (Memory, error) {
	size := func(elem int, shape []int) int64 {
		n := int64(elem)
		for _, d := range shape {
			n *= int64(d)
		}
		return n
	}
	last := g.LastUse()
	kept, alive := int64(0), int64(0) // of a request; of a step
	stepInput := int64(0)
	for _, in := range g.Inputs {
		local, err := in.Spec.Local(g.Mesh, in.Shape)
		if err != nil {
			return Memory{}, err
		}
		n := size(in.DType.Size(), local)
		g.values[in.Name] = n
		if in.Step {
			alive += n
			stepInput += n
		} else {
			kept += n
		}
	}
	// What a request's calls make stays.
	atRequest := kept
	var best Memory
	consider := func(c *programCost, kept, alive int64) {
		m := Memory{WeightsBytes: weights, AttentionBytes: kept + c.attending, ResidualBytes: alive, GatheredBytes: c.gathered,
			TempBytes: c.temps - c.attending - c.gathered, At: c.name}
		m.TotalBytes = m.WeightsBytes + m.ResidualBytes + m.AttentionBytes + m.GatheredBytes + m.TempBytes
		if m.TotalBytes > best.TotalBytes {
			best = m
		}
	}
	for _, c := range g.Calls {
		for i, o := range g.Programs[c.Program].Outputs {
			n := size(o.DType.Size(), o.Local)
			g.values[c.Outs[i]] = n
			if c.Request {
				// A layer's value stands for N/2 of them.
				num, den := g.times(c.Program)
				kept += n * int64(num) / int64(den)
			}
		}
	}
	// Each pass keeps its own; another pass's latents and velocity wait meanwhile.
	kept *= int64(passes)
	waiting := stepInput * int64(passes-1)
	alive += waiting
	for i, c := range g.Calls {
		p, cost := g.Programs[c.Program], g.costs[c.Program]
		made := int64(0)
		for _, o := range c.Outs {
			made += g.values[o]
		}
		if c.Request {
			if g.calls[c.Program] == 2 && g.layers > 0 {
				consider(cost, kept-made, 0) // the last layer's
			} else {
				consider(cost, atRequest, 0)
			}
			atRequest += made
			continue
		}
		consider(cost, kept, alive)
		for j, o := range p.Outputs {
			alive += g.values[c.Outs[j]]
			if o.Donor >= 0 {
				alive -= g.values[c.Args[o.Donor].Name]
			}
		}
		for _, name := range last[i] {
			donated := slices.ContainsFunc(p.Outputs, func(o spmd.Port) bool { return o.Donor >= 0 && c.Args[o.Donor].Name == name })
			if !donated {
				alive -= g.values[name]
			}
		}
	}
	return best, nil
}
