"""Writes jax_mesh_utils.json: hop counts of JAX's device orders.

pip install jax==0.10.2 jaxlib==0.10.2 numpy; python jax_mesh_utils.py > jax_mesh_utils.json
"""
import dataclasses
import json
import math
import random

import jax
import numpy as np
from jax._src import mesh_utils

@dataclasses.dataclass(frozen=True)
class Device:
    id: int
    platform: str
    device_kind: str
    process_index: int
    coords: tuple
    core_on_chip: int
    slice_index: int

KIND = {"v3": "TPU v3", "v4": "TPU v4", "v5e": "TPU v5 lite", "v5p": "TPU v5", "v6e": "TPU v6 lite"}


def devices(gen, shape):
    x, y, z = tuple(shape) + (1,) * (3 - len(shape))
    cores = 2 if gen == "v3" else 1
    out = []
    for pz, py, px in np.ndindex(z, y // 2, x // 2):
        for j, i, core in np.ndindex(2, 2, cores):
            at = (2 * px + i, 2 * py + j, pz)
            number = core + cores * (at[0] + x * (at[1] + y * at[2]))
            out.append(Device(number, "tpu", KIND[gen], px + x // 2 * (py + y // 2 * pz), at, core, 0))
    return out


def closed(gen, shape):
    if gen == "v3":
        return [False] * 3
    if gen in ("v5e", "v6e"):
        return [s == 16 for s in shape] + [False]
    return [all(s % 4 == 0 for s in shape)] * 3


def hops(mesh, shape, wrap):
    shape, out = tuple(shape) + (1,), []
    for axis in range(mesh.ndim):
        groups = np.moveaxis(mesh, axis, -1)
        n, worst = groups.shape[-1], (0, 0)
        for g in groups.reshape(-1, n):
            steps = []
            for i in range(n):
                far = [abs(a - b) for a, b in zip(g[i].coords, g[(i + 1) % n].coords)]
                steps.append(sum(min(f, shape[d] - f) if wrap[d] else f for d, f in enumerate(far)))
            worst = max(worst, (max(steps), sum(steps)))
        out.append(list(worst))
    return out


def factorings(n, k):
    if k == 1:
        yield (n,)
        return
    for f in range(1, n + 1):
        if n % f == 0:
            for rest in factorings(n // f, k - 1):
                yield (f,) + rest


# Of jax's tests/mesh_utils_test.py.
PUBLISHED = [
    ("v4", (2, 2, 1), (1, 1, 4)), ("v4", (2, 2, 4), (1, 4, 4)), ("v4", (4, 4, 4), (1, 16, 4)), ("v4", (4, 4, 8), (1, 16, 8)),
    ("v4", (4, 4, 8), (1, 8, 16)), ("v4", (4, 4, 8), (16, 8, 1)), ("v4", (4, 8, 8), (1, 32, 8)), ("v4", (8, 8, 8), (1, 64, 8)),
    ("v4", (8, 8, 16), (1, 64, 16)), ("v3", (2, 2), (8,)), ("v3", (2, 2), (2, 4)), ("v3", (4, 4), (4, 8)),
]
SHAPES = [
    ("v4", (2, 2, 1)), ("v4", (2, 2, 2)), ("v4", (2, 2, 4)), ("v4", (2, 4, 4)), ("v4", (4, 4, 4)), ("v4", (4, 4, 8)), ("v4", (4, 8, 8)),
    ("v4", (4, 4, 12)), ("v5p", (4, 8, 12)), ("v5e", (2, 2)), ("v5e", (2, 4)), ("v5e", (4, 4)), ("v5e", (4, 8)), ("v5e", (8, 8)),
    ("v5e", (8, 16)), ("v6e", (16, 16)), ("v6e", (2, 4)), ("v6e", (8, 8)), ("v3", (2, 2)), ("v3", (4, 4)), ("v3", (8, 8)),
]
ABOUT = (
    "Longest step and sum of steps, per axis of the mesh taken as rings, of the device order that "
    "jax.experimental.mesh_utils.create_device_mesh (allow_split_physical_axes=True) gives; hops counted in links, on the "
    "wraparound of accelerators.json. published: the case is one of jax's tests/mesh_utils_test.py, whose assignment this is."
)

random.seed(5)
cases = [(g, s, m, True) for g, s, m in PUBLISHED]
for gen, shape in SHAPES:
    n = math.prod(shape) * (2 if gen == "v3" else 1)
    meshes = [f for k in (1, 2, 3) for f in factorings(n, k) if k == 1 or min(f) > 1]
    random.shuffle(meshes)
    cases += [(gen, shape, m, False) for m in meshes[:14]]
lines, seen = [], set()
for gen, shape, mesh, published in cases:
    if (gen, shape, mesh) in seen:
        continue
    seen.add((gen, shape, mesh))
    order = devices(gen, shape)
    result = mesh_utils.create_device_mesh(mesh, order, allow_split_physical_axes=True)
    row = {"slice": "%s:%s" % (gen, "x".join(map(str, shape))), "mesh": list(mesh), "jax": hops(result, shape, closed(gen, shape))}
    if published:
        row["published"] = True
    lines.append("  " + json.dumps(row))
print('{"about": %s, "jax": "%s", "cases": [' % (json.dumps(ABOUT), jax.__version__))
print(",\n".join(lines))
print("]}")
