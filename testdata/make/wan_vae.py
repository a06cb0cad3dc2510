"""Wan's autoencoders with random weights, and what diffusers decodes with them.

    python testdata/make/wan_vae.py testdata

wan21_vae/release: the fixture's weights as releases have them, a .pth in bfloat16.
Every weight lies on the bfloat16 grid, so this is the same model.

wan22_vae: Wan2.2's autoencoder, small, under official names; out is diffusers'
decoding of the normalised latents z in float32.
"""

import json
import pathlib
import shutil
import sys
import zlib

import numpy as np
import torch
from diffusers import AutoencoderKLWan
from safetensors.torch import load_file, save_file

root = pathlib.Path(sys.argv[1])


def release():
    here = root / "wan21_vae"
    to = here / "release"
    to.mkdir(exist_ok=True)
    weights = load_file(here / "model.safetensors")
    half = {name: w.to(torch.bfloat16) for name, w in weights.items()}
    assert all(torch.equal(w, half[name].float()) for name, w in weights.items())
    torch.save(half, to / "Wan2.1_VAE.pth")
    shutil.copy(here / "config.json", to / "config.json")


def normal(name, shape):
    rng = np.random.Generator(np.random.PCG64([2222, zlib.crc32(name.encode())]))
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))


def wan22():
    to = root / "wan22_vae"
    to.mkdir(exist_ok=True)
    config = dict(dim=4, dec_dim=6, z_dim=48, dim_mult=[1, 2, 4, 4], num_res_blocks=2, temperal_downsample=[False, True, True])
    mapping = json.loads((root / "oracle/mappings/wan2.2-vae.json").read_text())["entries"]
    official = {e["pt_diffusers"]: e["pt"] for e in mapping}
    vae = AutoencoderKLWan(base_dim=config["dim"], decoder_base_dim=config["dec_dim"], z_dim=config["z_dim"], dim_mult=config["dim_mult"],
                           num_res_blocks=2, temperal_downsample=config["temperal_downsample"], is_residual=True, in_channels=12,
                           out_channels=12, patch_size=2, scale_factor_spatial=16, latents_mean=mean, latents_std=std).eval()
    weights = {}
    for name, w in vae.state_dict().items():
        x = normal(official[name], tuple(w.shape))
        if name.endswith("gamma"):
            x = 1 + 0.2 * x
        elif name.endswith("bias"):
            x = 0.1 * x
        else:
            x = x / w[0].numel() ** 0.5
        if name.startswith("decoder.conv_out"):
            x = 0.25 * x
        weights[official[name]] = x.to(torch.bfloat16)
    vae.load_state_dict({name: weights[official[name]].float() for name in official}, strict=True)
    z = normal("z", (1, 48, 3, 2, 3))
    with torch.no_grad():
        shape = (1, 48, 1, 1, 1)
        out = vae.decode(z * torch.tensor(std).view(shape) + torch.tensor(mean).view(shape)).sample
    assert out.abs().max() < 1, "the clamp would hide differences"
    print("out", tuple(out.shape), "peak", float(out.abs().max()), "std", float(out.std()))
    (to / "config.json").write_text(json.dumps({"_class_name": "WanVAE_", **config}) + "\n")
    save_file(weights, to / "model.safetensors", metadata={"format": "pt"})
    save_file({"z": z}, to / "inputs.safetensors")
    save_file({"out": out.contiguous()}, to / "expected.safetensors")


# The released statistics of Wan2.2's latents.
mean = [-0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557, -0.1382, 0.0542, 0.2813, 0.0891, 0.1570, -0.0098, 0.0375, -0.1825,
        -0.2246, -0.1207, -0.0698, 0.5109, 0.2665, -0.2108, -0.2158, 0.2502, -0.2055, -0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799, -0.1230,
        -0.0313, -0.1649, 0.0117, 0.0723, -0.2839, -0.2083, -0.0520, 0.3748, 0.0152, 0.1957, 0.1433, -0.2944, 0.3573, -0.0548, -0.1681, -0.0667]
std = [0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.4990, 0.4818, 0.5013, 0.8158, 1.0344, 0.5894, 1.0901, 0.6885, 0.6165, 0.8454, 0.4978,
       0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659, 0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093,
       0.5709, 0.6065, 0.6415, 0.4944, 0.5726, 1.2042, 0.5458, 1.6887, 0.3971, 1.0600, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744]

if __name__ == "__main__":
    release()
    wan22()
