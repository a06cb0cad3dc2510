"""Small pipelines of CogVideoX 5B-I2V, CogVideoX 1.5, HunyuanVideo I2V and HunyuanVideo-1.5,
as diffusers writes them, with every value on the way to their videos.

    python testdata/make/pipelines_image.py testdata [NAME ...]

Made with diffusers 0.42.1, transformers 5.24.0, tokenizers 0.23.3, torch 2.15.0 and pillow 13.0.0,
in float32 on the CPU. Weights are drawn by name, on the bfloat16 grid, and stored as such.
Tokenizers, text encoders and autoencoders are those of the folders that testdata/pipelines has
already, where a release has the same ones.

Each folder gets request.json, image.png where the video begins with an image, inputs.safetensors
(the latents at the start, and every other draw that the pipeline makes) and values.safetensors:
ids and masks, what the text and the image became, the transformer's output in the first step,
timesteps, latents after each step, and frames.
"""
import contextlib
import copy
import importlib
import json
import math
import os
import pathlib
import shutil
import sys
import zlib

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

torch.set_grad_enabled(False)
torch.set_num_threads(2)
ROOT = pathlib.Path(sys.argv[1])
PIPELINES = ROOT / "pipelines"

PROMPT = "A cat’s slow walk on the grass, realistic style; soft light, 35 mm film…"
NEGATIVE = ("Bright tones, overexposed, static, blurred details, subtitles, style, works, paintings, images, static, "
            "overall gray, worst quality, low quality, JPEG compression residue, ugly, incomplete, extra fingers")


def generator(seed, name):
    return np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))


def normal(seed, name, shape):
    return torch.from_numpy(generator(seed, name).standard_normal(tuple(shape)).astype(np.float32))


def weight(seed, name, shape):
    """Values that bfloat16 holds, of a size that keeps activations near one."""
    x = normal(seed, name, shape)
    if name.endswith("bias"):
        x = 0.1 * x
    elif name.endswith(".gamma") or len(shape) == 1 and name.endswith("weight"):
        x = 1 + 0.2 * x
    elif len(shape) == 1:
        x = 0.3 * x
    elif any(n in name for n in ("position_embedding", "pos_embed")):
        x = 0.3 * x
    elif not any(n in name for n in ("embed_tokens", "shared.weight", "relative_attention_bias")):
        x = x / math.sqrt(math.prod(shape[1:]))
    return x.bfloat16().float()


def fill(model, seed, prefix):
    state = {n: weight(seed, prefix + n, t.shape) if t.is_floating_point() else t for n, t in model.state_dict().items()}
    model.load_state_dict(state)
    return model.eval().float()


def load(cls, folder, **config):
    """A module of another folder in float32, with changes of its configuration."""
    return cls.from_pretrained(folder, torch_dtype=torch.float32, **config).eval()


def draw_image(seed, size, path):
    """A smooth picture with edges and some noise."""
    (w, h), r = size, generator(seed, "image")
    y, x = np.mgrid[0:h, 0:w].astype(np.float64)
    im = np.zeros((h, w, 3))
    for c in range(3):
        for _ in range(4):
            fx, fy, at = r.uniform(0, 0.25), r.uniform(0, 0.25), r.uniform(0, 6.28)
            im[..., c] += np.sin(fx * x + fy * y + at)
        im[..., c] += 1.5 * ((x + r.uniform(-9, 9)) * (0.4 + c) > y * (1.3 - 0.3 * c))
    im = 127 + 45 * im + r.normal(0, 4, im.shape)
    image = Image.fromarray(np.clip(np.rint(im), 0, 255).astype(np.uint8))
    image.save(path)
    return image


class Draws:
    """Replaces a module's randn_tensor by draws that are kept."""

    def __init__(self, seed, module, name):
        self.seed, self.module, self.name, self.drawn = seed, importlib.import_module(module), name, {}

    def __enter__(self):
        self.old = self.module.randn_tensor

        def draw(shape, *_, **__):
            name = f"{self.name}.{len(self.drawn)}"
            self.drawn[name] = normal(self.seed, name, shape)
            return self.drawn[name].clone()
        self.module.randn_tensor = draw
        return self

    def __exit__(self, *_):
        self.module.randn_tensor = self.old


def fast_tokenizer(name, **kw):
    return PreTrainedTokenizerFast(tokenizer_file=str(ROOT / "tokenizers" / name / "tokenizer.json"), **kw)


