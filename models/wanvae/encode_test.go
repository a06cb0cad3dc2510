package wanvae_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

const (
	encode22 = "../../testdata/wan22_vae_diffusers"
	i2v      = "../../testdata/wan21_i2v_vae"
)

// only is the one input of that name, under another.
func only(in map[string]*tensor.Tensor, name, as string) map[string]*tensor.Tensor {
	return map[string]*tensor.Tensor{as: in[name]}
}

// encodeOn encodes a video on meshes of the interpreter, and several frames of Wan2.1's on the
// last of them, one that pads rows, through XLA, which takes long to compile convolutions; with
// WEFT_LONG_TESTS everything runs on both.
func encodeOn(t *testing.T, folder string, video *tensor.Tensor, meshes []string, compare func(what string, out map[string]*tensor.Tensor)) {
	t.Helper()
	m := modeltest.Open(t, folder)
	for i, on := range meshes {
		for _, device := range modeltest.Devices() {
			if device == "reference" || i == len(meshes)-1 && video.Shape[2] > 1 && folder == dir || os.Getenv("WEFT_LONG_TESTS") != "" {
				o := weft.Options{Device: device, Request: request.Must("--mesh=" + on)}
				compare(device+" "+on, modeltest.Forward(t, m, only(map[string]*tensor.Tensor{"": video}, "", "video"), o))
			}
		}
	}
}

// Wan2.1's: 9 frames of 32 x 24 to 3 latent frames of 4 x 3, and the first frame alone.
func TestEncode(t *testing.T) {
	in, want := modeltest.Tensors(t, dir+"/inputs.safetensors"), modeltest.Tensors(t, dir+"/expected.safetensors")
	encodeOn(t, dir, in["video"], []string{"", "sp=2", "tp=2", "sp=8", "tp=2,sp=2", "sp=3"}, func(what string, out map[string]*tensor.Tensor) {
		modeltest.Close(t, what, out["encode"], want["encode_diffusers"], 1e-4)
	})
	first := in["video"].Crop([]int{1, 3, 1, 32, 24})
	encodeOn(t, dir, first, []string{"", "sp=3"}, func(what string, out map[string]*tensor.Tensor) {
		modeltest.Close(t, what+" first frame", out["encode"], want["encode_first_frame_diffusers"], 1e-4)
	})
	for _, path := range []string{dir + "/diffusers", dir + "/release/Wan2.1_VAE.pth"} {
		out := modeltest.Forward(t, modeltest.Open(t, path), only(in, "video", "video"), weft.Options{Device: "reference", Request: request.Must("--mesh sp=2")})
		modeltest.Close(t, path, out["encode"], want["encode_diffusers"], 1e-4)
	}
}

// Wan2.2's: shortcuts around stages, pictures in patches. 32 x 48 pixels are 2 x 3 latents.
func TestEncode22(t *testing.T) {
	in, want := modeltest.Tensors(t, encode22+"/videos.safetensors"), modeltest.Tensors(t, encode22+"/expected.safetensors")
	for _, prefix := range []string{"", "one_frame."} {
		encodeOn(t, encode22, in[prefix+"video"], []string{"", "sp=2", "tp=3", "tp=2,sp=2", "sp=3"}, func(what string, out map[string]*tensor.Tensor) {
			modeltest.Close(t, what+" "+prefix+"mean", out["encode_mean"], want[prefix+"encode"], 1e-4)
			modeltest.Close(t, what+" "+prefix+"logvar", out["encode_logvar"], want[prefix+"encode_logvar"], 1e-4)
		})
	}
}

// What conditions a video on its first picture: the latents of the picture followed by zeros.
func TestEncodePictureFollowedByZeros(t *testing.T) {
	in, want := modeltest.Tensors(t, i2v+"/videos.safetensors"), modeltest.Tensors(t, i2v+"/expected.safetensors")
	for _, prefix := range []string{"", "official."} {
		picture := in[prefix+"image"]
		first := &tensor.Tensor{DType: picture.DType, Shape: []int{1, 3, 1, 32, 64}, Data: picture.Data}
		video := tensor.Join(2, []*tensor.Tensor{first, tensor.New(dtype.F32, 1, 3, 8, 32, 64)})
		encodeOn(t, i2v, video, []string{"", "sp=2", "sp=3"}, func(what string, out map[string]*tensor.Tensor) {
			modeltest.Close(t, what+" "+prefix, out["encode"], want[prefix+"encode"], 1e-4)
		})
	}
}

