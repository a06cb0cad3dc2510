"""One step of a model through vidax: one jit of the whole model, as its own scripts have it."""
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
from vidax.core.sharding import build_tpu_mesh, get_replicated_sharding, shard_wan_params, to_partition_specs  # noqa: E402
from vidax.translator import load_torch_checkpoint_to_jax  # noqa: E402
from vidax_models import build  # noqa: E402

config, checkpoint, inputs = load(args)
dtype = jnp.float32 if args.dtype == "f32" else jnp.bfloat16
if args.dtype == "f32":
    jax.config.update("jax_default_matmul_precision", "highest")
mesh = build_tpu_mesh(1, tp, sp)
sharded = dict(mesh=mesh, sequence_parallel=sp > 1) if tp * sp > 1 else {}
model, kind, rest, ours = build(config, inputs, dtype, **sharded)

start = time.perf_counter()
params = load_torch_checkpoint_to_jax(checkpoint, kind)
params = jax.tree_util.tree_map(lambda a: np.asarray(a).astype(dtype), params)
shardings = shard_wan_params(params, mesh)
params = jax.block_until_ready(jax.device_put(params, shardings))
load_seconds = time.perf_counter() - start

rest = jax.device_put(rest, get_replicated_sharding(mesh))


def call(params, *rest):
    return model.apply(params, *rest)


if sp > 1:
    call = shard_map(call, mesh=mesh, in_specs=(to_partition_specs(shardings), *(P() for _ in rest)), out_specs=P(), check_rep=False)
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
    report(args, ours(np.asarray(out.astype(jnp.float32))), **steps, **figures)
