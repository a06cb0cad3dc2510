package peer

import (
	"math"
	"slices"
	"testing"

	"weft/models"
	_ "weft/models/all"
	"weft/topology"
)

// The solver finds what a sum was made of, and never a negative part.
func TestLeastSquares(t *testing.T) {
	want := Calibration{1.5, 0, 2, 0, 0.25}
	var rows []Calibration
	var sums []float64
	for i := range 12 {
		f := float64(i)
		r := Calibration{1 + f, math.Mod(f*f, 7), math.Mod(3*f, 5), math.Sqrt(f), 10 - f/2}
		rows, sums = append(rows, r), append(sums, want.dot(r))
	}
	for i, c := range leastSquares(rows, sums) {
		if math.Abs(c-want[i]) > 1e-9 {
			t.Errorf("%s: %v, want %v", workTerms[i], c, want[i])
		}
	}
	for i := range sums {
		sums[i] -= 3 * rows[i][1]
	}
	for i, c := range leastSquares(rows, sums) {
		if c < 0 {
			t.Errorf("%s: %v is negative", workTerms[i], c)
		}
	}
}

// What is known of a row is taken off before its factors are found, and one odd row bends the rest
// less than it bends plain least squares.
func TestLeastErrors(t *testing.T) {
	want := Calibration{1.5, 0.5, 2, 0, 0.25}
	var rows []Calibration
	var known, rest []float64
	for i := range 24 {
		f := float64(i)
		r := Calibration{1 + f, math.Mod(f*f, 7), math.Mod(3*f, 5), 0, 10 - f/3}
		n := want.dot(r) / 0.75 // a quarter is known
		for j := range r {
			r[j] /= n
		}
		rows, known, rest = append(rows, r), append(known, 0.25), append(rest, 0.75)
	}
	far := func(c Calibration) float64 {
		d := 0.0
		for i := range c {
			d = max(d, math.Abs(c[i]-want[i]))
		}
		return d
	}
	if d := far(leastErrors(rows, known)); d > 1e-6 {
		t.Errorf("exact rows give factors that are off by %v", d)
	}
	rows[5][0] *= 3
	if odd, plain := far(leastErrors(rows, known)), far(leastSquares(rows, rest)); odd > plain/4 {
		t.Errorf("one odd row puts the factors off by %v, plain least squares by %v", odd, plain)
	}
}

func rowOf(t *testing.T, slug string) Row {
	t.Helper()
	i := slices.IndexFunc(Rows(), func(r Row) bool { return r.Slug == slug })
	if i < 0 {
		t.Fatalf("no row %s", slug)
	}
	return Rows()[i]
}

// What a published time a step has beside the steps, by hand.
func TestPublished(t *testing.T) {
	on, err := topology.Lookup("v4-8")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		slug   string
		known  float64
		blocks float64
	}{
		{"cogvideox_5b_t2v", 0, 0},                             // decodes outside of compiled functions
		{"ltx_video0_9_8_13b_distilled_t2v", 48 * 2.07 / 8, 0}, // the step is compiled again
		{"cosmos3_edge_t2v", 28 * 2.07 / 35, 0},
		{"hunyuan_video1_5_720p_t2v", 0, 84. / 30},
		// 20 of 21 frames of latents, 4.44e6 multiplications a pixel; one program more.
		{"wan2_1_14b_480p_t2v", (832*480*81*4.44e6/1e12*0.204*20/21 + 31.6) / 50, 0},
		// Behind the first group half of 14.1e9 weights in f32 come in each of 49 steps.
		{"wan2_1_14b_720p_t2v", (1280*720*81*4.44e6/1e12*0.204*20/21 + 31.6 + 49*0.495*4*0.5*14.0987598) / 50, 0},
	} {
		p, err := rowOf(t, c.slug).Published(on)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(p.Known-c.known) > 1e-4*max(1, c.known) || p.Terms[4] != c.blocks {
			t.Errorf("%s: %v s beside the steps and %v programs of blocks, want %v and %v", c.slug, p.Known, p.Terms[4], c.known, c.blocks)
		}
	}
	usual, diffusion := rowOf(t, "ltx2_5_22b_dev_t2v"), rowOf(t, "ltx2_5_22b_dev_diffvae_t2v")
	// 128 x 176 x 304 positions, windows of 1331, 64 channels of keys and of values, 2 bytes each.
	if want := 7 * 128. * 176 * 304 * 1331 * 64 * 2 * 2; diffusion.windowBytes() != want || usual.windowBytes() != 0 {
		t.Errorf("windows of %v and %v bytes, want %v and none", diffusion.windowBytes(), usual.windowBytes(), want)
	}
}

