"""PyTorch's scaled_dot_product_attention on the operands of a file, laid out as diffusers' models hand them over."""
import argparse
import json
import resource
import time

import torch
from safetensors.torch import load_file, save_file

ap = argparse.ArgumentParser(description=__doc__)
ap.add_argument("--inputs", required=True)
ap.add_argument("--out", default="")
ap.add_argument("--dtype", choices=["f32", "bf16"], required=True)
ap.add_argument("--repeat", type=int, required=True)
ap.add_argument("--json", required=True)
args = ap.parse_args()

torch.set_grad_enabled(False)
dtype = torch.float32 if args.dtype == "f32" else torch.bfloat16
# (B, S, H, D), with heads moved before tokens by a view.
q, k, v = (load_file(args.inputs)[name].to(dtype).transpose(1, 2) for name in "qkv")


def used():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


seconds, processor = [], []
out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
for _ in range(args.repeat):
    start, start_used = time.perf_counter(), used()
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    seconds.append(time.perf_counter() - start)
    processor.append(used() - start_used)
if args.out:
    save_file({"out": out.transpose(1, 2).float().contiguous()}, args.out)
with open(args.json, "w") as f:
    json.dump({"seconds": seconds, "cpu_seconds": processor, "version": "torch " + torch.__version__, "threads": torch.get_num_threads(),
               "capability": torch.backends.cpu.get_cpu_capability()}, f)
