package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/mesh"
	"weft/program"
	"weft/program/cost"
)

// explainSent explains the bytes that a device sends in a step or once a request, along an axis or
// in all: those that the plan adds up by axis.
func (e *explainer) explainSent(f figure) (string, float64, []Part, error) {
	request := f.entry.key == "request_collective_bytes"
	what, table, byAxis := "bytes that a device sends in a step", e.p.Collectives, e.p.CollectiveBytes
	if request {
		what, table, byAxis = "bytes that a device sends once a request", e.got.request, e.p.RequestCollectiveBytes
	}
	wanted := func(axis string) bool { return f.of == "" || axis == f.of }
	if f.of != "" {
		if _, ok := byAxis[f.of]; !ok {
			return "", 0, nil, f.axisError(sortedKeys(byAxis))
		}
		what += " over " + f.of
	}
	total, parts := 0.0, []Part{}
	for axis, n := range byAxis {
		if wanted(axis) {
			total += float64(n)
		}
	}
	for _, row := range table {
		if wanted(row.Axis) {
			parts = append(parts, e.sentParts(row, request)...)
		}
	}
	st := e.p.stage
	switch {
	case st.of > 0 && request:
		parts = shareParts(parts, total, float64(st.firstLayers*st.micro)/float64(st.of), "the first stage's layers and microbatches of it")
	case st.of > 0 && wanted(mesh.PP):
		parts = append(parts, Part{Value: float64(e.got.parts.handed * st.micro), Calls: int(st.micro), Op: "hand-over", What: "what the stage's last layer makes",
			Rule: fmt.Sprintf("%d microbatches of %d B to the next stage, through the host", st.micro, e.got.parts.handed), Source: sourceOfValues})
	}
	return what, total, parts, nil
}

// explainCollective explains the bytes that a device sends in a step by one operation: in all, along
// an axis, or of one element type too.
func (e *explainer) explainCollective(f figure) (string, float64, []Part, error) {
	axis, dtype, typed := strings.Cut(f.of, ":")
	total, parts, known := 0.0, []Part{}, []string{}
	for _, row := range e.p.Collectives {
		if string(row.Op) != f.entry.key {
			continue
		}
		name := row.Axis
		if typed {
			name += ":" + row.Type
		}
		known = append(known, name)
		if f.of == "" || row.Axis == axis && (!typed || row.Type == dtype) {
			total += float64(row.Bytes)
			parts = append(parts, e.sentParts(row, false)...)
		}
	}
	what := fmt.Sprintf("bytes that a device sends in a step by %s", f.entry.key)
	if f.of != "" {
		if !slices.Contains(known, f.of) {
			return "", 0, nil, f.axisError(known)
		}
		what += " over " + f.of
	}
	return what, total, parts, nil
}

// busiestSender finds the mesh position of the device that sends most of a row of permutes; -1
// for other collectives, in which all send alike.
func busiestSender(row cost.Traffic) int {
	from := -1
	for _, pos := range slices.Sorted(maps.Keys(row.Sent)) {
		if from < 0 || row.Sent[pos] > row.Sent[from] {
			from = pos
		}
	}
	return from
}

// sentParts lists the instructions that send what a row of the table of collectives adds up.
// Of permutes, it is what the device sends that sends most.
func (e *explainer) sentParts(row cost.Traffic, request bool) []Part {
	var parts []Part
	g := e.got.graph
	from := busiestSender(row)
	for _, name := range g.ProgramNames() {
		calls := g.countCalls(name, request)
		if calls == 0 {
			continue
		}
		if i := slices.IndexFunc(e.got.programs, func(c programMeasures) bool { return c.name == name }); i >= 0 && !request {
			calls = e.callsOnDevice(&e.got.programs[i])
		}
		pe := e.evidence(g, name)
		cost.EachCollective(pe.p, func(in *program.Instr, t cost.Traffic) {
			if t.Op != row.Op || t.Axis != row.Axis || t.DType != row.DType {
				return
			}
			bytes, rule := t.Bytes, cost.RingFormula(pe.p, in)
			if from >= 0 {
				bytes = t.Sent[from]
				rule += fmt.Sprintf("; by the device at mesh position %d, which sends most", from)
			}
			if t.Count > 1 {
				rule += fmt.Sprintf("; %d rounds", t.Count)
			}
			rule += fmt.Sprintf("; over %s, %s", t.Axis, t.Type)
			if n := len(in.Groups); n > 1 {
				rule += fmt.Sprintf(", %d groups at a time", n)
			}
			part := pe.linePart(in, calls, float64(calls)*float64(bytes), rule)
			part.Source = sourceOfSent
			parts = append(parts, part)
		})
	}
	return parts
}

// shareParts takes a share of each part, in whole numbers, and adds a row of what rounding down
// as often as there are parts loses against the total.
func shareParts(parts []Part, total, share float64, why string) []Part {
	sum := 0.0
	for i := range parts {
		parts[i].Value = float64(int64(parts[i].Value * share))
		parts[i].Rule += fmt.Sprintf("; x %.4g: %s", share, why)
		sum += parts[i].Value
	}
	if rest := total - sum; rest != 0 {
		why := roundedBytes
		why.Value = rest
		parts = append(parts, why)
	}
	return parts
}
