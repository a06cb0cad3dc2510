"""Makes testdata/hunyuan15: a tiny HunyuanVideo-1.5 transformer with random
weights, inputs of two videos, and what vidax and diffusers compute.

    python testdata/make/hunyuan15.py testdata

Needs vidax (0.1.0), jax, flax, torch, diffusers, safetensors, numpy. Weights lie
on the bfloat16 grid and are stored as such, under the released names. Both peers
fix the widths of byT5's projection in their code (1472, 2048, 2048): here it is
built with small ones, otherwise as they have it. diffusers.json lists the names
that diffusers' model has.

`out` is image-to-video, `out_t2v` text-to-video: the same inputs with zeros for
the image's latents and rows, and those rows masked. The texts are of different
lengths, and one has no row of byT5.
"""
import json
import os
import sys
import zlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import flax.linen as nn  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import diffusers.models.transformers.transformer_hunyuan_video15 as D15  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402
from vidax.models.hunyuan_video.hunyuan_video1_5 import byt5  # noqa: E402
from vidax.models.hunyuan_video.hunyuan_video1_5.configs import dit_kwargs_from_transformer_config  # noqa: E402
from vidax.models.hunyuan_video.hunyuan_video1_5.dit import HunyuanVideo15DiT, _patchify  # noqa: E402
from vidax.translator import load_torch_checkpoint_to_jax  # noqa: E402

jax.config.update("jax_default_matmul_precision", "highest")
torch.set_grad_enabled(False)

CONFIG = {
    "_class_name": "HunyuanVideo_1_5_DiffusionTransformer", "hidden_size": 32, "heads_num": 4, "in_channels": 4,
    "out_channels": 4, "mlp_width_ratio": 3.0, "mlp_act_type": "gelu_tanh", "mm_double_blocks_depth": 2,
    "mm_single_blocks_depth": 0, "patch_size": [1, 1, 1], "rope_dim_list": [2, 4, 2], "rope_theta": 256,
    "qkv_bias": True, "qk_norm": True, "guidance_embed": False, "text_projection": "single_refiner",
    "use_attention_mask": True, "text_states_dim": 24, "text_states_dim_2": None, "text_pool_type": None,
    "concat_condition": True, "is_reshape_temporal_channels": False, "glyph_byT5_v2": True,
    "vision_projection": "linear", "vision_states_dim": 12, "use_cond_type_embedding": True,
    "byt5_dim": 20, "byt5_hidden": 16,
}
D, HEADS, BYT5, HIDDEN = CONFIG["hidden_size"], CONFIG["heads_num"], CONFIG["byt5_dim"], CONFIG["byt5_hidden"]
FF = int(D * CONFIG["mlp_width_ratio"])
REFINER = "txt_in.individual_token_refiner.blocks."

Mapper = byt5.ByT5Mapper
byt5.ByT5Mapper = lambda in_dim, hidden_dim, out_dim1, name: Mapper(
    in_dim=BYT5, hidden_dim=HIDDEN, out_dim=HIDDEN, out_dim1=out_dim1, name=name)
Projection = D15.HunyuanVideo15ByT5TextProjection
D15.HunyuanVideo15ByT5TextProjection = lambda i, hidden, out: Projection(i, HIDDEN, out)


def random(name, shape, std=1.0, mean=0.0):
    g = np.random.default_rng([2151, zlib.crc32(name.encode())])
    return (g.standard_normal(shape) * std + mean).astype(np.float32)


class Weights(dict):
    def put(self, name, shape, std, mean=0.0):
        self[name] = random(name, shape, std, mean).astype(ml_dtypes.bfloat16)

    def linear(self, name, out, inp):
        self.put(name + ".weight", (out, inp), inp ** -0.5)
        self.put(name + ".bias", (out,), 0.1)

    def norm(self, name, n):
        self.put(name + ".weight", (n,), 0.2, 1.0)
        self.put(name + ".bias", (n,), 0.1)


