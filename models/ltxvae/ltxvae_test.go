package ltxvae_test

import (
	"errors"
	"fmt"
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

const testdata = "../../testdata/vaes/"

// The fixtures' grids: 2 latent frames of 1 x 2, which are 9 frames of 32 x 64 pixels; 0.9.5 and
// LTX-2.5 also one of 2 x 3 in tiles. Their latents are as the encoder makes them.
var (
	plain   = modeltest.Autoencoder{Dir: testdata + "ltx_090", Latents: "z_raw", Tolerance: 1e-4}
	noisy   = modeltest.Autoencoder{Dir: testdata + "ltx_091", Latents: "z_raw", Beside: append([]string{"timestep"}, noises(8)...), Tolerance: 1e-4}
	folding = modeltest.Autoencoder{Dir: testdata + "ltx_095", Latents: "z_raw", Beside: []string{"timestep"}, Tolerance: 1e-4}
	second  = modeltest.Autoencoder{Dir: testdata + "ltx2_25", Latents: "z_raw", Tolerance: 1e-4} // python testdata/make/ltx2_vae.py testdata
)

var long = os.Getenv("WEFT_LONG_TESTS") != ""

// noises names planes of noise.
func noises(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("noise.", i)
	}
	return names
}

// reference are options of the interpreter.
func reference(flags string) weft.Options {
	return weft.Options{Device: "reference", Request: request.Must(flags)}
}

// Every legal mesh, and XLA, with WEFT_LONG_TESTS; otherwise some meshes of each fixture.
func TestFixturesOnMeshes(t *testing.T) {
	for _, c := range []struct {
		fixture modeltest.Autoencoder
		some    []string
	}{{plain, []string{"", "sp=2", "tp=2", "tp=3,sp=2"}},
		{noisy, []string{"", "tp=2", "tp=3,sp=2"}}, {folding, []string{"", "sp=3", "tp=2,sp=2"}}, {second, []string{"", "sp=2", "tp=2,sp=2"}}} {
		meshes := c.fixture.Meshes(t, 8, "")
		if len(meshes) != 20 { // every tp*sp up to 8
			t.Errorf("%s: %d legal meshes", c.fixture.Dir, len(meshes))
		}
		if !long {
			meshes = c.some
		}
		for _, on := range meshes {
			c.fixture.On(t, "reference", on, "")
		}
		if long && slices.Contains(modeltest.Devices(), "cpu") { // which takes long to compile
			c.fixture.On(t, "cpu", "tp=2,sp=2", "")
		}
	}
}

// In tiles of 64 x 64 pixels that lie 32 apart: other pixels, those of the release's tiling. One
// latent frame is one picture.
func TestTilesEqualThePeers(t *testing.T) {
	tiles := models.Tiles{Height: 64, Width: 64, StrideHeight: 32, StrideWidth: 32}
	for _, on := range []string{"", "tp=2,sp=2"} {
		folding.Tiled(t, on, "tiled.", tiles, [2]string{"2 x 3 tiles", "2 x 3 tiles"})
		second.Tiled(t, on, "tiled.", tiles, [2]string{"2 x 3 tiles", "2 x 3 tiles"})
	}
	in := modeltest.Tensors(t, testdata+"ltx_091/inputs.safetensors")
	in["z_raw"] = in["z"]
	delete(in, "z")
	delete(in, "video")
	m := modeltest.Open(t, testdata+"ltx_091/diffusers")
	_, _, err := m.ForwardTiled(t.Context(), in, models.Tiles{Height: 32, Width: 32, StrideHeight: 32, StrideWidth: 32}, reference(""))
	if !errors.Is(err, models.ErrVariant) || !strings.Contains(err.Error(), "its own 8 planes") {
		t.Error(err)
	}
}

// The release's tiles at 1216 x 704: 22 x 38 latents in tiles of 16, 14 apart.
func TestReleasedTiles(t *testing.T) {
	m, err := models.ByName("ltx-video-vae")
	if err != nil {
		t.Fatal(err)
	}
	f := m.Features().Tiled
	for encode, want := range map[bool]string{
		false: "{[[0 16] [14 22]] 448 64 1 704} {[[0 16] [14 30] [28 38]] 448 64 1 1216}",
		true:  "{[[0 512] [448 704]] 14 2 1 22} {[[0 512] [448 960] [896 1216]] 14 2 1 38}",
	} {
		rows, cols, ok, err := f.Tile(models.Request{Batch: 1, Latent: []int{128, 16, 22, 38}, Encode: encode}, f.Sizes(models.Tiles{}))
		if got := fmt.Sprint(rows, cols); err != nil || !ok || got != want {
			t.Errorf("encode %v: %s, want %s (%v)", encode, got, want, err)
		}
	}
}

