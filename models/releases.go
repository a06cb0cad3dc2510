package models

// Release is a published set of weights with the settings with which its publisher runs
// it, which a configuration does not state. Several releases may share one configuration.
type Release struct {
	Name   string // what --release takes, whole or without the model's name: "ltx-video-0.9.5", "0.9.5"
	Preset string // whose configuration it has
	Source string // where its settings were read
	// Unread lists settings that nobody has compared with the source. Whoever is shown
	// one is told so.
	Unread []string

	Sampler string // in the names of package sampler
	// WholeTimes says that timesteps are truncated to integers before the model reads them.
	WholeTimes bool
	Shift      float64 // of the noise levels; 0 for a sampler that has none
	// Shifts has the shifts of sizes that have another one, by size: "832x480".
	Shifts map[string]float64
	// Guidance is the scale, or one for each of two experts, first the one that runs
	// first. Where guidance is distilled into the weights it is 1: one pass a step.
	Guidance []float64
	// GuidanceInput says that the scale is an input of the model: one pass a step.
	GuidanceInput bool
	Steps         int
	// Boundary is the timestep, as a share of the whole range, from which on the
	// high-noise expert runs. Below it the low-noise expert runs. It is 0 for a release
	// of one transformer.
	Boundary float64
	Size     string // pixels, WIDTHxHEIGHT
	Frames   int    // of a video
	FPS      float64
	TextLen  int // rows of text
	// Negative is the text that videos are guided away from.
	Negative string
	// Time is how LTX-Video counts time, TimeCausal or TimeUniform; "" elsewhere.
	Time string
}

// How many frames LTX-Video's first latent frame counts for in positions: one
// (TimeCausal), because a causal autoencoder makes it of the first frame alone, or
// eight as every other (TimeUniform).
const (
	TimeCausal  = "causal"
	TimeUniform = "uniform"
)

// wanNegative is sample_neg_prompt of Wan2.1's and Wan2.2's wan/configs/shared_config.py.
const wanNegative = "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，JPEG压缩残留，" +
	"丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体，手指融合，静止不动的画面，杂乱的背景，三条腿，背景人很多，倒着走"

// cosmosNegative is DEFAULT_NEGATIVE_PROMPT of cosmos-predict2.5's cosmos_predict2/config.py.
const cosmosNegative = "The video captures a series of frames showing ugly scenes, static with no motion, motion blur, over-saturation, shaky footage, " +
	"low resolution, grainy texture, pixelated images, poorly lit areas, underexposed and overexposed scenes, poor color balance, washed out colors, " +
	"choppy sequences, jerky movements, low frame rate, artifacting, color banding, unnatural transitions, outdated special effects, fake elements, " +
	"unconvincing visuals, poorly edited content, jump cuts, visual noise, and flickering. Overall, the video is of poor quality."

// ltx2Negative is DEFAULT_NEGATIVE_PROMPT of diffusers' pipelines/ltx2/utils.py.
const ltx2Negative = "blurry, out of focus, overexposed, underexposed, low contrast, washed out colors, excessive noise, grainy texture, poor lighting, flickering, " +
	"motion blur, distorted proportions, unnatural skin tones, deformed facial features, asymmetrical face, missing facial features, extra limbs, disfigured hands, " +
	"wrong hand count, artifacts around text, inconsistent perspective, camera shake, incorrect depth of field, background too sharp, background clutter, " +
	"distracting reflections, harsh shadows, inconsistent lighting direction, color banding, cartoonish rendering, 3D CGI look, unrealistic materials, uncanny valley effect, " +
	"incorrect ethnicity, wrong gender, exaggerated expressions, wrong gaze direction, mismatched lip sync, silent or muted audio, distorted voice, robotic voice, echo, " +
	"background noise, off-sync audio, incorrect dialogue, added dialogue, repetitive speech, jittery movement, awkward pauses, incorrect timing, unnatural transitions, " +
	"inconsistent framing, tilted camera, flat lighting, inconsistent tone, cinematic oversaturation, stylized filters, or AI artifacts."

