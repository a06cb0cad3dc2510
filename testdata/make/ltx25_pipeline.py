"""Makes testdata/pipelines/ltx25_t2v: a tiny LTX-2.5 in diffusers' folder (Gemma 4, projections and
connectors, transformer, convolutional autoencoder) with random weights, and every value on the way to
a video without sound.

    python testdata/make/ltx25_pipeline.py testdata

Needs diffusers 0.42.1, transformers 5.24, torch, safetensors, numpy. The pipeline is diffusers' own; its
autoencoder is that of vaes/ltx2_25; its transformer is called with isolate_modalities, so that the video attends to no audio, and the audio's
autoencoder and vocoder are left out. Weights lie on the bfloat16 grid and are stored as such; everything
is computed in float32.
"""
import json
import math
import pathlib
import shutil
import sys
import types
import zlib

import numpy as np
import torch
from diffusers import AutoencoderKLLTX2Video, FlowMatchEulerDiscreteScheduler, LTX2Pipeline
from diffusers.models.transformers.transformer_ltx2 import LTX2VideoTransformer3DModel
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
from safetensors.torch import save_file
from transformers import Gemma4UnifiedConfig, Gemma4UnifiedForConditionalGeneration, PreTrainedTokenizerFast

torch.set_grad_enabled(False)
root = pathlib.Path(sys.argv[1])
out = root / "pipelines/ltx25_t2v"
shutil.rmtree(out, ignore_errors=True)
out.mkdir(parents=True)
PROMPT = "  A cat’s slow walk on the grass, realistic style; soft light, 35 mm film…\n"
NEGATIVE = "blurry, static, low quality"
ROWS, WIDTH, HEIGHT, FRAMES, STEPS = 48, 64, 32, 9, 4


def draw(name, shape):
    """Values that bfloat16 holds, of a size that keeps activations near one."""
    g = np.random.Generator(np.random.PCG64([2519, zlib.crc32(name.encode())]))
    x = g.standard_normal(shape)
    if name.endswith("bias"):
        x = 0.1 * x
    elif "layer_scalar" in name:
        x = 0.7 + 0.2 * x
    elif name.endswith("latents_std"):
        x = 1 + 0.4 * np.abs(x)
    elif name.endswith("latents_mean") or "scale_shift_table" in name or "keyframes" in name:
        x = 0.3 * x
    elif len(shape) == 1:
        x = 1 + 0.2 * x
    elif "registers" in name:
        pass
    elif "embed_tokens" in name:
        x = 0.3 * x
    else:
        x = x / math.sqrt(math.prod(shape[1:]))
    return torch.from_numpy(np.asarray(x, np.float32)).bfloat16().float()


def fill(model, prefix):
    drawn, state = {}, model.state_dict()
    for name, x in state.items():
        if x.is_floating_point():
            state[name] = drawn[name] = draw(prefix + name, tuple(x.shape))
    model.load_state_dict(state)
    return model.eval(), drawn


def store(folder, name, tensors, config):
    (out / folder).mkdir()
    save_file({k: v.bfloat16().contiguous() for k, v in tensors.items()}, out / folder / name, {"format": "pt"})
    with open(out / folder / "config.json", "w") as f:
        json.dump(config, f, indent=1, sort_keys=True)
        f.write("\n")


def words(model):
    """A model's configuration as diffusers saves it."""
    c = {k: v for k, v in model.config.items() if not k.startswith("_")}
    return {**c, "_class_name": type(model).__name__, "_diffusers_version": "0.42.1"}


(out / "tokenizer").mkdir()
for name in ("tokenizer.json", "tokenizer_config.json"):
    shutil.copyfile(root / "tokenizers/gemma" / name, out / "tokenizer" / name)
tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(out / "tokenizer/tokenizer.json"), pad_token="<pad>", eos_token="<eos>", bos_token="<bos>",
                                    model_max_length=1024, padding_side="left")
