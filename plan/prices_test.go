package plan

import (
	"errors"
	"math"
	"testing"

	"weft/request"
)

func TestPrices(t *testing.T) {
	p, err := ReadPrices([]byte(`{"currency": "EUR", "chip_hour": {"v4": 3.6, "v5e-8": 2, "h100": 4, "v4:2x2x4": 1}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		on   string
		want float64 // of a step of 10 s
	}{{"v4-8", 3.6 * 4 * 10 / 3600}, {"v5e-8", 2 * 8 * 10.0 / 3600}, {"h100x8", 4 * 8 * 10.0 / 3600}} {
		got := p.planCost(slice(t, c.on), 10, 50, 2)
		if got == nil || math.Abs(got.Step-c.want) > 1e-12 || math.Abs(*got.Video-25*c.want) > 1e-12 || got.Currency != "EUR" {
			t.Errorf("%s: %+v, want %g a step", c.on, got, c.want)
		}
	}
	if got := p.planCost(slice(t, "v6e-8"), 10, 50, 1); got != nil {
		t.Errorf("v6e has no price, and costs %+v", got)
	}
	if got := p.planCost(slice(t, "v4-8"), 10, 0, 1); got.Video != nil || got.String() != "0.04 EUR a step" {
		t.Errorf("%+v %s", got, got)
	}
	for _, bad := range []string{``, `{}`, `{"chip_hour": {}}`, `{"chip_hour": {"v4": -1}}`, `{"chip_hour": {"v99": 1}}`, `{"hours": {"v4": 1}}`, `{"chip_hour": {"v4": 1, "v4": 2}}`, `{"chip_hour": {"v4": 1}} {}`, `{"chip_hour": {"v4": "1"}}`, `{"chip_hour": {"v4": 1}, "Chip_Hour": {"v4": 2}}`} {
		if _, err := ReadPrices([]byte(bad)); !errors.Is(err, ErrPrices) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	o := at480
	o.Prices, o.Steps = p, 50
	if best := search14B(t, "v4-8", o).Plans[0]; best.Cost == nil || math.Abs(best.Cost.Step-3.6*4*best.StepSeconds/3600) > 1e-9 {
		t.Errorf("%+v", best.Cost)
	}
}

func FuzzReadPrices(f *testing.F) {
	f.Add([]byte(`{"currency": "USD", "chip_hour": {"v5e": 1.2}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadPrices(text)
		if err == nil && p.planCost(slice(t, "v4-8"), 1, 1, 1) != nil && len(p.ChipHour) == 0 {
			t.Error("a cost of no price")
		}
	})
}

// What does not run is refused with what does.
func TestWeightsType(t *testing.T) {
	for _, c := range []struct {
		weights, dtype string
		ok             bool
	}{{"", "bf16", true}, {"bf16", "bf16", true}, {"f32", "f32", true}, {"f32", "bf16", false}, {"fp8", "bf16", false}, {"int4", "bf16", false}} {
		_, err := ask(t, model(t, "wan2.1-t2v-1.3b"), request.Text{"size": "832x480", "frames": "9", "on": "v4-8", "dtype": c.dtype, "weights": c.weights})
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrOptions) {
			t.Errorf("weights %q with %s: %v", c.weights, c.dtype, err)
		}
	}
}