const (
	wan21     = "Wan2.1 generate.py and wan/configs/"
	wan22     = "Wan2.2 wan/configs/"
	cogSource = "CogVideo inference/cli_demo.py and the release's scheduler_config.json"
	hyImage   = "HunyuanVideo-I2V hyvideo/config.py and README.md"
	hy15      = "HunyuanVideo-1.5 hyvideo/commons (PIPELINE_CONFIGS) and generate.py"
	cosmos25  = "cosmos-predict2.5 inference/video2world.py and config.py"
	cosmos3   = "diffusers Cosmos3OmniPipeline and the release's scheduler"
)

// allButTime lists the settings of releases of LTX-Video and LTX-2 that nobody has
// compared with the releases' files. Their pipelines' code shows that they count time
// causally.
var allButTime = []string{"sampler", "shift", "guidance", "steps", "size", "frames", "fps", "text_len", "passes"}

// releases is in the order in which releases are tried: where nothing decides between
// those with the same configuration, the first is taken.
var releases = []Release{
	{Name: "wan2.1-t2v-1.3b", Preset: "wan2.1-t2v-1.3b", Source: wan21 + "wan_t2v_1_3B.py", Sampler: "unipc", WholeTimes: true, Shift: 5, Guidance: []float64{5}, Steps: 50, Size: "832x480", Frames: 81, FPS: 16, TextLen: 512, Negative: wanNegative},
	{Name: "wan2.1-t2v-14b", Preset: "wan2.1-t2v-14b", Source: wan21 + "wan_t2v_14B.py", Sampler: "unipc", WholeTimes: true, Shift: 5, Guidance: []float64{5}, Steps: 50, Size: "1280x720", Frames: 81, FPS: 16, TextLen: 512, Negative: wanNegative},
	{Name: "wan2.1-i2v-14b", Preset: "wan2.1-i2v-14b", Source: wan21 + "wan_i2v_14B.py", Sampler: "unipc", WholeTimes: true, Shift: 5, Shifts: map[string]float64{"832x480": 3, "480x832": 3}, Guidance: []float64{5}, Steps: 40, Size: "1280x720", Frames: 81, FPS: 16, TextLen: 512, Negative: wanNegative},
	{Name: "wan2.1-flf2v-14b", Preset: "wan2.1-flf2v-14b", Source: wan21 + "__init__.py", Sampler: "unipc", WholeTimes: true, Shift: 16, Guidance: []float64{5}, Steps: 50, Size: "1280x720", Frames: 81, FPS: 16, TextLen: 512, Negative: "镜头切换，镜头晃动，" + wanNegative},
	{Name: "wan2.1-vace-1.3b", Preset: "wan2.1-vace-1.3b", Source: wan21 + "wan_t2v_1_3B.py", Sampler: "unipc", WholeTimes: true, Shift: 16, Guidance: []float64{5}, Steps: 50, Size: "832x480", Frames: 81, FPS: 16, TextLen: 512, Negative: wanNegative},
	{Name: "wan2.1-vace-14b", Preset: "wan2.1-vace-14b", Source: wan21 + "wan_t2v_14B.py", Sampler: "unipc", WholeTimes: true, Shift: 16, Guidance: []float64{5}, Steps: 50, Size: "1280x720", Frames: 81, FPS: 16, TextLen: 512, Negative: wanNegative},
	{Name: "wan2.2-vace-fun-a14b", Preset: "wan2.2-vace-fun-a14b", Source: "VideoX-Fun config/wan2.2/wan_civitai_t2v.yaml and examples/wan2.2_vace_fun", Unread: []string{"sampler"}, Sampler: "euler", Shift: 12, Guidance: []float64{5, 5}, Steps: 50, Boundary: 0.875, Size: "480x832", Frames: 81, FPS: 16, TextLen: 512, Negative: wanNegative},
	{Name: "wan2.2-t2v-a14b", Preset: "wan2.2-t2v-a14b", Source: wan22 + "wan_t2v_A14B.py", Sampler: "unipc", WholeTimes: true, Shift: 12, Guidance: []float64{4, 3}, Steps: 40, Boundary: 0.875, Size: "1280x720", Frames: 81, FPS: 16, TextLen: 512, Negative: wanNegative},
	{Name: "wan2.2-i2v-a14b", Preset: "wan2.2-i2v-a14b", Source: wan22 + "wan_i2v_A14B.py", Sampler: "unipc", WholeTimes: true, Shift: 5, Guidance: []float64{3.5, 3.5}, Steps: 40, Boundary: 0.9, Size: "1280x720", Frames: 81, FPS: 16, TextLen: 512, Negative: wanNegative},
	{Name: "wan2.2-ti2v-5b", Preset: "wan2.2-ti2v-5b", Source: wan22 + "wan_ti2v_5B.py", Sampler: "unipc", WholeTimes: true, Shift: 5, Guidance: []float64{5}, Steps: 50, Size: "1280x704", Frames: 121, FPS: 24, TextLen: 512, Negative: wanNegative},

	{Name: "cogvideox-2b", Preset: "cogvideox-2b", Source: cogSource, Sampler: "cogvideox-ddim", Shift: 3, Guidance: []float64{6}, Steps: 50, Size: "720x480", Frames: 49, FPS: 8, TextLen: 226},
	{Name: "cogvideox-5b", Preset: "cogvideox-5b", Source: cogSource, Sampler: "cogvideox-dpm", Shift: 1, Guidance: []float64{6}, Steps: 50, Size: "720x480", Frames: 49, FPS: 8, TextLen: 226},
	{Name: "cogvideox-5b-i2v", Preset: "cogvideox-5b-i2v", Source: cogSource, Sampler: "cogvideox-dpm", Shift: 1, Guidance: []float64{6}, Steps: 50, Size: "720x480", Frames: 49, FPS: 8, TextLen: 226},
	{Name: "cogvideox-1.5-5b", Preset: "cogvideox-1.5-5b", Source: cogSource, Sampler: "cogvideox-dpm", Shift: 1, Guidance: []float64{6}, Steps: 50, Size: "1360x768", Frames: 81, FPS: 16, TextLen: 226},
	{Name: "cogvideox-1.5-5b-i2v", Preset: "cogvideox-1.5-5b-i2v", Source: cogSource, Sampler: "cogvideox-dpm", Shift: 1, Guidance: []float64{6}, Steps: 50, Size: "1360x768", Frames: 81, FPS: 16, TextLen: 226},

	{Name: "ltx-video-0.9.1", Preset: "ltx-video-2b", Source: "diffusers LTXPipeline and the release's scheduler_config.json", Unread: []string{"steps", "size", "frames"}, Sampler: "ltx-shifted", Guidance: []float64{3}, Steps: 50, Size: "704x512", Frames: 161, FPS: 25, TextLen: 128, Time: TimeUniform},
	{Name: "ltx-video-0.9.0", Preset: "ltx-video-2b", Source: "diffusers LTXPipeline and the release's scheduler_config.json", Unread: []string{"steps", "size", "frames"}, Sampler: "ltx-shifted", Guidance: []float64{3}, Steps: 50, Size: "704x512", Frames: 161, FPS: 25, TextLen: 128, Time: TimeUniform},
	{Name: "ltx-video-0.9.5", Preset: "ltx-video-2b", Source: "diffusers LTXConditionPipeline", Sampler: "ltx", Guidance: []float64{3}, Steps: 50, Size: "704x512", Frames: 161, FPS: 25, TextLen: 256, Time: TimeCausal},
	{Name: "ltx-video-0.9.6", Preset: "ltx-video-2b", Source: "LTX-Video configs/ltxv-2b-0.9.6-dev.yaml", Unread: allButTime, Sampler: "ltx", Guidance: []float64{3}, Steps: 40, Size: "1216x704", Frames: 121, FPS: 30, TextLen: 256, Time: TimeCausal},
	{Name: "ltx-video-0.9.6-distilled", Preset: "ltx-video-2b", Source: "LTX-Video configs/ltxv-2b-0.9.6-distilled.yaml", Unread: allButTime, Sampler: "ltx", Guidance: []float64{1}, Steps: 8, Size: "1216x704", Frames: 121, FPS: 30, TextLen: 256, Time: TimeCausal},
	{Name: "ltx-video-0.9.8-2b-distilled", Preset: "ltx-video-2b", Source: "LTX-Video configs/ltxv-2b-0.9.8-distilled.yaml, the first of its two passes", Unread: []string{"size", "frames", "fps", "text_len"}, Sampler: "ltx-distilled", Guidance: []float64{1}, Steps: 7, Size: "1216x704", Frames: 121, FPS: 30, TextLen: 256, Time: TimeCausal},
	{Name: "ltx-video-0.9.7", Preset: "ltx-video-13b", Source: "diffusers LTXConditionPipeline (LTX-Video's own two stages are not run)", Sampler: "ltx", Guidance: []float64{3}, Steps: 50, Size: "704x512", Frames: 161, FPS: 25, TextLen: 256, Time: TimeCausal},
	{Name: "ltx-video-0.9.7-distilled", Preset: "ltx-video-13b", Source: "LTX-Video configs/ltxv-13b-0.9.7-distilled.yaml, the first of its two passes", Sampler: "ltx-distilled", Guidance: []float64{1}, Steps: 7, Size: "704x512", Frames: 161, FPS: 25, TextLen: 256, Time: TimeCausal},
	{Name: "ltx-video-0.9.8", Preset: "ltx-video-13b", Source: "diffusers LTXConditionPipeline (LTX-Video's own two stages are not run)", Unread: allButTime, Sampler: "ltx", Guidance: []float64{3}, Steps: 50, Size: "704x512", Frames: 161, FPS: 25, TextLen: 256, Time: TimeCausal},
	{Name: "ltx-video-0.9.8-distilled", Preset: "ltx-video-13b", Source: "LTX-Video configs/ltxv-13b-0.9.8-distilled.yaml, the first of its two passes", Unread: []string{"size", "frames", "fps", "text_len"}, Sampler: "ltx-distilled", Guidance: []float64{1}, Steps: 7, Size: "704x512", Frames: 161, FPS: 25, TextLen: 256, Time: TimeCausal},
	{Name: "ltx2.5-22b-dev", Preset: "ltx2.5-22b", Source: "diffusers LTX2Pipeline and ltx_pipelines/utils/constants.py (skip-layer and cross-modal guidance and its rescaling are not run)", Unread: []string{"size", "frames", "fps"}, Sampler: "ltx-shifted", Guidance: []float64{3}, Steps: 30, Size: "768x512", Frames: 121, FPS: 24, TextLen: 1024, Negative: ltx2Negative, Time: TimeCausal},
	{Name: "ltx2.5-22b-distilled", Preset: "ltx2.5-22b", Source: "LTX-2 ltx_pipelines/utils/constants.py, the first of its two stages (by Euler's method; its own steps are ancestral)", Unread: []string{"size", "frames", "fps"}, Sampler: "ltx2-distilled", Guidance: []float64{1}, Steps: 8, Size: "768x512", Frames: 121, FPS: 24, TextLen: 1024, Negative: ltx2Negative, Time: TimeCausal},

	{Name: "hunyuanvideo-cfgdistill", Preset: "hunyuanvideo-cfgdistill", Source: "HunyuanVideo hyvideo/config.py", Sampler: "euler", Shift: 7, Guidance: []float64{6}, GuidanceInput: true, Steps: 50, Size: "1280x720", Frames: 129, FPS: 24, TextLen: 256},
	{Name: "hunyuanvideo", Preset: "hunyuanvideo", Source: "HunyuanVideo hyvideo/config.py, whose scale of guidance is the distilled weights' input (these weights were not released)", Sampler: "euler", Shift: 7, Guidance: []float64{6}, Steps: 50, Size: "1280x720", Frames: 129, FPS: 24, TextLen: 256},
	{Name: "hunyuanvideo-i2v", Preset: "hunyuanvideo-i2v", Source: hyImage + " (steady; its shift for livelier videos is 17)", Sampler: "euler", Shift: 7, Guidance: []float64{6}, GuidanceInput: true, Steps: 50, Size: "1280x720", Frames: 129, FPS: 24, TextLen: 256},
	{Name: "hunyuanvideo-i2v-33ch", Preset: "hunyuanvideo-i2v-33ch", Source: hyImage + " and diffusers HunyuanVideoImageToVideoPipeline (of 129 frames, 125 are shown)", Sampler: "euler", Shift: 7, Guidance: []float64{1}, Steps: 50, Size: "1280x720", Frames: 125, FPS: 24, TextLen: 256},
	{Name: "hunyuan1.5-480p-t2v", Preset: "hunyuan1.5", Source: hy15, Sampler: "euler", Shift: 5, Guidance: []float64{6}, Steps: 50, Size: "848x480", Frames: 121, FPS: 24, TextLen: 1000},
	{Name: "hunyuan1.5-720p-t2v", Preset: "hunyuan1.5", Source: hy15, Sampler: "euler", Shift: 9, Guidance: []float64{6}, Steps: 50, Size: "1280x720", Frames: 121, FPS: 24, TextLen: 1000},
	{Name: "hunyuan1.5-480p-i2v", Preset: "hunyuan1.5", Source: hy15, Sampler: "euler", Shift: 5, Guidance: []float64{6}, Steps: 50, Size: "848x480", Frames: 121, FPS: 24, TextLen: 1000},
	{Name: "hunyuan1.5-720p-i2v", Preset: "hunyuan1.5", Source: hy15, Sampler: "euler", Shift: 7, Guidance: []float64{6}, Steps: 50, Size: "1280x720", Frames: 121, FPS: 24, TextLen: 1000},
	{Name: "hunyuan1.5-480p-t2v-distilled", Preset: "hunyuan1.5", Source: hy15, Sampler: "euler", Shift: 5, Guidance: []float64{1}, Steps: 50, Size: "848x480", Frames: 121, FPS: 24, TextLen: 1000},
	{Name: "hunyuan1.5-480p-i2v-distilled", Preset: "hunyuan1.5", Source: hy15, Sampler: "euler", Shift: 5, Guidance: []float64{1}, Steps: 50, Size: "848x480", Frames: 121, FPS: 24, TextLen: 1000},
	{Name: "hunyuan1.5-720p-t2v-distilled", Preset: "hunyuan1.5", Source: hy15, Sampler: "euler", Shift: 9, Guidance: []float64{1}, Steps: 50, Size: "1280x720", Frames: 121, FPS: 24, TextLen: 1000},
	{Name: "hunyuan1.5-720p-i2v-distilled", Preset: "hunyuan1.5", Source: hy15, Sampler: "euler", Shift: 7, Guidance: []float64{1}, Steps: 50, Size: "1280x720", Frames: 121, FPS: 24, TextLen: 1000},

	{Name: "cosmos2.5-2b", Preset: "cosmos2.5-2b", Source: cosmos25, Sampler: "unipc", WholeTimes: true, Shift: 5, Guidance: []float64{7}, Steps: 35, Size: "1280x704", Frames: 93, FPS: 16, TextLen: 512, Negative: cosmosNegative},
	{Name: "cosmos2.5-14b", Preset: "cosmos2.5-14b", Source: cosmos25, Sampler: "unipc", WholeTimes: true, Shift: 5, Guidance: []float64{7}, Steps: 35, Size: "1280x704", Frames: 93, FPS: 16, TextLen: 512, Negative: cosmosNegative},
	// The pipeline's 720 rows do not fill patches; 704 is the nearest number that does.
	{Name: "cosmos3-nano", Preset: "cosmos3-nano", Source: cosmos3, Sampler: "unipc-karras", WholeTimes: true, Guidance: []float64{6}, Steps: 35, Size: "1280x704", Frames: 189, FPS: 24},
	{Name: "cosmos3-edge", Preset: "cosmos3-edge", Source: "Cosmos3's conversion script to diffusers (use_native_flow_schedule, flow_shift)", Unread: []string{"guidance", "steps", "size", "frames", "fps"}, Sampler: "unipc", WholeTimes: true, Shift: 5, Guidance: []float64{5}, Steps: 50, Size: "832x480", Frames: 121, FPS: 24},
}

