"""Makes testdata/ltx25 and testdata/ltx25_connector: a tiny LTX-2.5 video
transformer and connector with random weights, inputs, and what vidax computes.

    python testdata/make/ltx25.py testdata

Needs vidax (0.1.0), jax, flax, safetensors, numpy. Weights lie on the bfloat16
grid and are stored as such, under the released names.
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
from safetensors.numpy import save_file  # noqa: E402
from vidax.models.ltx2_5.configs import (  # noqa: E402
    connector_kwargs_from_transformer_config, dit_kwargs_from_transformer_config)
from vidax.models.ltx2_5.connector import Embeddings1DConnector  # noqa: E402
from vidax.models.ltx2_5.dit import LTXDiT  # noqa: E402
from vidax.models.ltx2_5.patchifier import get_latent_coord_bounds, latent_to_pixel_coord_bounds  # noqa: E402
from vidax.translator import load_torch_checkpoint_to_jax  # noqa: E402

jax.config.update("jax_default_matmul_precision", "highest")

PREFIX = "model.diffusion_model."
CONFIG = {
    "num_attention_heads": 4, "attention_head_dim": 16, "in_channels": 8, "out_channels": 8, "num_layers": 2,
    "cross_attention_dim": 64, "positional_embedding_theta": 10000.0, "positional_embedding_max_pos": [20, 2048, 2048],
    "timestep_scale_multiplier": 1000, "norm_eps": 1e-06, "ff_bias": False, "cross_attention_adaln": True,
    "apply_gated_attention": True, "use_keyframes_abs_pos_embedding": True, "frequencies_precision": "float64",
    "rope_type": "split", "use_middle_indices_grid": True, "causal_temporal_positioning": True,
    "caption_proj_before_connector": True,
    "connector_num_attention_heads": 4, "connector_attention_head_dim": 16, "connector_num_layers": 2,
    "connector_positional_embedding_max_pos": [4096], "connector_num_learnable_registers": 4,
    "connector_apply_gated_attention": True, "connector_ff_bias": True,
}
D = CONFIG["num_attention_heads"] * CONFIG["attention_head_dim"]


def random(name, shape, std=1.0, mean=0.0):
    g = np.random.default_rng([2140, zlib.crc32(name.encode())])
    return (g.standard_normal(shape) * std + mean).astype(np.float32)


class Weights(dict):
    def put(self, name, shape, std, mean=0.0):
        self[PREFIX + name] = random(name, shape, std, mean).astype(ml_dtypes.bfloat16)

    def linear(self, name, out, inp, bias=True):
        self.put(name + ".weight", (out, inp), inp ** -0.5)
        if bias:
            self.put(name + ".bias", (out,), 0.1)

    def attention(self, name, heads):
        for part in ("to_q", "to_k", "to_v", "to_out.0"):
            self.linear(f"{name}.{part}", D, D)
        self.linear(name + ".to_gate_logits", heads, D)
        for part in ("q_norm", "k_norm"):
            self.put(f"{name}.{part}.weight", (D,), 0.2, 1.0)

    def ffn(self, name, bias):
        self.linear(name + ".net.0.proj", 4 * D, D, bias)
        self.linear(name + ".net.2", D, 4 * D, bias)


def save(out, weights, inputs, expected, config):
    os.makedirs(out, exist_ok=True)
    save_file(dict(weights), os.path.join(out, "model.safetensors"), {"format": "pt"})
    for name, tensors in (("inputs", inputs), ("expected", expected)):
        save_file({k: np.ascontiguousarray(np.asarray(v, np.float32)) for k, v in tensors.items()},
                  os.path.join(out, name + ".safetensors"))
    with open(os.path.join(out, "config.json"), "w") as f:
        json.dump(config, f, indent=1, sort_keys=True)
        f.write("\n")
    for name in os.listdir(out):
        os.chmod(os.path.join(out, name), 0o644)


def transformer(out):
    c, w = CONFIG, Weights()
    w.linear("patchify_proj", D, c["in_channels"])
    for name, parts in (("adaln_single", 9), ("prompt_adaln_single", 2)):
        w.linear(name + ".emb.timestep_embedder.linear_1", D, 256)
        w.linear(name + ".emb.timestep_embedder.linear_2", D, D)
        w.linear(name + ".linear", parts * D, D)
    w.put("keyframes_abs_pos_embedding", (1, D), 0.5)
    for i in range(c["num_layers"]):
        b = f"transformer_blocks.{i}"
        w.put(b + ".scale_shift_table", (9, D), 0.3)
        w.put(b + ".prompt_scale_shift_table", (2, D), 0.3)
        for a in ("attn1", "attn2"):
            w.attention(f"{b}.{a}", c["num_attention_heads"])
        w.ffn(b + ".ff", c["ff_bias"])
    w.put("scale_shift_table", (2, D), 0.3)
    w.linear("proj_out", c["out_channels"], D)
    # what the released file holds besides
    w.put("audio_patchify_proj.weight", (4, 4), 1.0)
    w.put("transformer_blocks.0.audio_attn1.to_q.weight", (4, 4), 1.0)
    w.put("video_embeddings_connector.learnable_registers", (4, D), 1.0)
    save(out, w, {}, {}, {})

    b, grid, rows = 2, (3, 4, 3), 7
    n = int(np.prod(grid))
    coords = latent_to_pixel_coord_bounds(get_latent_coord_bounds(*grid, b), 8, 32, causal_fix=True, fps=24.0)
    t = np.asarray([0.73, 0.31], np.float32)
    tokens = np.repeat(t[:, None], n, 1)
    tokens[:, :12] = 0.05
    keyframes = np.zeros((b, n, 1), np.float32)
    keyframes[0, 12:24] = 1
    mask = np.ones((b, rows), np.float32)
    mask[1, 4:] = 0
    inputs = {"x": random("x", (b, n, c["in_channels"])), "coords": np.asarray(coords), "t": t, "t_tokens": tokens, "sigma": t,
              "context": random("context", (b, rows, D)), "context_mask": mask, "keyframes_mask": keyframes}
    model = LTXDiT(**dit_kwargs_from_transformer_config(c), compute_dtype=jnp.float32)
    params = load_torch_checkpoint_to_jax(os.path.join(out, "model.safetensors"), "ltx2_5_dit")
    params = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), params)

    def step(m, t):
        z, freqs, context, bias, mod, prompt, emb, dtype = m.pre_process(
            inputs["x"], inputs["coords"], t, inputs["sigma"], inputs["context"], inputs["context_mask"], inputs["keyframes_mask"])
        values = {"patch_embed": z, "time_mod": mod, "time_embed": emb}
        for i, block in enumerate(m.blocks):
            z = block(z, freqs, context, bias, mod, prompt)
            values[f"block_{i}"] = z
        values["out"] = m.post_process(z, emb, dtype)
        return values
    run = jax.jit(nn.apply(step, model))
    expected = dict(run(params, inputs["t"]))
    expected["out_tokens_t"] = run(params, inputs["t_tokens"])["out"]
    save(out, w, inputs, expected, {"transformer": {"_class_name": "AVTransformer3DModel", **c}})


def connector(out):
    c, w = CONFIG, Weights()
    p = "video_embeddings_connector."
    w.put(p + "learnable_registers", (c["connector_num_learnable_registers"], D), 1.0)
    for i in range(c["connector_num_layers"]):
        b = f"{p}transformer_1d_blocks.{i}"
        w.attention(b + ".attn1", c["connector_num_attention_heads"])
        w.ffn(b + ".ff", c["connector_ff_bias"])
    w.put("proj_out.bias", (8,), 1.0)  # of the transformer, which lies in the same file
    save(out, w, {}, {}, {})
    b, rows = 2, 12
    mask = np.ones((b, rows), np.float32)
    mask[1, 5:] = 0
    inputs = {"context": random("connector context", (b, rows, D)), "context_mask": mask}
    model = Embeddings1DConnector(**connector_kwargs_from_transformer_config(c), compute_dtype=jnp.float32)
    params = load_torch_checkpoint_to_jax(os.path.join(out, "model.safetensors"), "ltx2_5_connector")
    params = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), params)
    additive = ((mask - 1) * 1e9)[:, None, None, :]
    expected = {"out": model.apply(params, inputs["context"], additive)[0], "out_nomask": model.apply(params, inputs["context"])[0]}
    save(out, w, inputs, expected, {"_class_name": "Embeddings1DConnector", **{
        k: v for k, v in c.items() if k.startswith("connector_") or k in ("positional_embedding_theta", "frequencies_precision", "norm_eps")}})


transformer(os.path.join(sys.argv[1], "ltx25"))
connector(os.path.join(sys.argv[1], "ltx25_connector"))
