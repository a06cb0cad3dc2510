package ltxvae_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/identify"
	"weft/internal/modeltest"
	"weft/models"
	"weft/pipeline"
	"weft/tensor"
)

// What names of modules in the official files are in diffusers, by version: as diffusers'
// converter has them.
var (
	decoder090 = []string{"mid_block", "up_blocks.0", "up_blocks.1.upsamplers.0", "up_blocks.1", "up_blocks.2.conv_in", "up_blocks.2.upsamplers.0", "up_blocks.2",
		"up_blocks.3.conv_in", "up_blocks.3.upsamplers.0", "up_blocks.3"}
	encoder090 = []string{"down_blocks.0", "down_blocks.0.downsamplers.0", "down_blocks.0.conv_out", "down_blocks.1", "down_blocks.1.downsamplers.0", "down_blocks.1.conv_out",
		"down_blocks.2", "down_blocks.2.downsamplers.0", "down_blocks.3", "mid_block"}
	decoder091 = []string{"mid_block", "up_blocks.0.upsamplers.0", "up_blocks.0", "up_blocks.1.upsamplers.0", "up_blocks.1", "up_blocks.2.upsamplers.0", "up_blocks.2"}
	decoder25  = append(slices.Clone(decoder091), "up_blocks.3.upsamplers.0", "up_blocks.3")
	encoder095 = []string{"down_blocks.0", "down_blocks.0.downsamplers.0", "down_blocks.1", "down_blocks.1.downsamplers.0", "down_blocks.2", "down_blocks.2.downsamplers.0",
		"down_blocks.3", "down_blocks.3.downsamplers.0", "mid_block"}
)

// officialName turns names of diffusers into those of the official file, by the lists above.
func officialName(name string, encoder, decoder []string) string {
	for half, list := range map[string][]string{"encoder.": encoder, "decoder.": decoder} {
		rest, ok := strings.CutPrefix(name, half)
		if !ok {
			continue
		}
		best := -1
		for i, module := range list {
			if strings.HasPrefix(rest, module+".") && (best < 0 || len(module) > len(list[best])) {
				best = i
			}
		}
		if best >= 0 {
			what := map[bool]string{true: "down_blocks.", false: "up_blocks."}[half == "encoder."]
			name = half + what + string(rune('0'+best)) + strings.TrimPrefix(rest, list[best])
		}
	}
	for diffusers, official := range map[string]string{`\.resnets\.`: ".res_blocks.", `\.norm3\.`: ".norm3.norm.", `conv_shortcut\.conv\.`: "conv_shortcut.",
		`^decoder\.time_embedder`: "decoder.last_time_embedder", `^decoder\.scale_shift_table`: "decoder.last_scale_shift_table",
		"^latents_mean": "per_channel_statistics.mean-of-means", "^latents_std": "per_channel_statistics.std-of-means"} {
		name = regexp.MustCompile(diffusers).ReplaceAllString(name, official)
	}
	return name
}

