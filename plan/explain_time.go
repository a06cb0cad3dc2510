package plan

import (
	"fmt"
	"slices"
	"strings"

	"weft/mesh"
	"weft/phases"
	"weft/program"
	"weft/program/cost"
	"weft/topology"
)

// timeCause is what a part of a step's time is spent on, as the fields of Time have it.
type timeCause string

const (
	matmulTime     timeCause = "matmul_seconds"
	attentionTime  timeCause = "attention_seconds"
	memoryTime     timeCause = "memory_seconds"
	collectiveTime timeCause = "collective_seconds"
	transferTime   timeCause = "transfer_seconds"
)

// timedPart is a part of a step's time with what it is spent on.
type timedPart struct {
	Part
	cause timeCause
	axis  string // of a collective
}

// explainTime explains a step's time, the time of a program, or what is spent on one cause.
func (e *explainer) explainTime(f figure) (string, float64, []Part, error) {
	if f.entry.key == "seconds" && slices.Contains(phases.Names(), f.of) {
		return e.explainPhaseTime(f)
	}
	r, err := e.stepRatesOf(e.p, e.on)
	if err != nil {
		return "", 0, nil, err
	}
	switch key := timeCause(f.entry.key); key {
	case "seconds":
		return e.explainProgramTime(f, r)
	case "request_seconds":
		return "what runs once a request", e.p.RequestSeconds, e.requestParts(r), nil
	case "step_seconds":
		return "one step", e.p.StepSeconds, e.stepParts(r), nil
	case matmulTime:
		return "contractions, where arithmetic takes longer than memory traffic, in a step", e.p.Time.MatmulSeconds, e.causeParts(r, key, ""), nil
	case attentionTime:
		return "attention, where arithmetic takes longer than memory traffic, in a step", e.p.Time.AttentionSeconds, e.causeParts(r, key, ""), nil
	case memoryTime:
		return "memory traffic, where it takes longer than arithmetic, in a step", e.p.Time.MemorySeconds, e.causeParts(r, key, ""), nil
	}
	if timeCause(f.entry.key) == transferTime {
		return "layers that wait for streamed weights, in a step", e.p.Time.TransferSeconds, e.causeParts(r, transferTime, ""), nil
	}
	total := 0.0
	for _, axis := range sortedKeys(e.p.Time.CollectiveSeconds) {
		if f.of == "" || axis == f.of {
			total += e.p.Time.CollectiveSeconds[axis]
		}
	}
	if _, ok := e.p.Time.CollectiveSeconds[f.of]; f.of != "" && !ok {
		return "", 0, nil, f.axisError(sortedKeys(e.p.Time.CollectiveSeconds))
	}
	what := "collectives in a step"
	if f.of != "" {
		what += ", over " + f.of
	}
	return what, total, e.causeParts(r, collectiveTime, f.of), nil
}

// explainPhaseTime explains the time of a phase: of all its runs, or of all its steps.
func (e *explainer) explainPhaseTime(f figure) (string, float64, []Part, error) {
	i := slices.IndexFunc(e.p.Phases, func(p PhasePlan) bool { return p.Name == f.of })
	if i < 0 || e.p.Phases[i].Seconds == nil {
		return "", 0, nil, e.noPhaseError(f)
	}
	p := e.p.Phases[i]
	var parts []Part
	what := []string{}
	for _, run := range p.Runs {
		if run.of == nil {
			r, err := e.stepRatesOf(e.p, e.on)
			if err != nil {
				return "", 0, nil, err
			}
			what = append(what, fmt.Sprintf("%d steps of %s", p.Steps, run.Model))
			if p.Beginnings > 0 {
				what = append(what, "what runs once before them")
				parts = append(parts, repeatParts(e.requestParts(r), p.Beginnings, "experts")...)
			}
			parts = append(parts, repeatParts(e.stepParts(r), p.Steps, "steps")...)
			continue
		}
		t, err := e.timesOf(run.of, e.on)
		if err != nil {
			return "", 0, nil, err
		}
		said := fmt.Sprintf("%s on %s in %s", run.Model, run.Mesh, run.DType)
		if run.Tiles > 0 {
			said = run.TilesText() + " by " + said
		}
		what = append(what, said)
		for _, c := range run.of.measures.allPrograms() {
			one := plainParts(e.programParts(t.rates, run.of.measures, &c))
			parts = append(parts, repeatParts(one, max(1, run.Tiles), "tiles")...)
		}
	}
	return fmt.Sprintf("phase %s, %s", p.Name, strings.Join(what, " and ")), *p.Seconds, parts, nil
}

