"""The fixtures of Wan's first and last frame and of VACE.

    python testdata/make/wan_control.py testdata WAN21

WAN21 is a checkout of Wan2.1's own code (github.com/Wan-Video/Wan2.1). With diffusers 0.42.1
(torch, float32, CPU) these are made:

pipelines/wan21_flf2v: a small transformer with positions of two images' features, which reads
wan21_i2v's image and a last one through wan21_i2v's CLIP, autoencoder and text. "official." is
what Wan's own code makes of the two images.

pipelines/wan21_vace: a small VACE transformer of 3 layers with control blocks at 0 and 2, on
wan21_i2v's autoencoder and text: with a control video, a mask and two reference images
("control."), and without any ("text."). step.* is one step of the transformer. "official." is
what Wan's own code makes of the same pictures.

Both transformers are held against Wan's own modules, with the weights under their own names:
names.json has the names, and released.json a hash of the names and shapes that these modules have
in the sizes of the releases.
"""

import hashlib
import importlib
import json
import math
import pathlib
import sys
import types
import zlib

import numpy as np
import torch
from diffusers import (AutoencoderKLWan, UniPCMultistepScheduler, WanImageToVideoPipeline, WanTransformer3DModel, WanVACEPipeline,
                       WanVACETransformer3DModel)
from diffusers.loaders.single_file_utils import convert_wan_transformer_to_diffusers
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import CLIPImageProcessor, CLIPVisionModel

torch.set_num_threads(1)
root = pathlib.Path(sys.argv[1]) / "pipelines"
parts = root / "wan21_i2v"
WIDTH, HEIGHT, FRAMES, STEPS = 48, 32, 9, 4


def official_modules(checkout):
    """Wan2.1's model code without the rest of its package, with PyTorch's own attention."""
    for name, path in [("wan", "wan"), ("wan.modules", "wan/modules")]:
        package = types.ModuleType(name)
        package.__path__ = [str(pathlib.Path(checkout) / path)]
        sys.modules[name] = package

    def attend(q, k, v, q_lens=None, k_lens=None, **_):
        assert k_lens is None or int(k_lens.max()) == k.size(1)
        return torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)

    attention = types.ModuleType("wan.modules.attention")
    attention.flash_attention = attend
    sys.modules["wan.modules.attention"] = attention
    return importlib.import_module("wan.modules.model"), importlib.import_module("wan.modules.vace_model")


model_code, vace_code = official_modules(sys.argv[2])


def rng(name):
    return np.random.Generator(np.random.PCG64([2215, zlib.crc32(name.encode())]))


def draw(name, shape):
    """Values that bfloat16 holds, of a size that keeps activations near one."""
    r = rng(name)
    if name.endswith("bias"):
        x = 0.1 * r.standard_normal(shape)
    elif len(shape) == 1:
        x = 1 + 0.2 * r.standard_normal(shape)
    elif "scale_shift_table" in name or "pos_embed" in name:
        x = 0.3 * r.standard_normal(shape)
    else:
        x = r.standard_normal(shape) / math.sqrt(math.prod(shape[1:]))
    return torch.from_numpy(np.asarray(x, np.float32)).bfloat16().float()


def drawn(model, prefix):
    model.load_state_dict({k: draw(prefix + k, tuple(v.shape)) for k, v in model.state_dict().items()})
    return model.eval()


def save_folder(to, pipe, model, index):
    """The transformer in bfloat16, which holds its weights, the scheduler and model_index.json."""
    copy = type(model).from_config(model.config)
    copy.load_state_dict(model.state_dict())
    copy.to(torch.bfloat16).save_pretrained(to / "transformer")
    pipe.scheduler.save_pretrained(to / "scheduler")
    (to / "model_index.json").write_text(json.dumps(index, indent=1) + "\n")


def official_of(model, build):
    """The same model as Wan's own module, and [official name, diffusers' name, shape] of each weight."""
    own = build()
    renamed = convert_wan_transformer_to_diffusers({k: k for k in own.state_dict()})
    renamed = {{"img_emb.emb_pos": "condition_embedder.image_embedder.pos_embed"}.get(k, k): v for k, v in renamed.items()}
    weights = model.state_dict()
    assert set(renamed) == set(weights), set(renamed) ^ set(weights)
    own.load_state_dict({official: weights[name].reshape(own.state_dict()[official].shape) for name, official in renamed.items()})
    names = sorted([official, name, list(weights[name].shape)] for name, official in renamed.items())
    return own.eval(), names


