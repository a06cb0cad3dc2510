"""Writes attention/mosaic/testdata/pallas.json: the algorithm of weft's attention
kernel as a Pallas kernel, interpreted by JAX. Refresh it in the module's root with

    bench/.venv/bin/python bench/peers/flash_golden.py
"""

import base64
import functools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

QUERIES, KEYS, REAL, D, BQ, BK, SUB = 32, 400, 390, 128, 16, 256, 128


def values(n, seed):
    """Whole 64ths in [-2, 2): exact in bf16, and made in Go by the same formula."""
    i = np.arange(n, dtype=np.uint64) + np.uint64(seed * 1_000_003)
    return (((i * np.uint64(2654435761)) % np.uint64(1 << 32)) >> np.uint64(24)).astype(np.float32) / 64 - 2


def body(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref, *, steps):
    j = pl.program_id(1)

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full((BQ, 128), -3e38, jnp.float32)
        l_ref[...] = jnp.zeros((BQ, 128), jnp.float32)
        acc_ref[...] = jnp.zeros((BQ, D), jnp.float32)

    for at in range(0, BK, SUB):
        k, v = k_ref[at : at + SUB, :], v_ref[at : at + SUB, :]
        key = j * BK + at + jax.lax.broadcasted_iota(jnp.int32, (1, SUB), 1)
        row = j * BK + at + jax.lax.broadcasted_iota(jnp.int32, (SUB, 1), 0)
        v = jnp.where(row < REAL, v, 0)
        s = jax.lax.dot_general(q_ref[...], k, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
        s = jnp.where(key < REAL, s, -jnp.inf)
        m = jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))
        p = jnp.exp2(s - m[:, :1])
        keep = jnp.exp2(m_ref[...] - m)
        l_ref[...] = l_ref[...] * keep + p
        acc_ref[...] = acc_ref[...] * keep + jnp.dot(p.astype(jnp.bfloat16), v, preferred_element_type=jnp.float32)
        m_ref[...] = m

    @pl.when(j == steps - 1)
    def _():
        o_ref[...] = (acc_ref[...] / jnp.sum(l_ref[...], axis=1, keepdims=True)).astype(jnp.bfloat16)


q = jnp.asarray(values(QUERIES * D, 1).reshape(QUERIES, D))
q = (q * np.float32(math.log2(math.e) / math.sqrt(D))).astype(jnp.bfloat16)
padded = -(-KEYS // BK) * BK
k, v = (jnp.pad(jnp.asarray(values(KEYS * D, s).reshape(KEYS, D)).astype(jnp.bfloat16), ((0, padded - KEYS), (0, 0))) for s in (2, 3))
steps = padded // BK
out = pl.pallas_call(
    functools.partial(body, steps=steps),
    grid=(QUERIES // BQ, steps),
    in_specs=[pl.BlockSpec((BQ, D), lambda i, j: (i, 0)), *[pl.BlockSpec((BK, D), lambda i, j: (j, 0))] * 2],
    out_specs=pl.BlockSpec((BQ, D), lambda i, j: (i, 0)),
    out_shape=jax.ShapeDtypeStruct((QUERIES, D), jnp.bfloat16),
    scratch_shapes=[pltpu.VMEM((BQ, 128), jnp.float32), pltpu.VMEM((BQ, 128), jnp.float32), pltpu.VMEM((BQ, D), jnp.float32)],
    interpret=True,
)(q, k, v)
bits = np.asarray(out).view(np.uint16).astype("<u2").tobytes()
with open("attention/mosaic/testdata/pallas.json", "w") as f:
    json.dump({"jax": jax.__version__, "queries": QUERIES, "keys": KEYS, "real": REAL, "head_dim": D, "block_q": BQ, "block_k": BK, "sub": SUB,
               "out_bf16": base64.b64encode(bits).decode()}, f, indent=1)
    f.write("\n")