// repeatParts gives the parts of so many steps, or of whatever is repeated.
func repeatParts(parts []Part, times int, what string) []Part {
	for i := range parts {
		parts[i].Value *= float64(times)
		parts[i].Calls *= times
		if times > 1 {
			parts[i].Rule += fmt.Sprintf("; x %d %s", times, what)
		}
	}
	return parts
}

func (e *explainer) explainProgramTime(f figure, r stepRates) (string, float64, []Part, error) {
	i := slices.IndexFunc(e.p.Programs, func(t ProgramTime) bool { return t.Name == f.of })
	if i < 0 {
		return "", 0, nil, e.programError(f)
	}
	t := e.p.Programs[i]
	return fmt.Sprintf("%s of %q in a step", callsText(t.Calls), t.Name), t.Seconds, plainParts(e.programParts(r, e.got, &e.got.programs[i])), nil
}

// causeParts lists what a step spends on one cause, along an axis where that is not "". With a
// pipeline it is what a device of the first stage spends, and over pp what is left of the step.
func (e *explainer) causeParts(r stepRates, cause timeCause, axis string) []Part {
	var parts []timedPart
	for i := range e.got.programs {
		for _, p := range e.programParts(r, e.got, &e.got.programs[i]) {
			if p.cause == cause && (axis == "" || p.axis == axis) {
				parts = append(parts, p)
			}
		}
	}
	st := e.p.stage
	if st.of == 0 {
		return plainParts(parts)
	}
	share, what := float64(st.firstLayers*st.micro)/float64(st.of), fmt.Sprintf("%d of %d layers", st.firstLayers, st.of)
	if cause == transferTime {
		share, what = e.streamedShare(st.first)*float64(st.micro), "the first stage's share of the layers that are streamed"
	}
	for i := range parts {
		parts[i].Value *= share
		parts[i].Rule += fmt.Sprintf("; x %.4g: %s, %d microbatches", share, what, st.micro)
	}
	if cause == collectiveTime && (axis == "" || axis == mesh.PP) {
		parts = append(parts, timedPart{Part: e.waitingPart(), cause: cause, axis: mesh.PP})
	}
	return plainParts(parts)
}

// streamedShare is what a stage has of all layers that are streamed in a step.
func (e *explainer) streamedShare(at stagePlace) float64 {
	return float64(at.layers-at.kept) / float64(max(1, e.p.stage.streamed))
}

// waitingPart is the time of a pipeline's step in which the first stage neither computes nor
// sends.
func (e *explainer) waitingPart() Part {
	return Part{Value: e.p.Time.CollectiveSeconds[mesh.PP], Calls: 1, Op: "hand-over", What: "handing over, and waiting for the other stages",
		Rule: fmt.Sprintf("the step's %.4g s less what the first stage computes, moves and sends", e.p.StepSeconds)}
}

func plainParts(parts []timedPart) []Part {
	out := make([]Part, len(parts))
	for i, p := range parts {
		out[i] = p.Part
	}
	return out
}

// stepParts lists what a step's time is spent on. With a pipeline, a microbatch goes through all
// stages, and each of the others follows at the slowest stage's pace.
func (e *explainer) stepParts(r stepRates) []Part {
	st := e.p.stage
	layerAt := slices.IndexFunc(e.got.programs, func(c programMeasures) bool { return c.calls > 1 })
	var parts []Part
	for i := range e.got.programs {
		c := &e.got.programs[i]
		of := e.programParts(r, e.got, c)
		if st.of > 0 {
			behind := float64(st.slowest.layers) / float64(st.of) // what the slowest stage has of it
			if c.calls <= 1 {
				behind = 0
				if i < layerAt && st.slowest.first || i >= layerAt && st.slowest.last {
					behind = 1
				}
			}
			for k := range of {
				share := behind
				if of[k].cause == transferTime {
					share = e.streamedShare(st.slowest)
				}
				times := 1 + float64(st.micro-1)*share
				of[k].Value *= times
				of[k].Rule += fmt.Sprintf("; x %.4g: once through all stages, and %d more microbatches with what the slowest stage has of it", times, st.micro-1)
			}
		}
		parts = append(parts, plainParts(of)...)
	}
	if st.of > 0 {
		slow := 2
		if st.slowest.first {
			slow--
		}
		if st.slowest.last {
			slow--
		}
		n := st.copies + int(st.micro-1)*slow
		parts = append(parts, Part{Value: float64(n) * st.copied, Calls: n, Op: "hand-over", What: "copies between stages through the host",
			Rule:   fmt.Sprintf("%d B, %d times: read and written between stages, and for %d more microbatches at the slowest stage", e.got.parts.handed, n, st.micro-1),
			Source: e.hostSource(r)})
	}
	return parts
}

