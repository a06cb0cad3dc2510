"""What diffusers' AutoencoderKLWan makes of latents and videos in tiles.

    python testdata/make/wan_vae_tiled.py testdata

The models are those of wan21_vae/diffusers and wan22_vae_diffusers. Inputs follow a formula, so that
only results are stored: element i is ((7919 i) mod 2003) / 1001.5 - 1.
"""

import pathlib
import sys

import numpy as np
import torch
from diffusers import AutoencoderKLWan
from safetensors.torch import save_file

root = pathlib.Path(sys.argv[1])
torch.set_grad_enabled(False)


def formula(*shape):
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    return torch.from_numpy((((i * 7919) % 2003) / 1001.5 - 1).astype(np.float32).reshape(shape))


def tiled(folder, z, video, tile, stride):
    vae = AutoencoderKLWan.from_pretrained(root / folder).eval()
    vae.enable_tiling(*tile, *stride)
    shape = (1, vae.config.z_dim, 1, 1, 1)
    mean, std = (torch.tensor(x).view(shape) for x in (vae.config.latents_mean, vae.config.latents_std))
    decoded = vae.decode(formula(*z) * std + mean).sample
    posterior = vae.encode(formula(*video)).latent_dist
    whole = AutoencoderKLWan.from_pretrained(root / folder).eval().decode(formula(*z) * std + mean).sample
    print(folder, "decode", tuple(decoded.shape), "clamped", float((decoded.abs() == 1).float().mean()), "from the whole", float((decoded - whole).abs().max()))
    return {"decode": decoded.contiguous(), "encode_mean": posterior.mean.contiguous(), "encode_logvar": posterior.logvar.contiguous()}


out = tiled("wan21_vae/diffusers", (1, 16, 2, 5, 4), (1, 3, 5, 40, 56), (24, 16), (16, 8))
save_file(out, root / "wan21_vae/tiled.safetensors")
out = tiled("wan22_vae_diffusers", (1, 48, 2, 5, 2), (1, 3, 5, 160, 80), (48, 32), (32, 16))
save_file(out, root / "wan22_vae_diffusers/tiled.safetensors")
