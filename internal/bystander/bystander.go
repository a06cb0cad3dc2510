// Package bystander is the table of what lies beside a model's own tensors in the
// files that people have: other models, copies, counters of training, tokenizers.
//
// Everything that opens a checkpoint asks this table, so that a name is known
// everywhere or nowhere. What is not in it is unexpected, and an error.
package bystander

import "weft/internal/glob"

// Kind is one sort of thing that may stand beside a model.
type Kind struct {
	Name  string   // in words that follow "of": "a text encoder"
	Globs []string // of tensor names, without the model's prefix
}

// Everywhere are the kinds that any model passes over. No model of weft's has
// parameters of these names, and no variant of one is told by them: a glob that a
// family might mean otherwise belongs in a list of its own, below.
//
// The names are those of single-file checkpoints (Stability's and ComfyUI's, whose
// text encoders are text_encoders.NAME.transformer.*), of the LTX releases (audio_vae,
// vocoder, text_embedding_projection), of diffusers' folders packed into one file
// (text_encoder_2, image_encoder), of the Cosmos and Self-Forcing trainers (net_ema,
// generator_ema, critic) and of torch's and DeepSpeed's own.
var Everywhere = []Kind{
	{"a text encoder", []string{"text_encoder*", "cond_stage_model.*", "conditioner.*", "clip_l.*", "clip_g.*",
		"t5xxl.*", "umt5xxl.*", "t5.*", "umt5.*", "byt5.*", "llama.*", "qwen25_7b.*", "qwen3_*b.transformer.*", "gemma3*.transformer.*", "clip.transformer.*"}},
	{"the projections of a text encoder", []string{"text_embedding_projection.*"}},
	{"an image encoder", []string{"image_encoder.*", "clip_vision.*", "clip_vision_model.*", "vision_encoder.*", "siglip.*"}},
	{"an audio autoencoder", []string{"audio_vae.*", "audio_autoencoder.*"}},
	{"an autoencoder", []string{"vae.*", "first_stage_model.*", "autoencoder.*", "taesd.*", "taehv.*"}},
	{"a vocoder", []string{"vocoder.*"}},
	{"an upsampler", []string{"spatial_upsampler.*", "temporal_upsampler.*", "latent_upsampler.*"}},
	{"another diffusion model", []string{"model.diffusion_model.*", "diffusion_model.*", "transformer.*", "transformer_2.*", "unet.*", "dit.*"}},
	{"a safety checker", []string{"safety_checker.*", "guardrail.*"}},
	{"an EMA copy", []string{"model_ema.*", "net_ema.*", "ema.*", "ema_model.*", "generator_ema.*", "shadow_params.*", "_ema.*"}},
	{"a training loss", []string{"loss.*", "lpips.*", "perceptual_loss.*", "discriminator.*", "critic.*", "fake_score.*", "real_score.*", "net_fake_score.*",
		"net_discriminator_head.*", "teacher.*", "net_teacher.*", "logvar", "logvar.*"}},
	{"a noise schedule", []string{"betas", "alphas_cumprod", "alphas_cumprod_prev", "sqrt_alphas_cumprod", "sqrt_one_minus_alphas_cumprod",
		"log_one_minus_alphas_cumprod", "sqrt_recip_alphas_cumprod", "sqrt_recipm1_alphas_cumprod", "posterior_variance", "posterior_log_variance_clipped",
		"posterior_mean_coef1", "posterior_mean_coef2", "denoiser.sigmas", "denoiser.log_sigmas", "scale_factor"}},
	{"a trainer's state", []string{"optimizer.*", "optimizer_states.*", "lr_scheduler.*", "n_averaged", "num_updates", "ema_decay", "decay", "global_step", "step",
		"accum_*", "*._extra_state", "*num_batches_tracked"}},
	{"positions that are computed", []string{"*.rotary_emb.inv_freq", "*.inv_freq", "inv_freq", "*.position_ids", "position_ids", "*.freqs_cis", "freqs_cis"}},
}

// What families pass over besides: names that mean something else elsewhere.
var (
	AudioHalf = Kind{"the audio half", []string{"audio_*", "transformer_blocks.*.audio_*", "transformer_blocks.*.video_to_audio_*", "av_ca_*",
		"transformer_blocks.*.scale_shift_table_a2v_*", "av_cross_attn_*", "transformer_blocks.*.video_a2v_*"}}
	Connector   = Kind{"the text's connector", []string{"video_embeddings_connector.*", "embeddings_connector.*"}}
	Transformer = Kind{"the transformer", []string{"transformer_blocks.*", "*adaln_single.*", "patchify_proj.*", "proj_out.*", "scale_shift_table",
		"keyframes_abs_pos_embedding"}}
	TextDecoder = Kind{"a text decoder", []string{"decoder.*"}}
	NextToken   = Kind{"a head for the next token", []string{"lm_head.*", "language_model.lm_head.*", "model.lm_head.*"}}
	TextNorm    = Kind{"the norm before the head for the next token", []string{"norm.weight"}}
	Actions     = Kind{"an action head", []string{"action_*"}}
	Sound       = Kind{"a sound tower", []string{"audio_*"}}
	VisionTower = Kind{"a vision tower", []string{"visual.*", "model.visual.*", "vision_tower.*", "model.vision_tower.*", "vision_model.*", "model.vision_model.*",
		"multi_modal_projector.*", "model.multi_modal_projector.*", "vision_projector.*"}}
	AudioTower       = Kind{"an audio tower", []string{"audio_projector.*", "audio_tower.*", "model.audio_tower.*", "embed_audio.*"}}
	OpenCLIPText     = Kind{"the text tower", []string{"textual.*", "log_scale"}}
	TextTower        = Kind{"the text tower", []string{"text_model.*", "logit_scale", "visual_projection.*", "text_projection.*"}}
	ImageTower       = Kind{"the image tower", []string{"vision_model.*", "visual_projection.*", "text_projection.*", "logit_scale"}}
	RepackName       = Kind{"a repack's name of its model", []string{"model_type.*"}} // "model_type.Wan2_1-FLF2V-14B-720P"
	ComputedPosition = Kind{"positions that are computed", []string{"pos_embedder.*"}}
)

// Find gives the first kind that a name is of, with the families' own kinds before
// those of everyone.
func Find(own []Kind, name string) (kind string, ok bool) {
	kind, _, ok = FindGlob(own, name)
	return kind, ok
}

// FindGlob is Find with the glob by which the name is known.
func FindGlob(own []Kind, name string) (kind, pattern string, ok bool) {
	for _, list := range [][]Kind{own, Everywhere} {
		for i := range list {
			for _, g := range list[i].Globs {
				if glob.Match(g, name) {
					return list[i].Name, g, true
				}
			}
		}
	}
	return "", "", false
}
