package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weft/graph"
	"weft/phases"
	"weft/program"
)

// explainHBM explains the memory of a phase, or of the one that needs most.
func (e *explainer) explainHBM(f figure) (string, float64, []Part, error) {
	if f.of == "" {
		f.of = phases.Denoise
		for _, p := range e.p.Phases {
			if m := p.Breakdown.Memory; m != nil && m.TotalBytes > e.phase(f.of).TotalBytes {
				f.of = p.Name
			}
		}
	}
	return e.explainMemory(f)
}

// phase gives the memory of a phase, by its name or by that of Breakdown.
func (e *explainer) phase(name string) Phase {
	switch breakdownKey(name) {
	case textPhase:
		return e.p.Breakdown.Text
	case ditPhase:
		return e.p.Breakdown.DiT
	case vaePhase:
		return e.p.Breakdown.VAE
	}
	for _, p := range e.p.Phases {
		if p.Name == name {
			return p.Breakdown
		}
	}
	return Phase{}
}

// graphOf gives the graph that a phase's memory is read from.
func (e *explainer) graphOf(phase string) *scaledGraph {
	if phase == ditPhase {
		return e.got.graph
	}
	memory := e.phase(phase).Memory
	for _, c := range e.p.runs {
		if c.measures != nil && &c.measures.memory == memory {
			return c.measures.graph
		}
	}
	return nil
}

// explainMemory explains the memory of a phase, or what it has of one kind.
func (e *explainer) explainMemory(f figure) (string, float64, []Part, error) {
	name := breakdownKey(f.of)
	if name == "" {
		name = ditPhase
	}
	m := e.phase(name).Memory
	g := e.graphOf(name)
	if m == nil || g == nil {
		return "", 0, nil, e.noPhaseError(f)
	}
	h, err := e.holdingsOf(name, g)
	if err != nil {
		return "", 0, nil, err
	}
	of := fmt.Sprintf("phase %s, a device at its fullest, in %q", name, m.At)
	switch strings.TrimSuffix(f.entry.key, "_bytes") {
	case weightsKind:
		return of, float64(m.WeightsBytes), mergeRounding(h.weights), nil
	case residualKind:
		return of, float64(m.ResidualBytes), h.alive, nil
	case attentionKind:
		return of, float64(m.AttentionBytes), mergeRounding(append(h.kept, h.counted(attentionKind)...)), nil
	case gatheredKind:
		return of, float64(m.GatheredBytes), h.counted(gatheredKind), nil
	case tempKind:
		return of, float64(m.TempBytes), h.temporaries(m.TempBytes), nil
	}
	return of, float64(m.TotalBytes), mergeRounding(slices.Concat(h.weights, h.kept, h.alive, h.program.peakParts())), nil
}

// mergeRounding makes one row of those of rounding.
func mergeRounding(parts []Part) []Part {
	all := roundedBytes
	parts = slices.DeleteFunc(parts, func(p Part) bool {
		if p.Op == roundedBytes.Op {
			all.Value += p.Value
		}
		return p.Op == roundedBytes.Op
	})
	if all.Value != 0 {
		parts = append(parts, all)
	}
	return parts
}

// holdings lists what a device holds at the fullest moment of a phase.
type holdings struct {
	weights, kept, alive []Part
	program              *programEvidence // that runs then
}

func (e *explainer) holdingsOf(phase string, g *scaledGraph) (*holdings, error) {
	h := &holdings{program: e.evidence(g, g.Calls[g.peak].Program)}
	if st := e.p.stage; phase == ditPhase && st.of > 0 {
		h.program = e.evidence(g, g.Calls[st.peak].Program)
		return h, e.addStageHoldings(h, g, st)
	}
	weights, err := g.ResidentWeights(g.asPasses(), g.Calls[g.peak].Request)
	if err != nil {
		return nil, err
	}
	held, err := g.ResidentsAt(g.asPasses(), g.peak)
	if err != nil {
		return nil, err
	}
	n := newNaming(g)
	for _, w := range weights {
		h.weights = n.add(h.weights, n.weightPart(w))
	}
	for _, v := range held.Kept {
		h.kept = n.add(h.kept, n.keptPart(v))
	}
	for _, v := range held.Alive {
		h.alive = n.add(h.alive, n.alivePart(v))
	}
	return h, nil
}

