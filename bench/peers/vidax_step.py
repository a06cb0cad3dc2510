"""One denoising step of Wan2.1 through vidax: one jit of the whole model, as its own scripts have it."""
import os
import time

from common import arguments, load, report, timed

args = arguments(__doc__)
axes = dict(part.split("=") for part in args.mesh.split(",") if part)
tp, sp = int(axes.pop("tp", 1)), int(axes.pop("sp", 1))
if any(int(n) != 1 for n in axes.values()):
    raise SystemExit(f"no more than tp and sp here, not {args.mesh}")
os.environ["JAX_PLATFORMS"] = "cpu"
if tp * sp > 1:
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={tp * sp}".strip()

import flax  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from importlib.metadata import version  # noqa: E402
from jax.experimental.shard_map import shard_map  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402
from vidax.core.rope3d import create_rope3d_freqs  # noqa: E402
from vidax.core.sharding import build_tpu_mesh, get_replicated_sharding, shard_wan_params, to_partition_specs  # noqa: E402
from vidax.models.wan.wan2_1.dit import WanDiT  # noqa: E402
from vidax.translator import load_torch_checkpoint_to_jax  # noqa: E402

config, checkpoint, inputs = load(args)
dtype = jnp.float32 if args.dtype == "f32" else jnp.bfloat16
if args.dtype == "f32":
    jax.config.update("jax_default_matmul_precision", "highest")
mesh = build_tpu_mesh(1, tp, sp)
model = WanDiT(**{k: config[k] for k in ("dim", "ffn_dim", "num_heads", "num_layers", "in_dim", "out_dim", "freq_dim", "text_dim",
                                         "text_len", "eps", "model_type")},
               patch_size=tuple(config["patch_size"]), compute_dtype=dtype,
               mesh=mesh if tp * sp > 1 else None, sequence_parallel=sp > 1)

start = time.perf_counter()
params = load_torch_checkpoint_to_jax(checkpoint, "wan2.1_dit")
params = jax.tree_util.tree_map(lambda a: np.asarray(a).astype(dtype), params)
shardings = shard_wan_params(params, mesh)
params = jax.block_until_ready(jax.device_put(params, shardings))
load_seconds = time.perf_counter() - start

x = np.moveaxis(inputs["x"], 1, -1)
f, h, w = [s // p for s, p in zip(inputs["x"].shape[2:], config["patch_size"])]
freqs = create_rope3d_freqs(f, h, w, config["dim"] // config["num_heads"])
rest = (jnp.asarray(x, dtype), jnp.asarray(inputs["t"]), freqs, jnp.asarray(inputs["context"], dtype))
rest = jax.device_put(rest, get_replicated_sharding(mesh))


def call(params, x, t, freqs, context):
    return model.apply(params, x, t, freqs, context)


if sp > 1:
    call = shard_map(call, mesh=mesh, in_specs=(to_partition_specs(shardings), P(), P(), P(), P()), out_specs=P(), check_rep=False)
start = time.perf_counter()
compiled = jax.jit(call).lower(params, *rest).compile()
compile_seconds = time.perf_counter() - start

figures = dict(compile_seconds=compile_seconds, load_seconds=load_seconds, devices=tp * sp,
               versions={"vidax": version("vidax"), "jax": jax.__version__, "flax": flax.__version__})
# XLA says beforehand what a program will take on each device; one that cannot fit would only end this process.
memory = compiled.memory_analysis()
figures["needs_bytes"] = tp * sp * (memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes)
if figures["needs_bytes"] > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
    report(args, None, step_seconds=[], **figures)
else:
    out, steps = timed(lambda: jax.block_until_ready(compiled(params, *rest)), args.repeat)
    report(args, np.moveaxis(np.asarray(out.astype(jnp.float32)), -1, 1), **steps, **figures)
