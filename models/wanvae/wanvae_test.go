package wanvae_test

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
	"weft/fault"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

const (
	dir    = "../../testdata/wan21_vae"
	dir22  = "../../testdata/wan22_vae"
	oracle = "../../testdata/oracle/"
)

// The fixture's grid is 3 latent frames of 4 x 3. diffusers' numbers are meant:
// the other peer's norm has an epsilon, which shows by 1e-4.
var fixture = modeltest.Case{Dir: dir, Want: "decode_diffusers", Tolerance: 1e-4}

func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	modeltest.Oracle(t, "wan2.1-vae", oracle+"wan2.1-vae.json")
	modeltest.Oracle(t, "wan2.2-vae", oracle+"wan2.2-vae.json")
}

func TestNamesEqualTheMapping(t *testing.T) {
	modeltest.Mapping(t, "wan2.1-vae", oracle+"mappings/wan2.1-vae.json", "")
	modeltest.Mapping(t, "wan2.2-vae", oracle+"mappings/wan2.2-vae.json", "")
}

func TestFixtureOnEveryLegalMesh(t *testing.T) {
	meshes := fixture.Meshes(t, 8)
	if len(meshes) != 20 { // every tp*sp up to 8
		t.Errorf("%d legal meshes", len(meshes))
	}
	if os.Getenv("WEFT_LONG_TESTS") != "" {
		fixture.Everywhere(t)
		return
	}
	for _, on := range meshes {
		fixture.On(t, "reference", on)
	}
	if slices.Contains(modeltest.Devices(), "cpu") { // one: 33 convolutions take a while to compile
		fixture.On(t, "cpu", "tp=2,sp=3")
	}
}

// Wan2.2's: stages with shortcuts, widths that stay, pictures in patches. The
// fixture's grid is 2 x 3: fewer rows than most meshes have devices. All meshes,
// and XLA, with WEFT_LONG_TESTS.
func TestWan22(t *testing.T) {
	c := modeltest.Case{Dir: dir22, Tolerance: 1e-4}
	if os.Getenv("WEFT_LONG_TESTS") != "" {
		c.Everywhere(t)
		return
	}
	for _, on := range []string{"", "sp=2", "tp=3", "sp=8", "tp=2,sp=3"} {
		c.On(t, "reference", on)
	}
}