// Every parameter has its name in the official file, and that name is translated back, though
// some names are in both files.
func TestOfficialNames(t *testing.T) {
	for preset, c := range map[string]struct {
		encoder, decoder []string
		some             []string // names of the released file
		alike            int      // names that mean different modules in the two files
	}{
		"ltx-video-0.9.0-vae": {encoder090, decoder090, []string{"encoder.down_blocks.1.conv.weight", "encoder.down_blocks.2.norm3.norm.weight",
			"encoder.down_blocks.9.res_blocks.3.conv2.conv.bias",
			"decoder.up_blocks.4.conv_shortcut.weight", "decoder.up_blocks.8.conv.conv.weight", "decoder.up_blocks.9.res_blocks.0.conv1.conv.weight"}, 0},
		"ltx-video-0.9.1-vae": {encoder090, decoder091, []string{"decoder.last_time_embedder.timestep_embedder.linear_1.weight", "decoder.last_scale_shift_table",
			"decoder.up_blocks.0.time_embedder.timestep_embedder.linear_2.bias", "decoder.up_blocks.4.res_blocks.5.per_channel_scale2",
			"decoder.up_blocks.6.res_blocks.0.scale_shift_table"}, 8},
		"ltx2.5-vae-conv": {encoder095, decoder25, []string{"decoder.up_blocks.7.conv.conv.weight", "decoder.up_blocks.8.res_blocks.3.conv2.conv.bias",
			"encoder.down_blocks.8.res_blocks.1.conv1.conv.weight"}, 0},
		"ltx-video-vae": {encoder095, decoder091, []string{"encoder.down_blocks.3.conv.conv.weight", "encoder.down_blocks.8.res_blocks.1.conv1.conv.weight",
			"per_channel_statistics.mean-of-means"}, 8},
	} {
		m, err := models.ByName(preset)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		official := map[string]string{}
		for _, p := range m.Params(0) {
			name := officialName(p.Name, c.encoder, c.decoder)
			if official[name] != "" {
				t.Errorf("%s: %s and %s are both %s", preset, p.Name, official[name], name)
			}
			official[name], names = p.Name, append(names, name)
		}
		translate, alike := m.Features().Translate(names), 0
		for name, own := range official {
			if got := translate(name); got != own {
				t.Errorf("%s: %s is %s, want %s", preset, name, got, own)
			}
			if m.Official(name) != own {
				alike++
			}
		}
		if alike != c.alike {
			t.Errorf("%s: %d names are alike, want %d", preset, alike, c.alike)
		}
		for _, name := range c.some {
			if official[name] == "" {
				t.Errorf("%s: no parameter is %s", preset, name)
			}
		}
		of := m.Features().Translate([]string{"decoder.mid_block.resnets.0.conv1.conv.weight"})
		for _, p := range m.Params(0) {
			if of(p.Name) != p.Name {
				t.Errorf("%s: diffusers' %s is %s", preset, p.Name, of(p.Name))
			}
		}
	}
}

// The official file of a whole release: the autoencoder behind "vae.", with statistics that are
// not read and the factor of timesteps, beside a transformer.
func TestOfficialFile(t *testing.T) {
	// The fixtures have fewer changes of width than the releases, and so fewer modules.
	without := func(list []string, module string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(m string) bool { return m == module })
	}
	encoder := without(encoder090, "down_blocks.1.conv_out")
	for _, c := range []struct {
		folder           string
		encoder, decoder []string
		beside           []string
	}{{plain.Dir, encoder, without(decoder090, "up_blocks.2.conv_in"), nil}, {noisy.Dir, encoder, decoder091, noisy.Beside},
		{folding.Dir, encoder095, decoder091, folding.Beside}, {second.Dir, encoder095, decoder25, nil}} {
		ts := map[string]*tensor.Tensor{"model.diffusion_model.patchify_proj.bias": tensor.New(dtype.F32, 3), "vae.per_channel_statistics.channel": tensor.New(dtype.F32, 16),
			"vae.per_channel_statistics.mean-of-stds": tensor.New(dtype.F32, 16), "vae.per_channel_statistics.mean-of-stds_over_std-of-means": tensor.New(dtype.F32, 16)}
		for name, x := range modeltest.Tensors(t, c.folder+"/diffusers/diffusion_pytorch_model.safetensors") {
			ts["vae."+officialName(name, c.encoder, c.decoder)] = x
		}
		config, err := json.Marshal(modeltest.Config(t, c.folder+"/diffusers").Config())
		if err != nil {
			t.Fatal(err)
		}
		whole := modeltest.Open(t, modeltest.Folder(t, string(config), ts))
		in, want := modeltest.Tensors(t, c.folder+"/inputs.safetensors"), modeltest.Tensors(t, c.folder+"/expected.safetensors")
		given := map[string]*tensor.Tensor{"z_raw": in["z"]}
		for _, name := range c.beside {
			given[name] = in[name]
		}
		modeltest.Close(t, c.folder, modeltest.Forward(t, whole, given, reference("--mesh tp=2"))["out"], want["decode"], 1e-4)
		modeltest.Close(t, c.folder, modeltest.Forward(t, whole, map[string]*tensor.Tensor{"video": in["video"]}, reference(""))["encode_mean"], want["encode"], 1e-4)
		if notices := strings.Join(whole.Notices, "\n"); !strings.Contains(notices, "statistics that no program reads") || !strings.Contains(notices, "stripped from") {
			t.Errorf("notices %q", notices)
		}
	}
}

