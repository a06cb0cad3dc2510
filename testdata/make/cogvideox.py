"""Makes testdata/cogvideox15, cogvideox15_i2v and cogvideox_i2v: tiny
CogVideoX transformers with random weights, inputs, and what diffusers computes.

    python testdata/make/cogvideox.py testdata

Needs diffusers (0.42.1), torch, safetensors, numpy. Weights lie on the bfloat16
grid and are stored as such.
"""
import json
import os
import sys
import types
import zlib

import numpy as np
import torch
from diffusers import CogVideoXImageToVideoPipeline, CogVideoXTransformer3DModel
from safetensors.torch import save_file

torch.set_grad_enabled(False)

BASE = {
    "activation_fn": "gelu-approximate", "attention_bias": True, "attention_head_dim": 16, "flip_sin_to_cos": True,
    "freq_shift": 0, "in_channels": 4, "max_text_seq_length": 6, "norm_elementwise_affine": True, "norm_eps": 1e-05,
    "num_attention_heads": 4, "num_layers": 2, "out_channels": 4, "patch_bias": True, "patch_size": 2,
    "patch_size_t": None, "sample_frames": 49, "sample_height": 60, "sample_width": 90,
    "spatial_interpolation_scale": 1.875, "temporal_compression_ratio": 4, "temporal_interpolation_scale": 1.0,
    "text_embed_dim": 24, "time_embed_dim": 32, "timestep_activation_fn": "silu",
    "use_learned_positional_embeddings": False, "use_rotary_positional_embeddings": True,
}
# latents: frames, height, width
MODELS = {
    "cogvideox15": ({"patch_size_t": 2, "patch_bias": False, "sample_frames": 81, "sample_height": 12,
                     "sample_width": 20}, (4, 6, 10)),
    "cogvideox15_i2v": ({"patch_size_t": 2, "patch_bias": False, "in_channels": 8, "ofs_embed_dim": 32,
                         "num_layers": 1, "sample_frames": 81, "sample_height": 12, "sample_width": 20}, (2, 12, 6)),
    "cogvideox_i2v": ({"in_channels": 8, "use_learned_positional_embeddings": True, "num_layers": 1,
                       "sample_frames": 9, "sample_height": 6, "sample_width": 10}, (3, 6, 10)),
}


def random(name, shape, std=1.0, mean=0.0):
    g = np.random.default_rng([2130, zlib.crc32(name.encode())])
    return torch.from_numpy((g.standard_normal(shape) * std + mean).astype(np.float32))


def weight(name, shape):
    if name.endswith("bias"):
        w = random(name, shape, 0.1)
    elif len(shape) == 1:
        w = random(name, shape, 0.2, 1.0)
    elif name.endswith("pos_embedding"):
        w = random(name, shape, 0.5)
    else:
        w = random(name, shape, float(np.prod(shape[1:])) ** -0.5)
    return w.bfloat16()


def make(name, out):
    change, (f, h, w) = MODELS[name]
    c = {**BASE, **change}
    m = CogVideoXTransformer3DModel(**c).eval()
    weights = {k: weight(k, v.shape) for k, v in m.state_dict().items()}
    m.load_state_dict({k: v.float() for k, v in weights.items()}, strict=True)
    b = 2
    inputs = {"x": random("x", (b, f, c["in_channels"], h, w)), "t": torch.tensor([731.5, 40.0]),
              "text": random("text", (b, c["max_text_seq_length"], c["text_embed_dim"]))}
    ofs = {}
    if "ofs_embed_dim" in c:
        inputs["ofs"] = torch.full((b,), 2.0)
        ofs = {"ofs": inputs["ofs"]}
    at = types.SimpleNamespace(transformer=m, vae_scale_factor_spatial=8)
    rope = CogVideoXImageToVideoPipeline._prepare_rotary_positional_embeddings(at, h * 8, w * 8, f, "cpu")
    expected = {}
    for i, block in enumerate(m.transformer_blocks):
        block.register_forward_hook(lambda _m, _i, o, i=i: expected.update(
            {f"block_{i}": o[0].clone(), f"block_{i}_text": o[1].clone()}))
    expected["out"] = m(inputs["x"], inputs["text"], inputs["t"], image_rotary_emb=rope, return_dict=False, **ofs)[0]
    expected["rope_cos"], expected["rope_sin"] = rope
    to = os.path.join(out, name)
    os.makedirs(to, exist_ok=True)
    save_file(weights, os.path.join(to, "model.safetensors"), {"format": "pt"})
    save_file({k: v.contiguous() for k, v in inputs.items()}, os.path.join(to, "inputs.safetensors"))
    save_file({k: v.float().contiguous() for k, v in expected.items()}, os.path.join(to, "expected.safetensors"))
    with open(os.path.join(to, "config.json"), "w") as file:
        json.dump({"_class_name": "CogVideoXTransformer3DModel", **c}, file, indent=1, sort_keys=True)
        file.write("\n")


for each in MODELS:
    make(each, sys.argv[1])
