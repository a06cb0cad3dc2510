"""Writes jax.json: how JAX prints and places specs, as the oracle of wire_test.go.

Run on 24 virtual CPU devices: pip install jax==0.10.2; python make_jax.py > jax.json
"""
import itertools, json, os, random
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=24"
import jax
import numpy as np
from jax._src.interpreters import mlir
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

rng = random.Random(1)
devices = jax.devices("cpu")
MESHES = [
    {"data": 2, "model": 4},
    {"data": 8, "model": 1},
    {"dp": 1, "tp": 4, "sp": 2},
    {"a": 2, "b": 3, "c": 2},
    {"pipeline": 2, "data": 2, "model": 2},
    {"a": 2, "b": 1, "c": 3, "d": 4},
    {"x": 1},
    {"x": 6},
]


def specs(axes, rank):
    """Up to 16 specs of a rank: dims, partial."""
    out = []
    for _ in range(16):
        order = list(axes)
        rng.shuffle(order)
        dims, partial = [[] for _ in range(rank)], []
        for a in order:
            where = rng.randrange(rank + 2)
            if where < rank:
                dims[where].append(a)
            elif where == rank and rng.random() < 0.5:
                partial.append(a)
        if (dims, partial) not in out:
            out.append((dims, partial))
    return out


def shardy(sharding, rank):
    """The attribute's text, less #sdy.sharding<mesh<...>, in front and > behind."""
    with mlir.make_ir_context():
        attr = str(sharding._to_sdy_sharding(rank).build({}))
    return attr[attr.index(">, ") + 3 : -1]


def text(dims, partial):
    t = "[" + ",".join("+".join(d) or "-" for d in dims) + "]"
    return t + ("|" + "+".join(sorted(partial)) if partial else "")


rows = []
for sizes in MESHES:
    n = int(np.prod(list(sizes.values())))
    mesh = Mesh(np.array(devices[:n]).reshape(*sizes.values()), tuple(sizes), axis_types=(AxisType.Explicit,) * len(sizes))
    for rank in range(0, 4):
        for dims, partial in specs(sizes, rank):
            parts = [None if not d else d[0] if len(d) == 1 else tuple(d) for d in dims]
            sharding = NamedSharding(mesh, P(*parts, unreduced=frozenset(partial)))
            shape = tuple(24 * (i + 1) for i in range(rank))
            row = {
                "mesh": ",".join(f"{a}={s}" for a, s in sizes.items()),
                "spec": text(dims, partial),
                "shape": shape,
                "hlo": str(sharding._to_xla_hlo_sharding(rank)),
                "shardy": shardy(sharding, rank),
            }
            if not partial:
                index = sharding.devices_indices_map(shape)
                row["local"] = list(sharding.shard_shape(shape))
                row["ranges"] = [
                    [[s.start or 0, shape[d] if s.stop is None else s.stop] for d, s in enumerate(index[dev])]
                    for dev in mesh.devices.flat
                ]
            rows.append(row)
print('{"jax": "%s", "rows": [' % jax.__version__)
print(",\n".join(json.dumps(r, separators=(",", ":")) for r in rows))
print("]}")
