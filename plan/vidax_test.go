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
	"weft/internal/peer"
	"weft/mesh"
)

var update = flag.Bool("update", false, "write the peer's calibration anew")

// What stands in the data file is what the rows of the other families give, no more.
func TestPeerCalibration(t *testing.T) {
	on := slice(t, "v4-8")
	got := map[string]peer.Calibration{}
	for _, m := range peer.Models() {
		c, err := peer.Calibrate(m.Family, on)
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

func writeCalibration(t *testing.T, c map[string]peer.Calibration) {
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
