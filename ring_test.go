package weft_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/sharding"
)

// Every family that denoises on meshes with a ring: tokens that do not divide, text beside the video with
// and without masks, grouped heads, streams that are split over tp too.
func TestRingOfEveryFamily(t *testing.T) {
	for _, dir := range []string{"wan21_t2v", "wan21_i2v", "wan22_ti2v", "hunyuan_video", "hunyuan15", "cogvideox_2b", "cogvideox_5b", "cosmos25", "cosmos3_nano", "cosmos3_edge", "ltx_video", "ltx25"} {
		m := modeltest.Open(t, "testdata/"+dir)
		in := modeltest.Tensors(t, "testdata/"+dir+"/inputs.safetensors")
		want := modeltest.Forward(t, m, in, weft.Options{Device: "reference"})
		for _, flags := range []string{"--mesh ring=2", "--mesh ulysses=2,ring=2", "--mesh tp=2,ring=3 --split-residual"} {
			o := weft.Options{Device: "reference", Request: request.Must(flags)}
			if r, err := m.Start(context.Background(), in, o); err == nil {
				r.Close()
			} else if flags != "--mesh ring=2" && (errors.Is(err, sharding.ErrHeadsNotDivisible) || errors.Is(err, sharding.ErrKVHeads)) {
				continue // of a fixture with three heads
			}
			out := modeltest.Forward(t, m, in, o)
			for name, x := range out {
				modeltest.Close(t, dir+" "+flags+" "+name, x, want[name], 1e-4)
			}
		}
	}
}

// Heads bound no longer how many devices share a sequence: 6 and 12 heads on 4 and 8 devices give what one
// device gives, and sp alone says which axes do.
func TestHeadsDoNotBoundDevices(t *testing.T) {
	for _, c := range []struct {
		heads         int
		refused, says string
		meshes        []string
	}{
		{6, "sp=4", "ulysses=2,ring=2", []string{"ulysses=2,ring=2", "ring=4", "ulysses=3,ring=2", "tp=2,ring=2"}},
		{12, "sp=8", "ulysses=4,ring=2", []string{"ulysses=4,ring=2", "ring=8", "tp=2,ulysses=2,ring=2"}},
	} {
		config := fmt.Sprintf(`{"_class_name": "WanModel", "dim": %d, "eps": 1e-06, "ffn_dim": 48, "freq_dim": 32, "in_dim": 4, "model_type": "t2v", "num_heads": %d,
			"num_layers": 2, "out_dim": 4, "patch_size": [1, 2, 2], "text_dim": 16, "text_len": 8}`, 8*c.heads, c.heads)
		m := modeltest.Open(t, modeltest.MadeUp(t, config))
		in, err := m.Example(1, []int{4, 3, 6, 10}, 7)
		if err != nil {
			t.Fatal(err)
		}
		want := modeltest.Forward(t, m, in, weft.Options{Device: "reference"})
		for _, on := range c.meshes {
			out := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh " + on)})
			modeltest.Close(t, fmt.Sprint(c.heads, " heads on ", on), out["out"], want["out"], 1e-4)
		}
		_, err = m.Start(context.Background(), in, weft.Options{Device: "reference", Request: request.Must("--mesh " + c.refused)})
		if !errors.Is(err, sharding.ErrHeadsNotDivisible) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d heads on %s: %v", c.heads, c.refused, err)
		}
	}
}

// A text encoder counts places: it takes no ring, and advises none.
func TestTextEncodersTakeNoRing(t *testing.T) {
	m := modeltest.Open(t, "testdata/umt5")
	in, err := m.Example(1, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	for flags, kind := range map[string]error{"--mesh ring=2": models.ErrAxis, "--mesh sp=7": sharding.ErrHeadsNotDivisible} {
		_, err := m.Start(context.Background(), in, weft.Options{Device: "reference", Request: request.Must(flags)})
		if !errors.Is(err, kind) || strings.Contains(fmt.Sprint(err), "ulysses=") {
			t.Errorf("%s: %v", flags, err)
		}
	}
}