// Which weights are there in which phase.
func TestPhasesOfMemory(t *testing.T) {
	two := Run{Model: "wan2.2-t2v-a14b", Width: 832, Height: 480, Frames: 81, DP: 1, TP: 2, SP: 2, Passes: 2}
	one := func(r Run) Memory {
		m, err := r.Memory(Working{Text: 1, Step: 2, Decode: 3})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := one(two)
	// Six rows of 5,120 in f32 for each of 2 x 32,760 tokens, whole and a half.
	const modulation = 2 * 32760 * 6 * 5120 * 4 * 3 / 2
	if m.PromptBytes != m.DecodeBytes || m.StepBytes-m.PromptBytes < 28e9 || m.Peak != "denoise" || m.PeakBytes != m.StepBytes+modulation {
		t.Errorf("experts that come with their first step: %+v", m)
	}
	two.OffloadBlocks = 10
	half := one(two)
	two.OffloadBlocks = 20
	if all := one(two); half.StepBytes >= m.StepBytes || all.StepBytes <= half.StepBytes || half.DecodeBytes >= half.StepBytes {
		t.Errorf("%d bytes with groups of 10, %d with two of 20, %d with all", half.StepBytes, all.StepBytes, m.StepBytes)
	}
	text := Run{Model: "hunyuanvideo", Width: 832, Height: 480, Frames: 13, DP: 1, TP: 4, SP: 1, Passes: 2}
	dropped := one(text)
	text.KeepsText = true
	if kept := one(text); kept.StepBytes-dropped.StepBytes < 15e9 || kept.Working.Step != int64(1.07e6*4*60*104/4) {
		t.Errorf("text encoders dropped: %+v, kept: %+v", dropped, kept)
	}
	if ltx := one(Run{Model: "ltx2.5-22b", Width: 1216, Height: 704, Frames: 121, DP: 1, TP: 4, SP: 1, Passes: 2, OffloadBlocks: 8}); ltx.DecodeBytes != 2*726106481 {
		t.Errorf("%d bytes of weights beside the frames, want the decoder's", ltx.DecodeBytes)
	}
}

// Weights on a chip as computed from vidax's own tables, in GB: rows of different scripts.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		slug string
		want float64
	}{
		{"wan2_1_1.3b_t2v", 5.42}, {"wan2_1_14b_480p_t2v", 12.17}, {"wan2_1_14b_480p_i2v", 17.61}, {"wan2_1_14b_720p_t2v", 16.42},
		{"wan2_2_5b-ti2v_t2v", 11.10}, {"cosmos2_5_2b_t2v", 6.08}, {"cogvideox_1_5_5b_t2v", 31.05}, {"cogvideox_2b_t2v", 13.61},
		{"cosmos3_nano_t2v", 9.64}, {"ltx_video0_9_8_13b_dev_t2v", 11.83}, {"hunyuan_video1_5_720p_t2v", 25.49},
	} {
		m, err := rowOf(t, c.slug).Memory(Working{})
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(max(m.PromptBytes, m.StepBytes)) / 1e9; math.Abs(got-c.want) > 0.02*c.want {
			t.Errorf("%s: %.2f GB, want %.2f", c.slug, got, c.want)
		}
	}
}

// Every row and statement names a model that is described, and splits that exist.
func TestData(t *testing.T) {
	if n := len(Rows()); n != 32 {
		t.Errorf("%d rows, want 32", n)
	}
	for _, r := range Rows() {
		m, err := ModelOf(r.Model)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Check(r.Run); err != nil {
			t.Errorf("%s ran, but: %v", r.Slug, err)
		}
	}
	for _, s := range Statements() {
		if _, err := ModelOf(s.Model); err != nil && s.NotJudged == "" {
			t.Errorf("%s: %v", s.Text, err)
		}
	}
	// What weft runs itself has vidax's number of parameters.
	for name, m := range Models() {
		w, err := models.ByName(name)
		if err != nil {
			continue
		}
		want, got := int64(0), int64(0)
		for _, p := range w.Params(0) {
			n := int64(1)
			for _, d := range p.Shape {
				n *= int64(d)
			}
			want += n
		}
		for _, n := range m.Params {
			got += n
		}
		if math.Abs(float64(got-want)) > 0.001*float64(want) {
			t.Errorf("%s: %d parameters, weft has %d", name, got, want)
		}
	}
}

// The published times a step, each predicted by the rows of other families: the bars are those of
// the score, and the one pair of a family that is not in the right order is known.
func TestPublishedTimesAgree(t *testing.T) {
	on, err := topology.Lookup("v4-8")
	if err != nil {
		t.Fatal(err)
	}
	calibrated := map[string]Calibration{}
	var errs []float64
	predicted := map[string]float64{}
	for _, r := range Rows() {
		family := Models()[r.Model].Family
		c, ok := calibrated[family]
		if !ok {
			if c, err = Calibrate(family, on); err != nil {
				t.Fatal(err)
			}
			calibrated[family] = c
		}
		p, err := r.Published(on)
		if err != nil {
			t.Fatal(err)
		}
		predicted[r.Slug] = c.PublishedSeconds(p)
		errs = append(errs, math.Abs(predicted[r.Slug]/r.StepSeconds-1))
	}
	slices.Sort(errs)
	if median := (errs[15] + errs[16]) / 2; median > 0.2 {
		t.Errorf("the median error is %.1f %%", 100*median)
	}
	var wrong []string
	for i, a := range Rows() {
		for _, b := range Rows()[i+1:] {
			if Models()[a.Model].Family == Models()[b.Model].Family && (a.StepSeconds-b.StepSeconds)*(predicted[a.Slug]-predicted[b.Slug]) < 0 {
				wrong = append(wrong, a.Slug+" "+b.Slug)
			}
		}
	}
	if want := []string{"hunyuan_video_720p_i2v hunyuan_video_720p_t2v"}; !slices.Equal(wrong, want) {
		t.Errorf("in the wrong order: %q, want %q", wrong, want)
	}
}