// One file of a whole release, of the released shapes: what it is opened as is the transformer, and
// each version's autoencoder is told by its tensors, and the release by the file's name.
func TestAutoencoderInTheFileOfARelease(t *testing.T) {
	transformer, err := models.ByName("ltx-video-2b")
	if err != nil {
		t.Fatal(err)
	}
	for preset, c := range map[string]struct {
		encoder, decoder []string
		file, release    string
	}{
		"ltx-video-0.9.0-vae": {encoder090, decoder090, "ltx-video-2b-v0.9", "ltx-video-0.9.0"},
		"ltx-video-0.9.1-vae": {encoder090, decoder091, "ltx-video-2b-v0.9.1", "ltx-video-0.9.1"},
		"ltx-video-vae":       {encoder095, decoder091, "ltxv-2b-0.9.6-distilled-04-25", "ltx-video-0.9.6-distilled"},
	} {
		vae, err := models.ByName(preset)
		if err != nil {
			t.Fatal(err)
		}
		list := []checkpoint.Entry{{Name: "vae.per_channel_statistics.channel", DType: dtype.BF16, Shape: []int{128}},
			{Name: "vae.decoder.timestep_scale_multiplier", DType: dtype.BF16}}
		for _, p := range transformer.Params(0) {
			list = append(list, checkpoint.Entry{Name: "model.diffusion_model." + p.Name, DType: dtype.BF16, Shape: p.Shape})
		}
		for _, p := range vae.Params(0) {
			list = append(list, checkpoint.Entry{Name: "vae." + officialName(p.Name, c.encoder, c.decoder), DType: dtype.BF16, Shape: p.Shape})
		}
		file := filepath.Join(t.TempDir(), c.file+".safetensors")
		if err := checkpoint.CreateSparse(file, list...); err != nil {
			t.Fatal(err)
		}
		if m := modeltest.Open(t, file); m.Name() != "ltx-video-2b" {
			t.Errorf("the file of %s is %s", preset, m.Name())
		}
		p, err := pipeline.Open(file, pipeline.OpenOptions{Need: []pipeline.Part{pipeline.Autoencoder}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var names []string
		for _, m := range p.Models() {
			names = append(names, m.Name())
		}
		if !slices.Contains(names, preset) || p.Settings.Release.Name != c.release {
			t.Errorf("%s: a pipeline of %v, release %s", c.file, names, p.Settings.Release.Name)
		}
		k, err := checkpoint.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		m, err := identify.IdentifyAmong(k, "ltx-video-vae", "ltx-video-0.9.1-vae", "ltx-video-0.9.0-vae")
		if err != nil || m.Name() != preset {
			t.Errorf("the autoencoder in the file of %s is %v: %v", preset, m, err)
		}
		if _, err := identify.IdentifyAmong(k, "wan2.1-vae"); !errors.Is(err, models.ErrConfig) {
			t.Error(err)
		}
	}
}

// The peer counts the parameters of its ltx-video-vae, which are those of 0.9.5: 1246913522 with
// the one of the factor of timesteps, and without the statistics of 128 channels. Those of its
// ltx2.5-vae-conv are 726106481: 512 more than there are besides the statistics, as if it counted
// these in each half.
func TestParametersOfTheRelease(t *testing.T) {
	for preset, want := range map[string]int{"ltx-video-vae": 1246913522 - 1 + 2*128, "ltx2.5-vae-conv": 726106481 - 2*128,
		"ltx-video-0.9.1-vae": 934976434 - 1 + 2*128, "ltx-video-0.9.0-vae": 419193649 + 2*128,
	} {
		m, err := models.ByName(preset)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, p := range m.Params(0) {
			n += tensor.Elements(p.Shape)
		}
		if n != want {
			t.Errorf("%s: %d parameters, want %d", preset, n, want)
		}
		shape, err := m.Features().Decoder.VideoShape([]int{128, 16, 22, 38})
		if err != nil || !slices.Equal(shape, []int{3, 121, 704, 1216}) {
			t.Errorf("%s: %v %v", preset, shape, err)
		}
	}
}

// Programs do not grow with the number of frames or of residual blocks, and a half keeps only its
// own weights.
func TestProgramsAreShared(t *testing.T) {
	on, err := weft.ParseMesh("")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		preset            string
		encode            bool
		frames            int
		programs, weights int
	}{
		{"ltx-video-vae", false, 16, 19, 133}, {"ltx-video-vae", false, 31, 19, 133}, {"ltx-video-vae", true, 2, 22, 94},
		{"ltx-video-0.9.0-vae", false, 2, 22, 96}, {"ltx-video-0.9.1-vae", false, 2, 19, 199},
	} {
		m, err := models.ByName(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		g, err := m.Graph(on, models.Request{Batch: 1, Latent: []int{128, c.frames, 4, 4}, Encode: c.encode, DType: dtype.BF16})
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Programs) != c.programs || len(g.Weights) != c.weights {
			t.Errorf("%s, encode %v: %d programs and %d weights, want %d and %d", c.preset, c.encode, len(g.Programs), len(g.Weights), c.programs, c.weights)
		}
		half := map[bool]string{true: "encoder.", false: "decoder."}[c.encode]
		for _, w := range g.Weights {
			if !strings.HasPrefix(w.Name, half) && !strings.HasPrefix(w.Name, "latents_") {
				t.Errorf("%s is kept", w.Name)
			}
		}
	}
}

// What a frame of the fixture's decoder moves, worked out by hand: 8 channels at 2 rows and 4
// columns, whose edge of a row is 4 x 8 elements of each of 3 frames, and goes both ways.
func TestCollectivesOfAFrame(t *testing.T) {
	m := modeltest.Config(t, plain.Dir+"/diffusers")
	modeltest.Moves(t, m, models.Request{Batch: 1, Latent: []int{16, 2, 1, 2}, DType: dtype.F32}, []modeltest.Move{
		{On: "", Program: "decoder.up_blocks.1 first half"},
		{On: "sp=2", Program: "decoder.up_blocks.1 first half", Want: "collective-permute sp 2 192"},
		{On: "tp=2", Program: "decoder.up_blocks.1 first half", Want: "collective-permute tp 2 96"},
		{On: "sp=2", Program: "latents"},
	})
}

func TestRefusals(t *testing.T) {
	m := modeltest.Open(t, noisy.Dir+"/diffusers")
	in := modeltest.Tensors(t, noisy.Dir+"/inputs.safetensors")
	without := func(names ...string) map[string]*tensor.Tensor {
		out := map[string]*tensor.Tensor{}
		for name, x := range in {
			if !slices.Contains(append(names, "video"), name) {
				out[name] = x
			}
		}
		return out
	}
	wrong := without()
	wrong["noise.3"], wrong["timestep"] = tensor.New(dtype.F32, 4, 2), tensor.New(dtype.F32, 2)
	for _, c := range []struct {
		in    map[string]*tensor.Tensor
		flags string
		kind  error
		want  []string
	}{
		{nil, "", models.ErrInputs, []string{`"z" and "video" are missing`}},
		{without("timestep", "noise.7"), "", models.ErrInputs, []string{`"timestep" is`, "shape [1] or [1], from 0 to 1", `"noise.7" is`, "shape [8 16], one plane"}},
		{wrong, "", models.ErrInputs, []string{`"timestep" is f32[2]`, `"noise.3" is f32[4 2]`, "shape [2 4]"}},
		{map[string]*tensor.Tensor{"video": tensor.New(dtype.F32, 1, 3, 10, 40, 64)}, "", models.ErrSize,
			[]string{"video frames 10: want 1 more than a multiple of 8; nearest: 9 or 17", "video height 40"}},
		{without(), "--mesh pp=2", models.ErrAxis, []string{"pp=2", "sp (rows)"}},
		{without(), "--mesh sp=2 --strict", models.ErrSize, []string{"latent rows", "1 does not divide over sp=2"}},
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
		keys string
		kind error
		want []string
	}{
		{`"in_channels":4,"patch_size_t":2`, models.ErrVariant, []string{"in_channels is 4: LTX-Video has 3", "patch_size_t is 2"}},
		{`"down_block_types":["LTXVideoDownBlock3D","LTXVideo095DownBlock3D","A","LTXVideoDownBlock3D"],"downsample_type":["b"]`, models.ErrVariant,
			[]string{`down_block_types has "A"`, "all blocks of an encoder are of one kind", `downsample_type has "b"`}},
		{`"layers_per_block":[1,2],"upsample_factor":[1],"decoder_inject_noise":[true]`, models.ErrConfig,
			[]string{"2 layers_per_block: want 5", "1 upsample_factor: want 4", "1 decoder_inject_noise: want 5"}},
		{`"block_out_channels":[],"latent_channels":0`, models.ErrConfig, []string{"0 block_out_channels", "latent_channels is 0"}},
		{`"spatio_temporal_scaling":[true,true,false,false]`, models.ErrConfig, []string{"16 x 16 pixels and 4 frames", "32 x 32 and 8"}},
		{`"spatial_compression_ratio":16,"temporal_compression_ratio":8`, models.ErrConfig, []string{"spatial_compression_ratio is 16, and the blocks make it 32"}},
		{`"timestep_conditioning":true`, models.ErrVariant, []string{"block 2 of the decoder from 512 to 256 channels, with noise or a timestep"}},
		{`"upsample_factor":[2,2,2,2]`, models.ErrVariant, []string{"upsample_factor 2"}},
		{`"down_block_types":["LTXVideo095DownBlock3D","LTXVideo095DownBlock3D","LTXVideo095DownBlock3D"],"block_out_channels":[4,6,6,5],"layers_per_block":[1,1,1,1],
			"spatio_temporal_scaling":[true,true,true],"downsample_type":["spatial","conv","spatiotemporal"]`, models.ErrConfig,
			[]string{"block 0 of the encoder folds 4 positions into 6 channels", "block 2 of the encoder folds 8 positions into 5"}},
		{`"_class_name":"AutoencoderKLLTX2Video"`, models.ErrVariant, []string{`decoder_spatial_padding_mode "reflect": LTX-2.0's decoder reflects`}},
		{`"_class_name":"AutoencoderKLLTX2Video","decoder_spatial_padding_mode":"zeros","encoder_spatial_padding_mode":"reflect","upsample_type":["spatial","all"]`, models.ErrVariant,
			[]string{"encoder_spatial_padding_mode is", `upsample_type has "all"`}},
		{`"_class_name":"AutoencoderKLLTX2Video","decoder_spatial_padding_mode":"zeros","upsample_type":["spatial","temporal"]`, models.ErrConfig, []string{"2 upsample_type: want 3"}},
		{`"down_block_types":["LTX2VideoDownBlock3D"]`, models.ErrVariant, []string{`down_block_types has "LTX2VideoDownBlock3D"`}},
	} {
		keys := c.keys
		if !strings.Contains(keys, "_class_name") {
			keys = `"_class_name":"AutoencoderKLLTXVideo",` + keys
		}
		_, err := models.FromConfig([]byte("{"+keys+"}"), "config.json")
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
