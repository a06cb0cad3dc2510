package plan

import (
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"weft/dtype"
	"weft/mesh"
	"weft/models"
)

var update = flag.Bool("update", false, "write the peer's calibration anew")

// What stands in the data file is what the rows of the other families give, no more.
func TestPeerCalibration(t *testing.T) {
	on := slice(t, "v4-8")
	got := map[string]PeerCalibration{}
	for _, m := range PeerModels() {
		c, err := CalibratePeer(m.Family, on)
		if err != nil {
			t.Fatal(err)
		}
		for i := range c {
			c[i] = math.Round(c[i]*1e4) / 1e4
		}
		got[m.Family] = c
	}
	if *update {
		writeCalibration(t, got)
		return
	}
	figures, err := efficiencies()
	if err != nil {
		t.Fatal(err)
	}
	for family, c := range got {
		if have := figures.Peer.HeldOut[family]; have != c {
			t.Errorf("%s: the data has %v, the other families' rows give %v; go test ./plan -run TestPeerCalibration -update", family, have, c)
		}
	}
	if len(got) != len(figures.Peer.HeldOut) {
		t.Errorf("%d families, the data has %d", len(got), len(figures.Peer.HeldOut))
	}
}

func writeCalibration(t *testing.T, c map[string]PeerCalibration) {
	const file = "data/efficiency.json"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(text), `    "held_out": `)
	if at < 0 {
		t.Fatal("no place for it")
	}
	lines := []string{}
	for _, family := range slices.Sorted(func(yield func(string) bool) {
		for f := range c {
			if !yield(f) {
				return
			}
		}
	}) {
		b, err := json.Marshal(c[family])
		if err != nil {
			t.Fatal(err)
		}
		name, _ := json.Marshal(family)
		lines = append(lines, "      "+string(name)+": "+string(b))
	}
	out := string(text[:at]) + "    \"held_out\": {\n" + strings.Join(lines, ",\n") + "\n    }\n  }\n}\n"
	if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The solver finds what a sum was made of, and never a negative part.
func TestLeastSquares(t *testing.T) {
	want := PeerCalibration{1.5, 0, 2, 0, 0.25}
	var rows []PeerWork
	var sums []float64
	for i := range 12 {
		f := float64(i)
		r := PeerWork{1 + f, math.Mod(f*f, 7), math.Mod(3*f, 5), math.Sqrt(f), 10 - f/2}
		rows, sums = append(rows, r), append(sums, want.Seconds(r))
	}
	for i, c := range leastSquares(rows, sums) {
		if math.Abs(c-want[i]) > 1e-9 {
			t.Errorf("%s: %v, want %v", peerTerms[i], c, want[i])
		}
	}
	for i := range sums {
		sums[i] -= 3 * rows[i][1]
	}
	for i, c := range leastSquares(rows, sums) {
		if c < 0 {
			t.Errorf("%s: %v is negative", peerTerms[i], c)
		}
	}
}

// Weights on a chip as computed from the peer's own tables, in GB: rows of different scripts.
func TestPeerResident(t *testing.T) {
	for _, c := range []struct {
		slug string
		want float64
	}{
		{"wan2_1_1.3b_t2v", 5.42}, {"wan2_1_14b_480p_t2v", 12.17}, {"wan2_1_14b_480p_i2v", 17.61}, {"wan2_1_14b_720p_t2v", 12.46},
		{"wan2_2_5b-ti2v_t2v", 11.10}, {"cosmos2_5_2b_t2v", 6.08}, {"cogvideox_1_5_5b_t2v", 31.05}, {"cogvideox_2b_t2v", 13.61},
		{"cosmos3_nano_t2v", 9.64}, {"ltx_video0_9_8_13b_dev_t2v", 11.83}, {"hunyuan_video1_5_720p_t2v", 25.49},
	} {
		i := slices.IndexFunc(PeerRows(), func(r PeerRow) bool { return r.Slug == c.slug })
		if i < 0 {
			t.Fatalf("no row %s", c.slug)
		}
		m, err := PeerRows()[i].Memory()
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(max(m.PromptBytes, m.StepBytes)) / 1e9; math.Abs(got-c.want) > 0.02*c.want {
			t.Errorf("%s: %.2f GB, want %.2f", c.slug, got, c.want)
		}
	}
}

func TestPeerPlans(t *testing.T) {
	o := at480
	o.As = AsVidax
	r := search14B(t, "v4-8", o)
	if r.As != AsVidax || len(r.Plans) == 0 {
		t.Fatalf("%+v", r)
	}
	p := find(t, r, "dp=1,tp=4,sp=1")
	if p.Fits != Fits || p.HBMBytesPerDevice <= p.Breakdown.Text.TotalBytes-1 || p.StepSeconds <= 0 {
		t.Errorf("%+v", p)
	}
	whole := o
	whole.Weights = dtype.BF16
	half := find(t, search14B(t, "v4-8", whole), "dp=1,tp=4,sp=1")
	if d := p.Breakdown.DiT.WeightsBytes - half.Breakdown.DiT.WeightsBytes; d < 7e9 || d > 8e9 {
		t.Errorf("f32 weights take %d bytes more than bf16", d)
	}
	image := o
	image.Mesh = []mesh.Axis{{Name: "tp", Size: 2}, {Name: "sp", Size: 2}}
	got, err := Search(t.Context(), model(t, "wan2.1-i2v-14b"), forSlice(image, slice(t, "v4-8")))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Plans) != 0 || len(got.Refuse) != 1 || got.Refuse[0].Kind != ErrPeer.Name() {
		t.Errorf("tp with sp: %+v", got)
	}
	if _, err := Search(t.Context(), model(t, "wan2.1-t2v-14b"), forSlice(o, slice(t, "v6e-8"))); !errors.Is(err, ErrPeer) {
		t.Errorf("a chip without a profile: %v", err)
	}
	o.As = "torch"
	if _, err := Search(t.Context(), model(t, "wan2.1-t2v-14b"), forSlice(o, slice(t, "v4-8"))); !errors.Is(err, ErrOptions) {
		t.Errorf("an unknown peer: %v", err)
	}
}

// Every row and statement names a model that is described, and splits that exist.
func TestPeerData(t *testing.T) {
	if n := len(PeerRows()); n != 32 {
		t.Errorf("%d rows, want 32", n)
	}
	for _, r := range PeerRows() {
		m, err := peerModel(r.Model)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.checkRun(r.PeerRun); err != nil {
			t.Errorf("%s ran, but: %v", r.Slug, err)
		}
	}
	for _, s := range PeerStatements() {
		if _, err := peerModel(s.Model); err != nil && s.NotJudged == "" {
			t.Errorf("%s: %v", s.Text, err)
		}
	}
	// What weft runs itself has the peer's number of parameters.
	for name, m := range PeerModels() {
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