// addStageHoldings adds what a device of a pipeline's fullest stage holds: its layers' part of
// the weights and of what a request keeps, that for each microbatch.
func (e *explainer) addStageHoldings(h *holdings, g *scaledGraph, st pipelineStage) error {
	if err := e.addStageWeights(h, g, st); err != nil {
		return err
	}
	at, n := st.fullest, newNaming(g)
	held, err := g.ResidentsAt(g.asPasses(), st.peak)
	if err != nil {
		return err
	}
	micro := fmt.Sprintf("; x %d microbatches", st.micro)
	var ofLayers, others []Part
	for _, v := range held.Kept {
		p := n.keptPart(v)
		p.Rule += micro
		if g.isLayerProgram(n.makers[v.Name].program) {
			p.Rule += fmt.Sprintf("; %d of %d layers", at.layers, st.of)
			ofLayers = n.add(ofLayers, p)
		} else {
			others = n.add(others, p)
		}
	}
	call := e.got.parts.calls[st.peak]
	times := func(bytes int64) int64 { return bytes * st.micro }
	part := func(bytes int64) int64 { return bytes * at.layers / st.of }
	h.kept = slices.Concat(scaleParts(ofLayers, func(n int64) int64 { return times(part(n)) }, times(part(call.keptOfLayers)), roundedBytes),
		scaleParts(others, times, times(call.keptOfOthers), roundedBytes))
	for _, v := range held.Alive {
		p := n.alivePart(v)
		p.Value *= float64(st.micro)
		p.Calls *= int(st.micro)
		p.Rule += micro
		h.alive = n.add(h.alive, p)
	}
	return nil
}

// addStageWeights adds the weights that a device of a pipeline's fullest stage holds.
func (e *explainer) addStageWeights(h *holdings, g *scaledGraph, st pipelineStage) error {
	at, n, s := st.fullest, newNaming(g), &e.got.parts
	call := s.calls[st.peak]
	whole, streamed := g.Place(graph.Offload{}), g.Place(graph.Offload{Stream: true})
	var fixed, inSlots []Part
	err := g.eachStageWeight(s.lastLayer, func(w graph.Weight, place weightPlace, once, all int64) {
		placed := whole
		if at.streams {
			placed = streamed
		}
		if where := placed.Of[w.Name]; whole.Of[w.Name] == graph.Leaves && !call.request || where == graph.Follows && call.request {
			return
		}
		p := n.weightPart(graph.Resident{Name: w.Name, Once: once, Bytes: all})
		switch {
		case place == inLayers && at.streams && streamed.Of[w.Name] == graph.Streams:
			if whole.Of[w.Name] != graph.Leaves && !(call.request && streamed.AnyLeaves) {
				p.Rule += fmt.Sprintf("; %d of %d layers keep it", at.kept, st.of)
				inSlots = n.add(inSlots, p)
			}
		case place == inLayers:
			p.Rule += fmt.Sprintf("; %d of %d layers", at.layers, st.of)
			fixed = n.add(fixed, p)
		case place == beforeLayers && at.first || place == afterLayers && at.last:
			h.weights = n.add(h.weights, p)
		}
	})
	if err != nil {
		return err
	}
	allFixed, allKept, _ := s.stageWeights(at, call.request)
	h.weights = append(h.weights, scaleParts(fixed, func(n int64) int64 { return n * at.layers / st.of }, allFixed, roundedBytes)...)
	if at.kept > 0 {
		h.weights = append(h.weights, scaleParts(inSlots, func(n int64) int64 { return n * at.kept / st.of }, allKept, roundedBytes)...)
	}
	if at.slots > 0 {
		h.weights = append(h.weights, n.weightPart(graph.Resident{Name: graph.SlotsName, Once: s.slot, Bytes: at.slots * s.slot}))
	}
	return nil
}

