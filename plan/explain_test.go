package plan

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/models"
	"weft/phases"
	"weft/request"
	"weft/topology"
)

// explained are the questions that TestPartsAddUp draws from: for each preset that makes videos, the
// smallest that it takes.
var explained = sync.OnceValue(func() map[string]Options {
	out := map[string]Options{}
	for _, name := range models.Presets() {
		m, err := models.ByName(name)
		if err != nil {
			continue
		}
		if m.Features().Generator == nil {
			continue
		}
		for _, size := range []string{"64x64 --frames 5", "128x128 --frames 9", "256x256 --frames 9", "512x512 --frames 17", "480x832 --frames 81"} {
			o := Options{Request: request.Must("--dtype bf16 --size " + size)}
			if _, err := newSearch(m, o); err == nil {
				out[name] = o
				break
			}
		}
	}
	return out
})

// The slices of TestPartsAddUp: a torus with kernels, boxes with and without NVLink, and processors, on
// all of which one host has a pipeline.
var explainedOn = []string{"v4-8", "v5e-4", "v6e-1", "h100x2", "h100x8", "cpu:3", "cpu:4"}

// figureOf reads a figure from a plan as its JSON has it.
func figureOf(p Plan, f figure) float64 {
	sum := func(m map[string]int64) (n float64) {
		for axis, b := range m {
			if f.of == "" || f.of == axis {
				n += float64(b)
			}
		}
		return n
	}
	program := func(of func(ProgramTime) float64) (n float64) {
		for _, t := range p.Programs {
			if t.Name == f.of {
				n = of(t)
			}
		}
		return n
	}
	memory := map[string]Phase{"": p.Breakdown.DiT, "dit": p.Breakdown.DiT, "text": p.Breakdown.Text, "vae": p.Breakdown.VAE}[f.of]
	var phase PhasePlan
	for _, ph := range p.Phases {
		if ph.Name == f.of {
			phase, memory = ph, ph.Breakdown
		}
	}
	if memory.Memory == nil {
		memory.Memory = &Memory{}
	}
	switch f.entry.key {
	case "hbm_bytes_per_device":
		if f.of != "" {
			return float64(memory.TotalBytes)
		}
		return float64(p.HBMBytesPerDevice)
	case "hbm_limit_bytes":
		return float64(*p.HBMLimitBytes)
	case "total_bytes":
		return float64(memory.TotalBytes)
	case "weights_bytes":
		return float64(memory.WeightsBytes)
	case "residual_bytes":
		return float64(memory.ResidualBytes)
	case "attention_bytes":
		return float64(memory.AttentionBytes)
	case "gathered_bytes":
		return float64(memory.GatheredBytes)
	case "temp_bytes":
		return float64(memory.TempBytes)
	case "collective_bytes":
		return sum(p.CollectiveBytes)
	case "request_collective_bytes":
		return sum(p.RequestCollectiveBytes)
	case "request_seconds":
		return p.RequestSeconds
	case "transfer_seconds":
		return p.Time.TransferSeconds
	case "step_seconds":
		return p.StepSeconds
	case "matmul_seconds":
		return p.Time.MatmulSeconds
	case "attention_seconds":
		return p.Time.AttentionSeconds
	case "memory_seconds":
		return p.Time.MemorySeconds
	case "collective_seconds":
		n := 0.0
		for _, axis := range slices.Sorted(maps.Keys(p.Time.CollectiveSeconds)) {
			if f.of == "" || f.of == axis {
				n += p.Time.CollectiveSeconds[axis]
			}
		}
		return n
	case "seconds":
		if phase.Seconds != nil {
			return *phase.Seconds
		}
		return program(func(t ProgramTime) float64 { return t.Seconds })
	case "flops", "moved_bytes":
		one := func(t ProgramTime) float64 {
			if f.entry.key == "flops" {
				return t.FLOPs
			}
			return float64(t.MovedBytes)
		}
		if f.of != "" {
			return program(one)
		}
		n := 0.0
		for i, t := range p.Programs {
			calls := t.Calls
			if st := p.stage; st.of > 0 { // a device of the first stage
				layerAt := slices.IndexFunc(p.Programs, func(t ProgramTime) bool { return t.Calls > 1 })
				switch {
				case t.Calls > 1:
					calls = t.Calls * int(st.firstLayers*st.micro) / int(st.of)
				case i < layerAt:
					calls = int(st.micro)
				default:
					calls = 0
				}
			}
			n += float64(calls) * one(t)
		}
		return n
	case "peak_bytes":
		return program(func(t ProgramTime) float64 { return float64(t.PeakBytes) })
	case "argument_bytes":
		return program(func(t ProgramTime) float64 { return float64(t.ArgumentBytes) })
	}
	n := 0.0
	for _, c := range p.Collectives {
		if string(c.Op) == f.entry.key && (f.of == "" || f.of == c.Axis || f.of == c.Axis+":"+c.Type) {
			n += float64(c.Bytes)
		}
	}
	return n
}

