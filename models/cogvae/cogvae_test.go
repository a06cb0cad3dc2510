package cogvae_test

import (
	"context"
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

const dir = "../../testdata/vaes/cogvideox"

// The fixture's grids: 5 latent frames of 3 x 4, in batches of 3 and 2; in tiles 2 of 6 x 8.
var fixture = modeltest.Autoencoder{Dir: dir, Latents: "z_raw", Tolerance: 1e-4}

func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	modeltest.Oracle(t, "cogvideox-vae", "../../testdata/oracle/cogvideox-vae.json")
}

func TestNamesEqualTheMapping(t *testing.T) {
	modeltest.Mapping(t, "cogvideox-vae", "../../testdata/oracle/mappings/cogvideox-vae.json", "")
}

func TestFixtureOnEveryLegalMesh(t *testing.T) {
	meshes := fixture.Meshes(t, 8, "")
	if len(meshes) != 20 { // every tp*sp up to 8
		t.Errorf("%d legal meshes", len(meshes))
	}
	long := os.Getenv("WEFT_LONG_TESTS") != ""
	for _, on := range meshes {
		if long || slices.Contains([]string{"", "dp=1,tp=1,sp=1", "dp=1,tp=2,sp=1", "dp=1,tp=1,sp=3", "dp=1,tp=2,sp=2", "dp=1,tp=1,sp=8"}, on) {
			fixture.On(t, "reference", on, "")
		}
	}
	if slices.Contains(modeltest.Devices(), "cpu") && long { // hundreds of convolutions take long to compile
		for _, on := range []string{"", "tp=2,sp=3"} {
			fixture.On(t, "cpu", on, "")
		}
	}
}

// In tiles of 32 x 48 pixels that lie 24 x 32 apart: other pixels, those of the release's tiling.
func TestTilesEqualThePeers(t *testing.T) {
	tiles := models.Tiles{Height: 32, Width: 48, StrideHeight: 24, StrideWidth: 32}
	for _, on := range []string{"", "tp=2,sp=2"} {
		fixture.Tiled(t, on, "tiled.", tiles, [2]string{"2 x 2 tiles", "2 x 2 tiles"})
	}
}

// The release's tiles are half of 720 x 480, a sixth and a fifth of which overlap.
func TestReleasedTiles(t *testing.T) {
	m, err := models.ByName("cogvideox-vae")
	if err != nil {
		t.Fatal(err)
	}
	tiles := m.Features().Tiled.Sizes(models.Tiles{})
	if want := (models.Tiles{Height: 240, Width: 360, StrideHeight: 200, StrideWidth: 288}); tiles != want {
		t.Errorf("%+v, want %+v", tiles, want)
	}
	for _, encode := range []bool{false, true} {
		rows, cols, ok, err := m.Features().Tiled.Tile(models.Request{Batch: 1, Latent: []int{16, 13, 60, 90}, Encode: encode}, tiles)
		want := [2]models.TiledDim{{Spans: [][2]int{{0, 30}, {25, 55}, {50, 60}}, Keep: 200, Blend: 40, Group: 1, Size: 480},
			{Spans: [][2]int{{0, 45}, {36, 81}, {72, 90}}, Keep: 288, Blend: 72, Group: 1, Size: 720}}
		if encode {
			want = [2]models.TiledDim{{Spans: [][2]int{{0, 240}, {200, 440}, {400, 480}}, Keep: 25, Blend: 5, Group: 1, Size: 60},
				{Spans: [][2]int{{0, 360}, {288, 648}, {576, 720}}, Keep: 36, Blend: 9, Group: 1, Size: 90}}
		}
		if err != nil || !ok || fmt.Sprint(rows, cols) != fmt.Sprint(want[0], want[1]) {
			t.Errorf("encode %v: %v %v, want %v (%v)", encode, rows, cols, want, err)
		}
	}
}