def released(build):
    """How many weights a module has, and the SHA-256 of lines "name shape" in order."""
    with torch.device("meta"):
        m = build()
    lines = sorted(f"{k} {list(v.shape)}" for k, v in m.state_dict().items())
    return {"weights": len(lines), "sha256": hashlib.sha256("".join(x + "\n" for x in lines).encode()).hexdigest()}


def far(a, b):
    return float((a - b).abs().max())


class Steps:
    """The latents after each step."""

    def __init__(self):
        self.latents = []

    def __call__(self, pipe, i, t, kw):
        self.latents.append(kw["latents"].clone())
        return {}


def run(pipe, model, **kw):
    """Latents by step, what the model gave, and frames with their bytes."""
    steps, outs = Steps(), []
    hook = model.register_forward_hook(lambda m, a, o: outs.append(o[0].clone()))
    pipe.scheduler = scheduler()
    frames = torch.from_numpy(pipe(output_type="np", callback_on_step_end=steps, **kw).frames[0].copy())
    hook.remove()
    return {"latents": torch.cat(steps.latents), "noise_cond": torch.cat(outs[0::2])[:1].contiguous(), "noise_uncond": torch.cat(outs[1::2])[:1].contiguous(),
            "frames": frames, "frames_u8": torch.from_numpy(np.rint(frames.numpy() * 255).astype(np.uint8)),
            "timesteps": pipe.scheduler.timesteps.float(), "sigmas": pipe.scheduler.sigmas.float()}


def scheduler():
    return UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, num_train_timesteps=1000, flow_shift=16.0)


def picture(name, width, height):
    """Smooth colours with an edge, so that resizing shows, and that a PNG of it is small."""
    r = rng(name)
    y, x = np.mgrid[0:height, 0:width] / np.array([height, width]).reshape(2, 1, 1)
    a, b, c = r.uniform(1, 4, (3, 3)), r.uniform(0, 6, (3, 3)), r.uniform(0.2, 0.8, 2)
    planes = [0.5 + 0.5 * np.sin(a[i, 0] * x * 3 + a[i, 1] * y * 3 + b[i, 0]) for i in range(3)]
    image = np.stack(planes, -1)
    image[(x > c[0]) & (y > c[1])] *= 0.3
    return Image.fromarray((image * 255).astype(np.uint8) & 0xF8)


vae = AutoencoderKLWan.from_pretrained(parts / "vae").float().eval()
clip = CLIPVisionModel.from_pretrained(parts / "image_encoder").float().eval()
processor = CLIPImageProcessor.from_pretrained(parts / "image_processor")
text = load_file(parts / "values.safetensors")["text_embeds"]
padded = torch.zeros(2, 512, text.shape[2])
padded[:, :text.shape[1]] = text
mean = torch.tensor(vae.config.latents_mean).view(1, -1, 1, 1, 1)
deviation = torch.tensor(vae.config.latents_std).view(1, -1, 1, 1, 1)
prompts = dict(prompt_embeds=padded[:1], negative_prompt_embeds=padded[1:], height=HEIGHT, width=WIDTH, num_frames=FRAMES, num_inference_steps=STEPS,
               guidance_scale=5.0)
shared = dict(freq_dim=256, text_dim=32)


def encode(video):
    """Normalised latents of a video (3, frames, height, width)."""
    return (vae.encode(video[None]).latent_dist.mode() - mean) / deviation


def signed(image):
    return torch.from_numpy(np.asarray(image.convert("RGB"), np.float32).copy()).permute(2, 0, 1) / 255 * 2 - 1


# ---------------------------------------------------------------- first and last frame

