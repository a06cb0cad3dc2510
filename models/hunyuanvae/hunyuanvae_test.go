package hunyuanvae_test

import (
	"context"
	"errors"
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

const dir = "../../testdata/vaes/hunyuan_video"

// The fixture's grids: 3 latent frames of 4 x 3; 8 of 2 x 3, which are three tiles along time; 2
// of 6 x 5 in tiles of pictures.
var fixture = modeltest.Autoencoder{Dir: dir, Latents: "z_raw", Tolerance: 1e-4}

func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	modeltest.Oracle(t, "hunyuan-vae", "../../testdata/oracle/hunyuan-vae.json")
}

func TestNamesEqualTheMapping(t *testing.T) {
	modeltest.Mapping(t, "hunyuan-vae", "../../testdata/oracle/mappings/hunyuan-vae.json", "")
}

func TestFixtureOnEveryLegalMesh(t *testing.T) {
	meshes := fixture.Meshes(t, 8, "")
	if len(meshes) != 20 { // every tp*sp up to 8
		t.Errorf("%d legal meshes", len(meshes))
	}
	long := os.Getenv("WEFT_LONG_TESTS") != ""
	for _, on := range meshes {
		if long || slices.Contains([]string{"", "dp=1,tp=1,sp=1", "dp=1,tp=1,sp=3", "dp=1,tp=2,sp=2", "dp=1,tp=8,sp=1"}, on) {
			fixture.On(t, "reference", on, "")
		}
	}
	if slices.Contains(modeltest.Devices(), "cpu") && long { // hundreds of convolutions take long to compile
		for _, on := range []string{"", "tp=2,sp=3"} {
			fixture.On(t, "cpu", on, "")
			fixture.On(t, "cpu", on, "temporal.")
		}
	}
}

// More than four latent frames are tiles along time, whether asked for or not.
func TestTilesAlongTime(t *testing.T) {
	for _, on := range []string{"", "sp=2", "tp=2,sp=3"} {
		fixture.On(t, "reference", on, "temporal.")
	}
	m := modeltest.Config(t, dir+"/diffusers")
	on, err := weft.ParseMesh("")
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.Graph(on, models.Request{Batch: 1, Latent: []int{16, 8, 2, 3}, DType: dtype.F32})
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(g.Notes, "\n"); !strings.Contains(notes, "3 tiles along time of 16 frames that lie 12 apart") {
		t.Errorf("notes %q", notes)
	}
}

// In tiles of 32 x 32 pixels that lie 24 apart: other pixels, those of the release's tiling.
func TestTilesEqualThePeers(t *testing.T) {
	tiles := models.Tiles{Height: 32, Width: 32, StrideHeight: 24, StrideWidth: 24}
	for _, on := range []string{"", "tp=2,sp=2"} {
		fixture.Tiled(t, on, "tiled.", tiles, [2]string{"2 x 2 tiles", "2 x 2 tiles"})
	}
	m, err := models.ByName("hunyuan-vae")
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Features().Tiled.Sizes(models.Tiles{}); got != models.ReleasedTiles {
		t.Errorf("the release's tiles are %+v", got)
	}
}

// Latents as a transformer has them are divided by the configuration's factor, and those that
// are encoded are multiplied by it.
func TestFactorOfLatents(t *testing.T) {
	const factor = 0.476986
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, dir+"/expected.safetensors")
	m, o := modeltest.Open(t, dir+"/diffusers"), weft.Options{Device: "reference"}
	for _, c := range []struct {
		input, output string
		x, want       *tensor.Tensor
	}{{"z", "out", scaled(t, in["z"], factor), want["decode"]}, {"video", "encode", in["video"], scaled(t, want["encode"], factor)}} {
		modeltest.Close(t, c.output, modeltest.Forward(t, m, map[string]*tensor.Tensor{c.input: c.x}, o)[c.output], c.want, 1e-4)
	}
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

// The publisher's config.json is read in its own words. Its tiles along time are four times as
// long, and its tensors have the same names.
func TestPublishersConfig(t *testing.T) {
	const published = `{"_class_name":"AutoencoderKLCausal3D","_diffusers_version":"0.4.2","act_fn":"silu","block_out_channels":[128,256,512,512],
		"down_block_types":["DownEncoderBlockCausal3D","DownEncoderBlockCausal3D","DownEncoderBlockCausal3D","DownEncoderBlockCausal3D"],"in_channels":3,"latent_channels":16,
		"layers_per_block":2,"norm_num_groups":32,"out_channels":3,"sample_size":256,"sample_tsize":64,
		"up_block_types":["UpDecoderBlockCausal3D","UpDecoderBlockCausal3D","UpDecoderBlockCausal3D","UpDecoderBlockCausal3D"],
		"scaling_factor":0.476986,"time_compression_ratio":4,"mid_block_add_attention":true}`
	m, err := models.FromConfig([]byte(published), "config.json")
	if err != nil {
		t.Fatal(err)
	}
	on, err := weft.ParseMesh("")
	if err != nil {
		t.Fatal(err)
	}
	for latents, tiles := range map[int]string{16: "", 17: "2 tiles along time of 64 frames that lie 48 apart", 33: "3 tiles along time of 64 frames that lie 48 apart"} {
		g, err := m.Graph(on, models.Request{Batch: 1, Latent: []int{16, latents, 2, 2}, DType: dtype.F32})
		if err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(g.Notes, "\n"); !strings.Contains(notes, tiles) || strings.Contains(notes, "tiles along time") != (tiles != "") {
			t.Errorf("%d latent frames: notes %q, want %q", latents, notes, tiles)
		}
	}
}

