"""Makes lora/testdata: tiny adapters for testdata/wan21_t2v in the names of several
programs, and the model's outputs with each of them merged by diffusers and PEFT.

    python testdata/make/lora.py testdata lora/testdata

Needs diffusers (0.42.1), peft (0.21.2), torch, safetensors, numpy. Every factor is
random, so that no module adds nothing.
"""
import os
import sys
import zlib

import numpy as np
import torch
from diffusers import WanPipeline, WanTransformer3DModel
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

torch.set_grad_enabled(False)
ROOT, OUT = sys.argv[1], sys.argv[2]
SCALE = 0.7
BLOCK = [f"{a}.{p}" for a in ("self_attn", "cross_attn") for p in "qkvo"] + ["ffn.0", "ffn.2"]


def random(name, *shape):
    g = np.random.default_rng([1909, zlib.crc32(name.encode())])
    return torch.from_numpy((g.standard_normal(shape) * 0.3).astype(np.float32))


def model():
    return WanTransformer3DModel.from_pretrained(os.path.join(ROOT, "wan21_t2v", "diffusers")).float().eval()


def forward(m):
    x = load_file(os.path.join(ROOT, "wan21_t2v", "inputs.safetensors"))
    text = x["context"].float()
    text = torch.nn.functional.pad(text, (0, 0, 0, 16 - text.shape[1]))
    return m(x["x"].float(), x["t"].float(), text, return_dict=False)[0].contiguous()


def fused(path):
    """What diffusers computes with a file that it loads and fuses."""
    state, metadata = WanPipeline.lora_state_dict(path, return_lora_metadata=True)
    m = model()
    m.load_lora_adapter(state, prefix="transformer", adapter_name="a", metadata=metadata)
    m.fuse_lora(lora_scale=SCALE)
    return forward(m)


def official(rank, modules, down, up, extra=()):
    """Factors in official names; shapes are those of the official checkpoint."""
    weights = load_file(os.path.join(ROOT, "wan21_t2v", "model.safetensors"))
    out = {}
    for module in modules:
        o, i = weights[module + ".weight"].shape
        out[f"{module}.{down}.weight"] = random(module + "down", rank, i)
        out[f"{module}.{up}.weight"] = random(module + "up", o, rank)
        for leaf in extra:
            out[f"{module}.{leaf}"] = random(module + leaf, o) if leaf == "diff_b" else torch.tensor(float(2 ** (len(module) % 3)))
    return out


def main():
    os.makedirs(os.path.join(OUT, "peft"), exist_ok=True)
    expected = {"base": forward(model())}
    blocks = [f"blocks.{b}.{m}" for b in range(2) for m in BLOCK]

    # ComfyUI's prefix, lora_down and lora_up, alphas and differences of biases.
    path = os.path.join(OUT, "comfy.safetensors")
    comfy = official(2, blocks, "lora_down", "lora_up", ("alpha", "diff_b"))
    comfy.update(official(3, ["head.head", "time_projection.1", "text_embedding.0", "text_embedding.2", "time_embedding.0", "time_embedding.2"], "lora_down", "lora_up", ("diff_b",)))
    save_file({"diffusion_model." + k: v for k, v in comfy.items() if not k.endswith("alpha")}, path)
    expected["comfy"] = fused(path)

    # The same prefix with lora_A and lora_B and an alpha for each module, as distilled adapters have them.
    path = os.path.join(OUT, "distilled.safetensors")
    save_file({"diffusion_model." + k: v.bfloat16() if v.dim() else v for k, v in official(2, blocks, "lora_down", "lora_up", ("alpha", "diff_b")).items()}, path)
    expected["distilled"] = fused(path)

    # kohya's flat names.
    path = os.path.join(OUT, "kohya.safetensors")
    kohya = official(2, blocks, "lora_down", "lora_up", ("alpha",))

    def flat(k):
        module, _, leaf = k.partition(".lora_") if ".lora_" in k else k.partition(".alpha")
        return "lora_unet_" + module.replace(".", "_") + (".lora_" + leaf if ".lora_" in k else ".alpha")

    save_file({flat(k): v.half() if v.dim() else v for k, v in kohya.items()}, path)
    expected["kohya"] = fused(path)

    # diffusers' own names, with its configuration in the file's metadata.
    m = model()
    m.add_adapter(LoraConfig(r=2, lora_alpha=3, target_modules=["to_q", "to_v", "to_out.0", "net.2", "proj_out", "linear_1"], init_lora_weights=False), adapter_name="default")
    fill(m)
    path = os.path.join(OUT, "diffusers.safetensors")
    from diffusers.training_utils import _collate_lora_metadata
    from peft import get_peft_model_state_dict
    WanPipeline.save_lora_weights(OUT, transformer_lora_layers=get_peft_model_state_dict(m, adapter_name="default"), weight_name="diffusers.safetensors",
                                  **_collate_lora_metadata({"transformer": m}))
    expected["diffusers"] = fused(path)

    # PEFT's folder: ranks and alphas by pattern, scaled by the rank's root.
    m = get_peft_model(model(), LoraConfig(r=2, lora_alpha=3, use_rslora=True, rank_pattern={"attn2.to_q": 3}, alpha_pattern={"attn2.to_k": 1},
                                          target_modules=["to_q", "to_k", "net.0.proj"], init_lora_weights=False))
    fill(m)
    m.save_pretrained(os.path.join(OUT, "peft"))
    expected["peft"] = forward(m.merge_and_unload())
    for name in ("README.md",):
        if os.path.exists(os.path.join(OUT, "peft", name)):
            os.remove(os.path.join(OUT, "peft", name))
    save_file(expected, os.path.join(OUT, "expected.safetensors"), {"made by": "diffusers 0.42.1, peft 0.21.2", "scale": str(SCALE)})
    for name, x in expected.items():
        print(name, float((x - expected["base"]).abs().max()))


def fill(m):
    for name, p in m.named_parameters():
        if "lora_" in name:
            p.data = random(name, *p.shape)


main()
