"""Writes the StableHLO of JAX's own flash attention kernel for TPUs, for libtpu to
compile: queries, keys, heads, block_q, block_k_major and block_k as arguments;
0 for the blocks takes the kernel's defaults. Needs no TPU."""

import sys

import jax
import jax.numpy as jnp
from jax import export
from jax.experimental.pallas.ops.tpu import flash_attention as fa

queries, keys, heads, bq, bkm, bk = (int(x) for x in sys.argv[1:7])
sizes = None
if bq:
    sizes = fa.BlockSizes(block_q=bq, block_k_major=bkm, block_k=bk, block_b=1)
q = jax.ShapeDtypeStruct((1, heads, queries, 128), jnp.bfloat16)
kv = jax.ShapeDtypeStruct((1, heads, keys, 128), jnp.bfloat16)
f = jax.jit(lambda q, k, v: fa.flash_attention(q, k, v, sm_scale=128**-0.5, block_sizes=sizes))
sys.stdout.write(export.export(f, platforms=["tpu"])(q, kv, kv).mlir_module())
