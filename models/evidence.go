package models

import "slices"

// Evidence says what a model's results were compared with, by a test of weft.
type Evidence struct {
	What    string `json:"what"`    // "step", "video", "encode": what was computed
	Against string `json:"against"` // the program that computed the expected values
	Where   string `json:"where"`   // the folder of testdata with the values
}

// What computed expected values.
const (
	byVidax        = "vidax 0.1.0"
	byDiffusers    = "diffusers 0.42.1"
	byTransformers = "transformers 5.24.0"
	byBoth         = byVidax + " and " + byDiffusers
	byOwnCode      = "Wan2.1's own modules and " + byDiffusers
	byEncoderPeers = byVidax + " and " + byTransformers
)

// evidence lists, in the order in which it is shown, which presets a comparison speaks for. The
// compared models are small ones of the same configuration, whose weights are random: what was
// released has not been run.
var evidence = []struct {
	presets []string
	Evidence
}{
	{[]string{"wan2.1-t2v-1.3b", "wan2.1-t2v-14b", "wan2.2-t2v-a14b"}, Evidence{"step", byBoth, "wan21_t2v"}},
	{[]string{"wan2.1-i2v-14b"}, Evidence{"step", byBoth, "wan21_i2v"}},
	{[]string{"wan2.2-ti2v-5b"}, Evidence{"step", byBoth, "wan22_ti2v"}},
	{[]string{"wan2.1-flf2v-14b"}, Evidence{"step", byOwnCode, "pipelines/wan21_flf2v"}},
	{[]string{"wan2.1-vace-1.3b", "wan2.1-vace-14b", "wan2.2-vace-fun-a14b"}, Evidence{"step", byOwnCode, "pipelines/wan21_vace"}},
	{[]string{"wan2.1-flf2v-14b"}, Evidence{"video", byDiffusers, "pipelines/wan21_flf2v"}},
	{[]string{"wan2.1-vace-1.3b", "wan2.1-vace-14b"}, Evidence{"video", byDiffusers, "pipelines/wan21_vace"}},
	{[]string{"wan2.1-t2v-1.3b", "wan2.1-t2v-14b"}, Evidence{"video", byDiffusers, "pipelines/wan21_t2v"}},
	{[]string{"wan2.1-i2v-14b"}, Evidence{"video", byDiffusers, "pipelines/wan21_i2v"}},
	{[]string{"wan2.2-t2v-a14b"}, Evidence{"video", byDiffusers, "pipelines/wan22_t2v_a14b"}},
	{[]string{"wan2.2-i2v-a14b"}, Evidence{"denoised latents", byDiffusers, "pipelines/wan22_i2v_a14b"}},
	{[]string{"wan2.2-ti2v-5b"}, Evidence{"video", byDiffusers, "pipelines/wan22_ti2v_5b"}},
	{[]string{"cogvideox-2b"}, Evidence{"step", byBoth, "cogvideox_2b"}},
	{[]string{"cogvideox-5b"}, Evidence{"step", byBoth, "cogvideox_5b"}},
	{[]string{"cogvideox-2b"}, Evidence{"video", byDiffusers, "pipelines/cogvideox_2b"}},
	{[]string{"cogvideox-5b"}, Evidence{"video", byDiffusers, "pipelines/cogvideox_5b"}},
	{[]string{"cogvideox-5b-i2v"}, Evidence{"step", byDiffusers, "cogvideox_i2v"}},
	{[]string{"cogvideox-1.5-5b"}, Evidence{"step", byDiffusers, "cogvideox15"}},
	{[]string{"cogvideox-1.5-5b-i2v"}, Evidence{"step", byDiffusers, "cogvideox15_i2v"}},
	{[]string{"cogvideox-5b-i2v"}, Evidence{"video of an image", byDiffusers, "pipelines/cogvideox_5b_i2v"}},
	{[]string{"cogvideox-1.5-5b"}, Evidence{"video", byDiffusers, "pipelines/cogvideox15_5b"}},
	{[]string{"cogvideox-1.5-5b-i2v"}, Evidence{"video of an image", byDiffusers, "pipelines/cogvideox15_5b_i2v"}},
	{[]string{"ltx-video-2b", "ltx-video-13b"}, Evidence{"step", byBoth, "ltx_video"}},
	{[]string{"ltx-video-2b"}, Evidence{"video (0.9.0)", byDiffusers, "pipelines/ltx_090"}},
	{[]string{"ltx-video-2b"}, Evidence{"video of an image (0.9.5)", byDiffusers, "pipelines/ltx_095_i2v"}},
	{[]string{"ltx2.5-22b"}, Evidence{"step", byVidax, "ltx25"}},
	{[]string{"ltx2.5-22b"}, Evidence{"video without sound", byDiffusers, "pipelines/ltx25_t2v"}},
	{[]string{"hunyuanvideo", "hunyuanvideo-cfgdistill"}, Evidence{"step", byBoth, "hunyuan_video"}},
	{[]string{"hunyuanvideo", "hunyuanvideo-cfgdistill"}, Evidence{"video", byDiffusers, "pipelines/hunyuan_video"}},
	{[]string{"hunyuanvideo-i2v"}, Evidence{"video of an image", byDiffusers, "pipelines/hunyuan_i2v"}},
	{[]string{"hunyuanvideo-i2v-33ch"}, Evidence{"video of an image", byDiffusers, "pipelines/hunyuan_i2v_33ch"}},
	{[]string{"hunyuan1.5"}, Evidence{"video", byDiffusers, "pipelines/hunyuan15_t2v"}},
	{[]string{"hunyuan1.5"}, Evidence{"video of an image", byDiffusers, "pipelines/hunyuan15_i2v"}},
	{[]string{"hunyuan1.5-byt5"}, Evidence{"rows of a text", byDiffusers, "pipelines/hunyuan15_t2v"}},
	{[]string{"hunyuan1.5"}, Evidence{"step", byBoth, "hunyuan15"}},
	{[]string{"cosmos2.5-2b", "cosmos2.5-14b"}, Evidence{"step", byBoth, "cosmos25"}},
	{[]string{"cosmos2.5-2b", "cosmos2.5-14b"}, Evidence{"video of a text", byDiffusers, "pipelines/cosmos25_t2w"}},
	{[]string{"cosmos2.5-2b", "cosmos2.5-14b"}, Evidence{"video of an image, of a video", byDiffusers, "pipelines/cosmos25_worlds"}},
	{[]string{"cosmos3-nano"}, Evidence{"step", byBoth, "cosmos3_nano"}},
	{[]string{"cosmos3-edge"}, Evidence{"step", byBoth, "cosmos3_edge"}},
	{[]string{"wan2.1-vae"}, Evidence{"decode and encode", byBoth, "wan21_vae"}},
	{[]string{"wan2.2-vae"}, Evidence{"decode and encode", byDiffusers, "wan22_vae"}},
	{[]string{"cogvideox-vae"}, Evidence{"decode and encode", byDiffusers, "vaes/cogvideox"}},
	{[]string{"hunyuan-vae"}, Evidence{"decode and encode", byDiffusers, "vaes/hunyuan_video"}},
	{[]string{"hunyuan1.5-vae"}, Evidence{"decode and encode", byDiffusers, "vaes/hunyuan_video_15"}},
	{[]string{"ltx-video-0.9.0-vae"}, Evidence{"decode and encode", byDiffusers, "vaes/ltx_090"}},
	{[]string{"ltx-video-0.9.1-vae"}, Evidence{"decode and encode", byDiffusers, "vaes/ltx_091"}},
	{[]string{"ltx-video-vae"}, Evidence{"decode and encode", byDiffusers, "vaes/ltx_095"}},
	{[]string{"ltx2.5-vae-conv"}, Evidence{"decode and encode", byDiffusers, "vaes/ltx2_25"}},
	{[]string{"llava-clip-l-336", "hunyuan-llava-llama3-8b"}, Evidence{"rows of an image and a text", byDiffusers, "pipelines/hunyuan_i2v"}},
	{[]string{"siglip-so400m-384"}, Evidence{"rows of an image", byDiffusers, "pipelines/hunyuan15_i2v"}},
	{[]string{"wan2.1-clip-vit-h14"}, Evidence{"rows of an image", byEncoderPeers, "clip_vit"}},
	{[]string{"umt5-xxl"}, Evidence{"rows of a text", byEncoderPeers, "umt5"}},
	{[]string{"t5-v1.1-xxl"}, Evidence{"rows of a text", byEncoderPeers, "t5_v11"}},
	{[]string{"reason1-7b", "hunyuan1.5-qwen-text"}, Evidence{"rows of a text", byEncoderPeers, "reason1"}},
	{[]string{"hunyuan-llama3-8b"}, Evidence{"rows of a text", byEncoderPeers, "llama_text"}},
	{[]string{"hunyuan-clip-l-text"}, Evidence{"rows of a text", byEncoderPeers, "clip_text"}},
	{[]string{"ltx2.5-gemma4-12b"}, Evidence{"rows of a text", byEncoderPeers, "gemma4"}},
	{[]string{"ltx2.5-connector"}, Evidence{"rows of a text", byVidax, "ltx25_connector"}},
	{[]string{"ltx2.5-gemma4-12b", "ltx2.5-text-projection", "ltx2.5-connector"}, Evidence{"text of a video", byDiffusers, "pipelines/ltx25_t2v"}},
}

// EvidenceOf lists what a preset's results were compared with; nothing for a preset that only
// plans are made for.
func EvidenceOf(preset string) []Evidence {
	out := []Evidence{}
	for _, e := range evidence {
		if slices.Contains(e.presets, preset) {
			out = append(out, e.Evidence)
		}
	}
	return out
}
