package plan

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/request"
)

// offloading is at480 with these flags of offload.
func offloading(flags string) Options {
	o, r := at480, request.Must(flags)
	o.Offload, o.OffloadDepth = r.Offload, r.OffloadDepth
	return o
}

// Of Wan2.1-14B on one v5e the layers' weights come in turn: what stays, the slots and what a step
// streams add up to all weights but those of the text, and every layer that is kept adds its own.
func TestOffloadedMemory(t *testing.T) {
	one := []mesh.Axis{{Name: "tp", Size: 1}}
	plans := map[string]Plan{}
	for _, flags := range []string{"--offload none", "--offload all", "--offload keep=1", "--offload keep=39", "--offload keep=40", "--offload keep=41", "--offload all --offload-depth 0", "--offload all --offload-depth 4", "--offload all --offload-depth 99"} {
		o := offloading(flags)
		o.Mesh = one
		r := search14B(t, "v5e-1", o)
		if len(r.Plans) != 1 {
			t.Fatalf("%s: %d plans", flags, len(r.Plans))
		}
		plans[flags] = r.Plans[0]
	}
	whole := plans["--offload none"].Breakdown.DiT
	if plans["--offload none"].Offload != nil || whole.SlotBytes != 0 {
		t.Errorf("%+v", plans["--offload none"].Offload)
	}
	all := plans["--offload all"].Offload
	if all.Policy != "all" || all.Layers != 40 || all.Kept != 0 || all.Depth != 1 || all.Slots != 2 || all.ResidentBytes+all.StepBytes != whole.WeightsBytes {
		t.Errorf("%+v; all weights of a step are %d", all, whole.WeightsBytes)
	}
	layer := all.StepBytes / 40
	if all.SlotBytes < 2*layer || all.SlotBytes > 2*layer+2*64*64 {
		t.Errorf("two slots of %d bytes in all, a layer has %d", all.SlotBytes, layer)
	}
	for flags, want := range map[string]struct {
		kept, slots int
		weights     int64
	}{
		"--offload all":                    {0, 2, all.ResidentBytes + all.SlotBytes},
		"--offload keep=1":                 {1, 2, all.ResidentBytes + all.SlotBytes + layer},
		"--offload keep=39":                {39, 2, all.ResidentBytes + all.SlotBytes + 39*layer},
		"--offload keep=40":                {40, 0, whole.WeightsBytes},
		"--offload keep=41":                {40, 0, whole.WeightsBytes},
		"--offload all --offload-depth 0":  {0, 1, all.ResidentBytes + all.SlotBytes/2},
		"--offload all --offload-depth 4":  {0, 5, all.ResidentBytes + all.SlotBytes/2*5},
		"--offload all --offload-depth 99": {0, 40, all.ResidentBytes + all.SlotBytes/2*40},
	} {
		p := plans[flags]
		m := p.Breakdown.DiT
		if p.Offload.Kept != want.kept || p.Offload.Slots != want.slots || m.WeightsBytes != want.weights {
			t.Errorf("%s: %d weights, %+v; want %+v", flags, m.WeightsBytes, p.Offload, want)
		}
		if m.ResidualBytes != whole.ResidualBytes || m.TempBytes != whole.TempBytes || m.TotalBytes != m.WeightsBytes+m.ResidualBytes+m.AttentionBytes+m.GatheredBytes+m.TempBytes {
			t.Errorf("%s: %+v beside %+v", flags, m, whole)
		}
		if len(p.Breakdown.Text.At) == 0 || p.Breakdown.Text.SlotBytes == 0 || !slices.Equal(p.Offload.Phases, []string{"text"}) {
			t.Errorf("%s: the text's encoder streams nothing: %+v", flags, p.Breakdown.Text.Memory)
		}
	}
}

// A layer takes the longer of computing and of the transfer; with nothing read ahead, both.
func TestOffloadedTime(t *testing.T) {
	one := []mesh.Axis{{Name: "tp", Size: 1}}
	search := func(flags string, small bool) Plan {
		o := offloading(flags)
		o.Mesh = one
		if small {
			o.Width, o.Height, o.Frames = 64, 64, 1
		}
		return search14B(t, "v5e-1", o).Plans[0]
	}
	layers := func(p Plan) ProgramTime {
		return p.Programs[slices.IndexFunc(p.Programs, func(t ProgramTime) bool { return t.Name == "block" })]
	}
	for _, small := range []bool{false, true} {
		none, all, serial, kept := search("--offload none", small), search("--offload all", small), search("--offload all --offload-depth 0", small), search("--offload keep=10", small)
		transfer := float64(all.Offload.StepBytes) / all.Offload.HostBytesPerSecond
		want := max(layers(none).Seconds, transfer)
		if got := layers(all).Seconds; math.Abs(got-want) > 1e-9*want {
			t.Errorf("small %v: layers take %g s, computing alone %g, the transfer %g", small, got, layers(none).Seconds, transfer)
		}
		if got, want := layers(serial).Seconds, layers(none).Seconds+transfer; math.Abs(got-want) > 1e-9*want {
			t.Errorf("small %v: nothing read ahead: %g s, want %g", small, got, want)
		}
		if got, want := kept.Time.TransferSeconds, 0.75*all.Time.TransferSeconds; math.Abs(got-want) > 1e-9 {
			t.Errorf("small %v: 30 of 40 layers wait %g s, want %g", small, got, want)
		}
		if (all.Time.TransferSeconds > 0) != small || math.Abs(all.StepSeconds-none.StepSeconds-all.Time.TransferSeconds) > 1e-9 {
			t.Errorf("small %v: %+v, step %g and %g", small, all.Time, all.StepSeconds, none.StepSeconds)
		}
	}
}

