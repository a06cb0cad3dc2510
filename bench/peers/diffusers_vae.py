"""One half of an autoencoder through diffusers, whole and eager as its pipelines run it."""
import os
import time

from common import load, parser, report, timed

ap = parser(__doc__)
ap.add_argument("--what", choices=["encode", "decode"], required=True)
args = ap.parse_args()
os.environ["HF_HUB_OFFLINE"] = "1"

import diffusers  # noqa: E402
import torch  # noqa: E402
from accelerate import init_empty_weights  # noqa: E402
from diffusers import (AutoencoderKLCogVideoX, AutoencoderKLHunyuanVideo, AutoencoderKLHunyuanVideo15, AutoencoderKLLTX2Video,  # noqa: E402
                       AutoencoderKLLTXVideo, AutoencoderKLWan)
from diffusers.loaders.single_file_utils import convert_wan_vae_to_diffusers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

config, checkpoint, inputs = load(args)
dtype = torch.float32 if args.dtype == "f32" else torch.bfloat16
torch.set_grad_enabled(False)
torch.set_float32_matmul_precision("highest")

# What from_pretrained does, from the official names: no weights are made up first.
start = time.perf_counter()
weights = load_file(checkpoint)
if "decoder_block_out_channels" in config or "downsample_match_channel" in config:
    kind = (AutoencoderKLHunyuanVideo15 if "downsample_match_channel" in config
            else AutoencoderKLLTX2Video if "upsample_type" in config else AutoencoderKLLTXVideo)
    own = {key: value for key, value in config.items() if not key.startswith("_") and key != "sample_size"}
    with init_empty_weights(include_buffers=False):
        model = kind(**own)
    std, mean = 1 / config["scaling_factor"], 0.0
    if "latents_std" in weights:
        std, mean = weights["latents_std"].view(1, -1, 1, 1, 1) * std, weights["latents_mean"].view(1, -1, 1, 1, 1)
elif "block_out_channels" in config:
    hunyuan = "mid_block_add_attention" in config
    # diffusers has the tiles along time in its code.
    own = {key: value for key, value in config.items() if not key.startswith("_") and key != "sample_tsize"}
    with init_empty_weights(include_buffers=False):
        model = (AutoencoderKLHunyuanVideo if hunyuan else AutoencoderKLCogVideoX)(**own)
    std, mean = 1 / config["scaling_factor"], 0.0
else:
    patch = config["patch_size"]
    with init_empty_weights(include_buffers=False):
        model = AutoencoderKLWan(
            base_dim=config["dim"], decoder_base_dim=config["dec_dim"], z_dim=config["z_dim"], dim_mult=config["dim_mult"],
            num_res_blocks=config["num_res_blocks"], temperal_downsample=config["temperal_downsample"], is_residual=config["is_residual"],
            in_channels=3 * patch * patch, out_channels=3 * patch * patch, patch_size=patch if patch > 1 else None, scale_factor_spatial=8 * patch,
            latents_mean=config["latents_mean"], latents_std=config["latents_std"])
    if config["is_residual"]:
        from wan22_names import diffusers_names
        weights = {diffusers_names(name): w for name, w in weights.items()}
    else:
        weights = convert_wan_vae_to_diffusers(weights)
    shape = (1, config["z_dim"], 1, 1, 1)
    std, mean = torch.tensor(config["latents_std"]).view(shape), torch.tensor(config["latents_mean"]).view(shape)
for name in weights:
    weights[name] = weights[name].to(dtype)
model.load_state_dict(weights, strict=True, assign=True)
del weights
model.eval()
load_seconds = time.perf_counter() - start

if args.what == "encode":
    x = torch.from_numpy(inputs["video"]).to(dtype)
    step = lambda: model.encode(x, return_dict=False)[0].mean  # noqa: E731
else:
    z = (torch.from_numpy(inputs["z"]) * std + mean).to(dtype)
    step = lambda: model.decode(z, return_dict=False)[0]  # noqa: E731

out, steps = timed(step, args.repeat, patience=600)
report(args, out.float().numpy(), **steps, compile_seconds=0.0, load_seconds=load_seconds, threads=torch.get_num_threads(), devices=1,
       versions={"diffusers": diffusers.__version__, "torch": torch.__version__})
