#!/usr/bin/env python3
"""Makes the encoders' fixtures: tiny models with random weights in the released
checkpoints' own tensor names, inputs, and what vidax (JAX) and transformers
(PyTorch) compute for them in float32 on one CPU device.

    python text_encoders.py DIR [NAME ...]

makes DIR/NAME/{config.json,model.safetensors,inputs.safetensors,expected.safetensors}
for t5_v11, clip_vit, reason1, llama_text, gemma4 and clip_text, and prints how far the
peers are apart. Needs jax, flax, vidax, torch, transformers, safetensors, numpy.
Every weight lies on the bfloat16 grid.
"""
import json
import math
import os
import sys
import zlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import torch
from safetensors.numpy import save_file
from vidax.translator import load_torch_checkpoint_to_jax

jax.config.update("jax_default_matmul_precision", "highest")
torch.set_grad_enabled(False)

F32 = np.float32


class Weights:
    def __init__(self, seed):
        self.seed, self.sd = seed, {}

    def rng(self, key):
        return np.random.default_rng([self.seed, zlib.crc32(key.encode())])

    def raw(self, key, shape, std, mean=0.0):
        a = (self.rng(key).standard_normal(shape) * std + mean).astype(F32)
        self.sd[key] = a.astype(ml_dtypes.bfloat16).astype(F32)

    def lin(self, key, out, inp, bias=False, gain=1.0):
        self.raw(key + ".weight", (out, inp), gain / math.sqrt(inp))
        if bias:
            self.raw(key + ".bias", (out,), 0.1)

    def norm(self, key, dim, bias=False):
        self.raw(key + ".weight", (dim,), 0.2, 1.0)
        if bias:
            self.raw(key + ".bias", (dim,), 0.1)


def tt(a):
    return torch.from_numpy(np.ascontiguousarray(a).copy())


def load(module, sd):
    module.load_state_dict({k: tt(v) for k, v in sd.items()}, strict=True)
    return module.eval()


def finish(out, config, inputs, expected, pairs):
    save_file(inputs, os.path.join(out, "inputs.safetensors"))
    save_file({k: np.ascontiguousarray(np.asarray(v, F32)) for k, v in expected.items()}, os.path.join(out, "expected.safetensors"))
    with open(os.path.join(out, "config.json"), "w") as f:
        json.dump(config, f, indent=1, sort_keys=True)
        f.write("\n")
    for a, b in pairs:
        d = np.abs(np.asarray(expected[a], np.float64) - np.asarray(expected[b], np.float64)).max()
        print(f"{os.path.basename(out)}: {a} and {b} differ by {d:.2g}, peak {np.abs(expected[a]).max():.2g}")


def checkpoint(out, w, extra=None):
    path = os.path.join(out, "model.safetensors")
    save_file({**w.sd, **(extra or {})}, path, metadata={"format": "pt"})
    return path


def t5_v11(out):
    from transformers import T5Config, T5EncoderModel
    from vidax.models.ltx_video.t5 import T5Encoder
    vocab, dim, heads, hd, ffn, layers = 120, 48, 6, 12, 112, 2
    w = Weights(31)
    w.raw("shared.weight", (vocab, dim), 1.0)
    for i in range(layers):
        b = f"encoder.block.{i}"
        w.norm(f"{b}.layer.0.layer_norm", dim)
        w.norm(f"{b}.layer.1.layer_norm", dim)
        for p in "qkv":
            w.lin(f"{b}.layer.0.SelfAttention.{p}", heads * hd, dim, gain=0.6 if p in "qk" else 1.0)
        w.lin(f"{b}.layer.0.SelfAttention.o", dim, heads * hd)
        for p in ("wi_0", "wi_1"):
            w.lin(f"{b}.layer.1.DenseReluDense.{p}", ffn, dim)
        w.lin(f"{b}.layer.1.DenseReluDense.wo", dim, ffn)
    w.raw("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", (32, heads), 1.0)
    w.norm("encoder.final_layer_norm", dim)
    params = load_torch_checkpoint_to_jax(checkpoint(out, w), "ltx_video_t5")
    model = T5Encoder(vocab_size=vocab, dim=dim, num_heads=heads, head_dim=hd, dim_ffn=ffn, num_layers=layers)
    ids = w.rng("ids").integers(2, vocab, (2, 23)).astype(np.int32)
    mask = np.ones_like(ids)
    mask[1, 14:] = 0
    long = w.rng("long").integers(2, vocab, (1, 140)).astype(np.int64)
    run = jax.jit(model.apply)
    config = T5Config(vocab_size=vocab, d_model=dim, d_kv=hd, d_ff=ffn, num_layers=layers, num_heads=heads, feed_forward_proj="gated-gelu")
    peer = load(T5EncoderModel(config), {**w.sd, "encoder.embed_tokens.weight": w.sd["shared.weight"]})
    exp = {"out": run(params, ids, mask), "out_nomask": run(params, ids), "out_long": run(params, long),
           "out_transformers": peer(input_ids=tt(ids).long(), attention_mask=tt(mask).long()).last_hidden_state.numpy(),
           "out_long_transformers": peer(input_ids=tt(long)).last_hidden_state.numpy()}
    finish(out, config.to_dict(), {"ids": ids, "mask": mask, "ids_long": long}, exp,
           [("out", "out_transformers"), ("out_long", "out_long_transformers")])