// Where nothing fits with all weights on the devices, splits with streamed weights are listed,
// each with as many layers kept as fit. Where something fits, none is; and none is where that
// was asked.
func TestOffloadIsListedWhereNothingFits(t *testing.T) {
	for _, flags := range []string{"--offload auto", "--offload auto --offload-depth 2"} {
		o := offloading(flags)
		r := search14B(t, "v5e-1", o)
		best := r.Plans[0]
		if len(r.Plans) != 2 || best.Fits != Fits || best.Offload == nil || r.Plans[1].Fits != TooBig || r.Plans[1].Offload != nil {
			t.Fatalf("%s: %d plans, %+v", flags, len(r.Plans), best)
		}
		if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "no split of v5litepod-1 fits with all weights") }) {
			t.Errorf("%s: it is not said: %q", flags, r.Notes)
		}
		o.Offload = request.Offload{Policy: request.OffloadKeep, Keep: best.Offload.Kept + 1}
		if more := search14B(t, "v5e-1", o).Plans[0]; more.Fits != TooBig {
			t.Errorf("%s: %d layers are kept, and one more fits too", flags, best.Offload.Kept)
		}
	}
	for _, c := range []struct{ on, flags string }{{"v5e-1", "--offload none"}, {"v4-8", "--offload auto"}} {
		for _, p := range search14B(t, c.on, offloading(c.flags)).Plans {
			if p.Offload != nil {
				t.Errorf("%s on %s lists %s %s", c.flags, c.on, p.Mesh, p.Offload.Policy)
			}
		}
	}
	// Every plan's document is read again as it was.
	b, err := json.Marshal(search14B(t, "v5e-1", at480))
	if err != nil || !strings.Contains(string(b), `"offload":{"policy":"keep=`) {
		t.Errorf("%v", err)
	}
}

// A mesh of auto takes streamed weights where nothing fits without, and the request says so.
func TestBestTakesOffload(t *testing.T) {
	m := model(t, "wan2.1-t2v-14b")
	r, err := Best(t.Context(), m, forSlice(at480, slice(t, "v5e-1")))
	if err != nil || r.Offload.Policy != request.OffloadKeep || r.Offload.Keep < 1 {
		t.Errorf("%s, %v", r, err)
	}
	if r, err = Best(t.Context(), m, forSlice(at480, slice(t, "v4-8"))); err != nil || r.Offload.Streams() {
		t.Errorf("%s, %v", r, err)
	}
	if r, err = Best(t.Context(), m, forSlice(offloading("--offload auto"), slice(t, "v4-8"))); err != nil || r.Offload.Policy != request.OffloadNone {
		t.Errorf("%s, %v", r, err)
	}
}