// Latents as a transformer has them are divided by the factor of the configuration, and those
// that are encoded multiplied; 1.5's image-to-video divides both times.
func TestFactorOfLatents(t *testing.T) {
	const factor = 1.15258426
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, dir+"/expected.safetensors")
	o := weft.Options{Device: "reference"}
	m := modeltest.Open(t, dir+"/diffusers")
	out := modeltest.Forward(t, m, map[string]*tensor.Tensor{"z": scaled(t, in["z"], factor)}, o)
	modeltest.Close(t, "decode", out["decode"], want["decode"], 1e-4)
	raw := map[string]*tensor.Tensor{"z_raw": in["z"], "z": in["z"]}
	runs := m.Features().Variants(raw)
	if len(runs) != 2 || runs[0].Suffix != "" || runs[1].Suffix != "_z_raw" || runs[1].Inputs["z_raw"] == nil {
		t.Errorf("runs %+v", runs)
	}
	video := map[string]*tensor.Tensor{"video": in["video"]}
	modeltest.Close(t, "encode", modeltest.Forward(t, m, video, o)["encode"], scaled(t, want["encode"], factor), 1e-4)

	config, err := os.ReadFile(dir + "/diffusers/config.json")
	if err != nil {
		t.Fatal(err)
	}
	inverted := strings.Replace(string(config), `"invert_scale_latents": false`, `"invert_scale_latents": true`, 1)
	m = modeltest.Open(t, modeltest.Folder(t, inverted, modeltest.Tensors(t, dir+"/diffusers/diffusion_pytorch_model.safetensors")))
	modeltest.Close(t, "inverted", modeltest.Forward(t, m, video, o)["encode"], scaled(t, want["encode"], 1/factor), 1e-4)
}

func scaled(t *testing.T, x *tensor.Tensor, by float64) *tensor.Tensor {
	t.Helper()
	fs, err := x.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(fs))
	for i, f := range fs {
		out[i] = f * float32(by)
	}
	y, err := tensor.FromFloat32s(dtype.F32, out, x.Shape...)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// The publisher's own names, as the file 3d-vae.pt has them.
func TestPublishedNames(t *testing.T) {
	m, err := models.ByName("cogvideox-vae")
	if err != nil {
		t.Fatal(err)
	}
	for published, name := range map[string]string{
		"encoder.down.2.block.0.conv1.conv.weight":             "encoder.down_blocks.2.resnets.0.conv1.conv.weight",
		"encoder.down.1.block.0.nin_shortcut.bias":             "encoder.down_blocks.1.resnets.0.conv_shortcut.bias",
		"encoder.down.0.downsample.conv.weight":                "encoder.down_blocks.0.downsamplers.0.conv.weight",
		"encoder.mid.block_1.norm1.weight":                     "encoder.mid_block.resnets.0.norm1.weight",
		"decoder.mid.block_2.norm2.conv_b.conv.bias":           "decoder.mid_block.resnets.1.norm2.conv_b.conv.bias",
		"decoder.up.3.block.3.norm1.norm_layer.weight":         "decoder.up_blocks.0.resnets.3.norm1.norm_layer.weight",
		"decoder.up.0.block.0.nin_shortcut.weight":             "decoder.up_blocks.3.resnets.0.conv_shortcut.weight",
		"decoder.up.1.upsample.conv.bias":                      "decoder.up_blocks.2.upsamplers.0.conv.bias",
		"decoder.norm_out.conv_y.conv.weight":                  "decoder.norm_out.conv_y.conv.weight",
		"decoder.up_blocks.0.resnets.3.norm1.conv_y.conv.bias": "decoder.up_blocks.0.resnets.3.norm1.conv_y.conv.bias",
	} {
		if got := m.Official(published); got != name {
			t.Errorf("%s is %s, want %s", published, got, name)
		}
	}
	// Every parameter has a name of the publisher's.
	seen := map[string]bool{}
	for _, p := range m.Params(0) {
		seen[p.Name] = true
	}
	if len(seen) != len(m.Params(0)) {
		t.Errorf("%d names of %d parameters", len(seen), len(m.Params(0)))
	}
}