// Latents as transformers read them are normalised by the checkpoint's own statistics, in both
// directions.
func TestNormalisedLatents(t *testing.T) {
	in, want := modeltest.Tensors(t, plain.Dir+"/inputs.safetensors"), modeltest.Tensors(t, plain.Dir+"/expected.safetensors")
	weights := modeltest.Tensors(t, plain.Dir+"/diffusers/diffusion_pytorch_model.safetensors")
	config, err := os.ReadFile(plain.Dir + "/diffusers/config.json")
	if err != nil {
		t.Fatal(err)
	}
	scaled := strings.Replace(string(config), `"scaling_factor": 1.0`, `"scaling_factor": 0.5`, 1)
	for factor, m := range map[float64]*weft.Model{1: modeltest.Open(t, plain.Dir+"/diffusers"), 0.5: modeltest.Open(t, modeltest.Folder(t, scaled, weights))} {
		normal := func(x *tensor.Tensor) *tensor.Tensor {
			mean, std, values := modeltest.Floats(t, weights["latents_mean"]), modeltest.Floats(t, weights["latents_std"]), modeltest.Floats(t, x)
			per := len(values) / len(mean)
			for i, v := range values {
				c := i / per
				values[i] = (v - mean[c]) * float32(factor) / std[c]
			}
			y, err := tensor.FromFloat32s(dtype.F32, values, x.Shape...)
			if err != nil {
				t.Fatal(err)
			}
			return y
		}
		out := modeltest.Forward(t, m, map[string]*tensor.Tensor{"z": normal(in["z"])}, reference(""))
		modeltest.Close(t, "decode", out["decode"], want["decode"], 1e-4)
		out = modeltest.Forward(t, m, map[string]*tensor.Tensor{"video": in["video"]}, reference("--mesh tp=2"))
		modeltest.Close(t, "encode", out["encode"], normal(want["encode"]), 1e-4)
	}
}

// A decoder that is not causal reads the frame behind its own, and a causal one does not: there
// the first frames of a longer video are those of a shorter one. An encoder is causal.
func TestCausality(t *testing.T) {
	config, err := os.ReadFile(plain.Dir + "/diffusers/config.json")
	if err != nil {
		t.Fatal(err)
	}
	weights := modeltest.Tensors(t, plain.Dir+"/diffusers/diffusion_pytorch_model.safetensors")
	in := modeltest.Tensors(t, plain.Dir+"/inputs.safetensors")
	for text, causal := range map[string]bool{`"decoder_causal": false`: false, `"decoder_causal": true`: true} {
		m := modeltest.Open(t, modeltest.Folder(t, strings.Replace(string(config), `"decoder_causal": false`, text, 1), weights))
		whole := modeltest.Forward(t, m, map[string]*tensor.Tensor{"z_raw": in["z"]}, reference("--mesh sp=2"))["out"]
		first := modeltest.Forward(t, m, map[string]*tensor.Tensor{"z_raw": in["z"].Slice(2, 0, 1)}, reference("--mesh tp=2"))["out"]
		if first.Shape[2] != 1 {
			t.Fatalf("one latent frame is decoded to %v", first.Shape)
		}
		abs, _ := weft.Difference(modeltest.Floats(t, first), modeltest.Floats(t, whole.Slice(2, 0, 1)))
		if (abs < 1e-5) != causal {
			t.Errorf("%s: the first frame alone differs by %g", text, abs)
		}
	}
	m := modeltest.Open(t, folding.Dir+"/diffusers")
	want := modeltest.Tensors(t, folding.Dir+"/expected.safetensors")["encode"]
	out := modeltest.Forward(t, m, map[string]*tensor.Tensor{"video": modeltest.Tensors(t, folding.Dir+"/inputs.safetensors")["video"].Slice(2, 0, 1)}, reference("--mesh sp=2"))
	modeltest.Close(t, "first frame", out["encode_mean"], want.Slice(2, 0, 1), 1e-4)
}