// published lists publishers' names of presets and releases that differ from the names
// here, without the organisation and an ending -diffusers.
var published = []struct {
	name string
	also []string
}{
	{"wan2.1-i2v-14b", []string{"wan2.1-i2v-14b-720p", "wan2.1-i2v-14b-480p"}},
	{"wan2.1-flf2v-14b", []string{"wan2.1-flf2v-14b-720p"}},
	{"ltx-video-2b", []string{"ltx-video", "ltxv-2b"}},
	{"ltx-video-13b", []string{"ltxv-13b"}},
	{"ltx-video-0.9.0", []string{"ltx-video-0.9", "ltx-video-2b-v0.9"}},
	{"ltx-video-0.9.1", []string{"ltx-video-2b-v0.9.1"}},
	{"ltx-video-0.9.5", []string{"ltx-video-2b-v0.9.5"}},
	{"ltx-video-0.9.6", []string{"ltx-video-0.9.6-dev", "ltxv-2b-0.9.6-dev", "ltxv-2b-0.9.6-dev-04-25"}},
	{"ltx-video-0.9.6-distilled", []string{"ltxv-2b-0.9.6-distilled", "ltxv-2b-0.9.6-distilled-04-25"}},
	{"ltx-video-0.9.7", []string{"ltx-video-0.9.7-dev", "ltxv-13b-0.9.7-dev"}},
	{"ltx-video-0.9.7-distilled", []string{"ltxv-13b-0.9.7-distilled"}},
	{"ltx-video-0.9.8", []string{"ltx-video-0.9.8-dev", "ltxv-13b-0.9.8-dev"}},
	{"ltx-video-0.9.8-2b-distilled", []string{"ltxv-2b-0.9.8-distilled", "ltx-video-2b-v0.9.8-distilled"}},
	{"ltx-video-0.9.8-distilled", []string{"ltx-video-0.9.8-13b-distilled", "ltxv-13b-0.9.8-distilled"}},
	{"ltx2.5-22b", []string{"ltx-2.5"}},
	{"ltx2.5-22b-distilled", []string{"ltx-2.5-22b-distilled", "ltx-2.5-22b-distilled-transformer-bf16"}},
	{"ltx2.5-22b-dev", []string{"ltx-2.5-22b-dev", "ltx-2.5-22b-dev-transformer-bf16"}},
	{"hunyuan1.5", []string{"hunyuanvideo-1.5"}},
	{"hunyuanvideo", []string{"hunyuan-video"}},
	{"hunyuanvideo-cfgdistill", []string{"hunyuan-video-t2v-720p", "hunyuanvideo-t2v"}},
	{"hunyuanvideo-i2v", []string{"hunyuan-video-i2v-720p"}},
	{"cosmos2.5-2b", []string{"cosmos-predict2.5-2b"}},
	{"cosmos2.5-14b", []string{"cosmos-predict2.5-14b"}},
	{"t5-v1.1-xxl", []string{"t5-xxl"}},
	{"reason1-7b", []string{"cosmos-reason1-7b"}},
	{"wan2.1-vae", []string{"wan2.1-vae.pth"}},
	{"wan2.2-vae", []string{"wan2.2-vae.pth"}},
}

// repositories maps repositories to their release's preset, where their name without
// the organisation stands for another preset here.
var repositories = map[string]string{
	"tencent/hunyuanvideo": "hunyuanvideo-cfgdistill", "hunyuanvideo-community/hunyuanvideo": "hunyuanvideo-cfgdistill", "tencent-hunyuan/hunyuanvideo": "hunyuanvideo-cfgdistill",
}

// organisations lists the publishers whose names FindPreset knows.
var organisations = []string{"wan-ai", "lightricks", "thudm", "zai-org", "tencent", "tencent-hunyuan", "hunyuanvideo-community", "nvidia", "nvidia-cosmos", "google", "a-r-r-o-w", "alibaba-pai"}