// How many frames come of how many latent ones: the releases decode 13, 21 and 22 of them, and an
// image is one.
func TestVideoShape(t *testing.T) {
	m, err := models.ByName("cogvideox-vae")
	if err != nil {
		t.Fatal(err)
	}
	for latent, frames := range map[int]int{1: 1, 2: 8, 3: 9, 4: 16, 5: 17, 13: 49, 21: 81, 22: 88} {
		got, err := m.Features().Decoder.VideoShape([]int{16, latent, 60, 90})
		if want := []int{3, frames, 480, 720}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%d latent frames: %v %v, want %v", latent, got, err, want)
		}
	}
	for frames, latent := range map[int]int{1: 1, 5: 2, 9: 3, 13: 4, 17: 5, 49: 13, 81: 21} {
		r, err := m.Features().Frames.Request("video", []int{1, 3, frames, 480, 720})
		if want := []int{16, latent, 60, 90}; err != nil || !r.Encode || !slices.Equal(r.Latent, want) {
			t.Errorf("%d frames: %v %v, want %v", frames, r.Latent, err, want)
		}
	}
}

// Other numbers of frames, stages, groups and widths, in bf16 too: every split gives what one
// device gives.
// All but the first configuration are run with WEFT_LONG_TESTS alone.
func TestOtherConfigurationsSplit(t *testing.T) {
	const types = `,"latent_channels":3,"sample_height":16,"sample_width":16,"norm_num_groups":2`
	modeltest.SplitEach(t, 27, modeltest.FirstUnlessLong([]modeltest.SplitConfig{
		{Config: `{"_class_name":"AutoencoderKLCogVideoX","block_out_channels":[2,4,4],"layers_per_block":1` + types + `}`, Latent: []int{3, 4, 3, 2}, Flags: ""},
		{Config: `{"_class_name":"AutoencoderKLCogVideoX","block_out_channels":[4,2,6],"layers_per_block":1` + types + `}`, Latent: []int{3, 1, 1, 5}, Flags: "--dtype bf16"},
		{Config: `{"_class_name":"AutoencoderKLCogVideoX","block_out_channels":[2,2,2],"layers_per_block":1` + types + `}`, Latent: []int{3, 3, 5, 1}, Flags: "--fsdp sp,tp"},
	}...)...)
}

// What a later batch of the fixture moves, worked out by hand: 2 latent frames of 3 rows (2 each
// over sp=2, one of them padding) and 4 columns, 8 channels in 2 groups.
//
// middle: 5 convolutions of 3 x 3 x 3, one of them of the 16 channels of the latents, send an
// edge of 4 frames, the batch's and the 2 kept ones, both ways. Each of 4 norms is two sums of 2
// groups.
func TestCollectivesOfALaterBatch(t *testing.T) {
	r := models.Request{Batch: 1, Latent: []int{16, 5, 3, 4}, DType: dtype.F32}
	m := modeltest.Config(t, dir+"/diffusers")
	modeltest.Moves(t, m, r, []modeltest.Move{
		{On: "", Program: "middle"},
		{On: "sp=2", Program: "middle", Want: "all-reduce sp 8 16; collective-permute sp 10 1536"},                                       // 2 x 4*4*16 + 8 x 4*4*8
		{On: "tp=2", Program: "middle", Want: "all-reduce tp 8 16; collective-permute tp 10 1152"},                                       // 2 x 4*3*16 + 8 x 4*3*8
		{On: "tp=2,sp=2", Program: "middle", Want: "all-reduce tp+sp 8 16; collective-permute sp 10 768; collective-permute tp 10 1536"}, // rows of 2 columns; columns of 2+2 rows
	})
	r.Batch = 2
	modeltest.Moves(t, m, r, []modeltest.Move{{On: "dp=2", Program: "middle"}})
}

