package hunyuan15vae_test

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

const dir = "../../testdata/vaes/hunyuan_video_15"

// The fixture's grids: 3 latent frames of 3 x 2, which are 9 frames of 48 x 32 pixels; one of 5 x 6
// in tiles.
var fixture = modeltest.Autoencoder{Dir: dir, Latents: "z_raw", Tolerance: 1e-4}

// reference are options of the interpreter.
func reference(flags string) weft.Options {
	return weft.Options{Device: "reference", Request: request.Must(flags)}
}

func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	modeltest.Oracle(t, "hunyuan1.5-vae", "../../testdata/oracle/hunyuan1.5-vae.json")
}

// Every legal mesh, and XLA, with WEFT_LONG_TESTS; otherwise some meshes.
func TestFixtureOnMeshes(t *testing.T) {
	long := os.Getenv("WEFT_LONG_TESTS") != ""
	meshes := fixture.Meshes(t, 8, "")
	if len(meshes) != 20 { // every tp*sp up to 8
		t.Errorf("%d legal meshes", len(meshes))
	}
	if !long {
		meshes = []string{"", "sp=2", "tp=2", "tp=3,sp=2"}
	}
	for _, on := range meshes {
		fixture.On(t, "reference", on, "")
	}
	if long && slices.Contains(modeltest.Devices(), "cpu") { // which takes long to compile
		fixture.On(t, "cpu", "tp=2,sp=2", "")
	}
}

// In tiles of 64 x 64 pixels, a quarter of which overlaps: other pixels, those of the release's
// tiling. One latent frame is one picture.
func TestTilesEqualThePeers(t *testing.T) {
	tiles := models.Tiles{Height: 64, Width: 64, StrideHeight: 48, StrideWidth: 48}
	for _, on := range []string{"", "tp=2,sp=2"} {
		fixture.Tiled(t, on, "tiled.", tiles, [2]string{"2 x 2 tiles", "2 x 2 tiles"})
	}
	m, err := models.ByName("hunyuan1.5-vae")
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Features().Tiled.Sizes(models.Tiles{}); got != (models.Tiles{Height: 256, Width: 256, StrideHeight: 192, StrideWidth: 192}) {
		t.Errorf("the release's tiles are %+v", got)
	}
}

// Latents as a transformer has them are divided by the configuration's factor, and those that are
// encoded are multiplied by it.
func TestFactorOfLatents(t *testing.T) {
	const factor = 1.03682
	in, want := modeltest.Tensors(t, dir+"/inputs.safetensors"), modeltest.Tensors(t, dir+"/expected.safetensors")
	m := modeltest.Open(t, dir+"/diffusers")
	out := modeltest.Forward(t, m, map[string]*tensor.Tensor{"z": scaled(t, in["z"], factor)}, reference(""))
	modeltest.Close(t, "decode", out["decode"], want["decode"], 1e-4)
	out = modeltest.Forward(t, m, map[string]*tensor.Tensor{"video": in["video"]}, reference("--mesh sp=2"))
	modeltest.Close(t, "encode", out["encode"], scaled(t, want["encode"], factor), 1e-4)
}

