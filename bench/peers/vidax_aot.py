"""vidax's denoising step of Wan2.1 compiled by libtpu for a slice that is not there: one jit of the whole model
over abstract devices, as its own scripts have it on real ones. Writes seconds and the compiler's memory as JSON."""
import argparse
import json
import os
import sys
import time

ap = argparse.ArgumentParser(description=__doc__)
ap.add_argument("--config", required=True, help="the model's config.json")
ap.add_argument("--size", required=True, help="WIDTHxHEIGHT")
ap.add_argument("--frames", type=int, required=True)
ap.add_argument("--batch", type=int, default=1)
ap.add_argument("--topology", required=True, help="libtpu's name: v4:2x2x1")
ap.add_argument("--option", action="append", default=[], help="an option of the topology, name=value; numbers with commas make a list")
ap.add_argument("--dp", type=int, default=1)
ap.add_argument("--tp", type=int, default=1)
ap.add_argument("--sp", type=int, default=1)
ap.add_argument("--libtpu", required=True)
ap.add_argument("--json", required=True)
args = ap.parse_args()

# Before jax: which libtpu, and what keeps it from asking a machine that is no TPU's what it is.
os.environ.update(TPU_LIBRARY_PATH=args.libtpu, JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1", TPU_ACCELERATOR_TYPE="v4-8",
                  TPU_WORKER_HOSTNAMES="localhost", TPU_WORKER_ID="0", ALLOW_MULTIPLE_LIBTPU_LOAD="1", TPU_MIN_LOG_LEVEL="3")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from importlib.metadata import version  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jax.experimental.shard_map import shard_map  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec as P  # noqa: E402


def option(text):
    name, value = text.split("=", 1)
    return name, [int(n) for n in value.split(",")] if value.replace(",", "").isdigit() else value


topology = topologies.get_topology_desc(args.topology, "tpu", **dict(map(option, args.option)))
# What vidax asks, for its mesh and whether it is on several chips of a TPU.
jax.devices = lambda *_: list(topology.devices)
jax.device_count = lambda *_: len(topology.devices)
from vidax.core.rope3d import create_rope3d_freqs  # noqa: E402
from vidax.core.sharding import build_tpu_mesh, shard_wan_params, to_partition_specs  # noqa: E402
from vidax.models.wan.wan2_1.dit import WanDiT  # noqa: E402

with open(args.config) as f:
    c = json.load(f)
w, h = (int(n) // 8 for n in args.size.split("x"))
frames, (pf, ph, pw) = 1 + (args.frames - 1) // 4, c["patch_size"]
mesh = build_tpu_mesh(args.dp, args.tp, args.sp)
model = WanDiT(**{k: c[k] for k in ("dim", "ffn_dim", "num_heads", "num_layers", "in_dim", "out_dim", "freq_dim", "text_dim", "text_len", "eps")},
               model_type=c["model_type"], patch_size=tuple(c["patch_size"]), compute_dtype=jnp.bfloat16, mesh=mesh, sequence_parallel=args.sp > 1)
shape = jax.ShapeDtypeStruct
freqs = jax.eval_shape(lambda: create_rope3d_freqs(frames // pf, h // ph, w // pw, c["dim"] // c["num_heads"]))
rest = [shape((args.batch, frames, h, w, c["in_dim"]), jnp.bfloat16), shape((args.batch,), jnp.float32), freqs,
        shape((args.batch, c["text_len"], c["text_dim"]), jnp.bfloat16)]

# Parameters of a model that is not sharded, for their shapes alone; the peer keeps all of them in bf16.
plain = model.clone(mesh=None, sequence_parallel=False)
params = jax.eval_shape(lambda *r: plain.init(jax.random.PRNGKey(0), *r), *rest)
shardings = shard_wan_params(params, mesh)
params = jax.tree_util.tree_map(lambda a, s: shape(a.shape, jnp.bfloat16, sharding=s), params, shardings)
specs = [P("dp"), P("dp"), jax.tree_util.tree_map(lambda _: P(), freqs), P("dp")]
rest = [jax.tree_util.tree_map(lambda a, s: shape(a.shape, a.dtype, sharding=NamedSharding(mesh, s)), a, s) for a, s in zip(rest, specs)]


def call(params, *rest):
    return model.apply(params, *rest)


if args.sp > 1:
    call = shard_map(call, mesh=mesh, in_specs=(to_partition_specs(shardings), *specs), out_specs=P("dp"), check_rep=False)
start = time.perf_counter()
lowered = jax.jit(call).lower(params, *rest)
lower_seconds = time.perf_counter() - start
figures = dict(program="vidax", lower_seconds=lower_seconds, versions={"vidax": version("vidax"), "jax": jax.__version__}, command=sys.argv)
start = time.perf_counter()
try:
    m = lowered.compile().memory_analysis()
    figures["memory"] = dict(argument_bytes=m.argument_size_in_bytes, output_bytes=m.output_size_in_bytes, temp_bytes=m.temp_size_in_bytes,
                             alias_bytes=m.alias_size_in_bytes, code_bytes=m.generated_code_size_in_bytes)
except jax.errors.JaxRuntimeError as e:
    figures["refused"] = str(e)
figures["compile_seconds"] = time.perf_counter() - start
with open(args.json, "w") as f:
    json.dump(figures, f, indent=1)
