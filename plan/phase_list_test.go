package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/phases"
	"weft/request"
	"weft/targets"
)

// bestPlan plans a preset by flags.
func bestPlan(t *testing.T, name, flags string) Plan {
	t.Helper()
	res, err := Search(t.Context(), model(t, name), Options{Request: request.Must(flags), Machine: Machine{MemoryBytes: 64e9, Cores: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Plans) == 0 {
		t.Fatal(res.Refuse)
	}
	return res.Plans[0]
}

// Which phases a video has, and which models run in each.
func TestPhasesOfVideos(t *testing.T) {
	const at480 = "--size 480x832 --frames 9 --dtype bf16 --on v5e-4 --mesh "
	for _, c := range []struct {
		model, flags string
		want         []string // phase and model of each run; ? is not modelled
	}{
		{"wan2.1-t2v-1.3b", at480 + "tp=4", []string{"text umt5-xxl", "denoise wan2.1-t2v-1.3b", "decode wan2.1-vae"}},
		{"wan2.1-i2v-14b", at480 + "tp=4", []string{"text umt5-xxl", "image wan2.1-clip-vit-h14", "image wan2.1-vae", "denoise wan2.1-i2v-14b", "decode wan2.1-vae"}},
		{"wan2.2-i2v-a14b", at480 + "tp=4", []string{"text umt5-xxl", "image wan2.1-vae", "denoise wan2.2-i2v-a14b", "decode wan2.1-vae"}},
		{"wan2.2-ti2v-5b", at480 + "tp=4", []string{"text umt5-xxl", "denoise wan2.2-ti2v-5b", "decode wan2.2-vae"}},
		{"wan2.2-ti2v-5b", at480 + "tp=4 --token-times", []string{"text umt5-xxl", "image wan2.2-vae", "denoise wan2.2-ti2v-5b", "decode wan2.2-vae"}},
		{"cogvideox-5b", "--size 720x480 --frames 9 --dtype bf16 --on v5e-4 --mesh dp=2,sp=2", []string{"text t5-v1.1-xxl", "denoise cogvideox-5b", "decode cogvideox-vae"}},
		{"ltx2.5-22b", "--size 768x512 --frames 9 --dtype bf16 --on v5p-8 --mesh tp=4", []string{"text ltx2.5-gemma4-12b", "text ltx2.5-text-projection", "text ltx2.5-connector", "denoise ltx2.5-22b", "decode ltx2.5-vae-conv"}},
		{"cogvideox-5b-i2v", "--size 720x480 --frames 49 --dtype bf16 --on v5e-4 --mesh dp=2,sp=2",
			[]string{"text t5-v1.1-xxl", "image cogvideox-vae", "denoise cogvideox-5b-i2v", "decode cogvideox-vae"}},
	} {
		p := bestPlan(t, c.model, c.flags)
		var got []string
		most := int64(0)
		for _, ph := range p.Phases {
			sum, largest, known := 0.0, int64(0), true
			for _, r := range ph.Runs {
				text := ph.Name + " " + r.Model
				if r.Breakdown.Memory == nil {
					text += " ?"
					known = false
				} else {
					sum, largest = sum+*r.Seconds, max(largest, r.Breakdown.TotalBytes)
				}
				got = append(got, text)
			}
			if (ph.Seconds != nil) != known || (ph.HBMBytesPerDevice != nil) != known || (ph.Breakdown.Memory != nil) != known {
				t.Errorf("%s, %s: %+v", c.model, ph.Name, ph)
			}
			if known && (*ph.Seconds != sum || *ph.HBMBytesPerDevice != largest || ph.Breakdown.TotalBytes != largest || sum <= 0) {
				t.Errorf("%s, %s: %v s and %d bytes, of runs that take %v s and %d bytes", c.model, ph.Name, *ph.Seconds, *ph.HBMBytesPerDevice, sum, largest)
			}
			most = max(most, largest)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %q, want %q", c.model, c.flags, got, c.want)
		}
		if most != p.HBMBytesPerDevice {
			t.Errorf("%s: %d bytes a device, the largest phase takes %d", c.model, p.HBMBytesPerDevice, most)
		}
	}
}

// Two experts share the steps of a release that has them: each begins once, and a device holds one
// at a time.
func TestExpertsShareTheSteps(t *testing.T) {
	denoise := func(model string) PhasePlan {
		p := bestPlan(t, model, "--size 480x832 --frames 9 --dtype bf16 --on v4-8 --mesh tp=4 --steps 40")
		return p.Phases[slices.IndexFunc(p.Phases, func(ph PhasePlan) bool { return ph.Name == phases.Denoise })]
	}
	one, two := denoise("wan2.1-t2v-14b"), denoise("wan2.2-t2v-a14b")
	if one.Experts != 0 || one.Beginnings != 1 || two.Experts != 2 || two.Beginnings != 2 || two.Steps != 40 {
		t.Errorf("%d experts that begin %d times, %d that begin %d times", one.Experts, one.Beginnings, two.Experts, two.Beginnings)
	}
	if *one.HBMBytesPerDevice != *two.HBMBytesPerDevice || *two.Seconds <= *one.Seconds {
		t.Errorf("one model: %d bytes, %v s; two: %d bytes, %v s", *one.HBMBytesPerDevice, *one.Seconds, *two.HBMBytesPerDevice, *two.Seconds)
	}
}

// A phase's figures are those of its own graph, which is built here as it runs: bytes of weights
// by the graph, and seconds of at least the contractions at the chip's peak rate.
func TestPhaseFiguresAreItsGraphs(t *testing.T) {
	const flags = "--size 480x832 --frames 17 --dtype bf16 --on v4-8 --mesh tp=4 --steps 40"
	p := bestPlan(t, "wan2.1-i2v-14b", flags)
	o := request.Must(flags)
	runs, err := phases.Of(model(t, "wan2.1-i2v-14b"), o)
	if err != nil {
		t.Fatal(err)
	}
	on := slice(t, "v4-8")
	at := 0
	for _, ph := range p.Phases {
		for _, got := range ph.Runs {
			run := runs[at]
			at++
			if run.Phase == phases.Denoise {
				if ph.Steps != 40 || *got.Seconds != p.RequestSeconds+40*p.StepSeconds || p.RequestSeconds <= 0 {
					t.Errorf("denoise: %v s in %d steps of %v s, after %v s", *got.Seconds, ph.Steps, p.StepSeconds, p.RequestSeconds)
				}
				continue
			}
			axes, err := mesh.Parse(got.Mesh)
			if err != nil {
				t.Fatal(err)
			}
			local, err := mesh.Local(axes...)
			if err != nil {
				t.Fatal(err)
			}
			run.Request.Target = run.Target(o.Adapt(targets.For(on)))
			g, err := run.Model.Graph(local, run.Request)
			if err != nil {
				t.Fatal(err)
			}
			held, err := g.Residency(graph.Passes{})
			if err != nil {
				t.Fatal(err)
			}
			if n := held.Weights.Most(); got.Breakdown.WeightsBytes > n || got.Breakdown.WeightsBytes <= 0 {
				t.Errorf("%s of %s: %d bytes of weights, the graph has %d", ph.Name, got.Model, got.Breakdown.WeightsBytes, n)
			}
			flops := 0.0
			for _, c := range g.Calls {
				m := measureProgram(c.Program, g.Programs[c.Program], nil)
				flops += m.matmul + m.attention + m.kernel
			}
			rate := on.Rates().BF16FLOPs
			if least := flops / rate; *got.Seconds < least || least <= 0 {
				t.Errorf("%s of %s: %v s, and %v s at the chip's peak", ph.Name, got.Model, *got.Seconds, least)
			}
			if got.DType != run.Request.DType.String() || (got.DType == "f32") != (run.Model.Features().Frames != nil) {
				t.Errorf("%s of %s computes in %s", ph.Name, got.Model, got.DType)
			}
		}
	}
	if at != len(runs) {
		t.Errorf("%d runs are planned of %d", at, len(runs))
	}
}

// More frames take longer to decode, and no more memory than their latents: frames leave as
// they are made.
func TestDecodingIsStreamed(t *testing.T) {
	last := func(flags string) PhasePlan {
		p := bestPlan(t, "wan2.1-t2v-1.3b", "--size 480x832 --dtype bf16 --on v4-8 --mesh tp=4 --frames "+flags)
		return p.Phases[len(p.Phases)-1]
	}
	short, long := last("17"), last("81")
	frame := int64(480 * 832 * 3 * 4)
	if more := *long.HBMBytesPerDevice - *short.HBMBytesPerDevice; more < 0 || more > frame {
		t.Errorf("64 more frames take %d bytes more: a frame has %d", more, frame)
	}
	// 20 calls for later latent frames against 4, and one for the first.
	if r := *long.Seconds / *short.Seconds; r < 4 || r > 5 {
		t.Errorf("decoding 81 frames takes %.2f times as long as 17", r)
	}
}

// A decoder in tiles takes less memory than on whole pictures and more time, since tiles overlap;
// its phase has the tiles of each size, and counts the largest ones' memory. Half the type takes
// less memory still.
func TestDecodingInTiles(t *testing.T) {
	const flags = "--size 832x480 --dtype bf16 --on v4-8 --mesh tp=4 --frames 17 "
	decode := func(flags string) PhasePlan {
		p := bestPlan(t, "wan2.1-t2v-1.3b", flags)
		last := p.Phases[len(p.Phases)-1]
		if p.Breakdown.VAE.Memory == nil || p.Breakdown.VAE.TotalBytes != *last.HBMBytesPerDevice {
			t.Errorf("%s: the breakdown has %+v, the phase %d bytes", flags, p.Breakdown.VAE.Memory, *last.HBMBytesPerDevice)
		}
		return last
	}
	whole, tiled := decode(flags), decode(flags+"--tile release")
	// 60 x 104 latents in tiles of 32 that lie 24 apart: 3 rows, the last of 12, and 5 columns, of
	// which the last has 8 and the others 32.
	var sizes []string
	sum, largest := 0.0, int64(0)
	for _, r := range tiled.Runs {
		sizes = append(sizes, fmt.Sprint(r.Tiles, " x ", r.Tile))
		sum, largest = sum+*r.Seconds, max(largest, r.Breakdown.TotalBytes)
	}
	if want := []string{"8 x 256x256", "2 x 256x64", "4 x 96x256", "1 x 96x64"}; !slices.Equal(sizes, want) {
		t.Errorf("tiles %q, want %q", sizes, want)
	}
	if *tiled.Seconds != sum || *tiled.HBMBytesPerDevice != largest || largest != tiled.Runs[0].Breakdown.TotalBytes {
		t.Errorf("%v s and %d bytes, of runs that take %v s and %d bytes", *tiled.Seconds, *tiled.HBMBytesPerDevice, sum, largest)
	}
	if *tiled.HBMBytesPerDevice >= *whole.HBMBytesPerDevice || *tiled.Seconds <= *whole.Seconds {
		t.Errorf("%d bytes and %v s in tiles, %d bytes and %v s whole", *tiled.HBMBytesPerDevice, *tiled.Seconds, *whole.HBMBytesPerDevice, *whole.Seconds)
	}
	if one := decode(flags + "--tile 480x832,480x832"); len(one.Runs) != 1 || one.Runs[0].Tiles != 0 || *one.HBMBytesPerDevice != *whole.HBMBytesPerDevice {
		t.Errorf("a tile as large as the picture: %+v", one)
	}
	if half := decode(flags + "--vae-dtype bf16"); half.Runs[0].DType != "bf16" || *half.HBMBytesPerDevice >= *whole.HBMBytesPerDevice {
		t.Errorf("%s and %d bytes, %d in f32", half.Runs[0].DType, *half.HBMBytesPerDevice, *whole.HBMBytesPerDevice)
	}
	_, err := Search(t.Context(), model(t, "wan2.1-t2v-1.3b"), Options{Request: request.Must(flags + "--tile 100x256,192x192")})
	if !errors.Is(err, models.ErrSize) {
		t.Errorf("a tile of no latents: %v", err)
	}
}

// What a phase needs decides whether a plan fits, the image's too.
func TestImagePhaseCounts(t *testing.T) {
	p := Plan{Breakdown: Breakdown{DiT: Phase{Memory: &Memory{TotalBytes: 5}}}, runs: []*placedRun{{}, {measures: &splitMeasures{memory: Memory{TotalBytes: 7}}}}}
	if n := p.peakBytes(); n != 7 {
		t.Errorf("the largest phase takes 7 bytes, the plan has %d", n)
	}
}

// Devices that a phase leaves idle are counted, and times are laid on the whole slice.
func TestPhaseOnPartOfASlice(t *testing.T) {
	p := bestPlan(t, "wan2.1-t2v-14b", "--size 480x832 --frames 9 --dtype bf16 --on v5e-256 --mesh dp=2,fsdp=16,tp=8,sp=1")
	run := p.runs[0]
	if run.split.countDevices() != 128 || *p.Phases[0].Seconds <= 0 || math.IsInf(*p.Phases[0].Seconds, 0) {
		t.Errorf("text on %s: %+v", run.split.meshText(), p.Phases[0])
	}
}

// The peer's phases: what it keeps and what it computes whole on every device. How long it encodes
// is not known.
func TestPeerPhases(t *testing.T) {
	p := bestPlan(t, "wan2.1-t2v-14b", "--size 832x480 --frames 81 --dtype bf16 --on v4-8 --as vidax --mesh tp=4 --steps 50")
	if len(p.Phases) != 3 || p.Phases[0].Seconds != nil || *p.Phases[1].Seconds != 50*p.StepSeconds || p.Phases[1].Steps != 50 {
		t.Fatalf("%+v", p.Phases)
	}
	text, decode := p.Phases[0], p.Phases[2]
	// UMT5-XXL in bf16, its table whole, the autoencoder whole, and a quarter of the transformer in f32.
	if w := text.Breakdown.WeightsBytes; w < 19_500_000_000 || w > 19_900_000_000 || text.Breakdown.TempBytes <= 0 {
		t.Errorf("text: %+v", text.Breakdown.Memory)
	}
	// 81 frames are there twice, beside what decodes one latent frame.
	if frames := int64(2 * 832 * 480 * 81 * 3 * 2); decode.Breakdown.TempBytes <= frames || decode.Runs[0].Mesh != "dp=1,tp=1,sp=1" || decode.Breakdown.WeightsBytes != text.Breakdown.WeightsBytes {
		t.Errorf("decode: %+v", decode)
	}
	// 4.44e6 multiplications a pixel.
	if want := 832 * 480 * 81 * 4.44e6 / 1e12 * 0.204; math.Abs(*decode.Seconds/want-1) > 1e-9 {
		t.Errorf("decoding takes %v s, want %v", *decode.Seconds, want)
	}
	if p.HBMBytesPerDevice != max(*text.HBMBytesPerDevice, *p.Phases[1].HBMBytesPerDevice, *decode.HBMBytesPerDevice) {
		t.Errorf("%d bytes a device, the phases take %d, %d and %d", p.HBMBytesPerDevice, *text.HBMBytesPerDevice, *p.Phases[1].HBMBytesPerDevice, *decode.HBMBytesPerDevice)
	}
}

// A peer's step holds more beside its weights in f32 than in bf16, but not twice as much, since its
// stream is f32 in both; and an image that it encodes on every device is a phase.
func TestPeerComputesInItsWeightsType(t *testing.T) {
	working := func(weights string) int64 {
		p := bestPlan(t, "wan2.1-t2v-14b", "--size 832x480 --frames 33 --dtype bf16 --on v4-8 --as vidax --mesh tp=4 --weights "+weights)
		return p.Breakdown.DiT.TempBytes
	}
	if r := float64(working("f32")) / float64(working("bf16")); r < 1.1 || r > 2 {
		t.Errorf("in f32 a step takes %.2f times as much", r)
	}
	p := bestPlan(t, "wan2.1-i2v-14b", "--size 832x480 --frames 81 --dtype bf16 --on v4-8 --as vidax --mesh tp=4")
	if len(p.Phases) != 4 || p.Phases[1].Name != phases.Image || p.Phases[1].Breakdown.Memory == nil || p.Phases[1].HBMBytesPerDevice == nil {
		t.Errorf("%+v", p.Phases)
	}
}