// encode is encode_mean less the mean of the latents over their deviation.
func TestEncodeIsNormalised(t *testing.T) {
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	stats := modeltest.Tensors(t, dir+"/expected.safetensors")
	out := modeltest.Forward(t, modeltest.Open(t, dir), only(in, "video", "video"), weft.Options{Device: "reference"})
	floats := func(x *tensor.Tensor) []float32 {
		fs, err := x.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		return fs
	}
	got, mean, std, raw := floats(out["encode"]), floats(stats["latents_mean"]), floats(stats["latents_std"]), floats(out["encode_mean"])
	for i := range got {
		c := i / (3 * 4 * 3)
		if d := got[i] - (raw[i]-mean[c])/std[c]; d > 1e-6 || d < -1e-6 {
			t.Fatalf("element %d is off by %g", i, d)
		}
	}
}

// A file with latents and a video has both runs, whose outputs have different names; the
// latents come back from what they decode to by no means exactly, but each run is that of its
// input alone.
func TestRunsOfBothInputs(t *testing.T) {
	m := modeltest.Open(t, dir)
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	names := map[string]bool{}
	for _, v := range models.Runs(m.Model, in) {
		for name := range modeltest.Forward(t, m, v.Inputs, weft.Options{Device: "reference"}) {
			if names[name] {
				t.Errorf("two runs make %s", name)
			}
			names[name+v.Suffix] = true
		}
	}
	if got := slices.Sorted(maps.Keys(names)); fmt.Sprint(got) != "[decode encode encode_logvar encode_mean out]" {
		t.Errorf("outputs %v", got)
	}
	if runs := models.Runs(m.Model, only(in, "video", "video")); len(runs) != 1 || runs[0].Inputs["video"] == nil {
		t.Errorf("runs of a video: %v", runs)
	}
}

// More frames change nothing before them, and a batch is encoded video by video.
func TestEncodeIsCausal(t *testing.T) {
	m := modeltest.Open(t, dir)
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, dir+"/expected.safetensors")["encode_diffusers"]
	five := in["video"].Crop([]int{1, 3, 5, 32, 24})
	out := modeltest.Forward(t, m, map[string]*tensor.Tensor{"video": tensor.Stack([]*tensor.Tensor{five, five})}, weft.Options{Device: "reference", Request: request.Must("--mesh dp=2,tp=2")})["encode"]
	for i := range 2 {
		modeltest.Close(t, fmt.Sprint("video ", i), out.Rows(i, i+1), want.Crop([]int{1, 16, 2, 4, 3}), 1e-4)
	}
}

// bf16 rounds what flows into kernels and attention: some thirty roundings of 2^-9 of
// themselves add up to a few hundredths of the peak, 1.5.
func TestEncodeBF16(t *testing.T) {
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, dir+"/expected.safetensors")["encode_diffusers"]
	for _, device := range modeltest.Devices() {
		if device != "reference" && os.Getenv("WEFT_LONG_TESTS") == "" {
			continue
		}
		out := modeltest.Forward(t, modeltest.Open(t, dir), only(in, "video", "video"), weft.Options{Device: device, Request: request.Must("--dtype bf16 --mesh sp=2")})["encode"]
		modeltest.Close(t, device, out, want, 0.06)
		g, err := out.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		w, err := want.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		if abs, _ := weft.Difference(g, w); abs < 1e-3 {
			t.Errorf("%s: bf16 differs by %g: nothing was rounded", device, abs)
		}
	}
}

