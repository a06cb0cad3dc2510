"""How vidax builds and calls each of its models: its class, its checkpoint's kind, and its inputs made from
the fixtures' tensors. `build` gives (model, kind, arguments after the parameters, what turns its output into ours).

config is config.json as the release has it; inputs are the tensors of inputs.safetensors; dtype is what vidax's own
script computes in."""
import jax
import jax.numpy as jnp
import numpy as np


def last(a):
    """(B,C,...) to channels last."""
    return np.moveaxis(a, 1, -1)


def first(a):
    """channels last to (B,C,...)."""
    return np.moveaxis(a, -1, 1)


def wan(c, inp, dtype, **mesh):
    from vidax.core.rope3d import create_rope3d_freqs
    per_token = c["model_type"] == "ti2v"
    if per_token:
        from vidax.models.wan.wan2_2.dit import WanDiT
    else:
        from vidax.models.wan.wan2_1.dit import WanDiT
        mesh["model_type"] = c["model_type"]
    kw = {k: c[k] for k in ("dim", "ffn_dim", "num_heads", "num_layers", "in_dim", "out_dim", "freq_dim", "text_dim", "text_len", "eps")}
    if c.get("image_dim"):
        mesh["image_dim"] = c["image_dim"]
    model = WanDiT(**kw, patch_size=tuple(c["patch_size"]), compute_dtype=dtype, **mesh)
    f, h, w = [s // p for s, p in zip(inp["x"].shape[2:], c["patch_size"])]
    freqs = create_rope3d_freqs(f, h, w, c["dim"] // c["num_heads"])
    t = inp["t_tokens"] if per_token and "t_tokens" in inp else inp["t"]
    rest = [jnp.asarray(last(inp["x"]), dtype), jnp.asarray(t), freqs, jnp.asarray(inp["context"], dtype)]
    if "y" in inp:
        rest.append(jnp.asarray(last(inp["y"]), dtype))
        if "clip_fea" in inp:
            rest.append(jnp.asarray(inp["clip_fea"], dtype))
    return model, "wan2.2_dit" if per_token else "wan2.1_dit", rest, first


def cogvideox(c, inp, dtype):
    import vidax.models.cogvideo.dit as dit
    from vidax.models.cogvideo.rope import prepare_rotary_positional_embeddings
    dit.TIME_EMBED_DIM = c["time_embed_dim"]
    rot, pt = c["use_rotary_positional_embeddings"], c.get("patch_size_t")
    model = dit.CogVideoXDiT(
        num_layers=c["num_layers"], num_attention_heads=c["num_attention_heads"], in_channels=c["in_channels"],
        out_channels=c["out_channels"], use_rotary_positional_embeddings=rot, patch_size_t=pt, patch_bias=c.get("patch_bias", True),
        ofs_embed_dim=c.get("ofs_embed_dim"), sample_width=c["sample_width"], sample_height=c["sample_height"],
        sample_frames=c["sample_frames"], max_text_seq_length=c["max_text_seq_length"], compute_dtype=dtype)
    cos = sin = None
    if rot:
        _, f, _, h, w = inp["x"].shape
        cos, sin = prepare_rotary_positional_embeddings(
            h * 8, w * 8, f, patch_size_t=pt, attention_head_dim=c["attention_head_dim"], sample_height=c["sample_height"],
            sample_width=c["sample_width"])
        cos, sin = jnp.asarray(cos), jnp.asarray(sin)
    ofs = jnp.asarray(inp["ofs"]) if "ofs" in inp else None
    return model, "cogvideox_dit", [jnp.asarray(inp["x"], dtype), jnp.asarray(inp["text"], dtype), jnp.asarray(inp["t"]), cos, sin, ofs], np.asarray


def cosmos25(c, inp, dtype):
    from vidax.models.cosmos2_5.dit import CosmosDiT
    d = c["model_channels"]
    model = CosmosDiT(
        dim=d, ffn_dim=int(d * c["mlp_ratio"]), num_heads=c["num_heads"], head_dim=d // c["num_heads"], num_layers=c["num_blocks"],
        in_channels=c["in_channels"], out_channels=c["out_channels"], context_raw_dim=c["crossattn_proj_in_channels"],
        context_dim=c["crossattn_emb_channels"], adaln_lora_dim=c["adaln_lora_dim"],
        rope_h_extrapolation_ratio=c["rope_h_extrapolation_ratio"], rope_w_extrapolation_ratio=c["rope_w_extrapolation_ratio"],
        rope_t_extrapolation_ratio=c["rope_t_extrapolation_ratio"], timestep_scale=c["timestep_scale"])
    rest = [jnp.asarray(last(inp["x"]), dtype), jnp.asarray(inp["t_frames"] if "t_frames" in inp else inp["t"]), jnp.asarray(inp["context"], dtype)]
    if "condition_mask" in inp:
        rest += [None, jnp.asarray(last(inp["condition_mask"]), dtype)]
    return model, "cosmos2.5_dit", rest, first


def cosmos3(c, inp, dtype):
    from vidax.models.cosmos3.dit import Cosmos3Transformer
    model = Cosmos3Transformer(
        latent_patch_size=c["latent_patch_size"], rope_axes_dim=tuple(c["rope_axes_dim"]),
        **{k: c[k] for k in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                             "num_key_value_heads", "head_dim", "rms_norm_eps", "hidden_act", "qk_norm_for_text",
                             "use_und_k_norm_for_gen", "latent_channel", "rope_theta", "timestep_scale")})
    from vidax.models.cosmos3.mrope import get_mrope_ids_text_tokens, get_mrope_ids_vision_tokens
    x, ids = inp["x"], inp["ids"].reshape(1, -1)
    frames, p = x.shape[2], c["latent_patch_size"]
    valid = inp["mask"].reshape(1, -1).astype(bool) if "mask" in inp else np.ones(ids.shape, bool)
    text = np.asarray(get_mrope_ids_text_tokens(ids.shape[1]), np.float32)
    video = np.asarray(get_mrope_ids_vision_tokens(frames, x.shape[3] // p, x.shape[4] // p,
                                                   int(valid.sum()) + c["unified_3d_mrope_temporal_modality_margin"], fps=c["base_fps"]), np.float32)
    noisy = inp["noisy_mask"] if "noisy_mask" in inp else np.ones((1, frames), np.float32)
    return model, "cosmos3_dit", [
        jnp.asarray(ids), jnp.asarray(text.reshape(3, 1, -1)), jnp.asarray(valid), jnp.asarray(last(x)), jnp.asarray(video.reshape(3, 1, -1)),
        jnp.full((1, frames), float(np.ravel(inp["t"])[0]), jnp.float32), jnp.asarray(noisy)], first


def ltx(c, inp, dtype):
    from vidax.models.ltx_video.dit import LTXDiT
    c = c.get("transformer", c)
    model = LTXDiT(positional_embedding_max_pos=tuple(c["positional_embedding_max_pos"]), compute_dtype=dtype,
                   **{k: c[k] for k in ("num_attention_heads", "attention_head_dim", "in_channels", "out_channels", "num_layers",
                                        "cross_attention_dim", "caption_channels", "positional_embedding_theta",
                                        "timestep_scale_multiplier")})
    return model, "ltx_video_dit", [jnp.asarray(inp["x"], dtype), jnp.asarray(inp["coords"]), jnp.asarray(inp["t"]),
                                    jnp.asarray(inp["context"], dtype), jnp.asarray(inp["context_mask"])], np.asarray


def hunyuan(c, inp, dtype):
    from vidax.models.hunyuan_video.hunyuan_video.dit import HunyuanVideoDiT
    fields = HunyuanVideoDiT.__dataclass_fields__
    model = HunyuanVideoDiT(**{k: tuple(v) if isinstance(v, list) else v for k, v in c.items() if k in fields})
    args = [jnp.asarray(inp["x"], dtype), jnp.asarray(inp["t"]), jnp.asarray(inp["context"], dtype), jnp.asarray(inp["context_mask"]),
            jnp.asarray(inp["pooled"], dtype)]
    if c.get("guidance_embed"):
        args.append(jnp.asarray(inp["guidance"]))
    return model, "hunyuan_video_dit", args, np.asarray


def umt5(c, inp, dtype):
    from vidax.models.wan.common.t5 import T5Encoder
    model = T5Encoder(vocab_size=c["vocab"], **{k: c[k] for k in ("dim", "dim_attn", "dim_ffn", "num_heads", "num_layers", "num_buckets")})
    return model, "wan_t5", [jnp.asarray(inp["ids"]), jnp.asarray(inp["mask"])], np.asarray


# A key that only this family's config.json has.
FAMILIES = {"use_rotary_positional_embeddings": cogvideox, "crossattn_proj_in_channels": cosmos25, "latent_patch_size": cosmos3,
            "mm_double_blocks_depth": hunyuan, "caption_channels": ltx, "num_buckets": umt5}


def build(config, inputs, dtype, **mesh):
    for key, family in FAMILIES.items():
        if key in config.get("transformer", config):
            return family(config, inputs, dtype)
    return wan(config, inputs, dtype, **mesh)