// requestParts lists what the time of the programs is spent on that run once a request. With a
// pipeline they run for one microbatch after the other.
func (e *explainer) requestParts(r stepRates) []Part {
	var parts []Part
	for i := range e.got.onRequest {
		parts = append(parts, plainParts(e.programParts(r, e.got, &e.got.onRequest[i]))...)
	}
	if micro := e.p.stage.micro; micro > 1 {
		for i := range parts {
			parts[i].Value *= float64(micro)
			parts[i].Calls *= int(micro)
			parts[i].Rule += fmt.Sprintf("; x %d microbatches", micro)
		}
	}
	return parts
}

// programParts lists what all calls of a program take in a step: the longer of arithmetic and
// memory traffic, by instruction, and then its collectives.
func (e *explainer) programParts(r stepRates, of *splitMeasures, c *programMeasures) []timedPart {
	pe := e.evidence(of.graph, c.name)
	matmul, attention := r.arithmetic(c)
	memory := r.movement(c)
	longer := fmt.Sprintf("arithmetic of %.4g s, longer than the memory traffic's %.4g s", matmul+attention, memory)
	var parts []timedPart
	if memory > matmul+attention {
		longer = fmt.Sprintf("memory traffic of %.4g s, longer than the arithmetic's %.4g s", memory, matmul+attention)
		source := e.memorySource(r)
		for _, x := range pe.log.moved {
			if pe.log.dropped[x.in] {
				continue
			}
			rule := fmt.Sprintf("%d B / (%.4g B/s x %.4g); %s", x.bytes, r.memory, efficiencyOf("hbm"), longer)
			part := pe.linePart(x.in, c.calls, float64(c.calls)*float64(x.bytes)/(r.memory*efficiencyOf("hbm")), rule)
			part.Source = source
			parts = append(parts, timedPart{part, memoryTime, ""})
		}
	} else {
		for _, x := range pe.log.flops {
			parts = append(parts, e.flopsTime(r, c, pe, x, longer))
		}
	}
	cost.EachCollective(pe.p, func(in *program.Instr, t cost.Traffic) {
		if i := slices.IndexFunc(c.traffic, func(row cost.Traffic) bool { return row.Op == t.Op && row.Axis == t.Axis && row.DType == t.DType }); i >= 0 {
			if from := busiestSender(c.traffic[i]); from >= 0 {
				t.Bytes = t.Sent[from]
			}
		}
		links := ringLinks(r.axes, t.Axes, r.hops, r.rings)
		rule := fmt.Sprintf("%d B / (%.4g B/s x %.4g x %.4g links) + %d x %.4g s; %s", t.Bytes, r.linkAlong(t.Axes), efficiencyOf("link"), links, t.Count, efficiencyOf("collective_seconds"), cost.RingFormula(pe.p, in))
		part := pe.linePart(in, c.calls, r.sending(t, c.calls), rule)
		part.Source = e.linkSource(r, t.Axes)
		parts = append(parts, timedPart{part, collectiveTime, t.Axis})
	})
	if p, ok := e.waitingForWeights(r, of, c); ok {
		parts = append(parts, timedPart{p, transferTime, ""})
	}
	return parts
}

