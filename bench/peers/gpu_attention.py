"""Times torch's scaled_dot_product_attention by each backend that takes a call, and FlashAttention where it is
installed. Prints one JSON document: {"name": seconds of one call}. Arguments: batch, tokens, heads, head dim."""
import json
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

batch, tokens, heads, dim = (int(a) for a in sys.argv[1:5])
q, k, v = (torch.randn(batch, heads, tokens, dim, device="cuda", dtype=torch.bfloat16) for _ in range(3))


def seconds(call):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(10):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 10 / 1e3


out = {}
for name, backend in [("sdpa flash", SDPBackend.FLASH_ATTENTION), ("sdpa cudnn", SDPBackend.CUDNN_ATTENTION), ("sdpa efficient", SDPBackend.EFFICIENT_ATTENTION)]:
    try:
        with sdpa_kernel(backend):
            out[name] = seconds(lambda: F.scaled_dot_product_attention(q, k, v))
    except RuntimeError:
        pass  # this backend does not take the call here
try:
    from flash_attn import flash_attn_func

    x, y, z = (t.transpose(1, 2).contiguous() for t in (q, k, v))
    out["flash_attn"] = seconds(lambda: flash_attn_func(x, y, z))
except ImportError:
    pass
print(json.dumps(out))
