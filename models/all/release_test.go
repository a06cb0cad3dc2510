package all

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/models"
	"weft/sampler"
)

func find(t *testing.T, name, release string) (models.Model, models.Settings) {
	t.Helper()
	m, s, err := models.FindModel(name, release)
	if err != nil {
		t.Fatal(err)
	}
	return m, s
}

// What each preset is run with, as its release says.
func TestSettingsOfReleases(t *testing.T) {
	for name, want := range map[string]string{
		"wan2.1-t2v-1.3b":               "unipc 5 [5] 50 - 2 81",
		"wan2.1-t2v-14b":                "unipc 5 [5] 50 - 2 81",
		"wan2.1-i2v-14b":                "unipc 5 [5] 40 - 2 81",
		"wan2.1-flf2v-14b":              "unipc 16 [5] 50 - 2 81",
		"wan2.1-vace-1.3b":              "unipc 16 [5] 50 - 2 81",
		"wan2.1-vace-14b":               "unipc 16 [5] 50 - 2 81",
		"wan2.2-vace-fun-a14b":          "euler 12 [5 5] 50 0.875 2 81",
		"wan2.2-t2v-a14b":               "unipc 12 [4 3] 40 0.875 2 81",
		"wan2.2-i2v-a14b":               "unipc 5 [3.5 3.5] 40 0.9 2 81",
		"wan2.2-ti2v-5b":                "unipc 5 [5] 50 - 2 121",
		"cogvideox-2b":                  "cogvideox-ddim 3 [6] 50 - 2 49",
		"cogvideox-5b":                  "cogvideox-dpm 1 [6] 50 - 2 49",
		"cogvideox-5b-i2v":              "cogvideox-dpm 1 [6] 50 - 2 49",
		"cogvideox-1.5-5b":              "cogvideox-dpm 1 [6] 50 - 2 81",
		"cogvideox-1.5-5b-i2v":          "cogvideox-dpm 1 [6] 50 - 2 81",
		"ltx-video-2b":                  "ltx-shifted - [3] 50 - 2 161",
		"ltx-video-0.9.5":               "ltx - [3] 50 - 2 161",
		"ltx-video-0.9.6-distilled":     "ltx - [1] 8 - 1 121",
		"ltx-video-13b":                 "ltx - [3] 50 - 2 161",
		"ltx-video-0.9.7-distilled":     "ltx-distilled - [1] 7 - 1 161",
		"ltx-video-0.9.8-2b-distilled":  "ltx-distilled - [1] 7 - 1 121",
		"ltx-video-0.9.8-distilled":     "ltx-distilled - [1] 7 - 1 161",
		"ltx2.5-22b":                    "ltx-shifted - [3] 30 - 2 121",
		"ltx2.5-22b-distilled":          "ltx2-distilled - [1] 8 - 1 121",
		"hunyuanvideo":                  "euler 7 [6] 50 - 2 129",
		"hunyuanvideo-cfgdistill":       "euler 7 [6] 50 - 1 129", // the model reads the scale
		"hunyuan1.5":                    "euler 5 [6] 50 - 2 121",
		"hunyuan1.5-720p-t2v":           "euler 9 [6] 50 - 2 121",
		"hunyuan1.5-720p-i2v":           "euler 7 [6] 50 - 2 121",
		"hunyuanvideo-1.5-480p_t2v":     "euler 5 [6] 50 - 2 121",
		"hunyuan1.5-480p-t2v-distilled": "euler 5 [1] 50 - 1 121",
		"cosmos2.5-2b":                  "unipc 5 [7] 35 - 2 93",
		"cosmos2.5-14b":                 "unipc 5 [7] 35 - 2 93",
		"cosmos3-nano":                  "unipc-karras - [6] 35 - 2 189",
		"cosmos3-edge":                  "unipc 5 [5] 50 - 2 121",
	} {
		_, s := find(t, name, "")
		text := []string{}
		for _, key := range []string{"sampler", "shift", "guidance", "steps", "boundary", "passes", "frames"} {
			v, ok := s.Get(key)
			if !ok {
				v.Value = "-"
			} else if v.From == "" {
				t.Errorf("%s: %s has no source", name, key)
			}
			text = append(text, fmt.Sprint(v.Value))
		}
		if got := strings.Join(text, " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Every generator known by name has a release that its model can be sampled with.
func TestReleasesCanBeRun(t *testing.T) {
	for _, name := range models.Presets() {
		m, s := find(t, name, "")
		g := m.Features().Generator
		if g == nil {
			continue
		}
		if s.Release.Preset != name {
			t.Errorf("%s is run as %s", name, s.Release.Name)
			continue
		}
		var w, h int
		if _, err := fmt.Sscanf(s.Text("size"), "%dx%d", &w, &h); err != nil {
			t.Errorf("%s: size %q", name, s.Text("size"))
		}
		latent, err := g.LatentShape(w, h, s.Count("frames"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := sampler.New(s.Text("sampler"), sampler.Options{Steps: s.Count("steps"), Shift: s.Number("shift"), Tokens: latent[1] * latent[2] * latent[3]}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, s := find(t, "wan2.1-i2v-14b", "")
	if got := s.ForSize("832x480").Number("shift"); got != 3 {
		t.Errorf("480p image-to-video is shifted by %g", got)
	}
}

// A flag wins over the folder, and the folder over the table, whatever they say.
func TestFirstThatSaysWins(t *testing.T) {
	names := []string{"sampler", "shift", "guidance", "steps", "boundary", "frames"}
	_, table := find(t, "wan2.2-t2v-a14b", "")
	rapid.Check(t, func(t *rapid.T) {
		draw := func(from string) models.Said {
			said := models.Said{From: from, Values: map[string]any{}}
			for _, n := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(t, from) {
				said.Values[n] = from + n
			}
			return said
		}
		folder, flag := draw("folder"), draw(models.FromFlag)
		s := table.Over(folder).Over(flag).ForSize("832x480")
		for _, n := range names {
			got, ok := s.Get(n)
			of, _ := table.Get(n)
			want := models.Setting{Value: of.Value, From: of.From}
			if v, ok := folder.Values[n]; ok {
				want = models.Setting{Value: v, From: "folder"}
			}
			if v, ok := flag.Values[n]; ok {
				want = models.Setting{Value: v, From: models.FromFlag}
			}
			if !ok || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s: %v, want %v", n, got, want)
			}
		}
	})
}

func TestNamesPeopleUse(t *testing.T) {
	for name, want := range map[string]string{
		"Wan-AI/Wan2.1-T2V-14B": "wan2.1-t2v-14b", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers": "wan2.1-t2v-1.3b", "wan2_1_t2v_14b": "wan2.1-t2v-14b",
		"WAN2.2-TI2V-5B": "wan2.2-ti2v-5b", "Wan-AI/Wan2.1-FLF2V-14B-720P": "wan2.1-flf2v-14b", "Wan-AI/Wan2.1-FLF2V-14B-720P-diffusers": "wan2.1-flf2v-14b",
		"Wan-AI/Wan2.1-VACE-1.3B": "wan2.1-vace-1.3b", "Wan-AI/Wan2.1-VACE-14B-diffusers": "wan2.1-vace-14b", "alibaba-pai/Wan2.2-VACE-Fun-A14B": "wan2.2-vace-fun-a14b", "Wan-AI/Wan2.2-T2V-A14B-Diffusers": "wan2.2-t2v-a14b", "Wan2.1-I2V-14B-480P": "wan2.1-i2v-14b",
		"hunyuanvideo-1.5": "hunyuan1.5", "tencent/HunyuanVideo-1.5": "hunyuan1.5", "HunyuanVideo-1.5-Diffusers-720p_t2v": "hunyuan1.5",
		"tencent/HunyuanVideo": "hunyuanvideo-cfgdistill", "HunyuanVideo": "hunyuanvideo", "Lightricks/LTX-Video": "ltx-video-2b",
		"Lightricks/LTX-Video-0.9.5": "ltx-video-2b", "Lightricks/LTX-Video-0.9.7-dev": "ltx-video-13b", "THUDM/CogVideoX-5b": "cogvideox-5b",
		"zai-org/CogVideoX1.5-5B-I2V": "cogvideox-1.5-5b-i2v", "nvidia/Cosmos-Predict2.5-2B": "cosmos2.5-2b", "google/umt5-xxl": "umt5-xxl",
		"nvidia/Cosmos3-Nano": "cosmos3-nano", "nvidia/Cosmos-Reason1-7B": "reason1-7b", "google/t5-v1_1-xxl": "t5-v1.1-xxl",
	} {
		if got, _, err := models.FindPreset(name); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", name, got, err, want)
		}
	}
	for _, name := range models.Presets() {
		if got, _, err := models.FindPreset(name); err != nil || got != name {
			t.Errorf("%s is found as %s: %v", name, got, err)
		}
	}
	for name, says := range map[string]string{
		"wan2.1-t2v-14": "wan2.1-t2v-14b", "wan3-t2v": "nearest: ", "someone/wan2.1-t2v-14b": "nearest: wan2.1-t2v-14b", "wan2.2": "may be any of wan2.2-i2v-a14b, wan2.2-t2v-a14b",
		"hunyuanvideo-i3v": "nearest: hunyuanvideo", "": "nearest", strings.Repeat("x", 1<<16): "nearest",
	} {
		if _, _, err := models.FindPreset(name); !errors.Is(err, models.ErrUnknownModel) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v", name, err)
		}
	}
}

// ltx2b is diffusers' configuration of LTX-Video 2B, one text for 0.9.0 to 0.9.6.
const ltx2b = `{"_class_name":"LTXVideoTransformer3DModel","_diffusers_version":"0.32.0.dev0","activation_fn":"gelu-approximate","attention_bias":true,"attention_head_dim":64,
	"attention_out_bias":true,"caption_channels":4096,"cross_attention_dim":2048,"in_channels":128,"norm_elementwise_affine":false,"norm_eps":1e-06,"num_attention_heads":32,
	"num_layers":28,"out_channels":128,"patch_size":1,"patch_size_t":1,"qk_norm":"rms_norm_across_heads"}`

// folder makes a pipeline's folder of files by name, and gives the path of one in it.
func folder(t *testing.T, part string, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, part)
}

// What the configuration leaves open, a file beside it says, or --release, or it is
// said what was taken.
func TestTimeOfLTX(t *testing.T) {
	layers13 := strings.NewReplacer(`"num_layers":28`, `"num_layers":48`, `"attention_head_dim":64`, `"attention_head_dim":128`, `"cross_attention_dim":2048`, `"cross_attention_dim":4096`).Replace(ltx2b)
	index := func(class string) map[string]string {
		return map[string]string{"model_index.json": `{"_class_name":"` + class + `","transformer":["diffusers","LTXVideoTransformer3DModel"]}`, "transformer/config.json": ltx2b}
	}
	for _, c := range []struct {
		what, config, release string
		part                  string
		files                 map[string]string
		want, from            string
		note                  string
	}{
		{"0.9.1", ltx2b, "", "transformer", index("LTXPipeline"), models.TimeUniform, "model_index.json", ""},
		{"image to video", ltx2b, "", "transformer", index("LTXImageToVideoPipeline"), models.TimeUniform, "model_index.json", ""},
		{"0.9.5", ltx2b, "", "transformer", index("LTXConditionPipeline"), models.TimeCausal, "model_index.json", ""},
		{"0.9.5, beside", ltx2b, "", ".", index("LTXConditionPipeline"), models.TimeCausal, "model_index.json", ""},
		{"13B in the older pipeline", layers13, "", "transformer", index("LTXPipeline"), models.TimeUniform, "model_index.json", ""},
		{"an index of something else", ltx2b, "", "other", index("LTXConditionPipeline"), models.TimeUniform, "LTXPipeline", "ltx-video-0.9.5"},
		{"nothing", ltx2b, "", ".", nil, models.TimeUniform, "LTXPipeline", "--release names one"},
		{"a folder's name", ltx2b, "", "models--Lightricks--LTX-Video-0.9.5/snapshots/abc/transformer", nil, models.TimeCausal, "LTXConditionPipeline", ""},
		{"named", ltx2b, "0.9.5", ".", nil, models.TimeCausal, "LTXConditionPipeline", ""},
		{"named against the index", ltx2b, "ltx-video-0.9.5", "transformer", index("LTXPipeline"), models.TimeCausal, "LTXConditionPipeline", ""},
		{"13B", layers13, "", ".", nil, models.TimeCausal, "LTXConditionPipeline", ""},
		{"the configuration", strings.Replace(ltx2b, `"qk_norm"`, `"causal_temporal_positioning":true,"qk_norm"`, 1), "", "transformer", index("LTXPipeline"), models.TimeCausal, "configuration", ""},
	} {
		m, err := models.FromConfig([]byte(c.config), "config.json")
		if err != nil {
			t.Fatal(err)
		}
		m, s, err := models.SettingsOf(m, models.ReleaseQuery{Name: c.release, Folder: folder(t, c.part, c.files)})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		var config struct {
			Causal bool `json:"causal_temporal_positioning"`
		}
		raw, err := json.Marshal(m.Config())
		if err == nil {
			err = json.Unmarshal(raw, &config)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := s.Get("time"); got.Value != c.want || !strings.Contains(got.From, c.from) || config.Causal != (c.want == models.TimeCausal) {
			t.Errorf("%s: %v, causal %t, want %s from %s", c.what, got, config.Causal, c.want, c.from)
		}
		if notes := strings.Join(s.Notes, " "); (c.note == "") != !strings.Contains(notes, "time") || !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q, want %q", c.what, notes, c.note)
		}
	}
	stated, err := models.FromConfig([]byte(strings.Replace(ltx2b, `"qk_norm"`, `"causal_temporal_positioning":true,"qk_norm"`, 1)), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := models.SettingsOf(stated, models.ReleaseQuery{Name: "0.9.1"}); !errors.Is(err, models.ErrRelease) {
		t.Errorf("a release that the configuration contradicts: %v", err)
	}
}

// One configuration is Wan2.1's and each expert's of Wan2.2: the folder tells.
func TestReleaseByFolder(t *testing.T) {
	raw, err := models.PresetConfig("wan2.1-t2v-14b")
	if err != nil {
		t.Fatal(err)
	}
	hunyuan, err := models.PresetConfig("hunyuan1.5")
	if err != nil {
		t.Fatal(err)
	}
	ideal := strings.Replace(string(hunyuan), "{", `{"ideal_resolution":"720p","ideal_task":"i2v",`, 1)
	for _, c := range []struct {
		what, config, part string
		files              map[string]string
		experts            bool
		want               string
		noted              bool
	}{
		{"a folder", string(raw), "x", nil, false, "wan2.1-t2v-14b", true},
		{"a pair", string(raw), "x", nil, true, "wan2.2-t2v-a14b", false},
		{"of a pair", string(raw), "x/low_noise_model", nil, false, "wan2.2-t2v-a14b", false},
		{"of diffusers' pair", string(raw), "transformer", map[string]string{"model_index.json": `{"_class_name":"WanPipeline","boundary_ratio":0.875,"transformer":["a","b"]}`}, false, "wan2.2-t2v-a14b", false},
		{"of one", string(raw), "transformer", map[string]string{"model_index.json": `{"_class_name":"WanPipeline","boundary_ratio":null,"transformer":["a","b"]}`}, false, "wan2.1-t2v-14b", true},
		{"by its name", string(raw), "Wan2.1-T2V-14B", nil, false, "wan2.1-t2v-14b", false},
		{"by the name above", string(raw), "Wan-AI--Wan2.2-T2V-A14B/x", nil, false, "wan2.2-t2v-a14b", false},
		{"by the configuration", ideal, "x", nil, false, "hunyuan1.5-720p-i2v", false},
		{"by its variant", string(hunyuan), "transformer/480p_t2v_distilled", nil, false, "hunyuan1.5-480p-t2v-distilled", false},
	} {
		m, err := models.FromConfig([]byte(c.config), "config.json")
		if err != nil {
			t.Fatal(err)
		}
		_, s, err := models.SettingsOf(m, models.ReleaseQuery{Folder: folder(t, c.part, c.files), Experts: c.experts})
		if err != nil || s.Release.Name != c.want || (len(s.Notes) > 0) != c.noted {
			t.Errorf("%s: %s, notes %q, %v; want %s", c.what, s.Release.Name, s.Notes, err, c.want)
		}
	}
}

// What a pipeline's files say is taken, or said to be nothing that is run.
func TestPipelineFiles(t *testing.T) {
	m, err := models.ByName("wan2.2-t2v-a14b")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ index, scheduler, name, want, note string }{
		{`{"_class_name":"WanPipeline"}`, `{"_class_name":"UniPCMultistepScheduler","flow_shift":7.0,"use_flow_sigmas":true}`, "shift", "7", ""},
		{`{"_class_name":"WanPipeline"}`, `{"_class_name":"UniPCMultistepScheduler","flow_shift":7.0}`, "sampler", "unipc-flow", ""},
		{`{"_class_name":"WanPipeline"}`, `{"_class_name":"FlowMatchEulerDiscreteScheduler","shift":8}`, "sampler", "euler", ""},
		{`{"_class_name":"WanPipeline"}`, `{"_class_name":"UniPCMultistepScheduler","use_karras_sigmas":true,"sigma_max":200.0,"sigma_min":0.147}`, "sampler", "unipc-karras", ""},
		{`{"_class_name":"WanPipeline"}`, `{"_class_name":"UniPCMultistepScheduler","use_karras_sigmas":true,"sigma_max":80.0}`, "sampler", "unipc", "Karras"},
		{`{"_class_name":"WanPipeline"}`, `{"_class_name":"DPMSolverMultistepScheduler"}`, "sampler", "unipc", `"DPMSolverMultistepScheduler" is not run`},
		{`{"_class_name":"WanPipeline","boundary_ratio":0.5}`, `{}`, "boundary", "0.5", ""},
		{`{"_class_name":"WanPipeline","is_distilled":true}`, `{}`, "passes", "1", ""},
	} {
		dir := folder(t, ".", map[string]string{"model_index.json": c.index, "scheduler/scheduler_config.json": c.scheduler})
		_, s, err := models.SettingsOf(m, models.ReleaseQuery{Folder: dir})
		if err != nil {
			t.Errorf("%s: %v", c.scheduler, err)
			continue
		}
		if got, _ := s.Get(c.name); fmt.Sprint(got.Value) != c.want || !strings.Contains(strings.Join(s.Notes, " "), c.note) {
			t.Errorf("%s %s: %s is %v, notes %q; want %s", c.index, c.scheduler, c.name, got, s.Notes, c.want)
		}
	}
	for _, c := range []struct{ index, scheduler, says string }{
		{`{"boundary_ratio":0.5,"boundary_ratio":0.6}`, `{}`, `"boundary_ratio" twice`},
		{`{"boundary_ratio":"0.5"}`, `{}`, "boundary_ratio is"},
		{`{"boundary_ratio":1e300}`, `{}`, "boundary_ratio is"},
		{`{"_class_name":5}`, `{}`, "_class_name is 5"},
		{`{}`, `{"_class_name":"UniPCMultistepScheduler","flow_shift":-1}`, "flow_shift is -1"},
		{`{}`, `{"_class_name":"UniPCMultistepScheduler","flow_shift":NaN}`, "scheduler_config.json"},
		{`{}`, `{"_class_name":"FlowMatchEulerDiscreteScheduler","use_dynamic_shifting":"yes"}`, "use_dynamic_shifting"},
		{`{} {}`, `{}`, "after the closing brace"},
	} {
		dir := folder(t, ".", map[string]string{"model_index.json": c.index, "scheduler/scheduler_config.json": c.scheduler})
		if _, _, err := models.SettingsOf(m, models.ReleaseQuery{Folder: dir}); !errors.Is(err, models.ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %v", c.index, c.scheduler, err)
		}
	}
	if _, _, err := models.SettingsOf(m, models.ReleaseQuery{Name: "0.9.5"}); !errors.Is(err, models.ErrRelease) || !strings.Contains(err.Error(), "wan2.2-t2v-a14b") {
		t.Errorf("another model's release: %v", err)
	}
	encoder, err := models.ByName("umt5-xxl")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := models.SettingsOf(encoder, models.ReleaseQuery{Name: "0.9.5"}); !errors.Is(err, models.ErrRelease) {
		t.Errorf("an encoder's release: %v", err)
	}
}

// A pipeline's files, whatever they hold, are an error or settings of the types that
// settings have.
func FuzzPipelineFiles(f *testing.F) {
	f.Add([]byte(`{"_class_name":"LTXConditionPipeline","boundary_ratio":0.875,"is_distilled":true}`))
	f.Add([]byte(`{"_class_name":"UniPCMultistepScheduler","flow_shift":3.0,"use_flow_sigmas":true,"use_karras_sigmas":false}`))
	f.Add([]byte(`{"_class_name":"FlowMatchEulerDiscreteScheduler","shift":7.0,"use_dynamic_shifting":true,"base_shift":0.95,"max_shift":2.05,"shift_terminal":0.1}`))
	f.Add([]byte(`{"_class_name":"CogVideoXDDIMScheduler","snr_shift_scale":3.0}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		said, err := models.ReadPipelineFile(raw)
		if err != nil {
			return
		}
		for name, v := range said {
			if !slices.Contains(models.SettingNames, name) {
				t.Errorf("setting %q", name)
			}
			switch v.(type) {
			case string, float64, []float64, int, bool:
			default:
				t.Errorf("%s is %T", name, v)
			}
		}
	})
}