to = root / "wan21_flf2v"
to.mkdir(exist_ok=True)
first = Image.open(parts / "image.png").convert("RGB")
last = picture("last", *first.size)
last.save(to / "last.png", optimize=True)
rows = (clip.config.image_size // clip.config.patch_size) ** 2 + 1
flf = drawn(WanTransformer3DModel(patch_size=(1, 2, 2), num_attention_heads=6, attention_head_dim=8, in_channels=36, out_channels=16, ffn_dim=96,
                                  num_layers=2, cross_attn_norm=True, image_dim=clip.config.hidden_size, added_kv_proj_dim=48,
                                  pos_embed_seq_len=2 * rows, **shared), "flf2v.")
pipe = WanImageToVideoPipeline(tokenizer=None, text_encoder=None, vae=vae, scheduler=scheduler(), image_processor=processor, image_encoder=clip,
                               transformer=flf)
pipe.set_progress_bar_config(disable=True)
index = {"_class_name": "WanImageToVideoPipeline", "_diffusers_version": "0.42.1", "boundary_ratio": None, "expand_timesteps": False,
         "scheduler": ["diffusers", "UniPCMultistepScheduler"], "transformer": ["diffusers", "WanTransformer3DModel"]}
save_folder(to, pipe, flf, index)
(to / "image_processor").mkdir(exist_ok=True)
(to / "image_processor/preprocessor_config.json").write_bytes((parts / "image_processor/preprocessor_config.json").read_bytes())
noise = 7 * draw("flf2v.latents", (1, 16, 3, HEIGHT // 8, WIDTH // 8))
out = run(pipe, flf, image=first, last_image=last, latents=noise, **prompts)
prepared = [pipe.video_processor.preprocess(i, height=HEIGHT, width=WIDTH) for i in (first, last)]
out["condition"] = pipe.prepare_latents(prepared[0], 1, 16, HEIGHT, WIDTH, FRAMES, torch.float32, torch.device("cpu"), None, noise, prepared[1])[1].contiguous()
out["image_embeds"] = pipe.encode_image([first, last]).reshape(1, 2 * rows, -1).contiguous()

side = clip.config.image_size
clip_mean, clip_deviation = (torch.tensor(v).view(1, 3, 1, 1) for v in (processor.image_mean, processor.image_std))
resize = lambda x, h, w: torch.nn.functional.interpolate(x[None], size=(h, w), mode="bicubic")  # noqa: E731
squares = torch.cat([(resize(signed(i), side, side) * 0.5 + 0.5 - clip_mean) / clip_deviation for i in (first, last)])
out["official.image_embeds"] = clip(squares, output_hidden_states=True).hidden_states[-2].detach().reshape(1, 2 * rows, -1).contiguous()
ends = [resize(signed(i), HEIGHT, WIDTH).transpose(0, 1) for i in (first, last)]
video = torch.cat([ends[0], torch.zeros(3, FRAMES - 2, HEIGHT, WIDTH), ends[1]], 1)
with torch.no_grad():
    out["official.condition"] = torch.cat([out["condition"][:, :4], encode(video)], 1).contiguous()


def small_flf2v():
    """Wan's own module, whose widths of features are constants: 1280 and 257 rows are replaced."""
    m = model_code.WanModel(model_type="flf2v", in_dim=36, dim=48, ffn_dim=96, out_dim=16, num_heads=6, num_layers=2, **shared)
    projection = model_code.MLPProj(clip.config.hidden_size, 48)
    projection.emb_pos = torch.nn.Parameter(torch.zeros(1, 2 * rows, clip.config.hidden_size))
    m.img_emb = projection
    return m


own, names = official_of(flf, small_flf2v)
(to / "names.json").write_text("[\n" + ",\n".join(json.dumps(n) for n in names) + "\n]\n")
with torch.no_grad():
    y = out["condition"][0]
    features = out["image_embeds"].reshape(2, rows, -1)
    got = own([noise[0]], t=out["timesteps"][:1], context=[padded[0]], seq_len=3 * 2 * 3, clip_fea=features, y=[y])[0]
print("flf2v: Wan's own module against diffusers", far(got, out["noise_cond"][0]))
assert far(got, out["noise_cond"][0]) < 1e-4
save_file({"latents": noise}, to / "inputs.safetensors")
save_file({k: v.contiguous() for k, v in out.items()}, to / "values.safetensors")

# ---------------------------------------------------------------- VACE

to = root / "wan21_vace"
to.mkdir(exist_ok=True)
vace = drawn(WanVACETransformer3DModel(patch_size=(1, 2, 2), num_attention_heads=6, attention_head_dim=8, in_channels=16, out_channels=16, ffn_dim=96,
                                       num_layers=3, cross_attn_norm=True, vace_layers=[0, 2], vace_in_channels=96, **shared), "vace.")
pipe = WanVACEPipeline(tokenizer=None, text_encoder=None, vae=vae, scheduler=scheduler(), transformer=vace)
pipe.set_progress_bar_config(disable=True)
save_folder(to, pipe, vace, {"_class_name": "WanVACEPipeline", "_diffusers_version": "0.42.1", "boundary_ratio": None,
                             "scheduler": ["diffusers", "UniPCMultistepScheduler"], "transformer": ["diffusers", "WanVACETransformer3DModel"]})

size = (75, 53)
scene = np.asarray(picture("scene", 100, 70))
video = [Image.fromarray(np.ascontiguousarray(scene[i:i + size[1], 2 * i:2 * i + size[0]])) for i in range(FRAMES)]
video[0].save(to / "video.png", save_all=True, append_images=video[1:], duration=62, loop=0, optimize=True)
mask = []
for i in range(FRAMES):  # soft at its edge, and nothing of the first frame
    y, x = np.mgrid[0:size[1], 0:size[0]]
    level = np.clip((22 - np.hypot(x - 20 - 4 * i, y - 25)) * 20, 0, 255) if i else np.zeros((size[1], size[0]))
    mask.append(Image.fromarray(level.astype(np.uint8)))
(to / "mask").mkdir(exist_ok=True)
for i, m in enumerate(mask):
    m.save(to / f"mask/frame_{i + 3}.png", optimize=True)  # 3 to 11
references = [picture("tall", 41, 60), picture("wide", 90, 33)]
for i, r in enumerate(references):
    r.save(to / f"reference_{i + 1}.png", optimize=True)
scale = [0.75, 1.25]

values = {}
prepare = lambda v, m, r: pipe.preprocess_conditions(v, m, r, 1, HEIGHT, WIDTH, FRAMES, torch.float32, torch.device("cpu"))  # noqa: E731


def context(v, m, r):
    v, m, r = prepare(v, m, r)
    with torch.no_grad():
        return torch.cat([pipe.prepare_video_latents(v, m, r, None, torch.device("cpu")), pipe.prepare_masks(m, r)], 1).contiguous()


for name, given, frames in [("control.", dict(video=video, mask=mask, reference_images=references, conditioning_scale=scale), 5), ("text.", {}, 3)]:
    noise = 7 * draw("vace." + name + "latents", (1, 16, frames, HEIGHT // 8, WIDTH // 8))
    save_file({"latents": noise}, to / (name.replace("control.", "").replace(".", "_") + "inputs.safetensors"))
    out = run(pipe, vace, latents=noise, **given, **prompts)
    if name == "text.":
        del out["frames"], out["sigmas"], out["timesteps"]
    values |= {name + k: v for k, v in out.items()}
    values[name + "vace_context"] = context(given.get("video"), given.get("mask"), given.get("reference_images"))
values["video.vace_context"] = context(video, None, references[:1])
values["text.vace_context"] = values["text.vace_context"][:, :, :1].contiguous()

# one step, of odd numbers of rows and columns, with its own scales
step = {"x": draw("step.x", (2, 16, 3, 6, 10)) * 8, "t": torch.tensor([870.0, 113.0]), "context": torch.cat([padded[:1, :13], padded[1:, :13]]),
        "vace_context": draw("step.vace_context", (2, 96, 3, 6, 10)) * 16, "vace_scale": torch.tensor([scale, scale])}
whole = torch.zeros(2, 512, 32)
whole[:, :13] = step["context"]
with torch.no_grad():
    out = vace(step["x"], step["t"], whole, control_hidden_states=step["vace_context"], control_hidden_states_scale=torch.tensor(scale), return_dict=False)[0]
    plain = vace(step["x"], step["t"], whole, control_hidden_states=step["vace_context"], return_dict=False)[0]
save_file({k: v.contiguous() for k, v in step.items()}, to / "step_inputs.safetensors")
save_file({"out": out, "out_unscaled": plain}, to / "step_expected.safetensors")


def small_vace():
    """Wan's own module."""
    return vace_code.VaceWanModel(vace_layers=[0, 2], vace_in_dim=96, in_dim=16, dim=48, ffn_dim=96, out_dim=16, num_heads=6, num_layers=3, **shared)


own, names = official_of(vace, small_vace)
(to / "names.json").write_text("[\n" + ",\n".join(json.dumps(n) for n in names) + "\n]\n")
with torch.no_grad():
    got = torch.stack(own(list(step["x"]), step["t"], list(step["vace_context"]), list(step["context"]), seq_len=3 * 3 * 5))
print("vace: Wan's own module against diffusers", far(got, plain))
assert far(got, plain) < 1e-4

# what Wan's own vace.py and vace_processor.py make of the pictures
def resize_crop(image, h, w):
    x = torch.from_numpy(np.asarray(image.convert("RGB")).copy()).permute(2, 0, 1)[None]
    factor = max(w / x.shape[3], h / x.shape[2])
    x = torch.nn.functional.interpolate(x, size=(round(factor * x.shape[2]), round(factor * x.shape[3])), mode="bicubic", antialias=True)
    left, top = (x.shape[3] - w) // 2, (x.shape[2] - h) // 2
    return x[0, :, top:top + h, left:left + w].float().div(127.5).sub(1)


def canvas(image):
    x = signed(image)
    factor = min(HEIGHT / x.shape[1], WIDTH / x.shape[2])
    h, w = int(x.shape[1] * factor), int(x.shape[2] * factor)
    white = torch.ones(3, 1, HEIGHT, WIDTH)
    top, left = (HEIGHT - h) // 2, (WIDTH - w) // 2
    white[:, 0, top:top + h, left:left + w] = torch.nn.functional.interpolate(x[None], size=(h, w), mode="bilinear", align_corners=False)[0]
    return white


frames = torch.stack([resize_crop(i, HEIGHT, WIDTH) for i in video], 1)
masks = torch.stack([resize_crop(i, HEIGHT, WIDTH) for i in mask], 1)[:1]
masks = torch.clamp((masks + 1) / 2, min=0, max=1)
hard = torch.where(masks > 0.5, 1.0, 0.0)
with torch.no_grad():
    latents = torch.cat([encode(frames * (1 - hard)), encode(frames * hard)], 1)
    own_references = [torch.cat([encode(canvas(r)), torch.zeros(1, 16, 1, HEIGHT // 8, WIDTH // 8)], 1) for r in references]
cells = masks[0].view(FRAMES, HEIGHT // 8, 8, WIDTH // 8, 8).permute(2, 4, 0, 1, 3).reshape(64, FRAMES, HEIGHT // 8, WIDTH // 8)
cells = torch.nn.functional.interpolate(cells[None], size=((FRAMES + 3) // 4, HEIGHT // 8, WIDTH // 8), mode="nearest-exact")
cells = torch.cat([torch.zeros_like(cells[:, :, :2]), cells], 2)
values["official.vace_context"] = torch.cat([torch.cat([*own_references, latents], 2), cells], 1).contiguous()
values["official.frames"] = frames[:, :2].contiguous()
values["official.reference"] = canvas(references[0]).contiguous()
values["reference"] = prepare(video, mask, references)[2][0][0].contiguous()
print("official against diffusers' context", far(values["official.vace_context"][:, :, 2:], values["control.vace_context"][:, :, 2:]))
save_file({k: v.contiguous() for k, v in values.items()}, to / "values.safetensors")

large = dict(dim=5120, ffn_dim=13824, num_heads=40, num_layers=40, in_dim=16, out_dim=16)
small = dict(dim=1536, ffn_dim=8960, num_heads=12, num_layers=30, in_dim=16, out_dim=16)
(root / "wan21_vace/released.json").write_text(json.dumps({
    "wan2.1-flf2v-14b": released(lambda: model_code.WanModel(model_type="flf2v", **{**large, "in_dim": 36})),
    "wan2.1-vace-1.3b": released(lambda: vace_code.VaceWanModel(vace_layers=list(range(0, 30, 2)), vace_in_dim=96, **small)),
    "wan2.1-vace-14b": released(lambda: vace_code.VaceWanModel(vace_layers=list(range(0, 40, 5)), vace_in_dim=96, **large)),
}, indent=1) + "\n")
for folder in ("wan21_flf2v", "wan21_vace"):
    for path in (root / folder).rglob("*.safetensors"):
        path.chmod(0o644)