vocab = (len(tokenizer) + 63) // 64 * 64
text_words = dict(vocab_size=vocab, hidden_size=16, intermediate_size=40, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                  global_head_dim=16, num_global_key_value_heads=1, attention_k_eq_v=True, sliding_window=1024, rms_norm_eps=1e-6,
                  hidden_activation="gelu_pytorch_tanh", use_bidirectional_attention="vision",
                  layer_types=["sliding_attention"] * 5 + ["full_attention"],
                  rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                   "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}})
gemma = Gemma4UnifiedForConditionalGeneration(Gemma4UnifiedConfig(text_config=dict(text_words), vision_config=None, audio_config=None,
                                                                  attn_implementation="eager"))
gemma, weights = fill(gemma, "gemma.")
weights.pop("lm_head.weight", None)  # tied to the table of tokens, which has its values now
weights = {k: gemma.state_dict()[k].clone() for k in weights}
store("text_encoder", "model.safetensors", weights, {
    "architectures": ["Gemma4UnifiedForConditionalGeneration"], "model_type": "gemma4_unified", "dtype": "bfloat16",
    "text_config": {**text_words, "model_type": "gemma4_unified_text"}, "vision_config": None, "audio_config": None})

connectors, weights = fill(LTX2TextConnectors(
    caption_channels=16, text_proj_in_factor=7, video_connector_num_attention_heads=4, video_connector_attention_head_dim=8,
    video_connector_num_layers=2, video_connector_num_learnable_registers=8, video_gated_attn=True, audio_connector_num_attention_heads=2,
    audio_connector_attention_head_dim=8, audio_connector_num_layers=1, audio_connector_num_learnable_registers=8, audio_gated_attn=True,
    connector_rope_base_seq_len=4096, rope_theta=10000.0, rope_double_precision=True, causal_temporal_positioning=False, rope_type="split",
    per_modality_projections=True, video_hidden_dim=32, audio_hidden_dim=16, proj_bias=True), "connectors.")
store("connectors", "diffusion_pytorch_model.safetensors", weights, words(connectors))

transformer, weights = fill(LTX2VideoTransformer3DModel(
    in_channels=8, out_channels=8, num_attention_heads=4, attention_head_dim=8, cross_attention_dim=32, gated_attn=True, cross_attn_mod=True,
    audio_in_channels=8, audio_out_channels=8, audio_num_attention_heads=2, audio_attention_head_dim=8, audio_cross_attention_dim=16,
    audio_gated_attn=True, audio_cross_attn_mod=True, num_layers=2, caption_channels=16, rope_type="split", rope_double_precision=True,
    use_prompt_embeddings=False, ff_bias=False, audio_ff_bias=False, use_prompt_adaln_single=True, use_keyframes_abs_pos_embedding=True,
    perturbed_attn=True), "transformer.")
store("transformer", "diffusion_pytorch_model.safetensors", weights, words(transformer))

shutil.copytree(root / "vaes/ltx2_25/diffusers", out / "vae")
stored = AutoencoderKLLTX2Video.from_pretrained(out / "vae")
vae = AutoencoderKLLTX2Video.from_config(stored.config)
vae.load_state_dict({k: v.float() for k, v in stored.state_dict().items()})
vae.eval()

scheduler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=1.0, use_dynamic_shifting=True, base_shift=0.95, max_shift=2.05,
                                            base_image_seq_len=1024, max_image_seq_len=4096, shift_terminal=0.1)
scheduler.save_pretrained(out / "scheduler")
with open(out / "model_index.json", "w") as f:
    json.dump({"_class_name": "LTX2Pipeline", "_diffusers_version": "0.42.1", "connectors": ["ltx2", "LTX2TextConnectors"],
               "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"], "text_encoder": ["transformers", "Gemma4UnifiedForConditionalGeneration"],
               "tokenizer": ["transformers", "GemmaTokenizerFast"], "transformer": ["diffusers", "LTX2VideoTransformer3DModel"],
               "vae": ["diffusers", "AutoencoderKLLTX2Video"]}, f, indent=1)
    f.write("\n")