func scaled(t *testing.T, x *tensor.Tensor, by float64) *tensor.Tensor {
	t.Helper()
	fs := modeltest.Floats(t, x)
	for i := range fs {
		fs[i] *= float32(by)
	}
	y, err := tensor.FromFloat32s(dtype.F32, fs, x.Shape...)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// Both halves are causal: what comes later changes nothing, and fewer frames give the first ones.
func TestFramesAreCausal(t *testing.T) {
	in, want := modeltest.Tensors(t, dir+"/inputs.safetensors"), modeltest.Tensors(t, dir+"/expected.safetensors")
	m := modeltest.Open(t, dir+"/diffusers")
	for _, n := range []int{1, 2} {
		out := modeltest.Forward(t, m, map[string]*tensor.Tensor{"z_raw": in["z"].Slice(2, 0, n)}, reference("--mesh sp=2"))
		modeltest.Close(t, fmt.Sprint(n, " latent frames"), out["out"], want["decode"].Slice(2, 0, 4*n-3), 1e-4)
		out = modeltest.Forward(t, m, map[string]*tensor.Tensor{"video": in["video"].Slice(2, 0, 4*n-3)}, reference("--mesh tp=2"))
		modeltest.Close(t, fmt.Sprint(4*n-3, " frames"), out["encode_mean"], want["encode"].Slice(2, 0, n), 1e-4)
	}
}

// The publisher's names and words: every parameter has a name in its file, and the same model comes
// of its config.json.
func TestPublishersRelease(t *testing.T) {
	const published = `{"_class_name":"AutoencoderKLConv3D","in_channels":3,"out_channels":3,"latent_channels":32,
		"block_out_channels":[128,256,512,1024,1024],"layers_per_block":2,
		"ffactor_spatial":16,"ffactor_temporal":4,"sample_size":256,"sample_tsize":64,"scaling_factor":1.03682,"shift_factor":null,
		"downsample_match_channel":true,"upsample_match_channel":true}`
	m, err := models.FromConfig([]byte(published), "config.json")
	if err != nil {
		t.Fatal(err)
	}
	if m.Name() != "hunyuan1.5-vae" {
		t.Errorf("the publisher's configuration is %s", m.Name())
	}
	for name, own := range map[string]string{
		"encoder.down.3.block.1.conv2.conv.weight":   "encoder.down_blocks.3.resnets.1.conv2.conv.weight",
		"encoder.down.0.downsample.conv.conv.bias":   "encoder.down_blocks.0.downsamplers.0.conv.conv.bias",
		"encoder.mid.block_2.norm1.gamma":            "encoder.mid_block.resnets.1.norm1.gamma",
		"encoder.mid.attn_1.q.weight":                "encoder.mid_block.attentions.0.to_q.weight",
		"decoder.mid.attn_1.proj_out.bias":           "decoder.mid_block.attentions.0.proj_out.bias",
		"decoder.mid.attn_1.norm.gamma":              "decoder.mid_block.attentions.0.norm.gamma",
		"decoder.up.4.block.2.norm2.gamma":           "decoder.up_blocks.4.resnets.2.norm2.gamma",
		"decoder.up.3.upsample.conv.conv.weight":     "decoder.up_blocks.3.upsamplers.0.conv.conv.weight",
		"decoder.norm_out.gamma":                     "decoder.norm_out.gamma",
		"decoder.up_blocks.0.resnets.0.norm1.gamma":  "decoder.up_blocks.0.resnets.0.norm1.gamma",
		"encoder.conv_in.conv.weight":                "encoder.conv_in.conv.weight",
		"decoder.up_blocks.9.resnets.0.norm1.gamma":  "decoder.up_blocks.9.resnets.0.norm1.gamma",
		"encoder.down.1.block.0.nin_shortcut.weight": "encoder.down.1.block.0.nin_shortcut.weight", // of no block of the release
	} {
		if got := m.Official(name); got != own {
			t.Errorf("%s is %s, want %s", name, got, own)
		}
	}
	n := 0
	for _, p := range m.Params(0) {
		n += tensor.Elements(p.Shape)
	}
	if n != 1260634115 { // as the peer counts
		t.Errorf("%d parameters", n)
	}
	shape, err := m.Features().Decoder.VideoShape([]int{32, 31, 45, 80})
	if err != nil || !slices.Equal(shape, []int{3, 121, 720, 1280}) {
		t.Errorf("%v %v", shape, err)
	}
}

// Other widths, ratios and numbers of frames, in bf16 too: every split gives what one device gives.
// All but the first configuration are run with WEFT_LONG_TESTS alone.
func TestOtherConfigurationsSplit(t *testing.T) {
	const class = `{"_class_name":"AutoencoderKLHunyuanVideo15","latent_channels":2,"layers_per_block":1,`
	modeltest.SplitEach(t, 27, modeltest.FirstUnlessLong([]modeltest.SplitConfig{
		{Config: class + `"block_out_channels":[4,8,8],"spatial_compression_ratio":4,"temporal_compression_ratio":2}`, Latent: []int{2, 4, 3, 2}, Flags: ""},
		{Config: class + `"block_out_channels":[8,8],"spatial_compression_ratio":2,"temporal_compression_ratio":1,"downsample_match_channel":false}`, Latent: []int{2, 1, 1, 5}, Flags: "--dtype bf16"},
		{Config: class + `"block_out_channels":[8,16],"spatial_compression_ratio":2,"temporal_compression_ratio":2,"upsample_match_channel":false}`, Latent: []int{2, 3, 5, 1}, Flags: "--fsdp sp,tp"},
	}...)...)
}

// Programs do not grow with the number of frames, and a half keeps only its own weights.
func TestProgramsAreShared(t *testing.T) {
	on, err := weft.ParseMesh("")
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.ByName("hunyuan1.5-vae")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		encode            bool
		frames            int
		programs, weights int
	}{
		// The first convolution, two for the middle, one each for the blocks of five stages, four
		// changes of size and the head: all but the weights twice, for the first frame and the others.
		{false, 2, 26, 124}, {false, 31, 26, 124}, {false, 1, 13, 124}, {true, 2, 26, 94},
	} {
		g, err := m.Graph(on, models.Request{Batch: 1, Latent: []int{32, c.frames, 2, 2}, Encode: c.encode, DType: dtype.BF16})
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Programs) != c.programs || len(g.Weights) != c.weights {
			t.Errorf("%+v: %d programs and %d weights", c, len(g.Programs), len(g.Weights))
		}
		half := map[bool]string{true: "encoder.", false: "decoder."}[c.encode]
		for _, w := range g.Weights {
			if !strings.HasPrefix(w.Name, half) {
				t.Errorf("%s is kept", w.Name)
			}
		}
	}
}

