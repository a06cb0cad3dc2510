"""The image phase's fixtures.

    python testdata/make/wan_images.py FIXTURES testdata

FIXTURES holds the peers' results for small pipelines. Of these are cut down:
pipelines/wan21_i2v: what diffusers' WanImageToVideoPipeline makes of an image, and what Wan's own
code makes of it where it differs ("official.").
pipelines/wan22_ti2v_5b: the image as the pipeline resizes it, beside what is there.

pipelines/wan22_i2v_a14b is made here with diffusers 0.42.1: two small experts without an image
branch, which read wan21_i2v's image through its autoencoder, with guidance 3.5 for both and shift
5, from the image alone and from it and a last image ("last.").
"""

import math
import pathlib
import sys
import zlib

import numpy as np
import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanImageToVideoPipeline, WanTransformer3DModel
from PIL import Image
from safetensors.torch import load_file, save_file

source, root = (pathlib.Path(a) / "pipelines" for a in sys.argv[1:])

expected = load_file(source / "wan21_i2v/expected.safetensors")
save_file({n: t for n, t in expected.items() if not n.endswith("frames_u8")}, root / "wan21_i2v/expected.safetensors")
expected = load_file(source / "wan22_ti2v_5b/expected.safetensors")
save_file({n: expected[n] for n in ["i2v.image", "i2v.condition"]}, root / "wan22_ti2v_5b/image.safetensors")


def draw(name, shape):
    """Values that bfloat16 holds, of a size that keeps activations near one."""
    r = np.random.Generator(np.random.PCG64([2214, zlib.crc32(name.encode())]))
    if name.endswith("bias"):
        x = 0.1 * r.standard_normal(shape)
    elif len(shape) == 1:
        x = 1 + 0.2 * r.standard_normal(shape)
    elif "scale_shift_table" in name:
        x = 0.3 * r.standard_normal(shape)
    else:
        x = r.standard_normal(shape) / math.sqrt(math.prod(shape[1:]))
    return torch.from_numpy(np.asarray(x, np.float32)).bfloat16().float()


def expert(name):
    m = WanTransformer3DModel(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=16, in_channels=36, out_channels=16,
                              text_dim=32, freq_dim=256, ffn_dim=64, num_layers=1, cross_attn_norm=True, qk_norm="rms_norm_across_heads").eval()
    m.load_state_dict({k: draw(name + k, tuple(v.shape)) for k, v in m.state_dict().items()})
    return m


def save(model, folder):
    """In bfloat16, which holds the weights. A copy is saved: tables that are no weights stay as they are."""
    copy = WanTransformer3DModel.from_config(model.config)
    copy.load_state_dict(model.state_dict())
    copy.to(torch.bfloat16).save_pretrained(folder)


to = root / "wan22_i2v_a14b"
vae = AutoencoderKLWan.from_pretrained(root / "wan21_i2v/vae").float().eval()
scheduler = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, num_train_timesteps=1000, flow_shift=5.0)
experts = [expert(n) for n in ["transformer.", "transformer_2."]]
pipe = WanImageToVideoPipeline(tokenizer=None, text_encoder=None, vae=vae, scheduler=scheduler, transformer=experts[0], transformer_2=experts[1], boundary_ratio=0.9)
pipe.set_progress_bar_config(disable=True)
for m, name in zip(experts, ["transformer", "transformer_2"]):
    save(m, to / name)
scheduler.save_pretrained(to / "scheduler")
pipe.save_config(to)

width, height, frames = 48, 32, 9
text = load_file(root / "wan21_i2v/expected.safetensors")["text_embeds"]
padded = torch.zeros(2, 512, text.shape[2])
padded[:, :text.shape[1]] = text
image = Image.open(root / "wan21_i2v/image.png").convert("RGB")
last = Image.open(root / "wan22_ti2v_5b/image.png").convert("RGB")
noise = draw("latents", (1, 16, 3, height // 8, width // 8)) * 7
inputs, out = {"latents": noise}, {}
for prefix, end in [("", None), ("last.", last)]:
    steps = []
    which = []
    hooks = [m.register_forward_hook(lambda *_, i=i: which.append(i)) for i, m in enumerate(experts)]

    def keep(pipe, i, t, kw):
        steps.append(kw["latents"].clone())
        return {}

    pipe(image=image, last_image=end, prompt_embeds=padded[:1], negative_prompt_embeds=padded[1:], height=height, width=width, num_frames=frames,
         num_inference_steps=4, guidance_scale=3.5, guidance_scale_2=3.5, latents=noise, output_type="latent", callback_on_step_end=keep)
    for h in hooks:
        h.remove()
    prepared = [i if i is None else pipe.video_processor.preprocess(i, height=height, width=width) for i in (image, end)]
    condition = pipe.prepare_latents(prepared[0], 1, 16, height, width, frames, torch.float32, torch.device("cpu"), None, noise, prepared[1])[1]
    out[prefix + "condition"] = condition.contiguous()
    out[prefix + "latents"] = torch.cat(steps).contiguous()
    out[prefix + "expert"] = torch.tensor(which[::2], dtype=torch.int32)
save_file(inputs, to / "inputs.safetensors")
save_file(out, to / "expected.safetensors")
print({k: (tuple(v.shape), float(v.float().std())) for k, v in out.items()}, out["expert"])
