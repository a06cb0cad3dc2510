package plan

import (
	"fmt"
	"slices"

	"weft/program"
)

// Where figures come from that rest on no fact of the hardware.
const (
	sourceOfWeights = "the model's sharding rules (weft specs)"
	sourceOfValues  = "the order of the step's calls (graph.Residency)"
	sourceOfMemory  = "the live ranges of the program's values (program/cost)"
	sourceOfFLOPs   = "the shapes of the program's contractions"
	sourceOfMoved   = "the buffers that instructions read and write (program/cost)"
	sourceOfSent    = "ring collectives (sharding.RingBytes)"
)

// programEvidence has a program with what measureProgram adds up of it.
type programEvidence struct {
	name  string
	p     *program.Program
	c     *programMeasures
	log   *programLog
	lines map[*program.Instr]program.Line
	maker map[program.ID]*program.Instr // of what loops carry and count too
	input map[program.ID]string
}

// evidence measures a program of a graph once more, with a log.
func (e *explainer) evidence(g *scaledGraph, name string) *programEvidence {
	if got := e.logs[g][name]; got != nil {
		return got
	}
	p := g.Programs[name]
	pe := &programEvidence{name: name, p: p, log: &programLog{}, lines: p.Lines(), maker: map[program.ID]*program.Instr{}, input: map[program.ID]string{}}
	for _, in := range p.Inputs {
		pe.input[in.Value] = in.Name
	}
	pe.c = measureProgram(name, p, pe.log)
	p.Walk(func(in *program.Instr, _ int) {
		for _, id := range in.Out {
			pe.maker[id] = in
		}
		if in.Loop != nil {
			pe.maker[in.Loop.Index] = in
			for _, id := range in.Loop.Params {
				pe.maker[id] = in
			}
		}
	})
	if e.logs[g] == nil {
		e.logs[g] = map[string]*programEvidence{}
	}
	e.logs[g][name] = pe
	return pe
}

// linePart makes the part that an instruction has in a figure.
func (pe *programEvidence) linePart(in *program.Instr, calls int, value float64, rule string) Part {
	line := pe.lines[in]
	return Part{Value: value, Program: pe.name, Calls: calls, Line: line.Number, Op: string(in.Op), What: line.Text, Reads: pe.inputsBehind(in), Rule: rule}
}

