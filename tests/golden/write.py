"""Write a generation of golden checkpoints with the code as it is: `python -m tests.golden.write 0003`. See README.md."""

import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.golden import state_v2
from tests.golden.state_v2 import METADATA, TEXT_METADATA
from tests.multihost.processes import run_processes
from treaty.runtime import leaves, save, serialization, to_state_dict
from treaty.runtime.formats import npz, orbax
from treaty.runtime.formats.directory import plan as _plan
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.table import FORMATS

HERE = Path(__file__).parent
SCHEMA: Final = "v2"
PARTS: Final = 32  # bytes of an array above which the drop-in module stores it in parts, here
VERSIONS: Final = ("jax", "ml_dtypes", "msgpack", "numpy", "tensorstore", "backports.zstd")

Write = Callable[[Path, Any], None]


def write_shards(path: Path, state: Any) -> None:
    save(path / "run.safetensors", state, metadata=TEXT_METADATA, max_shard_bytes=8000)


def write_eformer(path: Path, state: Any) -> None:
    FORMATS["eformer"].write(str(path), to_state_dict(state), Writing())


def write_leaves(path: Path, state: Any) -> None:
    """Two trees in one directory, as the drop-in for eformer stores them."""
    leaves.tree_serialize_leaves(path, to_state_dict(state.params), prefix="params")
    leaves.tree_serialize_leaves(path, {"counts": state.counts, "rate": state.rate}, prefix="rest")


def write_directory(path: Path, state: Any) -> None:
    save(path, state, metadata=METADATA)


def write_compressed(path: Path, state: Any) -> None:
    write_fine(path, state, compress="zstd")


def write_fine(path: Path, state: Any, **options: Any) -> None:
    """Many chunks, and several files of small arrays, of a small state."""
    whole = {name: vars(_plan)[name] for name in ("SMALL_BYTES", "CHUNK_BYTES", "PACK_BYTES")}
    vars(_plan).update(SMALL_BYTES=64, CHUNK_BYTES=256, PACK_BYTES=64)
    try:
        save(path, state, metadata=METADATA, **options)
    finally:
        vars(_plan).update(whole)


def write_by_processes(path: Path, state: Any) -> None:
    run_processes(HERE / "write_shared.py", str(path), count=2, devices=2)


def spread(state: Any) -> Any:
    """What every process made for itself, as arrays of all of them; what can be divided, is."""
    mesh = Mesh(np.array(jax.devices()), ("all",))
    spec: Any = PartitionSpec

    def put(host: Any, divided: bool) -> jax.Array:
        sharding = NamedSharding(mesh, spec("all") if divided else spec())
        return jax.make_array_from_callback(host.shape, sharding, lambda at: host[at])

    def put_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array):
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            data = put(np.asarray(jax.random.key_data(leaf)), False)
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        return put(np.asarray(leaf), leaf.ndim > 0 and leaf.size > 0 and leaf.shape[0] % len(jax.devices()) == 0)

    return jax.tree.map(put_leaf, state)


def write_as_first(path: Path, state: Any) -> None:
    """For code of the first revision, which is gone."""
    save(path, state, revision=1)


def write_live(path: Path, state: Any) -> None:
    path.write_bytes(serialization.to_bytes(state))


def write_live_in_parts(path: Path, state: Any) -> None:
    whole = serialization.MAX_CHUNK_SIZE
    vars(serialization)["MAX_CHUNK_SIZE"] = PARTS
    try:
        write_live(path, state)
    finally:
        vars(serialization)["MAX_CHUNK_SIZE"] = whole


# The name of the file, or of the zip file with all files of a checkpoint; how it is written; which state it holds.
GOLDEN: Final[Mapping[str, tuple[Write, str]]] = {
    "run.msgpack": (save, "everything"),
    "run.msgpack.gz": (save, "everything"),
    "run.msgpack.zst": (save, "everything"),
    "run.safetensors": (lambda path, state: save(path, state, metadata=TEXT_METADATA), "everything"),
    "run.npz": (npz.write, "everything"),
    "shards.zip": (write_shards, "everything"),
    "orbax.zip": (orbax.write, "run"),
    "eformer.zip": (write_eformer, "arrays"),
    "leaves.zip": (write_leaves, "arrays"),
    "directory.zip": (write_directory, "everything_and_a_huge_int"),
    "directory-large.zip": (write_directory, "wide"),
    "directory-chunks.zip": (write_fine, "everything_and_a_huge_int"),
    "directory-compressed.zip": (write_compressed, "everything_and_a_huge_int"),
    "directory-processes.zip": (write_by_processes, "everything_and_a_huge_int"),
    "trained.msgpack": (save, "trained"),
    "trained.safetensors": (save, "trained"),
    "trained.npz": (save, "trained"),
    "trained.zip": (save, "trained"),
    "trained-orbax.zip": (orbax.write, "trained"),
    "evolved.msgpack": (write_as_first, "evolved"),
    "evolved.safetensors": (write_as_first, "evolved"),
    "evolved.npz": (write_as_first, "evolved"),
    "evolved.zip": (write_as_first, "evolved"),
    "live.msgpack": (write_live, "live"),
    "live-parts.msgpack": (write_live_in_parts, "live"),
    "live.msgpack.gz": (lambda path, state: serialization.save_to_file(state, path), "live"),
}


def write(folder: Path) -> None:
    folder.mkdir()
    for name, (act, state) in GOLDEN.items():
        made = vars(state_v2)[state]()
        if not name.endswith(".zip"):
            act(folder / name, made)
            continue
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / name.removesuffix(".zip")
            if name == "shards.zip":
                path.mkdir()
            act(path, made)
            pack(path, folder / name)
    about = {
        "schema": SCHEMA,
        "written": date.today().isoformat(),
        "with": {name: version(name) for name in VERSIONS},
        "checkpoints": {name: state for name, (_, state) in GOLDEN.items()},
    }
    (folder / "about.json").write_text(json.dumps(about, indent=2) + "\n")


def pack(path: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for file in sorted(path.rglob("*")):
            if file.is_file():
                info = zipfile.ZipInfo(str(file.relative_to(path)))  # without the time of day
                packed.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    write(HERE / sys.argv[1])
