package peer

import (
	"math"
	"slices"
	"testing"

	"weft/models"
	_ "weft/models/all"
)

// The solver finds what a sum was made of, and never a negative part.
func TestLeastSquares(t *testing.T) {
	want := Calibration{1.5, 0, 2, 0, 0.25}
	var rows []Work
	var sums []float64
	for i := range 12 {
		f := float64(i)
		r := Work{1 + f, math.Mod(f*f, 7), math.Mod(3*f, 5), math.Sqrt(f), 10 - f/2}
		rows, sums = append(rows, r), append(sums, want.Seconds(r))
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

// Weights on a chip as computed from vidax's own tables, in GB: rows of different scripts.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		slug string
		want float64
	}{
		{"wan2_1_1.3b_t2v", 5.42}, {"wan2_1_14b_480p_t2v", 12.17}, {"wan2_1_14b_480p_i2v", 17.61}, {"wan2_1_14b_720p_t2v", 12.46},
		{"wan2_2_5b-ti2v_t2v", 11.10}, {"cosmos2_5_2b_t2v", 6.08}, {"cogvideox_1_5_5b_t2v", 31.05}, {"cogvideox_2b_t2v", 13.61},
		{"cosmos3_nano_t2v", 9.64}, {"ltx_video0_9_8_13b_dev_t2v", 11.83}, {"hunyuan_video1_5_720p_t2v", 25.49},
	} {
		i := slices.IndexFunc(Rows(), func(r Row) bool { return r.Slug == c.slug })
		if i < 0 {
			t.Fatalf("no row %s", c.slug)
		}
		m, err := Rows()[i].Memory(-1)
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