// flopsTime is the time that an instruction's arithmetic takes in all calls of a program.
func (e *explainer) flopsTime(r stepRates, c *programMeasures, pe *programEvidence, x flopsEntry, longer string) timedPart {
	reached, source, cause := efficiencyOf("matmul"), efficiencySource("matmul"), matmulTime
	switch x.kind {
	case attentionFLOPs:
		reached, source, cause = efficiencyOf("attention"), efficiencySource("attention"), attentionTime
	case kernelFLOPs:
		estimate := *e.on.KernelEfficiency() // a plan with kernels is of a chip that has it
		reached, source, cause = estimate.Value, kernelSource(e.on.Generation, estimate), attentionTime
	}
	rule := fmt.Sprintf("%.4g FLOP / (%.4g FLOP/s x %.4g)", x.tiles, r.flops, reached)
	if x.tiles != x.flops {
		rule = fmt.Sprintf("%.4g FLOP, with tiles that are filled in part %.4g", x.flops, x.tiles) + rule[len(fmt.Sprintf("%.4g FLOP", x.tiles)):]
	}
	part := pe.linePart(x.in, c.calls, float64(c.calls)*x.tiles/(r.flops*reached), rule+"; "+longer)
	part.Source = e.arithmeticSource(r, source)
	return timedPart{part, cause, ""}
}

// The sources of rates: the fact with who says it, and the share of it that is reached.

func (e *explainer) arithmeticSource(r stepRates, efficiency string) string {
	rate := ""
	switch e.on.Kind {
	case topology.TPU:
		rate = factSource(e.on, "peak_bf16_flops")
	case topology.GPUBox:
		rate = factSource(e.on, "peak_bf16_dense_flops")
	default:
		rate = efficiencySource("cpu_core_flops")
	}
	if e.on.Kind != topology.CPU && r.flops != e.on.Rates().BF16FLOPs {
		passes := "f32_passes_tpu"
		if e.on.Kind == topology.GPUBox {
			passes = "f32_passes_gpu"
		}
		rate += "; in f32 less by " + efficiencySource(passes)
	}
	return rate + "; " + efficiency
}

func (e *explainer) memorySource(stepRates) string {
	if e.on.Kind == topology.CPU {
		return efficiencySource("cpu_bytes") + "; " + efficiencySource("hbm")
	}
	return factSource(e.on, "hbm_bytes_per_s") + "; " + efficiencySource("hbm")
}

func (e *explainer) linkSource(r stepRates, along []string) string {
	rate := ""
	switch {
	case e.on.Kind == topology.GPUBox && r.linkAlong(along) != r.link && e.on.Rates().NetworkBytes > 0:
		rate = factSource(e.on, "network_bytes_per_s_one_way")
	case e.on.Kind == topology.GPUBox && r.linkAlong(along) != r.link:
		rate = efficiencySource("gpu_network_bytes")
	case e.on.Kind == topology.TPU:
		rate = factSource(e.on, "ici_bytes_per_s_per_link_one_way")
	case e.on.Kind == topology.GPUBox && e.on.Rates().LinkBytes > 0:
		rate = factSource(e.on, "nvlink_bytes_per_s_total_bidirectional")
	case e.on.Kind == topology.GPUBox:
		rate = e.pcieSource(r)
	default:
		rate = efficiencySource("cpu_link_bytes")
	}
	return rate + "; " + efficiencySource("link") + "; " + efficiencySource("collective_seconds")
}

func (e *explainer) hostSource(r stepRates) string {
	switch {
	case e.on.Kind == topology.GPUBox:
		return e.pcieSource(r)
	case r.host > 0:
		return factSource(e.on, "pcie_bytes_per_s_per_chip")
	}
	return e.linkSource(r, nil)
}

// pcieSource names the rate of a GPU's PCIe.
func (e *explainer) pcieSource(r stepRates) string {
	if r.host > 0 {
		return factSource(e.on, "pcie_bytes_per_s_one_way")
	}
	return efficiencySource("gpu_pcie_bytes")
}

// factSource names a fact of the hardware, with who says it.
func factSource(on topology.Slice, name string) string {
	fact := on.Facts()[name]
	source := topology.Sources()[fact.Source]
	if source == "" {
		source = fact.Source
	}
	return fmt.Sprintf("%s of %s: %s", name, on.Generation, source)
}

// efficiencySource names a figure of the time model, with how it was found.
func efficiencySource(name string) string {
	e, _ := efficiencies() // a search begins with them
	v := e.Values[name]
	return fmt.Sprintf("plan/data/efficiency.json %s, %s: %s", name, v.Status, v.How)
}

// kernelSource names the share of a chip's arithmetic that attention's kernel reaches, with
// how it was found.
func kernelSource(generation string, e topology.Estimate) string {
	return fmt.Sprintf("topology/data/accelerators.json attention_kernel of %s, %s: %s", generation, e.Status, e.How)
}
