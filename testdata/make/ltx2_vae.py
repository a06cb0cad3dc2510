"""Makes testdata/vaes/ltx2_25: a tiny autoencoder of LTX-2.5's structure with
random weights, inputs, and what diffusers computes, whole and in tiles.

    python testdata/make/ltx2_vae.py testdata

Needs diffusers (0.42.1), torch, safetensors. Weights lie on the bfloat16 grid
and are stored as such.
"""
import os
import sys

import torch
from diffusers import AutoencoderKLLTX2Video
from safetensors.torch import save_file

torch.set_grad_enabled(False)
torch.manual_seed(2025)
out = os.path.join(sys.argv[1], "vaes", "ltx2_25")
model = AutoencoderKLLTX2Video(
    latent_channels=8, block_out_channels=(8, 8, 16, 16), layers_per_block=(1, 2, 1, 1, 1),
    decoder_block_out_channels=(8, 16, 16, 32), decoder_layers_per_block=(1, 1, 2, 1, 1), decoder_spatio_temporal_scaling=(True, True, True, True),
    decoder_inject_noise=(False, False, False, False, False), upsample_type=("spatiotemporal", "spatiotemporal", "temporal", "spatial"),
    upsample_residual=(False, False, False, False), upsample_factor=(2, 2, 1, 2), decoder_causal=False,
    encoder_spatial_padding_mode="zeros", decoder_spatial_padding_mode="zeros", spatial_compression_ratio=32, temporal_compression_ratio=8).eval()
for name, p in model.named_parameters():
    p.copy_(p if p.dim() < 2 else torch.randn_like(p) / p[0].numel() ** 0.5)
model.latents_mean.copy_(0.4 * torch.randn(8))
model.latents_std.copy_(1 + torch.rand(8))
model.to(torch.bfloat16).save_pretrained(os.path.join(out, "diffusers"))
model.to(torch.float32)
inputs = {"z": torch.randn(1, 8, 2, 1, 2), "video": 2 * torch.rand(1, 3, 9, 32, 64) - 1,
          "tiled.z": torch.randn(1, 8, 1, 2, 3), "tiled.video": 2 * torch.rand(1, 3, 1, 64, 96) - 1}
expected = {}
for prefix in ["", "tiled."]:
    if prefix:
        model.enable_tiling(tile_sample_min_height=64, tile_sample_min_width=64, tile_sample_stride_height=32, tile_sample_stride_width=32)
    expected[prefix + "decode"] = model.decode(inputs[prefix + "z"]).sample
    posterior = model.encode(inputs[prefix + "video"]).latent_dist
    expected[prefix + "encode"], expected[prefix + "encode_logvar"] = posterior.mean, posterior.logvar
save_file(inputs, os.path.join(out, "inputs.safetensors"))
save_file({name: x.contiguous() for name, x in expected.items()}, os.path.join(out, "expected.safetensors"))
print({name: (tuple(x.shape), float(x.std())) for name, x in expected.items()})
