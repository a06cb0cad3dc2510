package targets

import (
	"testing"

	"weft/spmd"
	"weft/topology"
)

// What is planned, compiled and run on a slice is cut up for its kind of hardware.
func TestForSlice(t *testing.T) {
	for name, want := range map[string]spmd.Target{
		"cpu:4": CPU(), "v4-8": TPU("v4"), "v5e-16": TPU("v5e"), "h100x8": GPU("h100"), "h100x8x4": GPU("h100"),
	} {
		on, err := topology.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := For(on); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if CPU().TokenMultiple > 1 {
		t.Error("tokens are padded on a CPU, where there is nothing to pad for")
	}
	if tpu := TPU("v6e"); tpu.TokenMultiple != 128 || tpu.Chip != "v6e" {
		t.Errorf("%+v", tpu)
	}
}