// A video that is handed over frame by frame has the bytes of the whole decoding, and frames of
// the input are asked for in order.
func TestStreamedIsTheWhole(t *testing.T) {
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	m, o := modeltest.Open(t, dir+"/diffusers"), weft.Options{Device: "reference", Request: request.Must("--mesh sp=2")}
	for name, output := range map[string]string{"z": "out", "video": "encode"} {
		modeltest.StreamedIsWhole(t, m, name, in[name], output, nil, o)
	}
}

// bf16 kernels and what flows into them; sums, norms and stream in f32.
func TestBF16(t *testing.T) {
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, dir+"/expected.safetensors")["decode"]
	out := modeltest.Forward(t, modeltest.Open(t, dir+"/diffusers"), map[string]*tensor.Tensor{"z_raw": in["z"]}, weft.Options{Device: "reference", Request: request.Must("--dtype bf16 --mesh sp=2")})["out"]
	modeltest.RoundedTo(t, out, want, 0.15) // of a peak of 2.8, after some thirty roundings
}

func TestRefusals(t *testing.T) {
	m := modeltest.Open(t, dir+"/diffusers")
	video := func(frames, height, width int) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"video": tensor.New(dtype.F32, 1, 3, frames, height, width)}
	}
	for _, c := range []struct {
		in    map[string]*tensor.Tensor
		flags string
		kind  error
		want  []string
	}{
		{nil, "", models.ErrInputs, []string{`"z" and "video" are missing`}},
		{map[string]*tensor.Tensor{"z_raw": tensor.New(dtype.F32, 1, 4, 2, 3, 4)}, "", models.ErrInputs, []string{"4 channels", "latent_channels 16"}},
		{video(16, 24, 30), "", models.ErrSize, []string{"video frames 16: want 1 more than a multiple of 4; nearest: 13 or 17", "video width 30", "24 or 32"}},
		{video(9, 24, 32), "--mesh pp=2", models.ErrAxis, []string{"pp=2", "sp (rows)"}},
		{video(9, 24, 32), "--mesh sp=2 --strict", models.ErrSize, []string{"latent rows", "3 does not divide over sp=2"}},
	} {
		_, err := m.Start(context.Background(), c.in, weft.Options{Device: "reference", Request: request.Must(c.flags)})
		if !errors.Is(err, c.kind) {
			t.Errorf("want %v, got %v", c.want, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q is not in: %v", w, err)
			}
		}
	}
}

// Configurations that are not run are named, each with every reason.
func TestVariants(t *testing.T) {
	for _, c := range []struct {
		keys string
		kind error
		want []string
	}{
		{`"use_quant_conv":true,"temporal_compression_ratio":8,"latents_mean":[1]`, models.ErrVariant, []string{"use_quant_conv", "temporal_compression_ratio", "latents_mean"}},
		{`"down_block_types":["CogVideoXDownBlock3D","DownBlock3D","CogVideoXDownBlock3D"],"block_out_channels":[32,32,32]`, models.ErrVariant, []string{`down_block_types[1] "DownBlock3D"`}},
		{`"block_out_channels":[32,33],"up_block_types":["CogVideoXUpBlock3D"]`, models.ErrConfig, []string{"2 block_out_channels: want 3 to 8", "block_out_channels[1] is 33: want a multiple of norm_num_groups 32", "1 up_block_types for 2"}},
		{`"norm_num_groups":0,"layers_per_block":0,"scaling_factor":0`, models.ErrConfig, []string{"norm_num_groups is 0", "layers_per_block is 0", "scaling_factor"}},
	} {
		_, err := models.FromConfig([]byte(`{"_class_name":"AutoencoderKLCogVideoX",`+c.keys+`}`), "config.json")
		if !errors.Is(err, c.kind) {
			t.Errorf("want %v, got %v", c.want, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q is not in: %v", w, err)
			}
		}
	}
}