// A pipeline's stages stream their own layers, once for each microbatch; of the layers that are
// kept the first stages have theirs.
func TestOffloadedPipelines(t *testing.T) {
	search := func(flags, mesh string) Plan {
		t.Helper()
		o := offloading(flags)
		o.Mesh = request.MustMesh(mesh)
		r := search14B(t, "v4-8", o)
		if len(r.Plans) == 0 {
			t.Fatalf("%s on %s: %+v", flags, mesh, r.Refuse)
		}
		return r.Plans[0]
	}
	none := search("--offload none", "pp=4")
	all := search("--offload all", "pp=4")
	one := search("--offload all", "dp=2,sp=2")
	if none.Offload != nil || all.Offload == nil || all.Offload.Layers != 40 || all.Offload.Kept != 0 || all.Offload.Slots != 2 {
		t.Fatalf("%+v beside %+v", all.Offload, none.Offload)
	}
	if got, want := all.Offload.SlotBytes, one.Offload.SlotBytes; got != want {
		t.Errorf("slots of %d bytes, without a pipeline %d", got, want)
	}
	// Ten of forty layers, for each of two microbatches.
	if got, want := all.Offload.StepBytes, one.Offload.StepBytes/40*10*2; got != want {
		t.Errorf("%d bytes are streamed in a step, want %d", got, want)
	}
	m, whole := all.Breakdown.DiT, none.Breakdown.DiT
	if m.WeightsBytes != all.Offload.ResidentBytes+all.Offload.SlotBytes || m.WeightsBytes >= whole.WeightsBytes || m.ResidualBytes != whole.ResidualBytes {
		t.Errorf("%+v beside %+v: %+v", m.Memory, whole.Memory, all.Offload)
	}
	// Of twelve kept layers the first stage has ten and the second two, so that the first is the fullest.
	kept := search("--offload keep=12", "pp=4")
	layer := one.Offload.StepBytes / 40
	if got, want := kept.Breakdown.DiT.WeightsBytes, whole.WeightsBytes; got < want-layer || got > want+kept.Offload.SlotBytes {
		t.Errorf("%d bytes of weights where the first stage keeps all its layers, without streaming %d", got, want)
	}
	if every := search("--offload keep=40", "pp=4"); every.Breakdown.DiT.WeightsBytes != whole.WeightsBytes || every.StepSeconds != none.StepSeconds {
		t.Errorf("all layers are kept: %+v beside %+v", every.Breakdown.DiT.Memory, whole.Memory)
	}
	if serial := search("--offload all --offload-depth 0", "pp=4"); serial.Time.TransferSeconds <= 0 || serial.StepSeconds <= none.StepSeconds {
		t.Errorf("nothing is read ahead, and the step takes %g s, resident %g", serial.StepSeconds, none.StepSeconds)
	}
	// auto keeps as many layers as fit.
	o := offloading("--offload auto")
	o.Mesh, o.DType = request.MustMesh("pp=4"), dtype.F32
	r := search14B(t, "v5e-4", o)
	best := r.Plans[0]
	if best.Offload == nil || best.Fits != Fits {
		t.Fatalf("%+v", best)
	}
	o.Offload = request.Offload{Policy: request.OffloadKeep, Keep: best.Offload.Kept + 1}
	if more := search14B(t, "v5e-4", o).Plans[0]; more.Fits != TooBig {
		t.Errorf("%d layers are kept, and one more fits too", best.Offload.Kept)
	}
}

// Figures of plans with streamed weights are explained, and add up.
func TestExplainsOffload(t *testing.T) {
	m := model(t, "wan2.1-t2v-1.3b")
	for _, flags := range []string{"--offload all", "--offload keep=7 --offload-depth 0"} {
		for _, on := range []string{"v5e-1", "cpu:2", "l4x2"} {
			o := offloading(flags)
			o.Width, o.Height, o.Frames = 64, 64, 5
			for _, name := range []string{"hbm", "weights", "step", "transfer_seconds", "seconds:block"} {
				doc, err := Explain(t.Context(), m, forSlice(o, slice(t, on)), name)
				if err != nil {
					t.Errorf("%s on %s, %s: %v", flags, on, name, err)
					continue
				}
				want := "slots"
				if doc.Unit == unitSeconds {
					want = "transfer"
				}
				waits := on != "cpu:2" || strings.HasSuffix(flags, "depth 0") // else computing takes longer
				i := slices.IndexFunc(doc.Parts, func(p Part) bool { return p.Op == want })
				if name != "hbm" && (i >= 0) != (waits || want == "slots") || i >= 0 && doc.Parts[i].Source == "" {
					t.Errorf("%s on %s, %s: %d parts, the one of %s is number %d", flags, on, name, len(doc.Parts), want, i)
				}
			}
		}
	}
}

// FitOffload keeps the most layers that fit.
func TestFitOffload(t *testing.T) {
	g := twoLayers(t)
	for i := range g.Calls {
		if g.Calls[i].Program == "block" {
			g.Calls[i].Layer = g.Calls[i].Name
		}
	}
	l := Load{Graph: g}
	whole, err := FitOffload(l, 1, math.MaxInt64)
	if err != nil || whole.Keep != -1 || !whole.Fits {
		t.Fatalf("%+v %v", whole, err)
	}
	layers := g.Place(graph.Offload{Stream: true}).Layers
	if layers < 2 {
		t.Fatalf("%d layers", layers)
	}
	least, err := FitOffload(l, 0, 1)
	if err != nil || least.Fits || least.Need <= 0 || least.Need >= whole.Need {
		t.Errorf("%+v of %+v, %v", least, whole, err)
	}
	for limit := least.Need; limit < whole.Need; limit++ {
		fit, err := FitOffload(l, 0, limit)
		if err != nil || !fit.Fits || fit.Need > limit || fit.Keep < 0 || fit.Keep >= layers {
			t.Fatalf("limit %d: %+v, %v", limit, fit, err)
		}
	}
	if _, err := FitOffload(Load{Graph: g, Shared: true}, 1, 1); err != nil {
		t.Error(err)
	}
}