// figuresOf lists every figure that a plan has.
func figuresOf(p Plan) []string {
	var names []string
	for _, e := range figureEntries() {
		if !e.needed && (e.key != "hbm_limit_bytes" || p.HBMLimitBytes != nil) {
			names = append(names, e.key)
		}
		switch e.of {
		case ofPhase:
			names = append(names, e.key+":dit")
			for name, ph := range map[string]Phase{"text": p.Breakdown.Text, "vae": p.Breakdown.VAE} {
				if ph.Memory != nil {
					names = append(names, e.key+":"+name)
				}
			}
			for _, ph := range p.Phases {
				if ph.Breakdown.Memory != nil {
					names = append(names, e.key+":"+ph.Name)
				}
			}
		case ofTimed:
			for _, ph := range p.Phases {
				if ph.Seconds != nil {
					names = append(names, e.key+":"+ph.Name)
				}
			}
			for _, t := range p.Programs {
				if slices.Contains(phases.Names(), t.Name) {
					panic("a program of a step has the name of a phase: " + t.Name)
				}
				names = append(names, e.key+":"+t.Name)
			}
		case ofProgram:
			for _, t := range p.Programs {
				names = append(names, e.key+":"+t.Name)
			}
		case ofAxis, ofRow:
			axes := map[string]map[string]int64{"collective_bytes": p.CollectiveBytes, "request_collective_bytes": p.RequestCollectiveBytes}[e.key]
			for axis := range axes {
				names = append(names, e.key+":"+axis)
			}
			for _, c := range p.Collectives {
				if e.key == string(c.Op) {
					names = append(names, e.key+":"+c.Axis, e.key+":"+c.Axis+":"+c.Type)
				}
			}
			if e.key == "collective_seconds" {
				for axis := range p.Time.CollectiveSeconds {
					names = append(names, e.key+":"+axis)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkAddsUp demands that an explanation is of the plan's own figure, and that its parts add
// up to it to the last bit, with one row at most for rounding.
func checkAddsUp(t rapid.TB, p Plan, d *Explanation, f figure) {
	t.Helper()
	want := figureOf(p, f)
	if d.Value != want && math.Abs(d.Value-want) > 1e-12*math.Abs(want) || d.Unit == unitBytes && d.Value != want {
		t.Errorf("%s of %s on %s: explains %v, the plan has %v", f, p.Mesh, p.Slice, d.Value, want)
	}
	sum, last, rounding := 0.0, math.Inf(1), 0
	for _, part := range d.Parts {
		sum += part.Value
		if part.Op == "rounding" {
			rounding++
			continue
		}
		if part.Value > last {
			t.Errorf("%s of %s on %s: %v after %v", f, p.Mesh, p.Slice, part.Value, last)
		}
		last = part.Value
		if part.Op == "" || part.What == "" || part.Rule == "" {
			t.Errorf("%s of %s on %s: a part without its reason: %+v", f, p.Mesh, p.Slice, part)
		}
		if d.Unit == unitSeconds && part.Op != "hand-over" && (part.Source == "" || strings.Contains(part.Source, ", : ") || strings.HasSuffix(part.Source, ": ")) {
			t.Errorf("%s of %s on %s: a time whose rates have no source: %+v", f, p.Mesh, p.Slice, part)
		}
		if part.Line > 0 && (part.Program == "" || part.Calls < 1) {
			t.Errorf("%s of %s on %s: a line of no program: %+v", f, p.Mesh, p.Slice, part)
		}
	}
	if sum != d.Value || sum != d.Sum {
		t.Errorf("%s of %s on %s: the parts add up to %v, not %v", f, p.Mesh, p.Slice, sum, d.Value)
	}
	if d.Value != 0 && len(d.Parts) == 0 {
		t.Errorf("%s of %s on %s: no parts", f, p.Mesh, p.Slice)
	}
	if rounding > 1 || rounding > 0 && d.Unit != unitSeconds && p.stage.of == 0 && d.Value < largestWhole {
		t.Errorf("%s of %s on %s: %d rows of rounding", f, p.Mesh, p.Slice, rounding)
	}
}

// Whatever the model, the split and the figure: the parts add up to the figure that the plan has.
func TestPartsAddUp(t *testing.T) {
	names := slices.Sorted(maps.Keys(explained()))
	if len(names) < 10 {
		t.Fatalf("only %v can be explained", names)
	}
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "model")
		on := lookup(t, rapid.SampledFrom(explainedOn).Draw(t, "slice"))
		o := explained()[name]
		o.CFG = rapid.SampledFrom([]string{"", CFGBatch, CFGSequential}).Draw(t, "cfg")
		o.SplitResidual = rapid.Bool().Draw(t, "split residual")
		o.Steps = rapid.SampledFrom([]int{0, 1, 40}).Draw(t, "steps")
		offload := request.Must(rapid.SampledFrom([]string{"", "", "--offload all", "--offload keep=3 --offload-depth 0"}).Draw(t, "offload"))
		o.Offload, o.OffloadDepth = offload.Offload, offload.OffloadDepth
		if rapid.Bool().Draw(t, "f32") {
			o.DType = dtype.F32
		}
		m, err := models.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := newSearch(m, o)
		if err != nil {
			t.Skip(err)
		}
		splits, err := s.listSplits(on)
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := s.planSplit(on, rapid.SampledFrom(splits).Draw(t, "split"))
		if err != nil {
			t.Fatal(err)
		}
		if p == nil {
			t.Skip("not legal")
		}
		seen++
		e, err := newExplainer(m, on, o, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, figure := range figuresOf(*p) {
			f, err := parseFigure(figure)
			if err != nil {
				t.Fatal(err)
			}
			d, err := e.explain(f)
			if err != nil {
				t.Errorf("%s on %s, %s: %v", name, on, p.Mesh, err)
				continue
			}
			checkAddsUp(t, *p, d, f)
		}
	})
	if seen < 10 {
		t.Errorf("only %d plans were explained", seen)
	}
}

// A name that is of no figure is an error that lists the names, and so is what a figure is of.
func TestFigureNames(t *testing.T) {
	for name, want := range map[string]string{
		"": "want one of hbm_bytes_per_device", "hbn": "want one of hbm_bytes_per_device", "hbm:tp": "want hbm_bytes_per_device", "weights:unet": "text, dit, vae, image, denoise, decode", "hbm:image": "the phases text, denoise, decode",
		"seconds": "want seconds:PROGRAM", "seconds:": "want seconds:PROGRAM", "flops:blok": "programs time, pre, block, post",
		"all-reduce:sp": "sends over tp", "all-reduce:tp:f16": "sends over tp:bf16, tp:f32", "collective_bytes:tp:f32": "sends over tp", "all-to-all:tp": "sends nothing of the kind", "collective_bytes:ep": "sends over tp",
	} {
		_, err := Explain(t.Context(), model(t, "wan2.1-t2v-1.3b"), Options{Request: request.Must("--size 480x832 --frames 81 --on v4-8 --mesh tp=4 --dtype bf16")}, name)
		if !errors.Is(err, ErrFigure) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	for name, want := range map[string]string{"hbm": "hbm_bytes_per_device", "weights:vae": "weights_bytes:vae", "tp": "collective_seconds:tp", "sent:tp": "collective_bytes:tp", "all-reduce": "all-reduce"} {
		if f, err := parseFigure(name); err != nil || f.String() != want {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	seen := map[string]bool{}
	for _, e := range figureEntries() {
		for _, name := range append([]string{e.key}, e.also...) {
			if seen[name] {
				t.Errorf("two figures are called %s", name)
			}
			seen[name] = true
		}
	}
}

// The peer's figures, and a slice without a legal split.
func TestWhatCannotBeExplained(t *testing.T) {
	m := model(t, "wan2.1-t2v-1.3b")
	q := Options{Request: request.Must("--size 480x832 --frames 81 --on v4-8 --as vidax --dtype bf16")}
	if _, err := Explain(t.Context(), m, q, "hbm"); !errors.Is(err, ErrFigure) {
		t.Error(err)
	}
	q.As, q.Mesh = "", request.MustMesh("dp=4")
	if _, err := Explain(t.Context(), m, q, "hbm"); !errors.Is(err, ErrNoPlan) || !strings.Contains(err.Error(), "batch 2") {
		t.Error(err)
	}
	q.Mesh, q.On = nil, request.Hardware{All: true}
	if d, err := Explain(t.Context(), m, q, "hbm"); err != nil || d.Slice == request.All || d.Split.BestOf < 2 {
		t.Error(d, err)
	}
}

func lookup(t rapid.TB, name string) topology.Slice {
	t.Helper()
	on, err := topology.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return on
}