// scaleParts scales parts, in whole bytes, and adds the row why where they do not add up to the
// total.
func scaleParts(parts []Part, scale func(int64) int64, total int64, why Part) []Part {
	sum := int64(0)
	for i := range parts {
		p := &parts[i]
		before := int64(p.Value)
		p.Value = float64(scale(before))
		if before != 0 {
			p.Calls = int(max(1, int64(p.Calls)*int64(p.Value)/before))
		}
		sum += int64(p.Value)
	}
	if rest := total - sum; rest != 0 {
		why.Value = float64(rest)
		parts = append(parts, why)
	}
	return parts
}

// roundedBytes is the row for what the parts of a pipeline's stage do not add up to.
var roundedBytes = Part{Op: "rounding", What: "rounding", Rule: "each part and the sum are rounded down to whole bytes"}

// counted lists the buffers of the call that count as one kind: attention's, or gathered.
func (h *holdings) counted(kind string) []Part {
	var parts []Part
	for _, x := range h.program.log.held {
		if x.kind != kind {
			continue
		}
		rule := "live at the call's peak; the result of an all-gather"
		if kind == attentionKind {
			rule = "live at the call's peak; read or made by attention, or by its all-to-alls"
		}
		if full := h.program.p.Values[x.id].Bytes(); x.bytes < full {
			rule += fmt.Sprintf("; %d B less, which buffers before it take of the call's peak", full-x.bytes)
		}
		part := h.program.valuePart(x.id, x.bytes, rule)
		part.Kind = kind
		parts = append(parts, part)
	}
	return parts
}

// temporaries lists what the call holds beside what counts as gathered and as attention's. These
// count in full though they may lie in each other's memory, so that a row has the difference.
func (h *holdings) temporaries(total int64) []Part {
	var parts []Part
	rest := float64(total)
	for _, p := range h.program.peakParts() {
		if p.Kind == tempKind {
			parts = append(parts, p)
			rest -= p.Value
		}
	}
	if rest != 0 {
		parts = append(parts, Part{Value: rest, Kind: tempKind, Program: h.program.name, Calls: 1, Op: "overlap", What: "memory that attention's buffers share",
			Rule: "attention and gathered count each of their buffers in full, also where it lies in the memory of another"})
	}
	return parts
}

// naming describes weights and values of a graph by name.
type naming struct {
	g       *scaledGraph
	weights map[string]graph.Weight
	alike   map[string]int // weights of one shape that one rule decides, by pattern
	makers  map[string]made
}

// made is the output of a program that a value is.
type made struct {
	port    program.Port
	program string
	call    string
}

func newNaming(g *scaledGraph) *naming {
	n := &naming{g: g, weights: map[string]graph.Weight{}, alike: map[string]int{}, makers: map[string]made{}}
	for _, w := range g.Weights {
		n.weights[w.Name] = w
		n.alike[alikeKey(w)]++
	}
	for _, c := range g.Calls {
		for i, o := range g.Programs[c.Program].Outputs {
			n.makers[c.Outs[i]] = made{o, c.Program, c.Name}
		}
	}
	return n
}

// add adds a part, or where there is one of the same description, its amount to that. So a
// weight that every layer has is one part.
func (n *naming) add(parts []Part, p Part) []Part {
	i := slices.IndexFunc(parts, func(o Part) bool {
		return o.What == p.What && o.Op == p.Op && o.Program == p.Program && o.Rule == p.Rule && o.DType == p.DType && o.Padding == p.Padding &&
			slices.Equal(o.Shape, p.Shape) && slices.Equal(o.Local, p.Local)
	})
	if i < 0 {
		return append(parts, p)
	}
	parts[i].Value += p.Value
	parts[i].Calls += p.Calls
	return parts
}

