package plan

import (
	"context"
	"strings"
	"testing"

	"weft/attention"
	"weft/dtype"
	"weft/models"
	_ "weft/models/all"
	"weft/request"
	"weft/topology"
)

// The text encoder and the decoder stand beside the transformer, each on the
// plan's devices alone; the largest phase is what a device needs.
func TestPhases(t *testing.T) {
	for _, c := range []struct {
		model, on   string
		text, vae   int64  // bytes of weights on a device; 0: not modelled
		largest     string // phase of the best plan
		notModelled string
	}{
		// UMT5-XXL is 4.63e9 parameters in bf16 without its table of tokens, which stays in its file;
		// all but small tables are split over tp. The decoder's
		// 73.3e6 are in f32, whatever the transformer computes in.
		{"wan2.1-t2v-14b", "v4-8", 2_316_000_000, 293_200_000, "dit", ""},
		{"wan2.1-t2v-1.3b", "v5e-1", 9_262_000_000, 293_200_000, "text", ""},
		// 123.4e6 parameters of the decoder.
		{"cogvideox-5b", "v4-8", 2_316_000_000, 493_474_000, "dit", ""},
		// 11.96e9 of Gemma, without its table of tokens, and 407.2e6 of the decoder.
		{"ltx2.5-22b", "v5p-8", 5_980_000_000, 1_628_700_000, "dit", ""},
	} {
		m, err := models.ByName(c.model)
		if err != nil {
			t.Fatal(err)
		}
		on, err := topology.Lookup(c.on)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Request: request.Request{Width: 832, Height: 480, Frames: 9, DType: dtype.BF16}}
		if strings.HasPrefix(c.model, "cog") {
			o.Width = 720
		}
		res, err := Search(context.Background(), m, forSlice(o, on))
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, got *Memory, want int64) {
			switch {
			case got == nil && want == 0:
			case got == nil || want == 0:
				t.Errorf("%s on %s: %s is %+v, want %d bytes of weights", c.model, c.on, what, got, want)
			case got.WeightsBytes < want*995/1000 || got.WeightsBytes > want*1005/1000 || got.TotalBytes <= got.WeightsBytes:
				t.Errorf("%s on %s: %s has %d bytes of weights in %d, want %d", c.model, c.on, what, got.WeightsBytes, got.TotalBytes, want)
			}
		}
		for _, p := range res.Plans {
			near("text", p.Breakdown.Text.Memory, c.text)
			near("vae", p.Breakdown.VAE.Memory, c.vae)
		}
		best := res.Plans[0]
		phases := map[string]*Memory{"text": best.Breakdown.Text.Memory, "dit": best.Breakdown.DiT.Memory, "vae": best.Breakdown.VAE.Memory}
		if got := phases[c.largest].TotalBytes; got != best.HBMBytesPerDevice {
			t.Errorf("%s on %s: %d bytes a device, %s alone %d", c.model, c.on, best.HBMBytesPerDevice, c.largest, got)
		}
		if all := strings.Join(res.Notes, "\n"); strings.Contains(all, "not modelled") != (c.notModelled != "") || !strings.Contains(all, c.notModelled) {
			t.Errorf("%s: notes %q, want %q named as not modelled", c.model, res.Notes, c.notModelled)
		}
	}
}

// The kernel is asked of the transformer: an encoder that has none does not refuse the plan.
func TestKernelBesideEncoder(t *testing.T) {
	m, err := models.ByName("wan2.1-t2v-14b")
	if err != nil {
		t.Fatal(err)
	}
	on, err := topology.Lookup("v4-8")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Request: request.Request{Width: 832, Height: 480, Frames: 9, DType: dtype.BF16, Attention: attention.Kernel}}
	res, err := Search(context.Background(), m, forSlice(o, on))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range res.Plans {
		for _, c := range p.Attention {
			if c.Taken != attention.Kernel {
				t.Errorf("%v: %+v", p.Mesh, c)
			}
		}
		if p.Breakdown.Text.Memory == nil || len(p.Attention) == 0 {
			t.Errorf("%v: text %+v, attention %v", p.Mesh, p.Breakdown.Text, p.Attention)
		}
	}
}