class Silence(torch.nn.Module):
    """Stands for the audio's autoencoder and the vocoder, whose results nobody reads."""
    config = types.SimpleNamespace(mel_bins=16, latent_channels=2, sample_rate=16000, mel_hop_length=160)
    mel_compression_ratio = temporal_compression_ratio = 4
    dtype, device = torch.float32, torch.device("cpu")

    def __init__(self):
        super().__init__()
        self.latents_mean, self.latents_std = torch.zeros(8), torch.ones(8)

    def decode(self, x, return_dict=False):
        return (x,)

    def forward(self, x):
        return x


pipe = LTX2Pipeline(scheduler=scheduler, vae=vae, audio_vae=Silence(), text_encoder=gemma, tokenizer=tokenizer, connectors=connectors,
                    transformer=transformer, vocoder=Silence())
pipe.set_progress_bar_config(disable=True)
forward, velocities, contexts, latents, ids = transformer.forward, [], [], [], []


def alone(*a, **kw):
    o = forward(*a, **{**kw, "isolate_modalities": True})
    velocities.append(o[0].clone())
    contexts.append(kw["encoder_hidden_states"].clone())
    return o


encode = gemma.forward


def watch(*a, **kw):
    ids.append((kw["input_ids"].clone(), kw["attention_mask"].clone()))
    return encode(*a, **kw)


transformer.forward, gemma.forward = alone, watch
noise = torch.from_numpy(np.random.Generator(np.random.PCG64(77)).standard_normal((1, 4, 8)).astype(np.float32))
frames = pipe(prompt=PROMPT, negative_prompt=NEGATIVE, width=WIDTH, height=HEIGHT, num_frames=FRAMES, frame_rate=24.0, num_inference_steps=STEPS,
              guidance_scale=3.0, stg_scale=0.0, modality_scale=1.0, guidance_rescale=0.0, audio_guidance_scale=3.0, audio_stg_scale=0.0,
              audio_modality_scale=1.0, audio_guidance_rescale=0.0, latents=noise.clone(), max_sequence_length=ROWS, output_type="np", return_dict=False,
              generator=torch.Generator().manual_seed(1), callback_on_step_end=lambda p, i, t, kw: latents.append(kw["latents"][0].clone()) or {})[0][0]
values = {"text_embeds": contexts[0].flip(0), "noise_uncond": torch.stack([v[0] for v in velocities]), "noise_cond": torch.stack([v[1] for v in velocities]),
          "latents": torch.stack(latents), "timesteps": scheduler.timesteps.float(), "sigmas": scheduler.sigmas.float(),
          "frames": torch.from_numpy(np.asarray(frames, np.float32)), "frames_u8": torch.from_numpy(np.rint(np.asarray(frames, np.float32) * 255).astype(np.uint8)),
          "ids": torch.cat([i[0] for i in ids]).int(), "mask": torch.cat([i[1] for i in ids]).int()}
save_file({k: v.contiguous() for k, v in values.items()}, out / "values.safetensors")
save_file({"latents": noise}, out / "inputs.safetensors")
with open(out / "request.json", "w") as f:
    json.dump({"prompt": PROMPT, "negative_prompt": NEGATIVE, "width": WIDTH, "height": HEIGHT, "num_frames": FRAMES, "num_inference_steps": STEPS,
               "guidance_scale": 3.0, "frame_rate": 24, "max_sequence_length": ROWS, "pipeline": "LTX2Pipeline, isolate_modalities"}, f, indent=1, ensure_ascii=False)
    f.write("\n")
print({k: tuple(v.shape) for k, v in values.items()}, float(values["latents"].abs().max()), float(values["frames"].std()), "valid rows", values["mask"].sum(1))