// layerNumber finds the number of a layer in a name: "blocks.3.ffn.0.weight", "text_k.3".
var layerNumber = regexp.MustCompile(`\.[0-9]+(\.|$)`)

// namePattern replaces the first number in a name, which is its layer's, by a star. Other numbers
// stay: they tell weights of one layer apart.
func namePattern(name string) string {
	at := layerNumber.FindStringIndex(name)
	if at == nil {
		return name
	}
	tail := ""
	if strings.HasSuffix(name[at[0]:at[1]], ".") {
		tail = "."
	}
	return name[:at[0]] + ".*" + tail + name[at[1]:]
}

// countOf gives how many of a size an amount is.
func countOf(r graph.Resident) int {
	if r.Once == 0 {
		return 1
	}
	return int(max(1, r.Bytes/r.Once))
}

func (n *naming) weightPart(r graph.Resident) Part {
	if r.Name == graph.SlotsName {
		return Part{Value: float64(r.Bytes), Kind: weightsKind, Calls: countOf(r), Op: "slots", What: "slots of streamed weights",
			Rule: "one for the layer that computes and one for each that is read ahead, each as large as what the largest layer streams", Source: sourceOfWeights}
	}
	w := n.weights[r.Name]
	local, _ := w.Spec.Local(n.g.Mesh, w.Shape) // the graph has counted its bytes
	name := r.Name
	if countOf(r) > 1 || n.alike[alikeKey(w)] > 1 {
		name = namePattern(name)
	}
	spec := w.Spec
	p := Part{Value: float64(r.Bytes), Kind: weightsKind, Calls: countOf(r), Op: "weight", What: name, DType: w.DType.String(), Shape: w.Shape, Local: local, Spec: &spec,
		Rule: "sharding rule " + w.Rule, Source: sourceOfWeights}
	switch {
	case w.Repeat > 1:
		p.Padding = fmt.Sprintf("each %d rows stand %d times", w.Unit, w.Repeat)
	case !slices.Equal(w.Shape, w.File):
		p.Padding = fmt.Sprintf("%v in the checkpoint", w.File)
	}
	return p
}

func alikeKey(w graph.Weight) string {
	return fmt.Sprint(namePattern(w.Name), w.Shape, w.DType, w.Spec, w.Rule)
}

// valuePart describes an input, or a value that a call makes.
func (n *naming) valuePart(r graph.Resident, kind string) Part {
	p := Part{Value: float64(r.Bytes), Kind: kind, Calls: countOf(r), Op: "value", What: r.Name, Source: sourceOfValues}
	if in := n.g.Input(r.Name); in != nil {
		local, _ := in.Spec.Local(n.g.Mesh, in.Shape)
		spec := in.Spec
		p.Op, p.DType, p.Shape, p.Local, p.Spec = "input", in.DType.String(), in.Shape, local, &spec
		return p
	}
	by, ok := n.makers[r.Name]
	if !ok {
		return p
	}
	if n.g.isLayerProgram(by.program) {
		p.What = namePattern(r.Name)
	}
	spec := by.port.Spec
	p.Program, p.DType, p.Shape, p.Local, p.Spec = by.program, by.port.DType.String(), by.port.Shape, by.port.Local, &spec
	return p
}

// keptPart describes a value that a request keeps.
func (n *naming) keptPart(r graph.Resident) Part {
	p := n.valuePart(r, attentionKind)
	p.Rule = "a result of the request's programs, kept for all its steps"
	if p.Op == "input" {
		p.Rule = "fed once a request, kept for all its steps"
	}
	return p
}

// alivePart describes a value of a step.
func (n *naming) alivePart(r graph.Resident) Part {
	p := n.valuePart(r, residualKind)
	p.Rule = "made before the fullest call, and a later call still needs it"
	if p.Op == "input" {
		p.Rule = "fed each step, and a call still needs it"
	}
	if r.Bytes < 0 {
		p.Rule = "its memory holds a value that is listed"
	}
	return p
}