def encode_ids(tokenizer, texts, length):
    t = tokenizer(texts, padding="max_length", max_length=length, truncation=True, return_tensors="pt")
    return t["input_ids"].int(), t["attention_mask"].int()


def save_folder(pipe, folder, parts, copied):
    """Writes a pipeline: modules in bfloat16, which holds their weights, and copied files."""
    shutil.rmtree(folder, ignore_errors=True)
    kept = {n: getattr(pipe, n) for n in parts if getattr(pipe, n, None) is not None}
    for n, m in kept.items():
        setattr(pipe, n, copy.deepcopy(m).bfloat16())
    pipe.save_pretrained(folder)
    for n, m in kept.items():
        setattr(pipe, n, m)
    for name, source in copied.items():
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(source, folder / name)
    for path in folder.rglob("*.json"):
        path.chmod(0o644)
        if path.name in ("config.json", "model_index.json", "scheduler_config.json"):
            j = json.loads(path.read_text())
            j.pop("_name_or_path", None)
            path.write_text(json.dumps(j, indent=1, sort_keys=True) + "\n")


class Recorder:
    """The latents after each step, and what the transformer gave in the first."""

    def __init__(self, transformer):
        self.latents, self.outputs = [], []
        self.hook = transformer.register_forward_hook(lambda m, a, out: self.outputs.append(out[0].clone()) and None)

    def step(self, pipe, i, t, kw):
        self.latents.append(kw["latents"][0].clone())
        return {}


def write(name, values, inputs, request):
    folder = PIPELINES / name
    frames = values["frames"]
    values["frames_u8"] = torch.from_numpy(np.rint(frames.numpy() * 255).astype(np.uint8))
    save_file({k: v.contiguous() for k, v in values.items()}, folder / "values.safetensors")
    save_file({k: v.contiguous() for k, v in inputs.items()}, folder / "inputs.safetensors")
    (folder / "request.json").write_text(json.dumps(request, indent=1, sort_keys=True) + "\n")
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    peak = [round(float(x.abs().max()), 2) for x in values["latents"]]
    at_end = float(((frames == 0) | (frames == 1)).float().mean())
    print(f"{name}: {size / 1e6:.2f} MB, latents to {peak}, frames {tuple(frames.shape)} std {float(frames.std()):.3f}, {at_end:.3f} of them at 0 or 1")


# CogVideoX: the text encoder, the tokenizer and the autoencoder's weights are cogvideox_5b's.

COG = {
    "cogvideox_5b_i2v": dict(
        seed=4101, image=(43, 37), size=(48, 16), frames=9, scheduler="dpm", vae={"scaling_factor": 0.7},
        dit=dict(in_channels=32, use_learned_positional_embeddings=True, sample_width=6, sample_height=2, sample_frames=9)),
    "cogvideox15_5b": dict(
        seed=4102, size=(32, 16), frames=17, scheduler="ddim", vae={"scaling_factor": 0.7},
        dit=dict(in_channels=16, patch_size_t=2, patch_bias=False, sample_width=8, sample_height=8, sample_frames=81)),
    "cogvideox15_5b_i2v": dict(
        seed=4103, image=(61, 29), size=(16, 48), frames=9, scheduler="dpm", vae={"scaling_factor": 0.7, "invert_scale_latents": True},
        dit=dict(in_channels=32, patch_size_t=2, patch_bias=False, ofs_embed_dim=32, sample_width=8, sample_height=8, sample_frames=81)),
}


