package plan

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"weft/graph"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/models"
	"weft/program"
	"weft/program/cost"
)

// splitMeasures holds everything that the graph of a split tells without the slice:
// memory, collectives, operations and notes.
type splitMeasures struct {
	memory        Memory
	streaming     streaming
	step, request []cost.Traffic
	programs      []programMeasures // of a step
	onRequest     []programMeasures // of what runs once a request
	parts         stageParts
	choices       []graph.Choice
	padding       []string
	notes         []string
	graph         *scaledGraph // kept by searches that explain
}

// programMeasures holds the figures of one program of a step.
type programMeasures struct {
	name              string
	calls             int
	matmul, attention float64 // FLOPs of one call, of contractions without and with batch dims
	// FLOPs of attention by a kernel, and the FLOPs that a matrix unit takes as long over:
	// a tile that is filled in part takes as long as a full one.
	kernel, kernelTiles    float64
	moved                  int64 // bytes of one call, in and out of memory, without attention's
	traffic                []cost.Traffic
	peak, arguments, temps int64
	// Bytes held at the peak beyond the inputs: results of all-gathers, and attention's.
	gathered, attending int64
}

// countAlikeLayers gives the number of layers where all are alike, and otherwise 0. They
// are alike where every layer adds as many parameters as the second. The layers then share
// their programs, so that the figures of all follow from a graph of two layers, which is
// built faster.
func countAlikeLayers(m models.Model) int {
	count := func(layers int) (params, elements int) {
		for _, p := range m.Params(layers) {
			params, elements = params+1, elements+numbers.Product(p.Shape)
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

// measuresKey tells apart the splits and requests whose measures differ.
func measuresKey(sp split, r models.Request) string {
	return fmt.Sprint(sp.meshText(), sp.shardedOver, sp.offload, r.Batch, r.DType, r.SplitResidual, r.Latent, r.TokenTimes, r.Times, r.Target)
}

// measureSplit builds the graph of a split and measures it. It keeps the result, because
// slices of the same size ask for the same split.
func (s *search) measureSplit(on *mesh.Mesh, sp split, r models.Request) (*splitMeasures, error) {
	key := measuresKey(sp, r)
	s.mu.Lock()
	got := s.measures[key]
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
	got, err = measureGraph(g, s.layers, s.passes, sp.offload)
	if err != nil {
		return nil, err
	}
	s.keepMeasures(key, got)
	return got, nil
}

// keepMeasures keeps what was measured, without its graph unless the search explains.
func (s *search) keepMeasures(key string, got *splitMeasures) {
	if !s.explains {
		got.graph = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measures[key] = got
}

// scaledGraph is a graph of two layers or of all, with what scales its figures to all layers.
type scaledGraph struct {
	*graph.Graph
	layers  int            // how often the model calls a program that the graph calls twice; 0: the graph has all layers
	calls   map[string]int // how often the graph calls a program
	costs   map[string]*programMeasures
	passes  int // how many run one after another
	peak    int // index of the call at which a device holds most
	offload graph.Offload
}

// callRatio gives, as a fraction, how many calls of the model one call in the graph stands for.
func (g *scaledGraph) callRatio(program string) (num, den int) {
	if g.layers > 0 && g.calls[program] == 2 {
		return g.layers, 2
	}
	return 1, 1
}

func (g *scaledGraph) scaleToModel(program string, n int64) int64 {
	num, den := g.callRatio(program)
	return n * int64(num) / int64(den)
}

// asPasses says how often the model runs what the graph has.
func (g *scaledGraph) asPasses() graph.Passes {
	return graph.Passes{N: g.passes, Times: g.callRatio, Offload: g.offload}
}

// countCalls gives how often the model calls a program in a step, or once a request.
func (g *scaledGraph) countCalls(program string, request bool) int {
	n := 0
	for _, c := range g.Calls {
		if c.Program == program && c.Request == request {
			n++
		}
	}
	return int(g.scaleToModel(program, int64(n))) * g.passes
}

// measureGraph adds up the figures of a graph's programs. Each pass runs the whole graph
// and has values of its own.
func measureGraph(whole *graph.Graph, layers, passes int, o graph.Offload) (*splitMeasures, error) {
	g := &scaledGraph{Graph: whole, layers: layers, calls: map[string]int{}, costs: map[string]*programMeasures{}, passes: passes, offload: o}
	for _, c := range g.Calls {
		g.calls[c.Program]++
	}
	m := &splitMeasures{choices: whole.Choices(), graph: g}
	for _, name := range g.ProgramNames() {
		g.costs[name] = measureProgram(name, g.Programs[name], nil)
	}
	var order []string
	for _, request := range []bool{true, false} {
		for _, name := range g.ProgramNames() {
			n := g.countCalls(name, request)
			if n == 0 {
				continue
			}
			costs := g.costs[name]
			if request {
				m.request = cost.AddTraffic(m.request, costs.traffic, n)
				once := *costs
				once.calls = n
				m.onRequest = append(m.onRequest, once)
				continue
			}
			m.step = cost.AddTraffic(m.step, costs.traffic, n)
			costs.calls = n
			order = append(order, name)
		}
	}
	for _, name := range order {
		m.programs = append(m.programs, *g.costs[name])
	}
	if m.step == nil {
		m.step = []cost.Traffic{}
	}
	held, err := g.Residency(g.asPasses())
	if err != nil {
		return nil, err
	}
	m.memory, g.peak = g.findPeakMemory(held)
	if m.streaming, err = g.measureStreaming(held); err != nil {
		return nil, err
	}
	m.sortNotes(whole.Notes, layers > 0)
	m.parts, err = g.measureStageParts(held)
	return m, err
}

var layerIndex = regexp.MustCompile(`\.[0-9]+\.`)

// sortNotes separates the notes on padding from the others. A note that every layer
// repeats is kept once.
func (m *splitMeasures) sortNotes(notes []string, scaled bool) {
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

// measureProgram adds up what one call of a program computes, moves, sends and holds. Where
// log is not nil, it hears of each amount with the instruction that it comes from.
func measureProgram(name string, p *program.Program, log *programLog) *programMeasures {
	priced := cost.AccountOf(p)
	live, held := priced.Memory, priced.Held
	c := &programMeasures{name: name, moved: priced.Work.BytesMoved, traffic: cost.Collectives(p), peak: live.Peak, arguments: live.Arguments, temps: live.Peak - live.Arguments}
	attending := map[program.ID]bool{}
	gathers := map[program.ID]bool{}
	inner := map[*program.Loop]bool{} // loops within a loop that is counted already
	p.Walk(func(in *program.Instr, times int) {
		log.addMoved(in, times, priced)
		switch {
		case in.Op == program.OpDot && len(in.Dot.LeftBatch) > 0:
			f := dotFLOPs(p, in, times)
			c.attention += f
			log.addFLOPs(in, attentionFLOPs, f, f)
		case in.Op == program.OpDot:
			f := dotFLOPs(p, in, times)
			c.matmul += f
			log.addFLOPs(in, matmulFLOPs, f, f)
		case in.Op == program.OpKernel && in.Kernel.Platform == "cpu":
			c.addHostKernel(p, in, times, log)
		case in.Op == program.OpKernel:
			in.Kernel.Walk(func(inner *program.Instr, rounds int) {
				if inner.Op == program.OpDot {
					f := dotFLOPs(p, inner, times*rounds)
					tiles := f * headTileRatio(p, inner, in.Kernel.Platform)
					c.kernel, c.kernelTiles = c.kernel+f, c.kernelTiles+tiles
					log.addFLOPs(in, kernelFLOPs, f, tiles)
				}
			})
			for _, id := range append(slices.Clone(in.Args), in.Out...) {
				attending[id] = true
			}
			c.moved -= int64(times) * priced.Moved(in) // the kernel's efficiency has it
			log.dropMoved(in)
		case in.Op == program.OpConv:
			f := convFLOPs(p, in, times)
			c.matmul += f
			log.addFLOPs(in, matmulFLOPs, f, f)
		case in.Op == program.OpAllGather:
			gathers[in.Out[0]] = true
		case in.Op == program.OpAllToAll:
			attending[in.Out[0]] = true
		case in.Op == program.OpLoop && hasAttention(in.Loop.Body):
			for _, ids := range [][]program.ID{in.Loop.Params, in.Out, in.Loop.Captured()} {
				for _, id := range ids {
					attending[id] = true
				}
			}
			// Attention's efficiency includes the time in which the loop's blocks come from memory.
			if !inner[in.Loop] {
				c.moved -= int64(times) * movedIn(priced, in.Loop, inner)
				log.dropMoved(in)
			}
		}
	})
	left := c.temps
	take := func(into *int64, id program.ID, kind string) {
		n := min(left, p.Values[id].Bytes())
		*into, left = *into+n, left-n
		log.addHeld(id, kind, n)
	}
	for _, id := range held {
		switch {
		case gathers[id]:
			take(&c.gathered, id, gatheredKind)
		case attending[id]:
			take(&c.attending, id, attentionKind)
		}
	}
	log.finish(priced, gathers, attending)
	return c
}

// dotFLOPs counts a contraction's operations, in floating point so that products of
// absurd sizes do not wrap.
func dotFLOPs(p *program.Program, in *program.Instr, times int) float64 {
	f := 2 * float64(times) * float64(p.Values[in.Out[0]].Elements())
	for _, d := range in.Dot.LeftContract {
		f *= float64(p.Values[in.Args[0]].Shape[d])
	}
	return f
}

// headTileRatio gives the factor by which a kernel's contraction takes longer because its
// head dim does not fill what the platform computes at once: whole tiles of 128 on a TPU, a power
// of two on a GPU. The first contraction of attention sums over
// the head dim and the result of the second ends with it, so it is the smaller of the two.
func headTileRatio(p *program.Program, in *program.Instr, platform string) float64 {
	a, out := p.Values[in.Args[0]].Shape, p.Values[in.Out[0]].Shape
	d := min(a[in.Dot.LeftContract[0]], out[len(out)-1])
	if platform == "cuda" {
		return math.Exp2(math.Ceil(math.Log2(float64(d)))) / float64(d)
	}
	return math.Ceil(float64(d)/128) * 128 / float64(d)
}

// movedIn adds up the bytes that all rounds of a loop move. It adds the loops within to
// inner, so that the caller does not count them again.
func movedIn(p cost.Account, l *program.Loop, inner map[*program.Loop]bool) int64 {
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

// hasAttention reports whether a loop's body contracts with batch dims, as only attention does.
func hasAttention(body []program.Instr) bool {
	return slices.ContainsFunc(body, func(in program.Instr) bool {
		return in.Op == program.OpDot && len(in.Dot.LeftBatch) > 0 || in.Loop != nil && hasAttention(in.Loop.Body)
	})
}

// findPeakMemory finds the call at which a device holds most, and what it holds then.
func (g *scaledGraph) findPeakMemory(held *graph.Residency) (best Memory, peak int) {
	for i, call := range g.Calls {
		c, at := g.costs[call.Program], held.Moments[i]
		m := Memory{WeightsBytes: at.Weights, SlotBytes: held.Weights.Slots, AttentionBytes: at.Kept + c.attending, ResidualBytes: at.Alive, GatheredBytes: c.gathered,
			TempBytes: c.temps - c.attending - c.gathered, At: c.name}
		m.TotalBytes = m.WeightsBytes + m.ResidualBytes + m.AttentionBytes + m.GatheredBytes + m.TempBytes
		if m.TotalBytes > best.TotalBytes {
			best, peak = m, i
		}
	}
	return best, peak
}