func TestValuesAlongTheWay(t *testing.T) {
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, dir+"/expected.safetensors")["decode_conv2"]
	r, err := modeltest.Open(t, dir).Start(context.Background(), in, weft.Options{Device: "reference"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	if _, err := r.Trace(context.Background(), func(name string, x *tensor.Tensor) error {
		if frame := n; name == fmt.Sprint("decode_conv2.", frame) {
			n++
			modeltest.Close(t, name, x, want.Slice(2, frame, frame+1), 1e-4)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n != 3 {
		t.Errorf("%d frames of decode_conv2 are traced", n)
	}
}

// A decoding has two names: out, as every model's, and the fixture's.
func TestDiffusersCheckpoint(t *testing.T) {
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, dir+"/expected.safetensors")["decode_diffusers"]
	out := modeltest.Forward(t, modeltest.Open(t, dir+"/diffusers"), in, weft.Options{Device: "reference", Request: request.Must("--mesh sp=2")})
	modeltest.Close(t, "out", out["out"], want, 1e-4)
	modeltest.Close(t, "decode", out["decode"], want, 1e-4)
}

// One latent frame is one picture: the first of more. Two more frames change nothing before them.
func TestFramesAreCausal(t *testing.T) {
	m := modeltest.Open(t, dir)
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, dir+"/expected.safetensors")["decode_diffusers"]
	for _, n := range []int{1, 2} {
		z := in["z"].Crop([]int{1, 16, n, 4, 3})
		out := modeltest.Forward(t, m, map[string]*tensor.Tensor{"z": z}, weft.Options{Device: "reference", Request: request.Must("--mesh tp=2")})["out"]
		modeltest.Close(t, fmt.Sprint(n, " latent frames"), out, want.Crop([]int{1, 3, 1 + 4*(n-1), 32, 24}), 1e-4)
	}
}

// bf16 kernels and what flows into them, sums and stream in f32. A bf16 has 8
// bits; some thirty convolutions one after another, each rounding its operand, add
// up to no more than a few roundings of the output's peak of 0.74.
func TestBF16(t *testing.T) {
	c := fixture
	c.Tolerance, c.Options.DType = 0.03, dtype.BF16
	c.On(t, "reference", "sp=2")
	if os.Getenv("WEFT_LONG_TESTS") != "" {
		c.On(t, "cpu", "sp=2")
	}
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, dir+"/expected.safetensors")["decode_diffusers"]
	out := modeltest.Forward(t, modeltest.Open(t, dir), in, weft.Options{Device: "reference", Request: request.Must("--dtype bf16")})["out"]
	if abs, _ := weft.Difference(modeltest.Floats(t, out), modeltest.Floats(t, want)); abs < 1e-3 {
		t.Errorf("bf16 differs by %g: nothing was rounded", abs)
	}
}

// Other depths, multipliers and doublings, batch 2, grids smaller than the mesh:
// every split gives the one-device answer.
func TestOtherConfigurationsSplit(t *testing.T) {
	modeltest.SplitEach(t, 27, []modeltest.SplitConfig{
		{Config: `{"z_dim":3,"dim":4,"dim_mult":[1,2],"num_res_blocks":1,"temperal_downsample":[true],"latents_mean":[1,0,-1],"latents_std":[2,1,0.5]}`, Latent: []int{3, 3, 5, 2}, Flags: ""},
		{Config: `{"z_dim":16,"dim":2,"dim_mult":[1,2,3],"num_res_blocks":1,"temperal_downsample":[true,false]}`, Latent: []int{16, 2, 1, 7}, Flags: "--dtype bf16"},
		{Config: `{"z_dim":16,"dim":6,"dim_mult":[2],"num_res_blocks":2,"temperal_downsample":[]}`, Latent: []int{16, 2, 9, 1}, Flags: "--fsdp sp,tp"},
		{Config: `{"z_dim":48,"dim":2,"dec_dim":4,"dim_mult":[1,2,2],"num_res_blocks":1,"temperal_downsample":[true,false],"is_residual":true,"patch_size":1}`, Latent: []int{48, 2, 3, 2}, Flags: ""},
	}...)
}

// The encoder's weights are in the file, and on no device.
func TestOnlyTheDecodersWeightsAreKept(t *testing.T) {
	on, err := weft.ParseMesh("sp=2")
	if err != nil {
		t.Fatal(err)
	}
	g, err := modeltest.Config(t, dir).Graph(on, models.Request{Batch: 1, Latent: []int{16, 2, 4, 3}, DType: dtype.F32})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Weights) != 108 { // those of the mapping under decoder. and conv2.
		t.Errorf("%d weights", len(g.Weights))
	}
	for _, w := range g.Weights {
		if !strings.HasPrefix(w.Name, "decoder.") && !strings.HasPrefix(w.Name, "conv2.") {
			t.Errorf("%s is kept", w.Name)
		}
	}
}

// The released configuration decodes 8 pixels to a position, 4 frames to a latent after the first.
func TestVideoShape(t *testing.T) {
	m, err := models.ByName("wan2.1-vae")
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Features().Decoder.VideoShape([]int{16, 21, 60, 104})
	if want := []int{3, 81, 480, 832}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	m22, err := models.ByName("wan2.2-vae")
	if err != nil {
		t.Fatal(err)
	}
	got, err = m22.Features().Decoder.VideoShape([]int{48, 31, 44, 80})
	if want := []int{3, 121, 704, 1280}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	if _, err := m.Features().Decoder.VideoShape([]int{15, 0, 60, 104}); len(fault.Violations(err)) != 2 {
		t.Errorf("15 channels and no frame: %v", err)
	}
}