def cogvideox(name):
    from diffusers import (AutoencoderKLCogVideoX, CogVideoXDDIMScheduler, CogVideoXDPMScheduler, CogVideoXImageToVideoPipeline,
                           CogVideoXPipeline, CogVideoXTransformer3DModel)
    from transformers import T5EncoderModel
    spec, base, folder = COG[name], PIPELINES / "cogvideox_5b", PIPELINES / name
    seed, (width, height) = spec["seed"], spec["size"]
    tokenizer = fast_tokenizer("t5", pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=226)
    text_encoder = load(T5EncoderModel, base / "text_encoder")
    vae = load(AutoencoderKLCogVideoX, base / "vae", **spec["vae"])
    dit = fill(CogVideoXTransformer3DModel(
        num_attention_heads=2, attention_head_dim=16, out_channels=16, time_embed_dim=32, text_embed_dim=32, num_layers=1,
        max_text_seq_length=226, use_rotary_positional_embeddings=True, **spec["dit"]), seed, "dit.")
    scheduler = {"dpm": CogVideoXDPMScheduler, "ddim": CogVideoXDDIMScheduler}[spec["scheduler"]](
        num_train_timesteps=1000, beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", prediction_type="v_prediction",
        rescale_betas_zero_snr=True, set_alpha_to_one=True, clip_sample=False, timestep_spacing="trailing", snr_shift_scale=1.0)
    cls = CogVideoXImageToVideoPipeline if "image" in spec else CogVideoXPipeline
    pipe = cls(tokenizer=tokenizer, text_encoder=text_encoder, vae=vae, transformer=dit, scheduler=scheduler)
    pipe.set_progress_bar_config(disable=True)
    save_folder(pipe, folder, ["transformer"], {"tokenizer": base / "tokenizer", "text_encoder": base / "text_encoder"})
    # The autoencoder's configuration differs from that of cogvideox_5b, its weights do not.
    shutil.copyfile(base / "vae/diffusion_pytorch_model.safetensors", folder / "vae/diffusion_pytorch_model.safetensors")
    index = json.loads((folder / "model_index.json").read_text())
    index["tokenizer"] = ["transformers", "T5Tokenizer"]
    (folder / "model_index.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")

    values = {}
    values["ids"], values["mask"] = encode_ids(tokenizer, [PROMPT, NEGATIVE], 226)
    values["text_embeds"] = torch.cat(pipe.encode_prompt(PROMPT, NEGATIVE, True, max_sequence_length=226))
    assert torch.equal(values["text_embeds"], load_file(base / "values.safetensors")["text_embeds"])
    values["text_embeds"] = values["text_embeds"][:, :64]  # and 162 more rows of padding
    per = dit.config.patch_size_t or 1
    own = (spec["frames"] - 1) // 4 + 1
    inputs = {"latents": normal(seed, "latents", (1, own + own % per, 16, height // 8, width // 8))}
    kw = dict(prompt=PROMPT, negative_prompt=NEGATIVE, height=height, width=width, num_frames=spec["frames"], num_inference_steps=4, guidance_scale=6.0)
    request = dict(kw, pipeline=cls.__name__)
    if "image" in spec:
        kw["image"] = draw_image(seed, spec["image"], folder / "image.png")
        request["image"] = "image.png"
    record = Recorder(dit)
    conditions = []
    if "image" in spec:
        hook = dit.register_forward_pre_hook(lambda m, a, kw: conditions.append(kw["hidden_states"][:1, :, 16:].clone()) and None, with_kwargs=True)
    with contextlib.ExitStack() as stack:
        draws = [stack.enter_context(Draws(seed, "diffusers.models.autoencoders.vae", "encode_noise"))]
        if spec["scheduler"] == "dpm":
            draws.append(stack.enter_context(Draws(seed, "diffusers.schedulers.scheduling_dpm_cogvideox", "noise")))
        frames = pipe(latents=inputs["latents"].clone(), output_type="np", callback_on_step_end=record.step, **kw).frames[0]
    for d in draws:
        inputs.update(d.drawn)
    values["frames"] = torch.from_numpy(np.asarray(frames, np.float32))
    values["latents"] = torch.stack(record.latents)
    values["timesteps"] = pipe.scheduler.timesteps.float()
    if "image" in spec:
        values["condition"] = conditions[0]
    else:  # uncond first, then cond, in one batch
        values["noise_uncond"], values["noise_cond"] = record.outputs[0][:1], record.outputs[0][1:]
    write(name, values, inputs, request)


# HunyuanVideo-I2V: tokenizers, CLIP and the autoencoder are hunyuan_video's.

HUNYUAN = {
    "hunyuan_i2v": dict(seed=4111, kind="token_replace", guidance=6.0, image=(51, 43), size=(48, 16), frames=9),
    "hunyuan_i2v_33ch": dict(seed=4112, kind="latent_concat", guidance=1.0, image=(37, 59), size=(16, 48), frames=9),
}


class StepRecorder:
    """The latents that a scheduler gives after each step, and what the transformer gave in the first."""

    def __init__(self, pipe):
        self.latents, self.outputs = [], []
        pipe.transformer.register_forward_hook(lambda m, a, out: self.outputs.append(out[0].clone()) and None)
        step = pipe.scheduler.step

        def recorded(*a, **kw):
            out = step(*a, **kw)
            self.latents.append(out[0][0].clone())
            return out
        pipe.scheduler.step = recorded


def llava(seed, tokenizer):
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration
    vision = CLIPVisionConfig(hidden_size=16, intermediate_size=40, num_hidden_layers=3, num_attention_heads=2, image_size=28, patch_size=7, projection_dim=16)
    text = LlamaConfig(vocab_size=3520, hidden_size=16, intermediate_size=40, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1,
                       max_position_embeddings=8192, rms_norm_eps=1e-5, rope_theta=500000.0, pad_token_id=tokenizer.pad_token_id,
                       bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, tie_word_embeddings=True)
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_index=tokenizer.convert_tokens_to_ids("<image>"), vision_feature_layer=-2,
                         vision_feature_select_strategy="default", pad_token_id=tokenizer.pad_token_id, tie_word_embeddings=True, image_seq_length=16)
    return fill(LlavaForConditionalGeneration(config), seed, "llava.")


def hunyuan(name):
    from diffusers import AutoencoderKLHunyuanVideo, FlowMatchEulerDiscreteScheduler, HunyuanVideoImageToVideoPipeline, HunyuanVideoTransformer3DModel
    from diffusers.pipelines.hunyuan_video.pipeline_hunyuan_video_image2video import DEFAULT_PROMPT_TEMPLATE
    from transformers import CLIPTextModel
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    spec, base, folder = HUNYUAN[name], PIPELINES / "hunyuan_video", PIPELINES / name
    seed, (width, height) = spec["seed"], spec["size"]
    tokenizer = fast_tokenizer("llama3", pad_token="<pad>", bos_token="<|begin_of_text|>", eos_token="<|end_of_text|>", padding_side="right", model_max_length=int(1e30))
    tokenizer_2 = fast_tokenizer("clip", pad_token="<|endoftext|>", bos_token="<|startoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>", model_max_length=77)
    text_encoder = llava(4110, tokenizer)  # one for both kinds
    concat = spec["kind"] == "latent_concat"
    dit = fill(HunyuanVideoTransformer3DModel(
        in_channels=33 if concat else 16, out_channels=16, num_attention_heads=2, attention_head_dim=8, num_layers=1, num_single_layers=1, num_refiner_layers=2,
        mlp_ratio=2.0, patch_size=2, patch_size_t=1, guidance_embeds=not concat, text_embed_dim=16, pooled_projection_dim=24, rope_theta=256.0,
        rope_axes_dim=(2, 4, 2), image_condition_type=spec["kind"]), seed, "dit.")
    processor = CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    pipe = HunyuanVideoImageToVideoPipeline(
        text_encoder=text_encoder, tokenizer=tokenizer, transformer=dit, vae=load(AutoencoderKLHunyuanVideo, base / "vae"),
        scheduler=FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=7.0), text_encoder_2=load(CLIPTextModel, base / "text_encoder_2"),
        tokenizer_2=tokenizer_2, image_processor=processor)
    pipe.set_progress_bar_config(disable=True)
    save_folder(pipe, folder, ["transformer", "text_encoder"], {n: base / n for n in ("tokenizer", "tokenizer_2", "text_encoder_2", "vae")})
    image = draw_image(seed, spec["image"], folder / "image.png")
    # The release's image has 576 rows from row 5 on. Here it has 16, from where its token stands.
    text = DEFAULT_PROMPT_TEMPLATE["template"].format(PROMPT)
    at = tokenizer(text).input_ids.index(text_encoder.config.image_token_index)
    template = dict(DEFAULT_PROMPT_TEMPLATE, image_emb_len=16, image_emb_start=at, image_emb_end=at + 16)

    values, reads = {}, {}
    hook = text_encoder.register_forward_pre_hook(lambda m, a, kw: reads.update(kw) and None, with_kwargs=True)
    embeds, pooled, mask = pipe.encode_prompt(image=image, prompt=PROMPT, prompt_template=template, image_embed_interleave=2 if concat else 4)
    hook.remove()
    # Rows of padding depend on the positions that they are given, and nothing reads them.
    values["text_embeds"], values["pooled_embeds"], values["text_mask"] = embeds[:, :int(mask.sum())], pooled, mask.int()
    values["ids"], values["mask"] = reads["input_ids"].int(), reads["attention_mask"].int()
    values["ids_2"], _ = encode_ids(tokenizer_2, [PROMPT], 77)
    inputs = {"latents": normal(seed, "latents", (1, 16, (spec["frames"] - 1) // 4 + 1, height // 8, width // 8))}
    record = StepRecorder(pipe)
    seen = []
    dit.register_forward_pre_hook(lambda m, a, kw: seen.append(kw["hidden_states"].clone()) and None, with_kwargs=True)
    kw = dict(prompt=PROMPT, height=height, width=width, num_frames=spec["frames"], num_inference_steps=4, guidance_scale=spec["guidance"])
    frames = pipe(image=image, latents=inputs["latents"].clone(), output_type="np", prompt_template=template, **kw).frames[0]
    values["frames"] = torch.from_numpy(np.asarray(frames, np.float32))
    values["latents"] = torch.stack(record.latents)
    values["timesteps"], values["sigmas"] = pipe.scheduler.timesteps.float(), pipe.scheduler.sigmas.float()
    values["condition"] = seen[0][:, 16:] if concat else seen[0][:, :, :1]
    write(name, values, inputs, dict(kw, pipeline=type(pipe).__name__, image="image.png"))


# HunyuanVideo-1.5: the autoencoder is that of vaes/hunyuan_video_15.

HUNYUAN15 = {
    "hunyuan15_t2v": dict(seed=4121, size=(32, 16), frames=9),
    "hunyuan15_i2v": dict(seed=4121, image=(71, 45), frames=5),
}
CHAT = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
SIGNS = "A shop’s sign says \"WEFT & co\", the door “Zürich, 8°” and \"WEFT & co\" again; slow pan, soft light."


def hunyuan15(name):
    import diffusers.models.transformers.transformer_hunyuan_video15 as source
    from diffusers import (AutoencoderKLHunyuanVideo15, ClassifierFreeGuidance, FlowMatchEulerDiscreteScheduler, HunyuanVideo15ImageToVideoPipeline,
                           HunyuanVideo15Pipeline)
    from transformers import ByT5Tokenizer, Qwen2_5_VLTextConfig, Qwen2_5_VLTextModel, SiglipVisionConfig, SiglipVisionModel, T5Config, T5EncoderModel
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
    spec, folder = HUNYUAN15[name], PIPELINES / name
    seed = spec["seed"]
    # diffusers has the width of the middle of byT5's projection, 2048, in its code.
    projection = source.HunyuanVideo15ByT5TextProjection
    source.HunyuanVideo15ByT5TextProjection = lambda i, hidden, out: projection(i, 24, out)
    tokenizer = fast_tokenizer("qwen2", pad_token="<|endoftext|>", eos_token="<|im_end|>", padding_side="right", model_max_length=131072, chat_template=CHAT)
    tokenizer_2 = ByT5Tokenizer()
    text_encoder = fill(Qwen2_5_VLTextModel(Qwen2_5_VLTextConfig(
        vocab_size=(len(tokenizer) + 63) // 64 * 64, hidden_size=16, intermediate_size=40, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, bos_token_id=None, eos_token_id=None,
        rms_norm_eps=1e-6, max_position_embeddings=2048, rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [1, 1, 2]})), seed, "qwen.")
    text_encoder_2 = fill(T5EncoderModel(T5Config(
        vocab_size=384, d_model=20, d_kv=8, d_ff=32, num_layers=2, num_heads=2, relative_attention_num_buckets=32, relative_attention_max_distance=128,
        feed_forward_proj="gated-gelu", dropout_rate=0.0, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, tie_word_embeddings=False)), seed, "byt5.")
    task = "i2v" if "image" in spec else "t2v"
    dit = fill(source.HunyuanVideo15Transformer3DModel(
        in_channels=17, out_channels=8, num_attention_heads=2, attention_head_dim=8, num_layers=2, num_refiner_layers=2, mlp_ratio=2.0, patch_size=1, patch_size_t=1,
        text_embed_dim=16, text_embed_2_dim=20, image_embed_dim=16, rope_theta=256.0, rope_axes_dim=(2, 4, 2), target_size=48, task_type=task), seed, "dit.")
    parts = dict(
        text_encoder=text_encoder, tokenizer=tokenizer, transformer=dit, vae=load(AutoencoderKLHunyuanVideo15, ROOT / "vaes/hunyuan_video_15/diffusers"),
        scheduler=FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=5.0), text_encoder_2=text_encoder_2, tokenizer_2=tokenizer_2,
        guider=ClassifierFreeGuidance(guidance_scale=6.0))
    cls = HunyuanVideo15Pipeline
    if "image" in spec:
        cls = HunyuanVideo15ImageToVideoPipeline
        parts["image_encoder"] = fill(SiglipVisionModel(SiglipVisionConfig(
            hidden_size=16, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, image_size=30, patch_size=7)), seed, "siglip.")
        parts["feature_extractor"] = SiglipImageProcessorPil(size={"height": 30, "width": 30})
    pipe = cls(**parts)
    pipe.set_progress_bar_config(disable=True)
    save_folder(pipe, folder, ["transformer", "text_encoder", "text_encoder_2", "image_encoder"], {})
    for n in ("config.json", "diffusion_pytorch_model.safetensors"):
        if (ROOT / "vaes/hunyuan_video_15/diffusers" / n).exists():
            shutil.copyfile(ROOT / "vaes/hunyuan_video_15/diffusers" / n, folder / "vae" / n)
    for n in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(ROOT / "tokenizers/qwen2" / n, folder / "tokenizer" / n)
    config = json.loads((folder / "transformer/config.json").read_text())
    config["byt5_hidden"] = 24
    (folder / "transformer/config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")

    kw = dict(prompt=SIGNS, negative_prompt="", num_frames=spec["frames"], num_inference_steps=4)
    request = dict(kw, pipeline=cls.__name__, guidance_scale=6.0)
    width, height = spec.get("size", (0, 0))
    if "image" in spec:
        image = draw_image(seed, spec["image"], folder / "image.png")
        height, width = pipe.video_processor.calculate_default_height_width(height=image.size[1], width=image.size[0], target_size=48)
        run = dict(kw, image=image)
        request["image"] = "image.png"
    else:
        run = dict(kw, height=height, width=width)
    request.update(width=width, height=height)

    values, reads, reads_2, seen = {}, [], [], []
    hooks = [text_encoder.register_forward_pre_hook(lambda m, a, k: reads.append(k) and None, with_kwargs=True),
             text_encoder_2.register_forward_pre_hook(lambda m, a, k: reads_2.append(k) and None, with_kwargs=True),
             dit.register_forward_pre_hook(lambda m, a, k: seen.append({n: v.clone() for n, v in k.items() if isinstance(v, torch.Tensor)}) and None, with_kwargs=True)]
    inputs = {"latents": normal(seed, "latents", (1, 8, (spec["frames"] - 1) // 4 + 1, height // 16, width // 16))}
    record = StepRecorder(pipe)
    frames = pipe(latents=inputs["latents"].clone(), output_type="np", **run).frames[0]
    for h in hooks:
        h.remove()
    values["frames"] = torch.from_numpy(np.asarray(frames, np.float32))
    values["latents"] = torch.stack(record.latents)
    values["timesteps"], values["sigmas"] = pipe.scheduler.timesteps.float(), pipe.scheduler.sigmas.float()
    values["ids"] = torch.cat([r["input_ids"] for r in reads]).int()
    values["mask"] = torch.cat([r["attention_mask"] for r in reads]).int()
    none = torch.zeros(1, 256, dtype=torch.int32)  # nothing is quoted in the negative prompt
    values["ids_2"], values["mask_2"] = torch.cat([reads_2[0]["input_ids"].int(), none]), torch.cat([reads_2[0]["attention_mask"].int(), none])
    assert len(reads) == 2 and len(reads_2) == 1 and len(seen) == 8
    # Padding is a thousand rows that nothing reads: those of the texts are kept.
    n = int(values["mask"][:, 108:].sum(1).max())
    values["text_embeds"] = torch.cat([s["encoder_hidden_states"][:, :n] for s in seen[:2]])
    m = int(values["mask_2"].sum(1).max())
    values["byt5_embeds"] = seen[0]["encoder_hidden_states_2"][:, :m]
    values["noise_cond"], values["noise_uncond"] = record.outputs[0], record.outputs[1]
    if "image" in spec:
        values["image_embeds"], values["condition"] = seen[0]["image_embeds"], seen[0]["hidden_states"][:, 8:]
    write(name, values, inputs, request)


MAKERS = {**{n: cogvideox for n in COG}, **{n: hunyuan for n in HUNYUAN}, **{n: hunyuan15 for n in HUNYUAN15}}

if __name__ == "__main__":
    for n in sys.argv[2:] or MAKERS:
        MAKERS[n](n)