def clip_vit(out):
    from transformers import CLIPVisionConfig, CLIPVisionModel
    from vidax.models.wan.wan2_1.clip_vision import ClipVisionTransformer
    size, patch, dim, heads, layers = 28, 7, 48, 4, 3  # of which two run
    n = (size // patch) ** 2 + 1
    w, hf = Weights(32), {}
    w.raw("visual.cls_embedding", (1, 1, dim), 0.5)
    w.raw("visual.pos_embedding", (1, n, dim), 0.5)
    w.raw("visual.patch_embedding.weight", (dim, 3, patch, patch), 1 / math.sqrt(3 * patch * patch))
    w.norm("visual.pre_norm", dim, True)
    w.norm("visual.post_norm", dim, True)
    hf["embeddings.class_embedding"] = w.sd["visual.cls_embedding"][0, 0]
    hf["embeddings.position_embedding.weight"] = w.sd["visual.pos_embedding"][0]
    hf["embeddings.patch_embedding.weight"] = w.sd["visual.patch_embedding.weight"]
    for s in ("weight", "bias"):
        hf[f"pre_layrnorm.{s}"] = w.sd[f"visual.pre_norm.{s}"]
        hf[f"post_layernorm.{s}"] = w.sd[f"visual.post_norm.{s}"]
    for i in range(layers):
        b, h = f"visual.transformer.{i}", f"encoder.layers.{i}"
        w.norm(f"{b}.norm1", dim, True)
        w.norm(f"{b}.norm2", dim, True)
        w.lin(f"{b}.attn.to_qkv", 3 * dim, dim, True)
        w.lin(f"{b}.attn.proj", dim, dim, True)
        w.lin(f"{b}.mlp.0", 4 * dim, dim, True)
        w.lin(f"{b}.mlp.2", dim, 4 * dim, True)
        for s in ("weight", "bias"):
            for j, p in enumerate("qkv"):
                hf[f"{h}.self_attn.{p}_proj.{s}"] = w.sd[f"{b}.attn.to_qkv.{s}"][j * dim:(j + 1) * dim]
            for a, c in (("self_attn.out_proj", "attn.proj"), ("mlp.fc1", "mlp.0"), ("mlp.fc2", "mlp.2"), ("layer_norm1", "norm1"), ("layer_norm2", "norm2")):
                hf[f"{h}.{a}.{s}"] = w.sd[f"{b}.{c}.{s}"]
    extra = {"log_scale": np.zeros((), F32), "visual.head": np.zeros((dim, 16), F32), "textual.norm.weight": np.zeros(4, F32)}
    params = load_torch_checkpoint_to_jax(checkpoint(out, w, extra), "wan2.1_clip")
    model = ClipVisionTransformer(image_size=size, patch_size=patch, dim=dim, num_heads=heads, num_layers=layers - 1)
    x = w.rng("x").standard_normal((2, 3, size, size)).astype(F32)
    config = CLIPVisionConfig(hidden_size=dim, intermediate_size=4 * dim, num_hidden_layers=layers, num_attention_heads=heads, image_size=size, patch_size=patch, hidden_act="gelu")
    peer = CLIPVisionModel(config)
    prefix = "vision_model." if any(k.startswith("vision_model.") for k in peer.state_dict()) else ""
    hf = {prefix + k: v for k, v in hf.items()}
    load(peer, hf)
    exp = {"out": jax.jit(model.apply)(params, np.moveaxis(x, 1, -1)),
           "out_transformers": peer(pixel_values=tt(x), output_hidden_states=True).hidden_states[-2].numpy()}
    finish(out, {"image_size": size, "patch_size": patch, "dim": dim, "mlp_ratio": 4.0, "num_heads": heads, "num_layers": layers - 1, "eps": 1e-5}, {"x": x}, exp, [("out", "out_transformers")])
    folder = os.path.join(out, "transformers")
    os.makedirs(folder, exist_ok=True)
    save_file({("" if prefix else "vision_model.") + k: np.ascontiguousarray(v) for k, v in hf.items()}, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({**config.to_dict(), "architectures": ["CLIPVisionModel"]}, f, indent=1, sort_keys=True)
        f.write("\n")


def decoder(w, prefix, vocab, dim, ffn, heads, kv, hd, layers, bias):
    w.raw(f"{prefix}embed_tokens.weight", (vocab, dim), 1.0)
    for i in range(layers):
        b = f"{prefix}layers.{i}"
        w.norm(f"{b}.input_layernorm", dim)
        w.norm(f"{b}.post_attention_layernorm", dim)
        w.lin(f"{b}.self_attn.q_proj", heads * hd, dim, bias)
        w.lin(f"{b}.self_attn.k_proj", kv * hd, dim, bias)
        w.lin(f"{b}.self_attn.v_proj", kv * hd, dim, bias)
        w.lin(f"{b}.self_attn.o_proj", dim, heads * hd)
        w.lin(f"{b}.mlp.gate_proj", ffn, dim)
        w.lin(f"{b}.mlp.up_proj", ffn, dim)
        w.lin(f"{b}.mlp.down_proj", dim, ffn)
    w.norm(f"{prefix}norm", dim)


def reason1(out):
    from transformers import Qwen2Config, Qwen2Model
    from vidax.models.cosmos2_5.reason1 import Qwen2TextModel, compute_reason1_embeddings
    vocab, dim, ffn, heads, kv, layers = 96, 64, 144, 8, 2, 4
    w = Weights(33)
    decoder(w, "model.", vocab, dim, ffn, heads, kv, dim // heads, layers, True)
    extra = {"lm_head.weight": np.zeros((vocab, dim), F32), "visual.blocks.0.norm1.weight": np.zeros(4, F32)}
    params = load_torch_checkpoint_to_jax(checkpoint(out, w, extra), "reason1_text_encoder")
    model = Qwen2TextModel(vocab_size=vocab, hidden_size=dim, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv)
    ids = w.rng("ids").integers(0, vocab, (2, 37)).astype(np.int32)
    config = Qwen2Config(vocab_size=vocab, hidden_size=dim, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv,
                         rope_theta=1e6, rms_norm_eps=1e-6, max_position_embeddings=4096, attn_implementation="eager")
    peer = load(Qwen2Model(config), {k.removeprefix("model."): v for k, v in w.sd.items()})
    hs = [h.numpy() for h in peer(input_ids=tt(ids).long(), output_hidden_states=True).hidden_states]
    full = np.concatenate([(h - h.mean(-1, keepdims=True)) / (h.std(-1, keepdims=True) + 1e-8) for h in hs[1:]], -1)
    mine = model.apply(params, ids)
    exp = {"out": compute_reason1_embeddings(params, ids, model), "out_transformers": full,
           "skip2": mine[-3], "skip2_transformers": hs[-3]}
    finish(out, {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"], "vocab_size": vocab, "hidden_size": dim, "intermediate_size": ffn,
                 "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "hidden_act": "silu"},
           {"ids": ids}, exp, [("out", "out_transformers"), ("skip2", "skip2_transformers")])


def llama_text(out):
    from transformers import LlamaConfig, LlamaModel
    from vidax.models.hunyuan_video.hunyuan_video.llama_text import LlamaTextModel, extract_hunyuan_llm_embeddings
    vocab, dim, ffn, heads, kv, layers = 90, 48, 112, 6, 3, 4
    w = Weights(34)
    decoder(w, "", vocab, dim, ffn, heads, kv, dim // heads, layers, False)
    params = load_torch_checkpoint_to_jax(checkpoint(out, w), "hunyuan_video_llama_text")
    model = LlamaTextModel(vocab_size=vocab, hidden_size=dim, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv)
    ids = w.rng("ids").integers(0, vocab, (2, 21)).astype(np.int32)
    config = LlamaConfig(vocab_size=vocab, hidden_size=dim, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv,
                         rope_theta=500000.0, rms_norm_eps=1e-5, attn_implementation="eager")
    peer = load(LlamaModel(config), w.sd)
    exp = {"out": extract_hunyuan_llm_embeddings(params, ids, np.ones_like(ids), 2, model),
           "out_transformers": peer(input_ids=tt(ids).long(), output_hidden_states=True).hidden_states[-3].numpy()}
    finish(out, {"model_type": "llama", "architectures": ["LlamaModel"], "vocab_size": vocab, "hidden_size": dim, "intermediate_size": ffn, "num_hidden_layers": layers,
                 "num_attention_heads": heads, "num_key_value_heads": kv, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "attention_bias": False, "mlp_bias": False, "hidden_act": "silu"},
           {"ids": ids}, exp, [("out", "out_transformers")])


def gemma4(out):
    from transformers import Gemma4UnifiedTextConfig, Gemma4UnifiedTextModel
    from vidax.models.ltx2_5.gemma4 import Gemma4TextModel, extract_video_features
    vocab, dim, ffn, heads, kv, hd, ghd, gkv = 90, 32, 64, 8, 4, 8, 16, 1
    types = ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
    layers, window = len(types), 64
    w = Weights(36)
    w.raw("model.embed_tokens.weight", (vocab, dim), 0.3)
    for i, kind in enumerate(types):
        b = f"model.layers.{i}"
        n, d = (gkv, ghd) if kind == "full_attention" else (kv, hd)
        for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
            w.norm(f"{b}.{name}", dim)
        w.raw(f"{b}.layer_scalar", (1,), 0.2, 0.7)
        w.norm(f"{b}.self_attn.q_norm", d)
        w.norm(f"{b}.self_attn.k_norm", d)
        w.lin(f"{b}.self_attn.q_proj", heads * d, dim)
        w.lin(f"{b}.self_attn.k_proj", n * d, dim)
        if kind == "sliding_attention":
            w.lin(f"{b}.self_attn.v_proj", n * d, dim)
        w.lin(f"{b}.self_attn.o_proj", dim, heads * d)
        w.lin(f"{b}.mlp.gate_proj", ffn, dim)
        w.lin(f"{b}.mlp.up_proj", ffn, dim)
        w.lin(f"{b}.mlp.down_proj", dim, ffn)
    w.norm("model.norm", dim)
    extra = {"text_embedding_projection.video_aggregate_embed.bias": np.zeros(4, F32), "tokenizer_json": np.zeros(4, np.uint8)}
    params = load_torch_checkpoint_to_jax(checkpoint(out, w, extra), "gemma4_text")
    model = Gemma4TextModel(vocab_size=vocab, hidden_size=dim, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv, head_dim=hd,
                            global_head_dim=ghd, num_global_key_value_heads=gkv, layer_types=tuple(types), sliding_window=window, compute_dtype=jnp.float32)
    ids = w.rng("ids").integers(0, vocab, (2, 21)).astype(np.int32)
    mask = np.ones_like(ids)
    mask[1, :6] = 0  # padded on the left, as LTX-2.5's tokenizer may
    rope = {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}, "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}}
    config = {"model_type": "gemma4_unified_text", "vocab_size": vocab, "hidden_size": dim, "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
              "num_key_value_heads": kv, "head_dim": hd, "global_head_dim": ghd, "num_global_key_value_heads": gkv, "layer_types": types, "sliding_window": window, "rms_norm_eps": 1e-6,
              "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False, "attention_k_eq_v": True, "rope_parameters": rope}
    peer = load(Gemma4UnifiedTextModel(Gemma4UnifiedTextConfig(**config, attn_implementation="eager")), {k.removeprefix("model."): v for k, v in w.sd.items()})

    def features(states, mask):  # what the projection reads: an identity that scales nothing in its place
        wide = dim * (layers + 1)
        return extract_video_features([jnp.asarray(s) for s in states], jnp.asarray(mask), jnp.eye(wide, dtype=F32), jnp.zeros(wide, F32), wide)

    def torch_states(mask):
        return [h.numpy() for h in peer(input_ids=tt(ids).long(), attention_mask=tt(mask).long(), output_hidden_states=True).hidden_states]

    whole = np.ones_like(ids)
    exp = {"out": features(model.apply(params, ids, mask), mask), "out_nomask": features(model.apply(params, ids, whole), whole),
           "out_transformers": features(torch_states(mask), mask), "out_nomask_transformers": features(torch_states(whole), whole)}
    finish(out, config, {"ids": ids, "mask": mask}, exp, [("out", "out_transformers"), ("out_nomask", "out_nomask_transformers")])


def clip_text(out):
    from transformers import CLIPTextConfig, CLIPTextModel
    from vidax.models.hunyuan_video.hunyuan_video.clip_text import ClipTextModel, extract_clip_pooled
    vocab, dim, ffn, heads, layers, places = 99, 48, 120, 6, 2, 19
    w = Weights(35)
    w.raw("text_model.embeddings.token_embedding.weight", (vocab, dim), 1.0)
    w.raw("text_model.embeddings.position_embedding.weight", (places, dim), 0.5)
    for i in range(layers):
        b = f"text_model.encoder.layers.{i}"
        for p in "qkv":
            w.lin(f"{b}.self_attn.{p}_proj", dim, dim, True)
        w.lin(f"{b}.self_attn.out_proj", dim, dim, True)
        w.norm(f"{b}.layer_norm1", dim, True)
        w.norm(f"{b}.layer_norm2", dim, True)
        w.lin(f"{b}.mlp.fc1", ffn, dim, True)
        w.lin(f"{b}.mlp.fc2", dim, ffn, True)
    w.norm("text_model.final_layer_norm", dim, True)
    extra = {"text_model.embeddings.position_ids": np.arange(places, dtype=np.int64)[None]}
    params = load_torch_checkpoint_to_jax(checkpoint(out, w, extra), "hunyuan_video_clip_text")
    model = ClipTextModel(vocab_size=vocab, hidden_size=dim, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads, max_position_embeddings=places)
    ids = w.rng("ids").integers(1, vocab - 1, (2, 15)).astype(np.int32)
    ids[0, -1] = vocab - 1  # the end of the text, at two places
    ids[1, 8], ids[1, 9:] = vocab - 1, 0
    config = CLIPTextConfig(vocab_size=vocab, hidden_size=dim, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads, max_position_embeddings=places,
                            hidden_act="quick_gelu", eos_token_id=vocab - 1, bos_token_id=vocab - 2, pad_token_id=0, attn_implementation="eager")
    peer = CLIPTextModel(config)
    prefix = "" if any(k.startswith("text_model.") for k in peer.state_dict()) else "text_model."
    load(peer, {k.removeprefix(prefix): v for k, v in w.sd.items()})
    got = peer(input_ids=tt(ids).long())
    exp = {"out": extract_clip_pooled(params, ids, model), "out_transformers": got.pooler_output.numpy(),
           "out_hidden": model.apply(params, ids), "out_hidden_transformers": got.last_hidden_state.numpy()}
    finish(out, {"model_type": "clip_text_model", "architectures": ["CLIPTextModel"], "vocab_size": vocab, "hidden_size": dim, "intermediate_size": ffn, "num_hidden_layers": layers,
                 "num_attention_heads": heads, "max_position_embeddings": places, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5}, {"ids": ids}, exp,
           [("out", "out_transformers"), ("out_hidden", "out_hidden_transformers")])


MAKE = {f.__name__: f for f in (t5_v11, clip_vit, reason1, llama_text, gemma4, clip_text)}

if __name__ == "__main__":
    for name in sys.argv[2:] or MAKE:
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        MAKE[name](folder)
