"""Damaged and hostile checkpoints of other formats: an error of ours that says where, and no crash, hang or pickle."""

import io
import json
import resource
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax import Array
from jaxtyping import Float32, Int32

from tests.compat.test_orbax_old import Train as OldTrain
from tests.compat.test_orbax_old import unpack
from treaty.generator import load
from treaty.runtime import restore
from treaty.runtime.formats import npz
from treaty.runtime.leaves import tree_serialize_leaves
from treaty.schema import Dims, TreatyError, state

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@state
class Params:
    w: Float32[Array, "a b"]
    b: Float32[Array, "b"]


@state
class Train:
    params: Annotated[Params, Dims("a", "b")]
    step: Int32[Array, ""]


load(Train)


def tree() -> dict[str, Any]:
    return {"params": {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(3)}, "step": jnp.int32(7)}


def by_orbax(path: Path, **options: Any) -> Path:
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree()))
    return path


def by_eformer(path: Path) -> Path:
    tree_serialize_leaves(path, tree())
    return path


def by_npz(path: Path) -> Path:
    path.mkdir()
    npz.write(path / "x.npz", tree())
    return path


def by_numpy(path: Path) -> Path:
    path.mkdir()
    params: dict[str, Any] = {"params/w": np.ones((2, 3), np.float32), "params/b": np.ones(3, np.float32)}
    np.savez_compressed(path / "x.npz", step=np.int32(7), **params)
    return path


WRITERS: dict[str, Callable[[Path], Path]] = {
    "orbax": lambda path: by_orbax(path),
    "orbax zarr3": lambda path: by_orbax(path, use_zarr3=True),
    "orbax files": lambda path: by_orbax(path, use_ocdbt=False),
    "orbax zarr3 files": lambda path: by_orbax(path, use_ocdbt=False, use_zarr3=True),
    "orbax 0.2.7": lambda path: unpack(path) / "0.2.7" / "mixed",
    "orbax 0.4.8": lambda path: unpack(path) / "0.4.8" / "mixed",
    "eformer": by_eformer,
    "npz": by_npz,
    "npz compressed": by_numpy,
}


def damaged(data: bytes) -> Iterator[bytes | None]:
    """Gone, emptied, cut, grown, and with single bits turned here and there."""
    yield None
    yield b""
    yield data[: len(data) // 2]
    yield data[:-1]
    yield data + b"\0"
    random = np.random.default_rng(len(data))
    for at in random.integers(0, max(1, len(data)), 12) if data else ():
        turned = bytearray(data)
        turned[at] ^= 1 << int(random.integers(8))
        yield bytes(turned)


@pytest.mark.parametrize("name", WRITERS)
def test_damage_to_any_file_gives_an_error_of_ours_or_does_no_harm(name: str, tmp_path: Path) -> None:
    path = WRITERS[name](tmp_path / "saved")
    target = path / "x.npz" if name.startswith("npz") else path
    cls: Any = OldTrain if "0." in name else Train
    restore(target, cls, into="numpy")
    for file in sorted(one for one in path.rglob("*") if one.is_file()):
        whole = file.read_bytes()
        for data in damaged(whole):
            file.unlink() if data is None else file.write_bytes(data)
            with suppress(TreatyError, FileNotFoundError):
                restore(target, cls, into="numpy")
            file.write_bytes(whole)


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


HOSTILE_ARRAYS: dict[str, dict[str, Any]] = {
    "a chunk larger than any memory": {"chunks": [2**40, 2**20]},
    "a chunk larger than this machine": {"chunks": [2**35, 3]},
    "an array larger than any memory": {"shape": [2**60, 2**60], "chunks": [2**60, 2**60]},
    "an array larger than this machine": {"shape": [2**40, 3], "chunks": [2**40, 3]},
    "more chunks than can be counted": {"shape": [2**40, 3], "chunks": [1, 1]},
    "a negative size": {"shape": [-2, 3]},
    "no axes": {"shape": [], "chunks": []},
    "objects": {"dtype": "|O"},
    "a list of fields": {"dtype": [["a", "<f4"], ["b", "<f4"]]},
    "a filter that is a program": {"filters": [{"id": "pickle"}]},
}

READ = """
import resource, sys, warnings
resource.setrlimit(resource.RLIMIT_AS, (16 * 2**30,) * 2)
warnings.simplefilter("ignore")
from tests.attacks.test_readers import Train, TreatyError, restore
for path in sys.argv[1:]:
    try:
        restore(path, Train, into="numpy")
        print("restored")
    except TreatyError as error:
        print(type(error).__name__, str(error).splitlines()[0][:150])
with open("/proc/self/status") as file:  # getrusage gives the peak of the process that started this one, if that is higher
    peak = file.read().partition("VmHWM:")[2].split()[0]
assert int(peak) < 2**20, "a gigabyte was touched"
"""


def test_hostile_metadata_of_arrays_takes_no_memory_and_ends_no_process(tmp_path: Path) -> None:
    """In a process of its own, because TensorStore ends the one in which it finds no memory."""
    paths = []
    for number, changes in enumerate(HOSTILE_ARRAYS.values()):
        orbax = by_orbax(tmp_path / f"orbax-{number}", use_ocdbt=False)
        edit(orbax / "params.w" / ".zarray", **changes)
        edit(orbax / "_METADATA", store_array_data_equal_to_fill_value=False)
        eformer = by_eformer(tmp_path / f"eformer-{number}")
        edit(eformer / "params" / "w" / ".zarray", **changes)
        if "shape" in changes:
            index = json.loads((eformer / "tensorstore_index.json").read_text())
            next(one for one in index["arrays"] if one["path"] == "params/w")["shape"] = changes["shape"]
            (eformer / "tensorstore_index.json").write_text(json.dumps(index))
        paths += [str(orbax), str(eformer)]
    for number, inner in enumerate(([2**35, 3], [2, 3])):
        zarr3 = by_orbax(tmp_path / f"zarr3-{number}", use_ocdbt=False, use_zarr3=True)
        array = json.loads((zarr3 / "params.w" / "zarr.json").read_text())
        array["chunk_grid"]["configuration"]["chunk_shape"] = [2**35, 3]
        array["codecs"][0]["configuration"]["chunk_shape"] = inner
        (zarr3 / "params.w" / "zarr.json").write_text(json.dumps(array))
        paths.append(str(zarr3))
    root = Path(__file__).parent.parent.parent
    done = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths)
    assert not [path for path, line in zip(paths, lines, strict=True) if line == "restored"]