// What a later frame of the fixture moves, worked out by hand. A convolution of 3 rows (2 each over
// sp=2, one of them padding) and 2 columns of 16 channels sends an edge of 3 frames both ways. The
// attention gathers the keys and values of 4 x 2 positions.
func TestCollectivesOfALaterFrame(t *testing.T) {
	r := models.Request{Batch: 1, Latent: []int{8, 3, 3, 2}, DType: dtype.F32}
	const block, attention = "decoder.mid_block block 16 to 16", "decoder.mid_block.attentions.0"
	modeltest.Moves(t, modeltest.Config(t, dir+"/diffusers"), r, []modeltest.Move{
		{On: "", Program: block},
		{On: "sp=2", Program: block, Want: "collective-permute sp 4 384"},                      // 2 convolutions x 2 ways x 3*2*16
		{On: "tp=2", Program: block, Want: "collective-permute tp 4 576"},                      // columns of 3 rows
		{On: "sp=2", Program: attention, Want: "all-gather sp 1 128"},                          // of 2*2 positions x 2*16
		{On: "tp=2,sp=2", Program: attention, Want: "all-gather sp 1 64; all-gather tp 1 128"}, // of 2*1, then of 4*1
	})
}

// A video that is handed over frame by frame has the bytes of the whole one, and no frame is asked
// for before those before it have gone as far as they can, with one on its way.
func TestStreamedIsTheWhole(t *testing.T) {
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	m := modeltest.Open(t, dir+"/diffusers")
	for name, c := range map[string]struct {
		output string
		most   func(out int) int
	}{"z": {"out", func(out int) int { return (out+3)/4 + 2 }}, "video": {"encode", func(out int) int { return 4*out + 2 }}} {
		modeltest.StreamedIsWhole(t, m, name, in[name], c.output, c.most, reference("--mesh sp=2"))
	}
}

// bf16 kernels and what flows into them; sums, norms and stream in f32.
func TestBF16(t *testing.T) {
	in, want := modeltest.Tensors(t, dir+"/inputs.safetensors"), modeltest.Tensors(t, dir+"/expected.safetensors")["decode"]
	out := modeltest.Forward(t, modeltest.Open(t, dir+"/diffusers"), map[string]*tensor.Tensor{"z_raw": in["z"]}, reference("--dtype bf16 --mesh tp=2"))["out"]
	modeltest.RoundedTo(t, out, want, 0.08) // of a peak of 1.4, after some thirty roundings
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
		{map[string]*tensor.Tensor{"z": tensor.New(dtype.F32, 1, 4, 2, 3, 4)}, "", models.ErrInputs, []string{"4 channels", "latent_channels 8"}},
		{video(8, 24, 32), "", models.ErrSize, []string{"video frames 8: want 1 more than a multiple of 4; nearest: 5 or 9", "video height 24", "16 or 32"}},
		{video(9, 48, 32), "--mesh sp=2 --strict", models.ErrSize, []string{"latent rows", "3 does not divide over sp=2"}},
	} {
		_, err := m.Start(t.Context(), c.in, reference(c.flags))
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
		config string
		kind   error
		want   []string
	}{
		{`{"_class_name":"AutoencoderKLConv3D","shift_factor":0.1,"in_channels":4}`, models.ErrVariant, []string{"shift_factor is 0.1", "in_channels is 4"}},
		{`{"_class_name":"AutoencoderKLHunyuanVideo15","spatial_compression_ratio":12,"temporal_compression_ratio":3,"block_out_channels":[]}`, models.ErrConfig,
			[]string{"12 pixels: want a power of 2", "3 frames", "0 block_out_channels"}},
		{`{"_class_name":"AutoencoderKLHunyuanVideo15","spatial_compression_ratio":32}`, models.ErrConfig, []string{"32 pixels", "5 block_out_channels"}},
		{`{"_class_name":"AutoencoderKLHunyuanVideo15","latent_channels":30}`, models.ErrConfig, []string{"block_out_channels[4] is 1024", "latent_channels 30"}},
		{`{"_class_name":"AutoencoderKLHunyuanVideo15","block_out_channels":[4,6,64],"spatial_compression_ratio":4,"temporal_compression_ratio":2}`, models.ErrConfig,
			[]string{"stage 0 of the encoder from 4 to 6 channels", "stage 1 of the encoder from 6 to 64", "stage 0 of the decoder from 64 to 6"}},
	} {
		_, err := models.FromConfig([]byte(c.config), "config.json")
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
