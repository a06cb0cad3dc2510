"""What the peers' scripts share: the command line, timing, and the JSON they write."""
import argparse
import hashlib
import json
import os
import resource
import time

import numpy as np
from safetensors.numpy import load_file, save_file


def arguments(doc):
    return parser(doc).parse_args()


def parser(doc):
    ap = argparse.ArgumentParser(description=doc)
    ap.add_argument("--model", required=True, help="folder with config.json and diffusion_pytorch_model.safetensors, official Wan2.1 names")
    ap.add_argument("--inputs", required=True, help="safetensors with x, t, context, as the fixtures have them")
    ap.add_argument("--dtype", choices=["f32", "bf16"], default="bf16")
    ap.add_argument("--mesh", default="", help="tp=N or sp=N; empty is one device")
    ap.add_argument("--repeat", type=int, default=3, help="timed steps, after one that is not")
    ap.add_argument("--json", required=True, help="where the figures go")
    ap.add_argument("--out", help="where the output goes, as safetensors with the tensor `out`")
    return ap


def load(args):
    """The model's config, the checkpoint's path and the inputs."""
    with open(os.path.join(args.model, "config.json")) as f:
        config = json.load(f)
    return config, os.path.join(args.model, "diffusion_pytorch_model.safetensors"), load_file(args.inputs)


def timed(step, repeat, patience=60):
    """The last output, and figures of each step after a first one. The processor's seconds, over all
    threads, tell on a busy machine how much of the time was this process's own. A step so slow that the
    first alone takes longer than the patience counts from the first on, and none is begun after it."""
    seconds, cpu = [], []
    begun = time.perf_counter()
    for i in range(repeat + 1):
        start, start_cpu = time.perf_counter(), time.process_time()
        out = step()
        end = time.perf_counter()
        if i > 0 or end - begun > patience:
            seconds.append(end - start)
            cpu.append(time.process_time() - start_cpu)
        if seconds and end - begun > patience:
            break
    return out, {"step_seconds": seconds, "step_cpu_seconds": cpu}


def report(args, out, **figures):
    """Writes the figures. `out` is float32, channels first, or None where the step was not run."""
    figures["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if out is not None:
        out = np.ascontiguousarray(out, np.float32)
        figures["out_sha256"] = hashlib.sha256(out.tobytes()).hexdigest()
        figures["out_rms"] = float(np.sqrt(np.mean(np.square(out, dtype=np.float64))))
        if args.out:
            save_file({"out": out}, args.out)
    with open(args.json, "w") as f:
        json.dump(figures, f, indent=1)
