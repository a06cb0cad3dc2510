"""The names of Wan2.2's autoencoder in diffusers, from the official ones. diffusers converts those of Wan2.1 only."""
import re

PIECES = [
    (r"^conv1\.", "quant_conv."), (r"^conv2\.", "post_quant_conv."),
    (r"^(encoder|decoder)\.conv1\.", r"\1.conv_in."), (r"^(encoder|decoder)\.head\.0\.", r"\1.norm_out."), (r"^(encoder|decoder)\.head\.2\.", r"\1.conv_out."),
    (r"\.middle\.0\.", ".mid_block.resnets.0."), (r"\.middle\.1\.", ".mid_block.attentions.0."), (r"\.middle\.2\.", ".mid_block.resnets.1."),
    (r"\.residual\.0\.", ".norm1."), (r"\.residual\.2\.", ".conv1."), (r"\.residual\.3\.", ".norm2."), (r"\.residual\.6\.", ".conv2."),
    (r"\.shortcut\.", ".conv_shortcut."),
]


def diffusers_names(name):
    for pattern, other in PIECES:
        name = re.sub(pattern, other, name)
    for half, part, block, sampler in [("encoder", "downsamples", "down_blocks", "downsampler"), ("decoder", "upsamples", "up_blocks", "upsampler")]:
        m = re.match(rf"{half}\.{part}\.(\d+)\.{part}\.(\d+)\.(.*)", name)
        if m:
            i, j, rest = m.groups()
            inner = sampler if rest.startswith(("resample.", "time_conv.")) else f"resnets.{j}"
            return f"{half}.{block}.{i}.{inner}.{rest}"
    return name