// Other depths and halvings, in both architectures: every split gives the one-device answer.
func TestOtherEncodersSplit(t *testing.T) {
	for _, c := range []struct {
		config string
		video  []int
	}{
		{`{"z_dim":3,"dim":4,"dim_mult":[1,2],"num_res_blocks":1,"temperal_downsample":[true],"latents_mean":[1,0,-1],"latents_std":[2,1,0.5]}`, []int{1, 3, 7, 10, 4}},
		{`{"z_dim":16,"dim":2,"dim_mult":[1,2,3],"num_res_blocks":1,"temperal_downsample":[true,false]}`, []int{1, 3, 3, 4, 28}},
		{`{"z_dim":16,"dim":6,"dim_mult":[2],"num_res_blocks":2,"temperal_downsample":[]}`, []int{1, 3, 2, 9, 1}},
		{`{"z_dim":48,"dim":2,"dec_dim":4,"dim_mult":[1,2,2],"num_res_blocks":1,"temperal_downsample":[true,true],"is_residual":true,"patch_size":1}`, []int{1, 3, 9, 12, 8}},
		{`{"z_dim":48,"dim":4,"dec_dim":4,"dim_mult":[1,2,2],"num_res_blocks":1,"temperal_downsample":[true,false],"is_residual":true,"patch_size":2}`, []int{1, 3, 5, 24, 16}},
	} {
		m := modeltest.Open(t, modeltest.MadeUp(t, c.config))
		fs := make([]float32, tensor.Elements(c.video))
		for i := range fs {
			fs[i] = float32((i*7919)%2003)/1001.5 - 1
		}
		video, err := tensor.FromFloat32s(dtype.F32, fs, c.video...)
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]*tensor.Tensor{"video": video}
		r, err := m.Request(in)
		if err != nil {
			t.Fatal(err)
		}
		r.DType = dtype.F32
		var whole map[string]*tensor.Tensor
		for _, on := range weft.LegalMeshes(m, r, 6) {
			out := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + on.String())})
			if whole == nil {
				whole = out
			}
			for _, name := range []string{"encode", "encode_mean", "encode_logvar"} {
				g, err := out[name].Float32s()
				if err != nil {
					t.Fatal(err)
				}
				w, err := whole[name].Float32s()
				if err != nil {
					t.Fatal(err)
				}
				if abs, _ := weft.Difference(g, w); abs > 1e-5 {
					t.Errorf("%s on %v: %s differs by %g from one device", c.config, on, name, abs)
				}
			}
		}
	}
}

// Only what the encoder reads is kept.
func TestOnlyTheEncodersWeightsAreKept(t *testing.T) {
	on, err := weft.ParseMesh("sp=2")
	if err != nil {
		t.Fatal(err)
	}
	g, err := modeltest.Config(t, dir).Graph(on, models.Request{Batch: 1, Latent: []int{16, 2, 4, 3}, DType: dtype.F32, Encode: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Weights) != 86 { // those of the mapping under encoder. and conv1.
		t.Errorf("%d weights", len(g.Weights))
	}
	for _, w := range g.Weights {
		if !strings.HasPrefix(w.Name, "encoder.") && !strings.HasPrefix(w.Name, "conv1.") {
			t.Errorf("%s is kept", w.Name)
		}
	}
}

func TestEncodeRefusals(t *testing.T) {
	m := modeltest.Open(t, dir)
	for _, c := range []struct {
		shape []int
		want  []string
	}{
		{[]int{3, 9, 32, 24}, []string{"(batch, channels, frames, height, width)"}},
		{[]int{1, 4, 9, 32, 24}, []string{"4 channels: want 3"}},
		{[]int{1, 3, 10, 33, 7}, []string{"frames 10: want 1 more than a multiple of 4; nearest: 9 or 13", "height 33: want a multiple of 8; nearest: 32 or 40", "width 7: want a multiple of 8; nearest: 8"}},
		{[]int{1, 3, 0, 32, 0}, []string{"frames 0", "width 0"}},
	} {
		_, err := m.Start(context.Background(), map[string]*tensor.Tensor{"video": tensor.New(dtype.F32, c.shape...)}, weft.Options{Device: "reference"})
		if !errors.Is(err, models.ErrSize) && !errors.Is(err, models.ErrInputs) {
			t.Errorf("%v: %v", c.shape, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %q is not in: %v", c.shape, want, err)
			}
		}
	}
	if _, err := m.Start(context.Background(), map[string]*tensor.Tensor{"video": tensor.New(dtype.I32, 1, 3, 9, 32, 24)}, weft.Options{Device: "reference"}); !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), "floating-point") {
		t.Error(err)
	}
}
