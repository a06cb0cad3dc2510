package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/fault"
	"weft/mesh"
	"weft/phases"
	"weft/program"
)

// figureEntry is a kind of figure that can be explained.
type figureEntry struct {
	key  string   // as the JSON of plans calls it
	also []string // as people and the table call it
	unit string
	// of says what may follow the key after a colon; "" for nothing. needed: it must follow.
	of      string
	needed  bool
	explain func(e *explainer, f figure) (of string, value float64, parts []Part, err error)
}

// figure is a figure that is asked for.
type figure struct {
	entry *figureEntry
	of    string
}

// String is the figure's name as the JSON of plans has it.
func (f figure) String() string {
	if f.of == "" {
		return f.entry.key
	}
	return f.entry.key + ":" + f.of
}

// What may follow a figure's key.
const (
	ofPhase   = "PHASE" // text, image, denoise or dit, decode or vae
	ofAxis    = "AXIS"
	ofRow     = "AXIS[:DTYPE]" // a row of the table of collectives, or all of an axis
	ofProgram = "PROGRAM"
	ofTimed   = "PROGRAM|PHASE" // of a step, or of a video
)

// figureEntries lists all figures. It is a function because explaining one asks for others.
func figureEntries() []figureEntry {
	entries := []figureEntry{
		{key: "hbm_bytes_per_device", also: []string{"hbm"}, unit: unitBytes, of: ofPhase, explain: (*explainer).explainHBM},
		{key: "hbm_limit_bytes", also: []string{"limit"}, unit: unitBytes, explain: (*explainer).explainLimit},
		{key: "total_bytes", also: []string{"total"}, unit: unitBytes, of: ofPhase, explain: (*explainer).explainMemory},
		{key: "weights_bytes", also: []string{"weights"}, unit: unitBytes, of: ofPhase, explain: (*explainer).explainMemory},
		{key: "residual_bytes", also: []string{"residual", "stream"}, unit: unitBytes, of: ofPhase, explain: (*explainer).explainMemory},
		{key: "attention_bytes", also: []string{"attention"}, unit: unitBytes, of: ofPhase, explain: (*explainer).explainMemory},
		{key: "gathered_bytes", also: []string{"gathered"}, unit: unitBytes, of: ofPhase, explain: (*explainer).explainMemory},
		{key: "temp_bytes", also: []string{"temp", "other"}, unit: unitBytes, of: ofPhase, explain: (*explainer).explainMemory},
		{key: "collective_bytes", also: []string{"sent", "traffic"}, unit: unitBytes, of: ofAxis, explain: (*explainer).explainSent},
		{key: "request_collective_bytes", unit: unitBytes, of: ofAxis, explain: (*explainer).explainSent},
		{key: "request_seconds", unit: unitSeconds, explain: (*explainer).explainTime},
		{key: "step_seconds", also: []string{"step"}, unit: unitSeconds, explain: (*explainer).explainTime},
		{key: "seconds", unit: unitSeconds, of: ofTimed, needed: true, explain: (*explainer).explainTime},
		{key: "matmul_seconds", also: []string{"matmuls"}, unit: unitSeconds, explain: (*explainer).explainTime},
		{key: "attention_seconds", unit: unitSeconds, explain: (*explainer).explainTime},
		{key: "memory_seconds", also: []string{"memory"}, unit: unitSeconds, explain: (*explainer).explainTime},
		{key: "collective_seconds", unit: unitSeconds, of: ofAxis, explain: (*explainer).explainTime},
		{key: "transfer_seconds", also: []string{"transfer"}, unit: unitSeconds, explain: (*explainer).explainTime},
		{key: "flops", unit: unitFLOPs, of: ofProgram, explain: (*explainer).explainWork},
		{key: "moved_bytes", also: []string{"moved"}, unit: unitBytes, of: ofProgram, explain: (*explainer).explainWork},
		{key: "peak_bytes", unit: unitBytes, of: ofProgram, needed: true, explain: (*explainer).explainProgramMemory},
		{key: "argument_bytes", unit: unitBytes, of: ofProgram, needed: true, explain: (*explainer).explainProgramMemory},
	}
	for _, op := range []program.Op{program.OpAllReduce, program.OpAllGather, program.OpReduceScatter, program.OpAllToAll, program.OpPermute} {
		entries = append(entries, figureEntry{key: string(op), unit: unitBytes, of: ofRow, explain: (*explainer).explainCollective})
	}
	return entries
}

// FigureNames lists the figures that Explain takes, by the names of the JSON; where one may be
// of something, that follows a colon, in brackets unless it must be there.
func FigureNames() []string {
	var names []string
	for _, e := range figureEntries() {
		names = append(names, e.pattern())
	}
	return names
}