def weights():
    c, w = CONFIG, Weights()
    wide = 2 * c["in_channels"] + 1
    w.put("img_in.proj.weight", (D, wide, 1, 1, 1), wide ** -0.5)
    w.put("img_in.proj.bias", (D,), 0.1)
    for n in ("time_in", "txt_in.t_embedder"):
        w.linear(n + ".mlp.0", D, 256)
        w.linear(n + ".mlp.2", D, D)
    w.linear("txt_in.input_embedder", D, c["text_states_dim"])
    w.linear("txt_in.c_embedder.linear_1", D, c["text_states_dim"])
    w.linear("txt_in.c_embedder.linear_2", D, D)
    for i in range(2):
        b = f"{REFINER}{i}."
        w.norm(b + "norm1", D)
        w.norm(b + "norm2", D)
        w.linear(b + "self_attn_qkv", 3 * D, D)
        w.linear(b + "self_attn_proj", D, D)
        w.linear(b + "mlp.fc1", 4 * D, D)
        w.linear(b + "mlp.fc2", D, 4 * D)
        w.linear(b + "adaLN_modulation.1", 2 * D, D)
    w.norm("byt5_in.layernorm", BYT5)
    w.linear("byt5_in.fc1", HIDDEN, BYT5)
    w.linear("byt5_in.fc2", HIDDEN, HIDDEN)
    w.linear("byt5_in.fc3", D, HIDDEN)
    w.norm("vision_in.proj.0", c["vision_states_dim"])
    w.linear("vision_in.proj.1", c["vision_states_dim"], c["vision_states_dim"])
    w.linear("vision_in.proj.3", D, c["vision_states_dim"])
    w.norm("vision_in.proj.4", D)
    w.put("cond_type_embedding.weight", (3, D), 1.0)
    for i in range(c["mm_double_blocks_depth"]):
        for stream in ("img", "txt"):
            b = f"double_blocks.{i}.{stream}_"
            w.linear(b + "mod.linear", 6 * D, D)
            for part in "qkv":
                w.linear(b + "attn_" + part, D, D)
            for part in "qk":
                w.put(f"{b}attn_{part}_norm.weight", (D // HEADS,), 0.2, 1.0)
            w.linear(b + "attn_proj", D, D)
            w.linear(b + "mlp.fc1", FF, D)
            w.linear(b + "mlp.fc2", D, FF)
    w.linear("final_layer.linear", c["out_channels"], D)
    w.linear("final_layer.adaLN_modulation.1", 2 * D, D)
    return w


# Official module names to diffusers', before .weight or .bias.
NAMES = {
    "img_in.proj": "x_embedder.proj", "final_layer.linear": "proj_out",
    "final_layer.adaLN_modulation.1": "norm_out.linear",
    "time_in.mlp.0": "time_embed.timestep_embedder.linear_1", "time_in.mlp.2": "time_embed.timestep_embedder.linear_2",
    "txt_in.t_embedder.mlp.0": "context_embedder.time_text_embed.timestep_embedder.linear_1",
    "txt_in.t_embedder.mlp.2": "context_embedder.time_text_embed.timestep_embedder.linear_2",
    "txt_in.c_embedder.linear_1": "context_embedder.time_text_embed.text_embedder.linear_1",
    "txt_in.c_embedder.linear_2": "context_embedder.time_text_embed.text_embedder.linear_2",
    "txt_in.input_embedder": "context_embedder.proj_in",
    "byt5_in.layernorm": "context_embedder_2.norm", "byt5_in.fc1": "context_embedder_2.linear_1",
    "byt5_in.fc2": "context_embedder_2.linear_2", "byt5_in.fc3": "context_embedder_2.linear_3",
    "vision_in.proj.0": "image_embedder.norm_in", "vision_in.proj.1": "image_embedder.linear_1",
    "vision_in.proj.3": "image_embedder.linear_2", "vision_in.proj.4": "image_embedder.norm_out",
    "cond_type_embedding": "cond_type_embed",
}
REFINED = {"norm1": "norm1", "norm2": "norm2", "self_attn_proj": "attn.to_out.0", "mlp.fc1": "ff.net.0.proj",
           "mlp.fc2": "ff.net.2", "adaLN_modulation.1": "norm_out.linear"}
BLOCK = {"img_attn_q": "attn.to_q", "img_attn_k": "attn.to_k", "img_attn_v": "attn.to_v",
         "txt_attn_q": "attn.add_q_proj", "txt_attn_k": "attn.add_k_proj", "txt_attn_v": "attn.add_v_proj",
         "img_attn_q_norm": "attn.norm_q", "img_attn_k_norm": "attn.norm_k",
         "txt_attn_q_norm": "attn.norm_added_q", "txt_attn_k_norm": "attn.norm_added_k",
         "img_attn_proj": "attn.to_out.0", "txt_attn_proj": "attn.to_add_out",
         "img_mlp.fc1": "ff.net.0.proj", "img_mlp.fc2": "ff.net.2",
         "txt_mlp.fc1": "ff_context.net.0.proj", "txt_mlp.fc2": "ff_context.net.2",
         "img_mod.linear": "norm1.linear", "txt_mod.linear": "norm1_context.linear"}


def diffusers_names(w):
    out = {}
    for name, x in w.items():
        module, leaf = name.rsplit(".", 1)
        x = x.astype(np.float32)
        if module.startswith(REFINER):
            i, rest = module[len(REFINER):].split(".", 1)
            b = f"context_embedder.token_refiner.refiner_blocks.{i}."
            if rest == "self_attn_qkv":
                for part, y in zip("qkv", np.split(x, 3)):
                    out[f"{b}attn.to_{part}.{leaf}"] = y
            else:
                out[f"{b}{REFINED[rest]}.{leaf}"] = x
        elif module.startswith("double_blocks."):
            _, i, rest = module.split(".", 2)
            out[f"transformer_blocks.{i}.{BLOCK[rest]}.{leaf}"] = x
        else:
            if module == "final_layer.adaLN_modulation.1":  # the scale before the shift
                x = np.concatenate(np.split(x, 2)[::-1])
            out[f"{NAMES[module]}.{leaf}"] = x
    return out


def torch_model(w):
    c = CONFIG
    m = D15.HunyuanVideo15Transformer3DModel(
        in_channels=2 * c["in_channels"] + 1, out_channels=c["out_channels"], num_attention_heads=HEADS,
        attention_head_dim=D // HEADS, num_layers=c["mm_double_blocks_depth"], num_refiner_layers=2,
        mlp_ratio=c["mlp_width_ratio"], patch_size=1, patch_size_t=1, text_embed_dim=c["text_states_dim"],
        text_embed_2_dim=BYT5, image_embed_dim=c["vision_states_dim"], rope_theta=float(c["rope_theta"]),
        rope_axes_dim=tuple(c["rope_dim_list"])).eval()
    m.load_state_dict({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in diffusers_names(w).items()}, strict=True)
    return m


def forward(m, x, t, context, mask, glyphs, glyph_mask, vision, kind):
    """What HunyuanVideo15DiT.__call__ gives, and values along the way."""
    o = {"out": m(x, t, context, mask, vision, glyphs, glyph_mask, mask_type=kind)}
    o["patch_embed"] = m.img_in_proj(_patchify(x, m.patch_size)[0])
    o["vec"] = m.time_in(t)
    o["text_refined"] = m.txt_in(context, t, mask)
    return o


def main(root):
    out = os.path.join(root, "hunyuan15")
    os.makedirs(out, exist_ok=True)
    c, w = CONFIG, weights()
    path = os.path.join(out, "model.safetensors")
    save_file(dict(w), path, {"format": "pt"})
    b, grid, rows, letters, image = 2, (2, 3, 5), 7, 5, 3
    mask, letter_mask = np.zeros((b, rows), np.int32), np.zeros((b, letters), np.int32)
    mask[0, :5], mask[1, :2], letter_mask[0, :3] = 1, 1, 1
    inputs = {"x": random("x", (b, c["in_channels"], *grid)), "t": np.asarray([731.0, 250.0], np.float32),
              "y": random("y", (b, c["in_channels"] + 1, *grid)), "context": random("context", (b, rows, c["text_states_dim"])),
              "context_mask": mask, "byt5": random("byt5", (b, letters, BYT5)), "byt5_mask": letter_mask,
              "vision": random("vision", (b, image, c["vision_states_dim"]))}
    model = HunyuanVideo15DiT(**dit_kwargs_from_transformer_config(c))
    params = load_torch_checkpoint_to_jax(path, "hunyuan_video1_5_dit")
    params = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), params)
    other = torch_model(w)
    expected = {}
    for kind, suffix in (("i2v", ""), ("t2v", "_t2v")):
        y, vision = inputs["y"], inputs["vision"]
        if kind == "t2v":
            y, vision = np.zeros_like(y), np.zeros_like(vision)
        x = np.concatenate([inputs["x"], y], axis=1)
        args = (x, inputs["t"], inputs["context"], mask, inputs["byt5"], letter_mask, vision)
        got = nn.apply(lambda m, *a: forward(m, *a, kind), model)(params, *map(jnp.asarray, args))
        for name, v in got.items():
            if name == "out" or kind == "i2v":
                expected[name + (suffix if name == "out" else "")] = v
        a = [torch.from_numpy(v) for v in args]
        hidden = []
        hooks = [blk.register_forward_hook(lambda _m, _i, o: hidden.append(o[0].numpy())) for blk in other.transformer_blocks]
        theirs = other(a[0], a[1], a[2], a[3], encoder_hidden_states_2=a[4], encoder_attention_mask_2=a[5],
                       image_embeds=a[6], return_dict=False)[0].numpy()
        for h in hooks:
            h.remove()
        if kind == "i2v":
            for i, v in enumerate(hidden):
                expected[f"double_{i}_img"] = v
        expected[f"out{suffix}_diffusers"] = theirs
        ours = np.asarray(got["out"])
        print(kind, "largest", np.abs(ours).max(), "vidax - diffusers", np.abs(ours - theirs).max())
    print("i2v - t2v", np.abs(np.asarray(expected["out"]) - np.asarray(expected["out_t2v"])).max())
    save_file(inputs, os.path.join(out, "inputs.safetensors"))
    save_file({k: np.ascontiguousarray(np.asarray(v, np.float32)) for k, v in expected.items()},
              os.path.join(out, "expected.safetensors"))
    for name, what in (("config", c), ("diffusers", sorted(other.state_dict()))):
        with open(os.path.join(out, name + ".json"), "w") as f:
            json.dump(what, f, indent=1, sort_keys=True)
            f.write("\n")
    for name in os.listdir(out):
        os.chmod(os.path.join(out, name), 0o644)


main(sys.argv[1])
