package weft_test

import (
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/request"
)

// A profile has every program of the step with its calls and arithmetic, on one device and on
// several, and the outputs are those of the step without one.
func TestProfile(t *testing.T) {
	m := modeltest.Open(t, wanDir)
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, wanDir+"/expected.safetensors")
	var whole int64
	for _, device := range modeltest.Devices() {
		for _, on := range []string{"", "tp=2", "pp=2"} {
			o := weft.ForwardOptions{Profile: true, Options: weft.Options{Device: device, Request: request.Must("--mesh=" + on)}}
			f, err := m.Forward(t.Context(), in, o)
			if err != nil {
				t.Fatal(device, on, err)
			}
			modeltest.Close(t, device+" "+on, f.Outputs["out"], want["out"], 1e-4)
			p := f.Profile
			if p == nil {
				t.Fatalf("%s %s: no profile", device, on)
			}
			calls, sum := map[string]int{}, 0.0
			var attends, flops int64
			for _, x := range p.Programs {
				calls[x.Program] += x.Calls
				sum += x.Seconds
				attends, flops = attends+x.Attention, flops+x.Attention+x.Matmuls+x.Convolutions
				if x.Seconds <= 0 || x.AttentionSeconds > x.Seconds*8 {
					t.Errorf("%s %s: %+v", device, on, x)
				}
			}
			if d := sum - p.Seconds; d > 1e-9 || d < -1e-9 || attends == 0 || calls["text"] != 0 {
				t.Errorf("%s %s: %g seconds in all, %g in calls; %d FLOPs of attention, calls %v", device, on, p.Seconds, sum, attends, calls)
			}
			if (device == "reference") != (p.MatmulRate == 0) {
				t.Errorf("%s: a matmul rate of %g", device, p.MatmulRate)
			}
			switch {
			case whole == 0:
				whole = flops
			case on == "" && flops != whole:
				t.Errorf("%s: %d FLOPs, want %d", device, flops, whole)
			}
		}
	}
	f, err := m.Forward(t.Context(), in, weft.ForwardOptions{Options: weft.Options{Device: "reference"}})
	if err != nil || f.Profile != nil {
		t.Errorf("a profile that nobody asked for: %+v, %v", f.Profile, err)
	}
}
