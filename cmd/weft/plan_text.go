package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft"
	"weft/graph"
	"weft/internal/printable"
	"weft/mesh"
	"weft/plan"
	"weft/program"
)

// planRows is the number of plans that the table shows without --all.
const planRows = 20

// planText formats the plans for people, in 80 columns.
func planText(r *plan.Result, all bool) string {
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(printable.Sprintf(format+"\n", args...)) }
	cfg := "CFG as one batch"
	switch r.CFG {
	case plan.CFGSequential:
		cfg = "CFG pass after pass"
	case plan.CFGNone:
		cfg = "one pass without CFG (" + r.Settings["cfg"].From + ")"
	}
	name := r.Model
	if r.As != "" {
		name += " as " + r.As
	}
	say("%s  %s, %d frames, batch %d, %s, %s", name, r.Size, r.Frames, r.Batch, r.DType, cfg)
	if len(r.Plans) > 0 {
		planTable(say, r, all)
		planBest(say, r.Plans[0])
	}
	for _, n := range r.Notes {
		sayAfterHead(say, "note: ", n)
	}
	switch {
	case len(r.Refuse) == 0:
	case all || r.On == "all" || len(r.Plans) == 0:
		say("")
		say("refused")
		for _, f := range r.Refuse {
			head := f.Mesh
			if r.On == "all" {
				head = f.Slice
			}
			sayAfterHead(say, "  "+padRight(head, 22)+" ", f.Kind+": "+f.Reason)
		}
	default:
		say("%d splits refused; --all shows why", len(r.Refuse))
	}
	return strings.TrimRight(b.String(), "\n")
}

