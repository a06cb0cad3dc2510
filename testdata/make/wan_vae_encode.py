"""The encoder's fixtures, cut down from two of the folders that hold the peers' results.

    python testdata/make/wan_vae_encode.py FIXTURES testdata

wan22_vae_diffusers: Wan2.2's autoencoder, small, under diffusers' names; the posterior that
diffusers' AutoencoderKLWan makes of a video of 9 frames and of one of a single frame.
wan21_i2v_vae: Wan2.1's; what WanImageToVideoPipeline makes of a picture: latents of the picture
followed by frames of zeros, normalised.
"""

import pathlib
import shutil
import sys

from safetensors.torch import load_file, save_file

source, root = map(pathlib.Path, sys.argv[1:])


def copy(model, to, inputs, expected):
    to.mkdir(exist_ok=True)
    for name in ["config.json", "diffusion_pytorch_model.safetensors"]:
        shutil.copyfile(model / name, to / name)
    save_file(inputs, to / "videos.safetensors")
    save_file(expected, to / "expected.safetensors")


here = source / "vaes/wan22"
inputs, expected = load_file(here / "inputs.safetensors"), load_file(here / "expected.safetensors")
copy(here / "diffusers", root / "wan22_vae_diffusers", {n: t for n, t in inputs.items() if n.endswith("video")}, {n: t for n, t in expected.items() if "encode" in n})

here = source / "pipelines/wan21_i2v"
expected = load_file(here / "expected.safetensors")
copy(here / "diffusers/vae", root / "wan21_i2v_vae", {"image": expected["image"], "official.image": expected["official.image"]},
     {"encode": expected["condition"][:, 4:].contiguous(), "official.encode": expected["official.image_latents"]})
