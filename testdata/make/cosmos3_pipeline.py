"""Makes testdata/pipelines/cosmos3_nano_t2v: a tiny Cosmos3 Nano in diffusers' folder with random weights
and every value on the way to a video of a text, and in cosmos3_nano_t2v/i2v.* and v2v.* those of videos that
begin with an image or with another video, which is that of cosmos25_worlds.

    python testdata/make/cosmos3_pipeline.py testdata

Needs diffusers 0.42.1, transformers, torch, safetensors, numpy, Pillow. The autoencoder is that of
wan22_ti2v_5b, the tokenizer that of cosmos25_t2w. Weights lie on the bfloat16 grid; everything is computed
in float32. The guardrail is left out.
"""
import json
import math
import pathlib
import shutil
import sys
import zlib

import numpy as np
import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler
from diffusers.models.transformers.transformer_cosmos3 import Cosmos3OmniTransformer
from diffusers.pipelines.cosmos.pipeline_cosmos3_omni import Cosmos3OmniPipeline
from PIL import Image
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast

torch.set_grad_enabled(False)
root = pathlib.Path(sys.argv[1]) / "pipelines"
out = root / "cosmos3_nano_t2v"
shutil.rmtree(out, ignore_errors=True)
out.mkdir()
PROMPT, NEGATIVE = "A cat’s slow walk on the grass, realistic style; soft light, 35 mm film.", "blurry, static, low quality"
WIDTH, HEIGHT, FRAMES, STEPS, FPS = 64, 32, 5, 4, 16.0


def draw(name, shape):
    """Values that bfloat16 holds, of a size that keeps activations near one."""
    g = np.random.Generator(np.random.PCG64([3300, zlib.crc32(name.encode())]))
    x = g.standard_normal(shape)
    if name.endswith("bias"):
        x = 0.1 * x
    elif len(shape) == 1:
        x = 1 + 0.2 * x
    elif "embed_tokens" not in name:
        x = x / math.sqrt(math.prod(shape[1:]))
    return torch.from_numpy(np.asarray(x, np.float32)).bfloat16().float()


shutil.copytree(root / "cosmos25_t2w/tokenizer", out / "text_tokenizer")
shutil.copytree(root / "wan22_ti2v_5b/vae", out / "vae")
words = json.load(open(out / "text_tokenizer/tokenizer_config.json"))
tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(out / "text_tokenizer/tokenizer.json"), pad_token="<|endoftext|>", eos_token="<|im_end|>")
tokenizer.chat_template = words["chat_template"]
vocab = (len(tokenizer) + 63) // 64 * 64

transformer = Cosmos3OmniTransformer(
    head_dim=32, hidden_size=16, intermediate_size=40, latent_channel=48, latent_patch_size=2, num_attention_heads=4, num_hidden_layers=2,
    num_key_value_heads=2, patch_latent_dim=192, rope_axes_dim=(6, 5, 5), vocab_size=vocab)
state = {k: draw(k, tuple(v.shape)) for k, v in transformer.state_dict().items()}
transformer.load_state_dict(state)
transformer.eval()
(out / "transformer").mkdir()
save_file({k: v.bfloat16() for k, v in state.items() if not k.startswith("lm_head")}, out / "transformer/diffusion_pytorch_model.safetensors", {"format": "pt"})
config = {k: v for k, v in transformer.config.items() if not k.startswith("_")}
with open(out / "transformer/config.json", "w") as f:
    json.dump({**config, "_class_name": "Cosmos3OmniTransformer", "_diffusers_version": "0.42.1"}, f, indent=1, sort_keys=True)
    f.write("\n")
scheduler = UniPCMultistepScheduler(num_train_timesteps=1000, prediction_type="flow_prediction", use_flow_sigmas=True,
                                    use_karras_sigmas=True, sigma_min=0.147, sigma_max=200.0, solver_order=2)
scheduler.save_pretrained(out / "scheduler")
with open(out / "model_index.json", "w") as f:
    json.dump({"_class_name": "Cosmos3OmniPipeline", "_diffusers_version": "0.42.1", "default_use_system_prompt": True, "enable_safety_checker": False,
               "use_native_flow_schedule": False, "scheduler": ["diffusers", "UniPCMultistepScheduler"], "text_tokenizer": ["transformers", "Qwen2TokenizerFast"],
               "transformer": ["diffusers", "Cosmos3OmniTransformer"], "vae": ["diffusers", "AutoencoderKLWan"]}, f, indent=1)
    f.write("\n")
