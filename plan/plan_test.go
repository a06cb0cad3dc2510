package plan

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	_ "weft/models/all"
	"weft/program/cost"
	"weft/request"
	"weft/sharding"
	"weft/topology"
)

func model(t testing.TB, name string) models.Model {
	t.Helper()
	m, err := models.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func slice(t testing.TB, name string) topology.Slice {
	t.Helper()
	s, err := topology.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at480 is the usual request.
var at480 = Options{Request: request.Request{Width: 832, Height: 480, Frames: 81, DType: dtype.BF16}}

// forSlice are the options for a slice.
func forSlice(o Options, on topology.Slice) Options {
	o.On = request.Hardware{Slice: on}
	return o
}

// forAll are the options for all hardware.
func forAll(o Options) Options {
	o.On = request.Hardware{All: true}
	return o
}

func search14B(t testing.TB, on string, o Options) *Result {
	t.Helper()
	r, err := Search(t.Context(), model(t, "wan2.1-t2v-14b"), forSlice(o, slice(t, on)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func find(t testing.TB, r *Result, on string, shares ...string) Plan {
	t.Helper()
	for _, p := range r.Plans {
		if p.Mesh == on && strings.Join(p.FSDP, ",") == strings.Join(shares, ",") {
			return p
		}
	}
	t.Fatalf("no plan %s %v", on, shares)
	return Plan{}
}

// A graph of two layers, scaled, says exactly what the whole graph says.
func TestTwoLayersStandForAll(t *testing.T) {
	for _, name := range []string{"wan2.1-t2v-1.3b", "wan2.1-t2v-14b"} {
		m := model(t, name)
		n := countAlikeLayers(m)
		if n == 0 {
			t.Fatalf("%s: depth not found", name)
		}
		for _, sp := range []split{
			{dp: 1, fsdp: 1, tp: 1, sp: 1}, {dp: 1, fsdp: 1, tp: 4, sp: 1}, {dp: 2, fsdp: 1, tp: 2, sp: 2, shardedOver: []string{"dp", "sp"}},
			{dp: 1, fsdp: 4, tp: 1, sp: 1}, {dp: 1, fsdp: 1, tp: 1, sp: 4, shardedOver: []string{"sp"}}, {dp: 2, fsdp: 2, tp: 2, sp: 1},
		} {
			on, err := mesh.Local(axesOf(sp)...)
			if err != nil {
				t.Fatal(err)
			}
			r := models.Request{Batch: 2, Latent: []int{16, 21, 60, 104}, DType: dtype.BF16, FSDP: sp.shardedOver}
			var got [2]*splitMeasures
			for i, layers := range []int{0, 2} {
				r.Layers = layers
				g, err := m.Graph(on, r)
				if err != nil {
					t.Fatal(err)
				}
				scale := 0
				if layers == 2 {
					scale = n
				}
				if got[i], err = measureGraph(g, scale, 2, graph.Offload{}); err != nil {
					t.Fatal(err)
				}
				if layers == 2 {
					continue
				}
				// The whole graph's own account of traffic and weights.
				for _, request := range []bool{true, false} {
					table := cost.AddTraffic(nil, g.Traffic(request), 2)
					mine := got[i].step
					if request {
						mine = got[i].request
					}
					if len(table) != len(mine) || len(table) > 0 && !reflect.DeepEqual(table, mine) {
						t.Errorf("%s %s: traffic %v, the graph has %v", name, sp.meshText(), mine, table)
					}
				}
				weights := int64(0) // that are there at the peak, which is in a step: the text's have left
				placed := g.Place(graph.Offload{})
				for _, w := range g.Weights {
					if placed.Of[w.Name] == graph.Leaves {
						continue
					}
					b, err := w.Bytes(on)
					if err != nil {
						t.Fatal(err)
					}
					weights += b
				}
				if got[i].memory.WeightsBytes != weights {
					t.Errorf("%s %s: weights %d, the graph has %d", name, sp.meshText(), got[i].memory.WeightsBytes, weights)
				}
			}
			if got[0].memory != got[1].memory {
				t.Errorf("%s %s: whole %+v, scaled %+v", name, sp.meshText(), got[0].memory, got[1].memory)
			}
			if !reflect.DeepEqual(got[0].step, got[1].step) || !reflect.DeepEqual(got[0].request, got[1].request) {
				t.Errorf("%s %s: traffic differs", name, sp.meshText())
			}
			if !reflect.DeepEqual(got[0].programs, got[1].programs) {
				t.Errorf("%s %s: programs differ", name, sp.meshText())
			}
		}
	}
}

// Parts add up, the order is kept, and what is said of fitting is so.
func TestSumsAndOrder(t *testing.T) {
	for _, on := range []string{"v4-8", "v5e-8", "l4x1", "cpu:4", "tpu7x-2"} {
		for _, cfg := range []string{CFGBatch, CFGSequential} {
			o := at480
			o.CFG = cfg
			r := search14B(t, on, o)
			for i, p := range r.Plans {
				m := p.Breakdown.DiT
				var most int64
				for phase, b := range map[string]*Memory{"text": p.Breakdown.Text.Memory, "dit": m.Memory, "vae": p.Breakdown.VAE.Memory} {
					if b == nil {
						t.Errorf("%s %s: %s is not modelled", on, p.Mesh, phase)
						continue
					}
					if sum := b.WeightsBytes + b.ResidualBytes + b.AttentionBytes + b.GatheredBytes + b.TempBytes; sum != b.TotalBytes || b.TempBytes < 0 || b.WeightsBytes <= 0 {
						t.Errorf("%s %s: parts of %s add up to %d: %+v", on, p.Mesh, phase, sum, *b)
					}
					most = max(most, b.TotalBytes)
				}
				if p.HBMBytesPerDevice != most || m.ResidualBytes <= 0 || m.AttentionBytes <= 0 {
					t.Errorf("%s %s: hbm %d, the largest phase %d, %+v", on, p.Mesh, p.HBMBytesPerDevice, most, *m.Memory)
				}
				if p.HBMLimitBytes == nil {
					if p.Fits != FitUnknown || p.OverBytes != nil || p.Change != "" {
						t.Errorf("%s %s: fits %v, over %v, change %q of an unknown memory", on, p.Mesh, p.Fits, p.OverBytes, p.Change)
					}
				} else if (p.Fits == Fits) != (p.HBMBytesPerDevice <= *p.HBMLimitBytes) || (*p.OverBytes > 0) != (p.Fits == TooBig) || (p.Change == "") != (p.Fits == Fits) {
					t.Errorf("%s %s: fits %v, %d of %d, over %d, change %q", on, p.Mesh, p.Fits, p.HBMBytesPerDevice, p.HBMLimitBytes, p.OverBytes, p.Change)
				}
				if i > 0 && comparePlans(r.Plans[i-1], p) > 0 {
					t.Errorf("%s: %s stands behind %s", on, p.Mesh, r.Plans[i-1].Mesh)
				}
				sum := map[string]int64{}
				for _, c := range p.Collectives {
					sum[c.Axis] += c.Bytes
				}
				if pp, ok := p.CollectiveBytes["pp"]; ok != (p.split.pp > 1) || ok && pp <= 0 {
					t.Errorf("%s %s: a pipeline hands over %d", on, p.Mesh, pp)
				} else if ok {
					sum["pp"] = pp // handed over, by no collective
				}
				if !maps.Equal(sum, p.CollectiveBytes) {
					t.Errorf("%s %s: collectives %v, by axis %v", on, p.Mesh, sum, p.CollectiveBytes)
				}
				seconds := 0.0
				for _, q := range p.Programs {
					seconds += q.Seconds
				}
				if p.split.pp > 1 {
					continue // one microbatch's programs, and stages that wait: TestPipelines
				}
				if p.StepSeconds <= 0 || seconds < 0.999*p.StepSeconds || seconds > 1.001*p.StepSeconds {
					t.Errorf("%s %s: programs take %g of %g s", on, p.Mesh, seconds, p.StepSeconds)
				}
			}
		}
	}
}

// Every split of the devices is either a plan or refused, and the model agrees.
func TestEverySplitIsAnswered(t *testing.T) {
	for _, c := range []struct {
		on     string
		splits int // ordered factors of the devices over five axes; on several hosts four, without pp
	}{{"v4-8", 15}, {"v5e-16", 35}, {"v5e-1", 1}, {"cpu:6", 25}, {"cpu:7", 5}} {
		r := search14B(t, c.on, at480)
		seen := map[string]bool{}
		for _, p := range r.Plans {
			seen[p.Mesh] = true
		}
		for _, f := range r.Refuse {
			if seen[f.Mesh] {
				t.Errorf("%s: %s is both", c.on, f.Mesh)
			}
			seen[f.Mesh] = true
			if f.Kind == "" || f.Reason == "" || len(f.Violations) == 0 {
				t.Errorf("%s: %+v", c.on, f)
			}
		}
		maps.DeleteFunc(seen, func(mesh string, _ bool) bool { return strings.Contains(mesh, "ring=") }) // TestRingsAreListed
		if len(seen) != c.splits {
			t.Errorf("%s: %d splits, want %d", c.on, len(seen), c.splits)
		}
	}
}

func refused(t *testing.T, r *Result, on string) Refusal {
	t.Helper()
	for _, f := range r.Refuse {
		if f.Mesh == on {
			return f
		}
	}
	t.Fatalf("%s is not refused", on)
	return Refusal{}
}

func TestReasons(t *testing.T) {
	r := search14B(t, "v5e-16", at480)
	for _, c := range []struct{ mesh, kind, says string }{
		{"dp=1,tp=16,sp=1", "heads-not-divisible", "40 heads"},
		{"dp=1,tp=4,sp=4", "heads-not-divisible", "tp=4, sp=4"},
		{"dp=4,tp=4,sp=1", "batch-not-divisible", "dp=4"},
		{"dp=16,tp=1,sp=1", "batch-not-divisible", "batch 2"},
	} {
		if f := refused(t, r, c.mesh); f.Kind != c.kind || !strings.Contains(f.Reason, c.says) {
			t.Errorf("%s: %+v", c.mesh, f)
		}
	}
	small, err := Search(t.Context(), model(t, "wan2.1-t2v-1.3b"), forSlice(at480, slice(t, "v5e-8")))
	if err != nil {
		t.Fatal(err)
	}
	if f := refused(t, small, "dp=1,tp=8,sp=1"); f.Kind != "heads-not-divisible" || !strings.Contains(f.Reason, "12 heads") {
		t.Errorf("%+v", f)
	}
}

// v4-8 counts cores and has four devices. A mesh smaller than the slice is refused too,
// because the devices left over would stand idle without a word.
func TestDeviceCounts(t *testing.T) {
	for _, c := range []struct {
		on, mesh, says string
		need, have     int
	}{
		{"v4-8", "tp=8", "counts cores", 8, 4}, {"v4-8", "tp=2", "multiply to 4", 2, 4}, {"v5e-8", "tp=4", "8", 4, 8},
		{"v3-8", "tp=4", "8", 4, 8}, {"h100x8", "dp=2,tp=8", "8", 16, 8},
	} {
		o := at480
		var err error
		if o.Mesh, err = mesh.Parse(c.mesh); err != nil {
			t.Fatal(err)
		}
		r := search14B(t, c.on, o)
		if len(r.Plans) != 0 || len(r.Refuse) != 1 {
			t.Fatalf("%s %s: %d plans, %d refused", c.on, c.mesh, len(r.Plans), len(r.Refuse))
		}
		f := r.Refuse[0]
		if f.Kind != mesh.ErrDeviceCount.Name() || !strings.Contains(f.Reason, c.says) || !strings.Contains(string(f.Violations[0].Fields), fmt.Sprintf(`"need":%d,"have":%d`, c.need, c.have)) {
			t.Errorf("%s %s: %s %s %s", c.on, c.mesh, f.Kind, f.Reason, f.Violations[0].Fields)
		}
	}
	o := at480
	o.Mesh = []mesh.Axis{{Name: "tp", Size: 4}}
	if r := search14B(t, "v4-8", o); len(r.Plans) != 1 || r.Plans[0].Mesh != "dp=1,tp=4,sp=1" {
		t.Errorf("%+v", r.Plans)
	}
	o.Mesh = []mesh.Axis{{Name: "qq", Size: 4}}
	if r := search14B(t, "v4-8", o); len(r.Plans) != 0 || r.Refuse[0].Kind != models.ErrAxis.Name() {
		t.Errorf("%+v", r.Refuse)
	}
	o.Mesh = []mesh.Axis{{Name: "pp", Size: 2}, {Name: "tp", Size: 2}}
	if r := search14B(t, "v5e-16", o); len(r.Plans) != 0 || r.Refuse[0].Kind != mesh.ErrDeviceCount.Name() {
		t.Errorf("pp: %+v", r.Refuse)
	}
}

// What no split is to blame for is one error.
func TestAbsurdRequests(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		kind   *fault.Kind
		says   string
	}{
		{func(o *Options) { o.Width = 830 }, models.ErrSize, "816 or 832"},
		{func(o *Options) { o.Height = -480 }, models.ErrSize, "height"},
		{func(o *Options) { o.Frames = 80 }, models.ErrSize, "77 or 81"},
		{func(o *Options) { o.Frames = 0 }, models.ErrSize, "frames"},
		{func(o *Options) { o.Frames = 1 << 40 }, models.ErrSize, "frames"},
		{func(o *Options) { o.Width, o.Height, o.Frames = 1<<16, 1<<16, 65533 }, models.ErrSize, "latent positions"},
		{func(o *Options) { o.Batch = -1 }, ErrOptions, "batch"},
		{func(o *Options) { o.Batch = 1 << 40 }, ErrOptions, "batch"},
		{func(o *Options) { o.CFG = "both" }, ErrOptions, "batch, sequential or none"},
		{func(o *Options) { o.DType = dtype.F16 }, ErrOptions, "bf16 or f32"},
		{func(o *Options) { o.TextLen = 513 }, models.ErrInputs, "512"},
	} {
		o := at480
		c.change(&o)
		_, err := Search(t.Context(), model(t, "wan2.1-t2v-14b"), forSlice(o, slice(t, "v4-8")))
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	// The largest that is planned does not overflow.
	o := Options{Request: request.Request{Width: 8192, Height: 4096, Frames: 401, DType: dtype.F32}}
	for _, p := range search14B(t, "v4-8", o).Plans {
		if p.Fits != TooBig || p.HBMBytesPerDevice < 5e11 || p.StepSeconds < 1e6 {
			t.Errorf("%s: %d bytes, %g s", p.Mesh, p.HBMBytesPerDevice, p.StepSeconds)
		}
	}
}

// CFG as one batch makes dp=2 CFG parallel; one after the other does not, and keeps two texts.
func TestCFG(t *testing.T) {
	r := search14B(t, "v4-8", at480)
	if p := find(t, r, "dp=2,tp=2,sp=1"); !p.CFGParallel || !strings.Contains(strings.Join(p.Notes, " "), "CFG parallel") {
		t.Errorf("%+v", p)
	}
	if p := find(t, r, "dp=1,tp=4,sp=1"); p.CFGParallel {
		t.Error("dp=1 is no CFG parallel")
	}
	o := at480
	o.CFG = CFGSequential
	s := search14B(t, "v4-8", o)
	if f := refused(t, s, "dp=2,tp=2,sp=1"); f.Kind != models.ErrBatch.Name() {
		t.Errorf("%+v", f)
	}
	// Per device one layer's K and V of 512 rows, 1280 channels and 2 bytes, of 40 layers and 2 texts.
	seq := find(t, s, "dp=1,tp=4,sp=1")
	if kv := int64(2 * 40 * 2 * 512 * 1280 * 2); seq.Breakdown.DiT.AttentionBytes < kv {
		t.Errorf("attention %d, the text's K and V alone take %d", seq.Breakdown.DiT.AttentionBytes, kv)
	}
	batch := find(t, r, "dp=1,tp=4,sp=1")
	if seq.HBMBytesPerDevice >= batch.HBMBytesPerDevice {
		t.Errorf("sequential %d, as one batch %d", seq.HBMBytesPerDevice, batch.HBMBytesPerDevice)
	}
	if a, b := seq.CollectiveBytes["tp"], batch.CollectiveBytes["tp"]; a < b || a > b+b/100 {
		t.Errorf("tp: %d bytes in two passes, %d in one", a, b)
	}
}

// What a plan that is too big is told does fit.
func TestChanges(t *testing.T) {
	r := search14B(t, "v5e-8", at480)
	p := find(t, r, "dp=1,tp=1,sp=8")
	q := find(t, r, "dp=1,tp=1,sp=8", "sp")
	if p.Fits != TooBig || q.Fits != Fits || p.Advice != "--mesh dp=1,tp=1,sp=8 --fsdp sp" || p.Change != p.Advice+" ("+formatGigabytes(q.HBMBytesPerDevice)+")" {
		t.Errorf("%v %v %q", p.Fits, q.Fits, p.Change)
	}
	// Nothing fits on one chip in f32 but a change of type and length does, or there is none.
	o := Options{Request: request.Request{Width: 832, Height: 480, Frames: 81, DType: dtype.F32}}
	m := model(t, "wan2.1-t2v-1.3b")
	s, err := Search(t.Context(), m, forSlice(o, slice(t, "v5e-1")))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("1.3b f32 on v5e-1: %s, %s", formatGigabytes(s.Plans[0].HBMBytesPerDevice), s.Plans[0].Change)
	// What fits with streamed weights comes first, and is advised beside the larger slice.
	one := search14B(t, "v5e-1", at480)
	resident := one.Plans[len(one.Plans)-1]
	if c := resident.Advice; !strings.HasPrefix(c, "--on v5litepod-") || !strings.Contains(resident.Change, ", or --mesh dp=1,tp=1,sp=1 --offload ") {
		t.Errorf("%q, %q", c, resident.Change)
	}
	if p := one.Plans[0]; p.Fits != Fits || p.Offload == nil || p.Offload.Kept >= 40 || p.Offload.Slots != 2 {
		t.Errorf("%v, %+v", p.Fits, p.Offload)
	}
	// The largest slice of a kind has none above it.
	most := search14B(t, "l4x8", Options{Request: request.Request{Width: 65536, Height: 65536, Frames: 1, DType: dtype.BF16}})
	if p := most.Plans[0]; p.Advice != "" || !strings.Contains(p.Change, "no change fits") || !strings.Contains(p.Change, "--on all") {
		t.Errorf("%q, %q", p.Advice, p.Change)
	}
	long := Options{Request: request.Request{Width: 1280, Height: 720, Frames: 401, DType: dtype.F32}}
	long.Offload.Policy = request.OffloadNone
	big, err := Search(t.Context(), m, forSlice(long, slice(t, "v5e-1")))
	if err != nil {
		t.Fatal(err)
	}
	c := big.Plans[0].Change
	t.Logf("1.3b f32 720p 401 frames on v5e-1: %s", c)
	var frames int
	if _, err := fmt.Sscanf(c[strings.Index(c, "--frames"):], "--frames %d", &frames); err != nil {
		t.Fatalf("%q: %v", c, err)
	}
	long.DType, long.CFG, long.Frames = dtype.BF16, CFGSequential, frames
	if !strings.Contains(c, "--dtype bf16") || !strings.Contains(c, "--cfg sequential") {
		t.Fatalf("%q", c)
	}
	for _, more := range []int{0, 4} {
		long.Frames = frames + more
		if big, err = Search(t.Context(), m, forSlice(long, slice(t, "v5e-1"))); err != nil || (big.Plans[0].Fits == Fits) != (more == 0) {
			t.Errorf("%d frames: %v, fits %v", long.Frames, err, big.Plans[0].Fits)
		}
	}
}

func TestAssertions(t *testing.T) {
	r := search14B(t, "v4-8", at480)
	for text, held := range map[string]bool{
		"hbm<33GB": true, "hbm<1GB": false, "hbm <= 30.75 GiB": true, "HBM>1kb": true, "step<1e9": false, "step<100000s": true, "step>=1ms,hbm<33gb": true, "hbm>40GB": false,
	} {
		as, err := ParseAssertions(text)
		if text == "step<1e9" { // no exponents
			if !errors.Is(err, ErrOptions) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := r.Assert(as)
		if (err == nil) != held || err != nil && !errors.Is(err, ErrAssert) || got[0].Held != held {
			t.Errorf("%s: %v, %+v", text, err, got)
		}
	}
	for _, text := range []string{"", "hbm", "hbm<", "hbm<GB", "hbm<30GW", "ram<3GB", "hbm=3GB", "hbm<-3GB", "step<3GB", "hbm<3GB;step<1s", "hbm<1.2.3GB"} {
		if _, err := ParseAssertions(text); !errors.Is(err, ErrOptions) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Of each kind of hardware the smallest slice that fits, fewest chips first.
func TestSearchAll(t *testing.T) {
	resident := at480
	resident.Offload = request.Offload{Policy: request.OffloadNone}
	r, err := Search(t.Context(), model(t, "wan2.1-t2v-14b"), forAll(at480))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Plans)+len(r.Refuse) != len(topology.Generations())+len(topology.GPUs()) {
		t.Errorf("%d plans, %d refused", len(r.Plans), len(r.Refuse))
	}
	for i, p := range r.Plans {
		on := slice(t, p.Slice)
		if p.Fits != Fits {
			t.Errorf("%s does not fit", p.Slice)
		}
		if i > 0 && slice(t, r.Plans[i-1].Slice).Chips > on.Chips {
			t.Errorf("%s stands behind %s", p.Slice, r.Plans[i-1].Slice)
		}
		for _, smaller := range topology.Slices() {
			if smaller.Generation != on.Generation || smaller.Chips >= on.Chips {
				continue
			}
			for _, q := range search14B(t, smaller.Spec(), resident).Plans {
				if q.Fits == Fits {
					t.Errorf("%s fits on %s too", p.Slice, smaller)
				}
			}
		}
	}
	// What nothing holds is refused with the nearest. Where heads bound the devices of a sequence, only a ring
	// over hundreds of them holds so long a one.
	huge, err := Search(t.Context(), model(t, "wan2.1-t2v-14b"), forAll(Options{Request: request.Request{Width: 8192, Height: 4096, Frames: 401, DType: dtype.F32}}))
	if slices.ContainsFunc(huge.Plans, func(p Plan) bool { return !strings.Contains(p.Mesh, "ring=") }) {
		t.Errorf("fits without a ring: %+v", huge.Plans)
	}
	if err != nil || len(huge.Refuse) == 0 || huge.Refuse[0].Kind != ErrTooBig.Name() || !strings.Contains(huge.Refuse[0].Reason, "too much") {
		t.Errorf("%v %+v", err, huge.Refuse)
	}
}

// The bytes follow the type in which a weight is kept: bf16 halves the weights of the
// matmuls, and the rest are f32 in both.
func TestWeightsFollowTheType(t *testing.T) {
	o := at480
	o.Mesh = []mesh.Axis{{Name: "tp", Size: 4}}
	half := search14B(t, "v4-8", o).Plans[0].Breakdown.DiT.WeightsBytes
	o.DType = dtype.F32
	whole := search14B(t, "v4-8", o).Plans[0].Breakdown.DiT.WeightsBytes
	on, err := mesh.Local(mesh.Axis{Name: "dp", Size: 1}, mesh.Axis{Name: "tp", Size: 4}, mesh.Axis{Name: "sp", Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	m := model(t, "wan2.1-t2v-14b")
	assigned, err := models.Specs(m, on, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want [2]int64
	ofRequest := regexp.MustCompile(`^text_embedding\.|\.cross_attn\.(k|v|norm_k)\.`) // gone when a step begins
	for i, p := range m.Params(0) {
		if ofRequest.MatchString(p.Name) {
			continue
		}
		shape := p.Shape
		if p.View != nil {
			shape = p.View
		}
		n, err := local(on, assigned[i].Spec, shape)
		if err != nil {
			t.Fatal(err)
		}
		want[0] += 4 * n
		if p.Matmul {
			want[1] += 2 * n
		} else {
			want[1] += 4 * n
		}
	}
	if half != want[1] || whole != want[0] {
		t.Errorf("bf16 %d, want %d; f32 %d, want %d", half, want[1], whole, want[0])
	}
}

func local(on *mesh.Mesh, s sharding.Spec, shape []int) (int64, error) {
	sizes, err := s.Local(on, shape)
	n := int64(1)
	for _, d := range sizes {
		n *= int64(d)
	}
	return n, err
}

// Every figure of the time model says how it was got, and none is unused or missing; the
// kernel's stand with their generation.
func TestEfficienciesAreAccountedFor(t *testing.T) {
	e, err := efficiencies()
	if err != nil || e.Status != "assumed" || e.How == "" {
		t.Errorf("%+v, %v", e, err)
	}
	kernels := 0
	for _, g := range topology.Generations() {
		if k := g.AttentionKernel(); k != nil {
			kernels++
			if k.Efficiency.Status != "compiler" || k.Efficiency.How == "" {
				t.Errorf("%s: %+v", g.Name, k.Efficiency)
			}
		}
	}
	if kernels != 5 {
		t.Errorf("%d generations have a kernel", kernels)
	}
	for _, g := range topology.GPUs() {
		if k := g.Kernel(); (k == nil) != (g.Compiler() == nil) || k != nil && (k.Efficiency.Status != "assumed" || k.Efficiency.How == "") {
			t.Errorf("%s: %+v", g.Name, k)
		}
	}
	names := strings.Fields("matmul attention hbm link collective_seconds f32_passes_tpu f32_passes_gpu gpu_pcie_bytes gpu_network_bytes cpu_core_flops cpu_bytes cpu_link_bytes cpu_read_bytes")
	if len(names) != len(e.Values) {
		t.Errorf("%d values, %d are used", len(e.Values), len(names))
	}
	for _, n := range names {
		if v := e.Values[n]; v.Value <= 0 || v.How == "" || v.Status != "assumed" && v.Status != "measured" && v.Status != "compiler" && v.Status != "calibrated" {
			t.Errorf("%s: %+v", n, v)
		}
	}
}

// cpu reports the processor time of all threads beside the wall time, which says
// little on a machine that is busy with other things.
func cpu(b *testing.B) func() {
	now := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
	}
	start := now()
	return func() { b.ReportMetric((now()-start)/float64(b.N), "cpu-ms/op") }
}

// All splits on one slice: under 50 ms is wanted.
func BenchmarkSearch(b *testing.B) {
	m := model(b, "wan2.1-t2v-14b")
	for _, on := range []string{"v4-8", "v5e-16", "v6e-8"} {
		b.Run(on, func(b *testing.B) {
			s := slice(b, on)
			defer cpu(b)()
			for range b.N {
				if _, err := Search(b.Context(), m, forSlice(at480, s)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// All slices: under 5 s is wanted.
func BenchmarkSearchAll(b *testing.B) {
	m := model(b, "wan2.1-t2v-14b")
	defer cpu(b)()
	for range b.N {
		if _, err := Search(b.Context(), m, forAll(at480)); err != nil {
			b.Fatal(err)
		}
	}
}