// sayAfterHead prints head and then text, broken into lines of at most 79 columns.
// Further lines are indented by the width of head.
func sayAfterHead(say func(string, ...any), head, text string) {
	line := head
	indent := strings.Repeat(" ", len([]rune(head)))
	empty := true
	for _, w := range strings.Fields(text) {
		if !empty && len([]rune(line))+1+len([]rune(w)) > 79 {
			say("%s", line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+w, false
	}
	say("%s", line)
}

// planName names a plan's split in a few columns.
func planName(p plan.Plan) string {
	name := p.Mesh
	shares := slices.DeleteFunc(slices.Clone(p.FSDP), func(a string) bool { return a == mesh.FSDP })
	if len(shares) > 0 {
		name += " fsdp:" + strings.Join(shares, ",")
	}
	if p.Offload != nil {
		name += " offload:" + p.Offload.Policy
	}
	return name
}

// planTable prints one row for each plan: its memory, a bar, the time of a step and the
// bytes sent.
func planTable(say func(string, ...any), r *plan.Result, all bool) {
	most := int64(0)
	for _, p := range r.Plans {
		if limit := p.HBMLimitBytes; limit != nil {
			most = max(most, *limit, min(p.HBMBytesPerDevice, 2**limit))
		}
	}
	if most == 0 {
		most = r.Plans[0].HBMBytesPerDevice
	}
	if r.On != "all" {
		p := r.Plans[0]
		devices := fmt.Sprintf("%d devices", p.Devices)
		if p.Devices == 1 {
			devices = "1 device"
		}
		switch m := p.DeviceMemory; {
		case m.UsableBytes == nil:
			devices += "; the memory of each is unknown"
		case m.ReservedBytes == nil:
			devices += fmt.Sprintf(", %s of memory each", weft.Bytes(*m.UsableBytes))
		default:
			devices += fmt.Sprintf(", %s of memory each for a program", weft.Bytes(*m.UsableBytes))
		}
		say("%s: %s", p.Slice, devices)
		if m := p.DeviceMemory; m.ReservedBytes != nil {
			sayAfterHead(say, "  ", fmt.Sprintf("each holds %s (%s), of which %s are no program's (%s)", weft.Bytes(*m.Bytes), m.Source, weft.Bytes(*m.ReservedBytes), m.ReservedSource))
		}
	}
	say("")
	say("%s %9s  %s %8s %9s", padRight("split", 26), "HBM", padRight("", 20), "step", "sent")
	shown := r.Plans
	if !all && len(shown) > planRows {
		shown = shown[:planRows]
	}
	for _, p := range shown {
		name := planName(p)
		if r.On == "all" {
			name = padRight(p.Slice, 10) + " " + strings.ReplaceAll(name, ",", " ")
			if len(name) > 26 {
				name = p.Slice + " " + planName(p)
			}
		}
		sent := int64(0)
		for _, n := range p.CollectiveBytes {
			sent += n
		}
		if len(name) > 26 {
			say("%s", name)
			name = ""
		}
		say("%s %9s  %s %8s %9s", padRight(name, 26), weft.Bytes(p.HBMBytesPerDevice), memoryBar(p, most, 20), secondsText(p.StepSeconds), weft.Bytes(sent))
		if p.Fits == plan.TooBig {
			change := p.Change
			if p.Advice != "" {
				change = "fits with " + change
			}
			sayAfterHead(say, "    ", fmt.Sprintf("too big by %s; %s", weft.Bytes(*p.OverBytes), change))
		}
	}
	if n := len(r.Plans) - len(shown); n > 0 {
		say("%d more; --all shows them", n)
	}
	say("# weights  a text K/V and attention  r stream  g gathered  t other  | limit")
}

// memoryBar draws what a plan's memory is used for, as width columns that stand for
// most bytes.
func memoryBar(p plan.Plan, most int64, width int) string {
	cells := []rune(strings.Repeat(" ", width))
	m := p.Breakdown.DiT
	from := int64(0)
	at := func(n int64) int { return int((float64(n)/float64(most))*float64(width) + 0.5) }
	for _, k := range []struct {
		mark rune
		n    int64
	}{{'#', m.WeightsBytes}, {'a', m.AttentionBytes}, {'r', m.ResidualBytes}, {'g', m.GatheredBytes}, {'t', m.TempBytes}} {
		for i := at(from); i < min(width, at(from+k.n)); i++ {
			cells[i] = k.mark
		}
		from += k.n
	}
	limit := width // where there is none it is not drawn
	if p.HBMLimitBytes != nil {
		limit = at(*p.HBMLimitBytes)
	}
	if limit < width {
		cells[limit] = '|'
	}
	if at(from) > width {
		cells[width-1] = '>'
	}
	if p.HBMLimitBytes != nil && limit >= width && cells[width-1] == ' ' {
		cells[width-1] = '|'
	}
	return string(cells)
}

// attentionText prints which form each attention of a phase takes, and why. Choices
// that are alike share a line.
func attentionText(say func(string, ...any), phase string, choices []graph.Choice) {
	if phase != "" {
		phase += ": "
	}
	seen := map[program.Choice]bool{}
	for _, c := range choices {
		if !seen[c.Choice] {
			seen[c.Choice] = true
			sayAfterHead(say, "  attn  ", fmt.Sprintf("%s%s, %s; %s", phase, c.Taken, c.Why, c.Of))
		}
	}
}

// secondsText formats a time in few columns.
func secondsText(s float64) string {
	switch {
	case s < 1:
		return fmt.Sprintf("%.0f ms", s*1e3)
	case s < 100:
		return fmt.Sprintf("%.1f s", s)
	case s < 1e5:
		return fmt.Sprintf("%.0f s", s)
	}
	return fmt.Sprintf("%.1e s", s)
}

// phasesTable prints one row for each run of a phase: what a device holds, the weights of it,
// the time, and the mesh.
func phasesTable(say func(string, ...any), list []plan.PhasePlan) {
	say("  %-7s %10s %9s %11s  %s", "phase", "HBM", "weights", "time", "on")
	for _, p := range list {
		name := p.Name
		for _, r := range p.Runs {
			on := r.Model
			if r.Mesh != "" {
				on = r.Mesh + ", " + r.Model
			}
			if r.Tiles > 0 { // all are on the phase's mesh
				on = r.TilesText() + ", " + r.Model
			}
			if r.Breakdown.Memory == nil {
				say("  %-7s %32s  %s", name, plan.NotModelled, cutText(on, 36))
			} else {
				say("  %-7s %10s %9s %11s  %s", name, weft.Bytes(r.Breakdown.TotalBytes), weft.Bytes(r.Breakdown.WeightsBytes), phaseSeconds(r.Seconds, p.Steps), cutText(on, 36))
			}
			name = ""
		}
		if p.Steps > 1 {
			say("  %40s", fmt.Sprintf("in %d steps%s", p.Steps, map[bool]string{true: ", of two experts"}[p.Experts > 0]))
		}
	}
}

// phaseSeconds formats the time of a phase, which may be that of a single step.
func phaseSeconds(seconds *float64, steps int) string {
	switch {
	case seconds == nil:
		return "unknown"
	case steps == 1:
		return secondsText(*seconds) + "/step"
	}
	return secondsText(*seconds)
}

// planBest prints the details of the best plan.
func planBest(say func(string, ...any), p plan.Plan) {
	say("")
	switch p.Fits {
	case plan.Fits:
		say("best: %s on %s", planName(p), p.Slice)
	case plan.TooBig:
		say("no split fits; the fastest: %s on %s", planName(p), p.Slice)
	default:
		say("whether a split fits is unknown; the fastest: %s on %s", planName(p), p.Slice)
	}
	m := p.Breakdown.DiT
	say("  dit   weights %s, attention %s, stream %s,", weft.Bytes(m.WeightsBytes), weft.Bytes(m.AttentionBytes), weft.Bytes(m.ResidualBytes))
	say("        gathered %s, other %s: %s in %q", weft.Bytes(m.GatheredBytes), weft.Bytes(m.TempBytes), weft.Bytes(m.TotalBytes), m.At)
	if p.Fits == plan.Fits {
		say("        leaves %s of a device's memory", weft.Bytes(*p.HBMLimitBytes-m.TotalBytes))
	}
	attentionText(say, "dit", p.Attention)
	attentionText(say, "text", p.Breakdown.Text.Attention)
	attentionText(say, "vae", p.Breakdown.VAE.Attention)
	phasesTable(say, p.Phases)
	t := p.Time
	parts := []string{}
	for _, k := range []struct {
		name string
		s    float64
	}{{"matmuls", t.MatmulSeconds}, {"attention", t.AttentionSeconds}, {"memory", t.MemorySeconds}, {"waiting for weights", t.TransferSeconds}} {
		if k.s > 0 {
			parts = append(parts, k.name+" "+secondsText(k.s))
		}
	}
	for _, axis := range slices.Sorted(maps.Keys(t.CollectiveSeconds)) {
		parts = append(parts, axis+" "+secondsText(t.CollectiveSeconds[axis]))
	}
	sayAfterHead(say, "  step  ", secondsText(p.StepSeconds)+": "+strings.Join(parts, ", "))
	if p.Cost != nil {
		say("  cost  %s", p.Cost)
	}
	for _, c := range p.Collectives {
		say("  sent  %-18s %-6s %5d a step %10s", c.Op, c.Axis, c.Count, weft.Bytes(c.Bytes))
	}
	for _, n := range append(slices.Clone(p.Padding), p.Notes...) {
		sayAfterHead(say, "  note  ", n)
	}
}
