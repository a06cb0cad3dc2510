"""One denoising step of Wan2.1 through diffusers, on one device, eager as its pipelines run it."""
import os
import time

from common import arguments, load, report, timed

args = arguments(__doc__)
if any(int(part.split("=")[1]) != 1 for part in args.mesh.split(",") if part):
    raise SystemExit("diffusers runs on one device here")
os.environ["HF_HUB_OFFLINE"] = "1"

import diffusers  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from accelerate import init_empty_weights  # noqa: E402
from diffusers import WanTransformer3DModel  # noqa: E402
from diffusers.loaders.single_file_utils import convert_wan_transformer_to_diffusers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

config, checkpoint, inputs = load(args)
dtype = torch.float32 if args.dtype == "f32" else torch.bfloat16
torch.set_grad_enabled(False)
torch.set_float32_matmul_precision("highest")

# What from_pretrained does, from the official names: no weights are made up first, and the modules diffusers
# wants in float32 stay so (from_single_file would cast those too, and the rotary tables).
start = time.perf_counter()
with init_empty_weights(include_buffers=False):
    model = WanTransformer3DModel(
        patch_size=tuple(config["patch_size"]), num_attention_heads=config["num_heads"],
        attention_head_dim=config["dim"] // config["num_heads"], in_channels=config["in_dim"], out_channels=config["out_dim"],
        text_dim=config["text_dim"], freq_dim=config["freq_dim"], ffn_dim=config["ffn_dim"], num_layers=config["num_layers"],
        cross_attn_norm=True, qk_norm="rms_norm_across_heads", eps=config["eps"])
weights = convert_wan_transformer_to_diffusers(load_file(checkpoint))
for name in weights:
    keep = set(name.split(".")) & set(model._keep_in_fp32_modules)
    weights[name] = weights[name].to(torch.float32 if keep else dtype)
model.load_state_dict(weights, strict=True, assign=True)
del weights
model.eval()
load_seconds = time.perf_counter() - start

context = np.zeros((inputs["context"].shape[0], config["text_len"], config["text_dim"]), np.float32)
context[:, : inputs["context"].shape[1]] = inputs["context"]
x, t, context = torch.from_numpy(inputs["x"]).to(dtype), torch.from_numpy(inputs["t"]), torch.from_numpy(context).to(dtype)

out, steps = timed(lambda: model(x, t, context, return_dict=False)[0], args.repeat)
report(args, out.float().numpy(), **steps, compile_seconds=0.0, load_seconds=load_seconds, threads=torch.get_num_threads(), devices=1,
       versions={"diffusers": diffusers.__version__, "torch": torch.__version__})