// Other widths, factors, kinds of sampling and numbers of frames, causal and not, in bf16 too:
// every split gives what one device gives, and every frame is made.
// All but the first configuration are run with WEFT_LONG_TESTS alone.
func TestOtherConfigurationsSplit(t *testing.T) {
	const class = `{"_class_name":"AutoencoderKLLTXVideo","latent_channels":3,`
	modeltest.SplitEach(t, 27, modeltest.FirstUnlessLong([]modeltest.SplitConfig{
		{Config: class + `"patch_size":2,"block_out_channels":[2,4],"layers_per_block":[1,1,1],"spatio_temporal_scaling":[true,false],
			"decoder_block_out_channels":[2,4],"decoder_layers_per_block":[1,2,1],
			"decoder_spatio_temporal_scaling":[true,false],"upsample_factor":[1,1],"decoder_causal":true}`, Latent: []int{3, 5, 3, 2}, Flags: ""},
		{Config: class + `"patch_size":1,"block_out_channels":[2,4,4],"layers_per_block":[1,1,1],"spatio_temporal_scaling":[true,true],
			"down_block_types":["LTXVideo095DownBlock3D","LTXVideo095DownBlock3D"],"downsample_type":["spatial","temporal"],
			"decoder_block_out_channels":[8],"decoder_layers_per_block":[1,1],"decoder_spatio_temporal_scaling":[true],"upsample_factor":[1],"upsample_residual":[true],
			"decoder_inject_noise":[true,true],"timestep_conditioning":true}`, Latent: []int{3, 3, 1, 5}, Flags: "--dtype bf16"},
		{Config: class + `"patch_size":1,"block_out_channels":[2],"layers_per_block":[1,1],"spatio_temporal_scaling":[false],"decoder_block_out_channels":[2],"decoder_layers_per_block":[1,1],
			"decoder_spatio_temporal_scaling":[false],"upsample_factor":[1]}`, Latent: []int{3, 4, 5, 1}, Flags: "--fsdp sp,tp"},
	}...)...)
}

// A video that is handed over frame by frame has the bytes of the whole one, and no frame of the
// input is asked for before it is needed: an encoder's when the one before has gone as far as it
// can and another is on its way, a decoder's as far ahead as its kernels read.
func TestStreamedIsTheWhole(t *testing.T) {
	m := modeltest.Open(t, plain.Dir+"/diffusers")
	for name, c := range map[string]struct {
		shape  []int
		output string
		most   func(out int) int // the most frames that may be asked for when so many are out
	}{
		"z":     {[]int{1, 16, 30, 1, 2}, "out", func(out int) int { return out/8 + 16 }}, // 15 convolutions at the latents' rate and fewer at each faster one
		"video": {[]int{1, 3, 25, 32, 64}, "encode", func(out int) int { return 8*out + 2 }},
	} {
		x := tensor.New(dtype.F32, c.shape...)
		for i := range x.Elements() {
			copy(x.Data[4*i:], []byte{0, 0, byte(i * 7), 0x3e}) // from 0.125 to 0.25
		}
		modeltest.StreamedIsWhole(t, m, name, x, c.output, c.most, reference("--mesh sp=2"))
	}
	_, err := modeltest.Open(t, folding.Dir+"/diffusers").StartFrames(t.Context(), "z", []int{1, 16, 2, 1, 2}, nil, reference(""))
	if !errors.Is(err, models.ErrInputs) || !strings.Contains(err.Error(), "timestep") {
		t.Error(err)
	}
}

// bf16 kernels and what flows into them; sums, norms, the time path and the stream in f32.
func TestBF16(t *testing.T) {
	in := modeltest.Tensors(t, folding.Dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, folding.Dir+"/expected.safetensors")["decode"]
	given := map[string]*tensor.Tensor{"z_raw": in["z"], "timestep": in["timestep"]}
	out := modeltest.Forward(t, modeltest.Open(t, folding.Dir+"/diffusers"), given, reference("--dtype bf16 --mesh tp=2"))["out"]
	modeltest.RoundedTo(t, out, want, 0.06) // of a peak of 1.4, after some ten roundings
}