// A generator names the decoder of its latents.
func TestGeneratorsNameTheirDecoder(t *testing.T) {
	for preset, decoder := range map[string]string{"wan2.1-t2v-14b": "wan2.1-vae", "wan2.2-i2v-a14b": "wan2.1-vae", "wan2.2-ti2v-5b": "wan2.2-vae"} {
		m, err := models.ByName(preset)
		if err != nil {
			t.Fatal(err)
		}
		got := m.Features().Generator.Companions.Decoder
		if got != decoder {
			t.Errorf("%s: decoder %q, want %q", preset, got, decoder)
		}
		latent, err := m.Features().Generator.LatentShape(832, 480, 81)
		if err != nil {
			t.Fatal(err)
		}
		d, err := models.ByName(got)
		if err != nil {
			t.Fatal(err)
		}
		video, err := d.Features().Decoder.VideoShape(latent)
		if want := []int{3, 81, 480, 832}; err != nil || !slices.Equal(video, want) {
			t.Errorf("%s: %v decode to %v %v, want %v", preset, latent, video, err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	m := modeltest.Open(t, dir)
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	z := func(d dtype.DType, shape ...int) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"z": tensor.New(d, shape...)}
	}
	for _, c := range []struct {
		in   map[string]*tensor.Tensor
		o    weft.Options
		kind error
		want []string
	}{
		{map[string]*tensor.Tensor{"x": in["z"]}, weft.Options{}, models.ErrInputs, []string{`"z" and "video" are missing`}},
		{z(dtype.F32, 16, 3, 4, 3), weft.Options{}, models.ErrInputs, []string{"[16 3 4 3]", "(batch, channels, frames, height, width)"}},
		{z(dtype.I32, 1, 16, 3, 4, 3), weft.Options{}, models.ErrInputs, []string{"floating-point"}},
		{z(dtype.F32, 1, 4, 3, 4, 3), weft.Options{}, models.ErrInputs, []string{"4 channels", "z_dim 16"}},
		{z(dtype.F32, 1, 16, 0, 4, 0), weft.Options{}, models.ErrSize, []string{"latent frames 0", "latent width 0"}},
		{in, weft.Options{Request: request.Must("--mesh dp=2")}, models.ErrBatch, []string{"batch 1", "dp=2", "the dp that work: 1"}},
		{in, weft.Options{Request: request.Must("--mesh pp=2")}, models.ErrAxis, []string{"pp=2", "sp (rows)", "tp (columns)"}},
		{in, weft.Options{Request: request.Must("--layers 1")}, models.ErrInputs, []string{"1 layers"}},
		{in, weft.Options{Request: request.Must("--mesh sp=3,tp=2 --strict")}, models.ErrSize, []string{"latent rows", "4 does not divide over sp=3", "3 does not divide over tp=2", "nearest that works: --mesh dp=1,tp=3,sp=2"}},
	} {
		c.o.Device = "reference"
		_, err := m.Start(context.Background(), c.in, c.o)
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

// Configurations that are not decoded are named, each with every reason.
func TestVariants(t *testing.T) {
	const base = `"z_dim":16,"dim_mult":[1,2,4,4],"num_res_blocks":2,"temperal_downsample":[false,true,true]`
	for _, c := range []struct {
		config string
		kind   error
		want   []string
	}{
		{`{"_class_name":"WanVAE_","dim":96,"attn_scales":[0.5],` + base + `}`, models.ErrVariant, []string{"attn_scales"}},
		{`{"_class_name":"AutoencoderKLWan","base_dim":96,"in_channels":12,"out_channels":4,` + base + `}`, models.ErrVariant, []string{"in_channels 12", "out_channels 4", "to 3"}},
		{`{"_class_name":"AutoencoderKLWan","base_dim":8,"decoder_base_dim":6,"is_residual":true,"patch_size":2,"z_dim":48,"dim_mult":[1,1,5],"num_res_blocks":1,"temperal_downsample":[false,false]}`,
			models.ErrConfig, []string{"stage 1 of the decoder from 30 to 6", "stage 2 of the encoder from 8 to 40"}},
		{`{"_class_name":"WanVAE_","dim":0,"z_dim":8,"dim_mult":[1,2],"num_res_blocks":2,"temperal_downsample":[true,true]}`, models.ErrConfig,
			[]string{"dim is 0", "temperal_downsample", "0 latents_mean"}},
		{`{"_class_name":"WanVAE_","dim":1,"z_dim":16,"dim_mult":[1,1],"num_res_blocks":2,"temperal_downsample":[true]}`, models.ErrConfig, []string{"even width"}},
		{`{"_class_name":"WanVAE_","dim":"x",` + base + `}`, models.ErrConfig, []string{"dim"}},
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
	// The transformer's folder is not taken for an autoencoder's, nor the other way round.
	if _, err := models.FromConfig([]byte(`{"_class_name":"WanVAE_","dim":96,`+base+`}`), ""); err != nil {
		t.Error(err)
	}
}
