"""Makes testdata/pipelines/cosmos25_worlds: what diffusers' Cosmos2_5_PredictBasePipeline makes of an
image (image to world) and of a video (video to world), with the weights of cosmos25_t2w.

    python testdata/make/cosmos_worlds.py testdata

Needs diffusers 0.42.1, transformers, torch, numpy, Pillow. The guardrail is left out, and torchvision,
where it is missing, is replaced by the two functions of it that the pipeline calls.
"""
import importlib.util
import json
import pathlib
import sys
import types

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

if importlib.util.find_spec("torchvision") is None:
    functional = types.SimpleNamespace(
        resize=lambda a, size, interpolation: torch.nn.functional.interpolate(a, size=size, mode=interpolation),
        to_tensor=lambda im: torch.from_numpy(np.array(im)).permute(2, 0, 1).float() / 255)
    transforms = types.ModuleType("torchvision.transforms")
    transforms.functional, transforms.InterpolationMode = functional, types.SimpleNamespace(NEAREST="nearest")
else:
    transforms = None

import diffusers.models.transformers.transformer_cosmos as cosmos  # noqa: E402
import diffusers.pipelines.cosmos.pipeline_cosmos2_5_predict as predict  # noqa: E402
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler  # noqa: E402
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLForConditionalGeneration  # noqa: E402

if transforms is not None:
    cosmos.transforms = transforms
    predict.torchvision = types.SimpleNamespace(transforms=transforms)

root = pathlib.Path(sys.argv[1]) / "pipelines"
weights, out = root / "cosmos25_t2w", root / "cosmos25_worlds"
(out / "video").mkdir(parents=True, exist_ok=True)
request = json.load(open(weights / "request.json"))


def picture(seed, width, height, shift=0):
    """A smooth picture with an edge and some noise, moved to the right by shift."""
    g = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    x -= shift
    rows = np.stack([np.sin(0.19 * x + 0.07 * (c + 1) * y + c) + 1.4 * (x * (0.5 + c) > y) for c in range(3)], -1)
    values = 110 + 50 * rows + g.normal(0, 5, rows.shape)
    return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8))


class Safe(torch.nn.Module):
    """Stands for the guardrail, which is no part of what is compared."""
    device, dtype = torch.device("cpu"), torch.float32

    def check_text_safety(self, prompt):
        return True


def load(cls, folder):
    """A model in float32. It is made anew, since tables that are no weights must not pass through bfloat16."""
    stored = cls.from_pretrained(weights / folder)
    if hasattr(stored, "from_config"):
        fresh = cls.from_config(stored.config)
    else:
        stored.config.dtype = torch.float32
        fresh = cls(stored.config).float()
    fresh.load_state_dict({k: v.float() for k, v in stored.state_dict().items()})
    return fresh.eval()


tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(weights / "tokenizer/tokenizer.json"), pad_token="<|endoftext|>",
                                    eos_token="<|im_end|>", model_max_length=131072, padding_side="right")
tokenizer.chat_template = json.load(open(weights / "tokenizer/tokenizer_config.json"))["chat_template"]
pipe = predict.Cosmos2_5_PredictBasePipeline(
    text_encoder=load(Qwen2_5_VLForConditionalGeneration, "text_encoder"), tokenizer=tokenizer,
    transformer=load(cosmos.CosmosTransformer3DModel, "transformer"), vae=load(AutoencoderKLWan, "vae"),
    scheduler=UniPCMultistepScheduler.from_pretrained(weights / "scheduler"), safety_checker=Safe())
pipe.set_progress_bar_config(disable=True)

image = picture(11, 75, 53)
image.save(out / "image.png")
video = [picture(20 + i, 61, 37, 2.5 * i) for i in range(7)]
for i, frame in enumerate(video):
    frame.save(out / "video" / f"{i + 1}.png")


def run(name, frames, noise, **given):
    values, velocities = {}, []
    hook = pipe.transformer.register_forward_hook(lambda m, a, o: velocities.append(o[0].float().clone()) and None)
    latents = []

    def after(pipe, i, t, kw):
        latents.append(kw["latents"][0].clone())
        return {}

    prepare = pipe.prepare_latents
    kept = []

    def watch(*a, **kw):
        result = prepare(*a, **kw)
        kept.append(result[1][:, :, : int(result[3][0, 0, :, 0, 0].sum())])
        return result

    pipe.prepare_latents = watch
    o = pipe(prompt=request["prompt"], negative_prompt=request["negative_prompt"], width=48, height=32, num_frames=frames,
             num_inference_steps=4, guidance_scale=request["guidance_scale"], latents=noise.clone(), output_type="np",
             callback_on_step_end=after, **given).frames[0]
    pipe.prepare_latents = prepare
    hook.remove()
    values["latents"] = torch.stack(latents)
    values["kept"] = kept[0]
    values["velocity_cond"], values["velocity_uncond"] = velocities[0], velocities[1]
    values["frames"] = torch.from_numpy(np.asarray(o, np.float32))
    values["frames_u8"] = torch.from_numpy(np.rint(np.asarray(o, np.float32) * 255).astype(np.uint8))
    values["timesteps"] = pipe.scheduler.timesteps.float().clone()
    values["sigmas"] = pipe.scheduler.sigmas.float().clone()
    left = {"i2w": ["frames_u8"], "v2w": ["frames"], "v2w_one": ["frames", "frames_u8"]}[name]  # to save room
    save_file({k: v.contiguous() for k, v in values.items() if k not in left}, out / f"{name}.safetensors")
    save_file({"latents": noise}, out / f"{name}_inputs.safetensors")
    print(name, {k: tuple(v.shape) for k, v in values.items()}, "largest", float(values["latents"].abs().max()))


def noise(seed, frames):
    g = np.random.Generator(np.random.PCG64(seed))
    return torch.from_numpy(g.standard_normal((1, 16, frames, 4, 6)).astype(np.float32))


with torch.no_grad():
    run("i2w", 9, noise(31, 3), image=image)
    run("v2w", 13, noise(32, 4), video=video)
    run("v2w_one", 9, noise(33, 3), video=video, num_latent_conditional_frames=1)