def npy(array: Any, **header: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {**np.lib.format.header_data_from_array_1_0(array), **header})
    data: bytes = array.tobytes()
    return stream.getvalue() + data


def archive(path: Path, members: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as file:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, data in members:
            file.writestr(name, data)
    return path


STEP = ("step.npy", npy(np.int32(7)))
W, B = ("params/w.npy", npy(np.ones((2, 3), np.float32))), ("params/b.npy", npy(np.ones(3, np.float32)))


def pickled(path: Path) -> Path:
    arrays: dict[str, Any] = {"params/w": np.array([print], dtype=object), "params/b": np.ones(3), "step": 7}
    np.savez(path, **arrays)
    return path


def bomb(path: Path) -> Path:
    """A thousandfold, and its header claims little."""
    data = npy(np.ones((2, 3), np.float32)) + bytes(2**28)
    return archive(path, [STEP, B, ("params/w.npy", data)], zipfile.ZIP_DEFLATED)


HOSTILE_ARCHIVES: dict[str, Callable[[Path], Path]] = {
    "a pickle": pickled,
    "a bomb": bomb,
    "one name twice": lambda path: archive(path, [STEP, W, B, W]),
    "an absolute name": lambda path: archive(path, [STEP, ("/params/w.npy", W[1]), B]),
    "a name that climbs": lambda path: archive(path, [STEP, ("../params/w.npy", W[1]), B]),
    "a leaf and a node of one name": lambda path: archive(path, [STEP, W, B, ("params.npy", W[1])]),
    "no array": lambda path: archive(path, [STEP, W, B, ("readme.txt", b"hello")]),
    "a huge shape": lambda path: archive(
        path, [STEP, ("params/w.npy", npy(np.ones(6, np.float32), shape=(2**40, 2**20))), B]
    ),
    "a negative shape": lambda path: archive(
        path, [STEP, ("params/w.npy", npy(np.ones(6, np.float32), shape=(-2, -3))), B]
    ),
    "a header of code": lambda path: archive(path, [STEP, ("params/w.npy", W[1].replace(b"'<f4'", b"print")), B]),
    "deep names": lambda path: archive(path, [STEP, W, B, ("/".join("a" * 5000) + ".npy", W[1])]),
}


@pytest.mark.parametrize("name", HOSTILE_ARCHIVES)
def test_hostile_archives_are_refused(name: str, tmp_path: Path) -> None:
    path = HOSTILE_ARCHIVES[name](tmp_path / "x.npz")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TreatyError):
        restore(path, Train, into="numpy")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18 or name == "a bomb"


def test_deep_metadata_is_refused(tmp_path: Path) -> None:
    path = by_orbax(tmp_path / "saved")
    (path / "_METADATA").write_text('{"tree_metadata":' * 100_000)
    with pytest.raises(TreatyError, match="expected JSON"):
        restore(path, Train)
    eformer = by_eformer(tmp_path / "eformer")
    (eformer / "tensorstore_index.json").write_text("[" * 100_000)
    with pytest.raises(TreatyError, match="expected JSON"):
        restore(eformer, Train)


@pytest.mark.parametrize("step", ["../../outside", "/etc"])
def test_an_index_that_leads_out_is_not_followed(step: str, tmp_path: Path) -> None:
    by_eformer(tmp_path / "outside")
    eformer = by_eformer(tmp_path / "run" / "saved")
    index = json.loads((eformer / "tensorstore_index.json").read_text())
    index["arrays"][0]["path"] = f"{step}/params/w"
    (eformer / "tensorstore_index.json").write_text(json.dumps(index))
    with pytest.raises(TreatyError, match="expected a path inside the checkpoint"):
        restore(eformer, Train)
