"""A format is one package and one line of the table: all that Treaty does with checkpoints then works with it.

This one, JSON text, is as small as one can be; CONTRIBUTING.md tells how a real one is added.
"""

import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import Mesh
from jaxtyping import BFloat16, Float32, Int32

from treaty.generator import load
from treaty.runtime import MissingCheckpointError, StateMismatchError, inspect, remove, restore, save, verify
from treaty.runtime._convert.convert import convert
from treaty.runtime._convert.diff import diff
from treaty.runtime._lazy import LazyArray, host
from treaty.runtime._restore.source import Source
from treaty.runtime._storage.files import write_pieces
from treaty.runtime._storage.overtaken import Known, known_file
from treaty.runtime._trees import map_leaves
from treaty.runtime.formats.shared.format import Format, Writing
from treaty.runtime.formats.table import FORMATS
from treaty.schema import state
from treaty.schema.dtypes import BY_NAME
from treaty.schema.keymap import KeyMap, Rule


def is_at(path: str) -> bool:
    return os.path.isfile(path) and Path(path).read_bytes()[:1] == b"{"


def open_source(path: str, known: Known) -> Source:
    return Source(path, json.loads(Path(path).read_text(), object_hook=_array))


def write_tree(path: str, tree: dict[str, Any], writing: Writing) -> None:
    write_pieces(path, [json.dumps(map_leaves(_data, tree)).encode()])


def _data(leaf: Any) -> Any:
    if not hasattr(leaf, "dtype"):
        return leaf
    array = host(leaf)
    return {"dtype": array.dtype.name, "shape": list(array.shape), "bytes": array.tobytes().hex()}


def _array(data: dict[str, Any]) -> Any:
    if data.keys() != {"dtype", "shape", "bytes"}:
        return data
    array = np.frombuffer(bytes.fromhex(data["bytes"]), BY_NAME[data["dtype"]].numpy).reshape(data["shape"])
    return LazyArray(array.shape, array.dtype, lambda: array)


JSON = Format(name="json", suffixes=(".json",), is_at=is_at, look=known_file, open=open_source, write=write_tree)


@state
class Params:
    step: Int32[Array, ""]
    kernel: Float32[Array, "d_in d_out"]
    note: str


@state
class Narrow:
    step: Int32[Array, ""]
    kernel: BFloat16[Array, "d_in d_out"]
    note: str


@state
class Wide:
    step: Int32[Array, ""]
    kernel: Float32[Array, "d_in wide=5"]
    note: str


for cls in (Params, Narrow, Wide):
    load(cls)

PARAMS = Params(step=jnp.int32(3), kernel=jnp.arange(8.0).reshape(2, 4), note="first")


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(FORMATS, JSON.name, JSON)
    save(tmp_path / "a.json", PARAMS)
    return tmp_path / "a.json"


def test_it_is_restored_with_all_options(saved: Path) -> None:
    mesh = Mesh(np.array(jax.devices()[:2]), ("x",))
    keymap = KeyMap([Rule("step", "step"), Rule("kernel", "kernel", "d_in d_out -> d_out d_in"), Rule("note", "note")])

    assert restore(saved, Params).note == "first"
    assert isinstance(restore(saved, Params, into="numpy").kernel, np.ndarray)
    assert len(restore(saved, Params, mesh=mesh, rules={"d_out": "x"}).kernel.sharding.device_set) == 2
    assert restore(saved, Params, keymap=keymap).kernel.shape == (4, 2)
    assert restore(saved, Narrow, cast={"float32": "bfloat16"}).kernel.dtype == jnp.bfloat16


def test_narrower_dtypes_are_widened(saved: Path) -> None:
    save(saved, Narrow(step=jnp.int32(3), kernel=PARAMS.kernel.astype(jnp.bfloat16), note=""))
    assert np.array_equal(restore(saved, Params).kernel, PARAMS.kernel)


def test_what_does_not_fit_is_told_as_for_any_format(saved: Path) -> None:
    with pytest.raises(StateMismatchError) as caught:
        restore(saved, Wide)
    assert str(caught.value) == "expected float32[d_in=2, wide=5], got float32[2, 4] at $.kernel"


def test_it_is_inspected_verified_and_removed(saved: Path) -> None:
    assert inspect(saved).format == "json"
    assert verify(saved).leaves == 3
    remove(saved)
    with pytest.raises(MissingCheckpointError):
        restore(saved, Params)


@pytest.mark.parametrize("other", FORMATS)
def test_it_is_converted_and_compared(saved: Path, other: str, tmp_path: Path) -> None:
    suffix = FORMATS[other].suffixes[:1]
    there = tmp_path / "".join(["there", *suffix])

    convert(saved, there, to_format=other)
    convert(there, tmp_path / "back.json", cls=Params)

    assert diff(saved, there) == diff(saved, tmp_path / "back.json") == []
    assert np.array_equal(restore(tmp_path / "back.json", Params).kernel, PARAMS.kernel)