stored = AutoencoderKLWan.from_pretrained(out / "vae")
vae = AutoencoderKLWan.from_config(stored.config)
vae.load_state_dict({k: v.float() for k, v in stored.state_dict().items()})
vae.eval()

pipe = Cosmos3OmniPipeline(transformer=transformer, text_tokenizer=tokenizer, vae=vae, scheduler=scheduler, enable_safety_checker=False)
pipe.set_progress_bar_config(disable=True)


def run(prefix, noise, num_frames=FRAMES, **given):
    velocities, latents = [], []
    hook = transformer.register_forward_hook(lambda m, a, o: velocities.append(o[0][0][0].float().clone()) and None)

    def after(pipe, i, t, kw):
        latents.append(kw["latents"][0].clone())
        return {"latents": kw["latents"]}

    frames = pipe(prompt=PROMPT, negative_prompt=NEGATIVE, width=WIDTH, height=HEIGHT, num_frames=num_frames, fps=FPS, num_inference_steps=STEPS,
                  guidance_scale=6.0, latents=noise.clone(), output_type="np", callback_on_step_end=after, enable_safety_check=False, **given).video
    hook.remove()
    frames = np.asarray(frames, np.float32)
    sigmas = pipe.scheduler.sigmas.float()
    values = {"latents": torch.stack(latents), "noise_cond": torch.stack(velocities[0::2]), "noise_uncond": torch.stack(velocities[1::2]),
              "frames": torch.from_numpy(frames), "frames_u8": torch.from_numpy(np.rint(frames * 255).astype(np.uint8)),
              "timesteps": pipe.scheduler.timesteps.float(), "sigmas": sigmas}
    print(prefix, {k: tuple(v.shape) for k, v in values.items()}, float(values["latents"].abs().max()), float(values["frames"].std()))
    return {k: v.contiguous() for k, v in values.items()}


g = np.random.Generator(np.random.PCG64(91))
noise = torch.from_numpy(g.standard_normal((1, 48, 2, HEIGHT // 16, WIDTH // 16)).astype(np.float32))
values = run("t2v", noise)
ids = pipe.tokenize_prompt(PROMPT, NEGATIVE, num_frames=FRAMES, height=HEIGHT, width=WIDTH, fps=FPS)
for name, row in zip(("ids", "negative_ids"), ids):
    values[name] = torch.tensor([row], dtype=torch.int32)
save_file(values, out / "values.safetensors")
save_file({"latents": noise}, out / "inputs.safetensors")
with open(out / "request.json", "w") as f:
    json.dump({"prompt": PROMPT, "negative_prompt": NEGATIVE, "width": WIDTH, "height": HEIGHT, "num_frames": FRAMES, "fps": FPS,
               "num_inference_steps": STEPS, "guidance_scale": 6.0, "pipeline": "Cosmos3OmniPipeline"}, f, indent=1, ensure_ascii=False)
    f.write("\n")

y, x = np.mgrid[0:45, 0:83].astype(np.float64)
picture = np.stack([110 + 50 * np.sin(0.17 * x + 0.09 * (c + 1) * y) + 60 * (x * (0.5 + c) > y) for c in range(3)], -1)
image = Image.fromarray(np.clip(np.rint(picture + g.normal(0, 5, picture.shape)), 0, 255).astype(np.uint8))
image.save(out / "i2v.png")
videos = sorted((root / "cosmos25_worlds/video").glob("*.png"), key=lambda p: int(p.stem))
prepare = pipe.prepare_latents
for name, frames, kept, given in (("i2v", FRAMES, 1, {"image": image}), ("v2v", 9, 2, {"video": [Image.open(p).convert("RGB") for p in videos]})):
    noise = torch.from_numpy(g.standard_normal((1, 48, (frames - 1) // 4 + 1, HEIGHT // 16, WIDTH // 16)).astype(np.float32))
    latents = {}

    def watch(*a, **kw):
        """Without latents the pipeline mixes the given ones into its own noise: this noise is given."""
        import diffusers.pipelines.cosmos.pipeline_cosmos3_omni as module
        own, module.randn_tensor = module.randn_tensor, lambda *b, **k: noise.clone()
        result = prepare(*a, **{**kw, "latents": None})
        module.randn_tensor = own
        latents["kept"] = result[0][:, :, :kept].clone().contiguous()
        return result

    pipe.prepare_latents = watch
    values = run(name, noise, frames, **given)
    save_file({**{k: v for k, v in values.items() if k in ("latents", "frames_u8")}, **latents}, out / f"{name}.safetensors")
    save_file({"latents": noise}, out / f"{name}_inputs.safetensors")