// FigureShortNames lists the names that people and the table use for some of the figures.
func FigureShortNames() []string {
	var names []string
	for _, e := range figureEntries() {
		names = append(names, e.also...)
	}
	return names
}

func (e figureEntry) pattern() string {
	switch {
	case e.of == "":
		return e.key
	case e.needed:
		return e.key + ":" + e.of
	}
	return e.key + "[:" + e.of + "]"
}

// parseFigure reads the name of a figure. Error: ErrFigure, with the names.
func parseFigure(name string) (figure, error) {
	key, of, colon := strings.Cut(name, ":")
	for _, e := range figureEntries() {
		if e.key != key && !slices.Contains(e.also, key) {
			continue
		}
		switch {
		case colon && (e.of == "" || of == ""):
			return figure{}, fault.New(ErrFigure, nil, "figure %q: want %s", name, e.pattern())
		case !colon && e.needed:
			return figure{}, fault.New(ErrFigure, nil, "figure %q: want %s; weft plan --json lists the programs", name, e.pattern())
		case e.of == ofPhase && colon && !slices.Contains(phaseNames(), of):
			return figure{}, fault.New(ErrFigure, nil, "figure %q: want %s, of one of the phases %s", name, e.pattern(), strings.Join(phaseNames(), ", "))
		}
		return figure{&e, of}, nil
	}
	if name != "" && !colon && isAxis(name) { // as the line of a step's times has it
		f, err := parseFigure("collective_seconds")
		f.of = name
		return f, err
	}
	return figure{}, fault.New(ErrFigure, nil, "figure %q: want one of %s; or in short %s", name, strings.Join(FigureNames(), ", "), strings.Join(FigureShortNames(), ", "))
}

// isAxis reports whether a name is of an axis, or of several with + between.
func isAxis(name string) bool {
	for _, a := range strings.Split(name, "+") {
		if !slices.Contains([]string{mesh.DP, mesh.FSDP, mesh.TP, mesh.Ring, mesh.SP, mesh.PP}, a) {
			return false
		}
	}
	return true
}

// The phases that Breakdown has, as it calls them.
const (
	textPhase = "text"
	ditPhase  = "dit"
	vaePhase  = "vae"
)

// phaseNames lists the names that a phase may be called by.
func phaseNames() []string {
	names := []string{textPhase, ditPhase, vaePhase}
	for _, name := range phases.Names() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// axisError says that a plan sends nothing of a kind.
func (f figure) axisError(known []string) error {
	slices.Sort(known)
	if len(known) == 0 {
		return fault.New(ErrFigure, nil, "figure %s: this split sends nothing of the kind", f)
	}
	return fault.New(ErrFigure, nil, "figure %s: this split sends over %s", f, strings.Join(slices.Compact(known), ", "))
}

// noPhaseError says that a plan does not have a phase's figures.
func (e *explainer) noPhaseError(f figure) error {
	var have []string
	for _, p := range e.p.Phases {
		if p.Name == f.of || breakdownKey(p.Name) == f.of {
			return fault.New(ErrFigure, nil, "figure %s: the phase %s is %s", f, f.of, NotModelled)
		}
		have = append(have, p.Name)
	}
	return fault.New(ErrFigure, nil, "figure %s: a video has the phases %s", f, strings.Join(have, ", "))
}

// programError says that a step has no program of a name.
func (e *explainer) programError(f figure) error {
	var names []string
	for _, t := range e.p.Programs {
		names = append(names, t.Name)
	}
	return fault.New(ErrFigure, nil, "figure %s: a step has the programs %s", f, strings.Join(names, ", "))
}

// explainLimit explains what a program gets of a device's memory.
func (e *explainer) explainLimit(figure) (string, float64, []Part, error) {
	m := e.p.DeviceMemory
	if m.UsableBytes == nil {
		return "", 0, nil, fault.New(ErrFigure, nil, "figure hbm_limit_bytes: %s", UnknownMemory)
	}
	parts := []Part{}
	add := func(bytes int64, op, what, rule, source string) {
		parts = append(parts, Part{Value: float64(bytes), Op: op, What: what, Rule: rule, Source: source})
	}
	rest := *m.UsableBytes
	if m.Bytes != nil {
		add(*m.Bytes, "memory", "the device's memory", "all of it", m.Source)
		rest -= *m.Bytes
	}
	if m.ReservedBytes != nil {
		add(-*m.ReservedBytes, "reserved", "what no program gets", "taken off", m.ReservedSource)
		rest += *m.ReservedBytes
	}
	add(rest, "memory", "what a program gets beside", "usable, by the source", m.Source)
	return "what a program gets of a device's memory", float64(*m.UsableBytes), parts, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// callsText writes how often something is counted: "40 calls".
func callsText(n int) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}