// Other widths, tiles and numbers of frames, without attention, in bf16 too: every split gives
// what one device gives.
// All but the first configuration are run with WEFT_LONG_TESTS alone.
func TestOtherConfigurationsSplit(t *testing.T) {
	const config = `{"_class_name":"AutoencoderKLHunyuanVideo","latent_channels":3,"layers_per_block":1,"norm_num_groups":2,"sample_tsize":16,`
	modeltest.SplitEach(t, 27, modeltest.FirstUnlessLong([]modeltest.SplitConfig{
		{Config: config + `"block_out_channels":[2,4,2,4]}`, Latent: []int{3, 3, 3, 2}, Flags: ""},
		{Config: config + `"block_out_channels":[2,2,2,2],"mid_block_add_attention":false}`, Latent: []int{3, 1, 1, 5}, Flags: "--dtype bf16"},
		{Config: config + `"block_out_channels":[2,2,2,2]}`, Latent: []int{3, 6, 2, 1}, Flags: "--fsdp sp,tp"},
	}...)...)
}

// What the middle of a tile of 3 latent frames of the fixture moves, worked out by hand: 4 rows of
// 3 columns (4 over tp=2) of 8 channels in 2 groups.
//
// 5 convolutions of 3 x 3 x 3, one of them of the 16 channels of the latents, send an edge of the
// 3 frames both ways. Each of 5 norms is two sums of 2
// groups. Keys and values are gathered.
func TestCollectivesOfTheMiddle(t *testing.T) {
	r := models.Request{Batch: 1, Latent: []int{16, 3, 4, 3}, DType: dtype.F32}
	m := modeltest.Config(t, dir+"/diffusers")
	const program = "middle of 3 frames"
	modeltest.Moves(t, m, r, []modeltest.Move{
		{On: "", Program: program},
		{On: "sp=2", Program: program, Want: "all-gather sp 1 288; all-reduce sp 10 20; collective-permute sp 10 864"},  // 3*2*3*16; 2 x 3*3*16 + 8 x 3*3*8
		{On: "tp=2", Program: program, Want: "all-gather tp 1 384; all-reduce tp 10 20; collective-permute tp 10 1152"}, // 3*4*2*16; 2 x 3*4*16 + 8 x 3*4*8
	})
}

// A video that is handed over frame by frame has the bytes of the whole decoding, over tiles along
// time as well.
func TestStreamedIsTheWhole(t *testing.T) {
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	m, o := modeltest.Open(t, dir+"/diffusers"), weft.Options{Device: "reference", Request: request.Must("--mesh sp=2")}
	for name, output := range map[string]string{"z": "out", "video": "encode_logvar"} {
		modeltest.StreamedIsWhole(t, m, name, in["temporal."+name], output, nil, o)
	}
}

// bf16 kernels and what flows into them; sums, norms and stream in f32.
func TestBF16(t *testing.T) {
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, dir+"/expected.safetensors")["decode"]
	out := modeltest.Forward(t, modeltest.Open(t, dir+"/diffusers"), map[string]*tensor.Tensor{"z_raw": in["z"]}, weft.Options{Device: "reference", Request: request.Must("--dtype bf16 --mesh sp=2")})["out"]
	modeltest.RoundedTo(t, out, want, 0.1) // of a peak of 1.5, after some thirty roundings
}

// Configurations and requests that are not run are named, each with every reason.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		keys string
		kind error
		want []string
	}{
		{`"_class_name":"AutoencoderKLHunyuanVideo","temporal_compression_ratio":8,"spatial_compression_ratio":16,"act_fn":"gelu"`, models.ErrVariant,
			[]string{"temporal_compression_ratio", "spatial_compression_ratio", "act_fn"}},
		{`"_class_name":"AutoencoderKLCausal3D","down_block_types":["HunyuanVideoDownBlock3D","DownEncoderBlockCausal3D","DownEncoderBlockCausal3D","DownEncoderBlockCausal3D"]`,
			models.ErrVariant, []string{`down_block_types[0] "HunyuanVideoDownBlock3D"`}},
		{`"_class_name":"AutoencoderKLHunyuanVideo","block_out_channels":[32,33,64],"sample_tsize":20`, models.ErrConfig,
			[]string{"3 block_out_channels: want 4", "block_out_channels[1] is 33", "sample_tsize"}},
	} {
		_, err := models.FromConfig([]byte(`{`+c.keys+`}`), "config.json")
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
	m := modeltest.Open(t, dir+"/diffusers")
	_, err := m.Start(context.Background(), map[string]*tensor.Tensor{"video": tensor.New(dtype.F32, 1, 3, 6, 32, 20)}, weft.Options{Device: "reference"})
	for _, w := range []string{"video frames 6: want 1 more than a multiple of 4; nearest: 5 or 9", "video width 20", "16 or 24"} {
		if !errors.Is(err, models.ErrSize) || !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in: %v", w, err)
		}
	}
}