// inputsBehind names the inputs that an instruction reads with nothing computed in between.
func (pe *programEvidence) inputsBehind(in *program.Instr) []string {
	var names []string
	for _, id := range in.Args {
		for made := pe.maker[id]; made != nil && len(made.Args) == 1 && slices.Contains(movesElements, made.Op); made = pe.maker[id] {
			id = made.Args[0]
		}
		if name, ok := pe.input[id]; ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// movesElements lists the operations of one operand whose results have its elements.
var movesElements = []program.Op{program.OpConvert, program.OpReshape, program.OpTranspose, program.OpSlice, program.OpAllGather, program.OpBroadcast}

// valuePart makes the part that a value of a program has in its memory.
func (pe *programEvidence) valuePart(id program.ID, bytes int64, rule string) Part {
	in := pe.maker[id]
	if in == nil { // an input: an output is it, in memory of its own
		for _, port := range pe.p.Inputs {
			if port.Value == id {
				return pe.portPart(port, bytes, rule)
			}
		}
		return Part{Value: float64(bytes), Program: pe.name, Calls: 1, Op: "value", What: fmt.Sprintf("%%%d", id), Rule: rule}
	}
	part := pe.linePart(in, 1, float64(bytes), rule)
	part.DType, part.Local, part.Source = pe.p.Values[id].DType.String(), pe.p.Values[id].Shape, sourceOfMemory
	return part
}

func (pe *programEvidence) portPart(port program.Port, bytes int64, rule string) Part {
	spec := port.Spec
	return Part{Value: float64(bytes), Program: pe.name, Calls: 1, Op: "input", What: port.Name, DType: port.DType.String(), Shape: port.Shape, Local: port.Local, Spec: &spec, Rule: rule, Source: sourceOfMemory}
}

// peakParts lists what a call of the program holds at its peak beside its arguments, each byte
// once.
func (pe *programEvidence) peakParts() []Part {
	var parts []Part
	for _, k := range pe.log.parts {
		part := pe.valuePart(k.Value, k.Bytes, k.Why)
		part.Kind = pe.log.kindOf(k.Value)
		parts = append(parts, part)
	}
	return parts
}

// argumentParts lists what the arguments of a call take.
func (pe *programEvidence) argumentParts() []Part {
	var parts []Part
	for _, in := range pe.p.Inputs {
		parts = append(parts, pe.portPart(in, pe.p.Values[in.Value].Bytes(), "an argument, held throughout"))
	}
	return parts
}

// stepProgram finds the measures of a program of a step.
func (e *explainer) stepProgram(f figure) (*programMeasures, error) {
	i := slices.IndexFunc(e.got.programs, func(c programMeasures) bool { return c.name == f.of })
	if i < 0 {
		return nil, e.programError(f)
	}
	return &e.got.programs[i], nil
}

// explainProgramMemory explains what one call of a program needs, or its arguments.
func (e *explainer) explainProgramMemory(f figure) (string, float64, []Part, error) {
	c, err := e.stepProgram(f)
	if err != nil {
		return "", 0, nil, err
	}
	pe := e.evidence(e.got.graph, c.name)
	if f.entry.key == "argument_bytes" {
		return fmt.Sprintf("the arguments of a call of %q on a device", c.name), float64(c.arguments), pe.argumentParts(), nil
	}
	return fmt.Sprintf("a call of %q on a device at its fullest, arguments included", c.name), float64(c.peak), append(pe.argumentParts(), pe.peakParts()...), nil
}

// explainWork explains the arithmetic or the memory traffic: of a step, or of one call of a
// program.
func (e *explainer) explainWork(f figure) (string, float64, []Part, error) {
	flops := f.entry.key == "flops"
	what := "bytes moved in and out of a device's memory"
	if flops {
		what = "FLOPs of a device"
	}
	add := func(c *programMeasures, calls int) (float64, []Part) {
		pe := e.evidence(e.got.graph, c.name)
		if flops {
			return float64(calls) * (c.matmul + c.attention + c.kernel), pe.flopsParts(calls)
		}
		return float64(calls) * float64(c.moved), pe.movedParts(calls)
	}
	if f.of != "" {
		c, err := e.stepProgram(f)
		if err != nil {
			return "", 0, nil, err
		}
		value, parts := add(c, 1)
		return fmt.Sprintf("%s in one call of %q", what, c.name), value, parts, nil
	}
	total, all := 0.0, []Part{}
	for i := range e.got.programs {
		c := &e.got.programs[i]
		value, parts := add(c, e.callsOnDevice(c))
		total, all = total+value, append(all, parts...)
	}
	return what + " in a step", total, all, nil
}

// callsOnDevice gives how often a device runs a program in a step: with a pipeline, a device
// of the first stage.
func (e *explainer) callsOnDevice(c *programMeasures) int {
	if st := e.p.stage; st.of > 0 {
		return e.stageCalls(c, st)
	}
	return c.calls
}

// stageCalls gives how often the first stage of a pipeline runs a program in a step, as
// fillPipelinePlan counts it.
func (e *explainer) stageCalls(c *programMeasures, st pipelineStage) int {
	layerAt := slices.IndexFunc(e.got.programs, func(c programMeasures) bool { return c.calls > 1 })
	i := slices.IndexFunc(e.got.programs, func(o programMeasures) bool { return o.name == c.name })
	switch {
	case c.calls > 1:
		return c.calls * int(st.firstLayers*st.micro) / int(st.of)
	case i < layerAt:
		return c.calls * int(st.micro)
	}
	return 0
}

func (pe *programEvidence) flopsParts(calls int) []Part {
	var parts []Part
	for _, x := range pe.log.flops {
		rule := "2 x result elements x summed length"
		if x.kind == kernelFLOPs {
			rule = "the contractions of the kernel's body: 2 x result elements x summed length"
		}
		part := pe.linePart(x.in, calls, float64(calls)*x.flops, rule)
		part.Source = sourceOfFLOPs
		parts = append(parts, part)
	}
	return parts
}

func (pe *programEvidence) movedParts(calls int) []Part {
	var parts []Part
	for _, x := range pe.log.moved {
		if pe.log.dropped[x.in] {
			continue // attention's efficiency has it
		}
		rule := "reads its buffers once and writes its result"
		if x.times > 1 {
			rule += fmt.Sprintf(", %d rounds", x.times)
		}
		part := pe.linePart(x.in, calls, float64(calls)*float64(x.bytes), rule)
		part.Source = sourceOfMoved
		parts = append(parts, part)
	}
	return parts
}
