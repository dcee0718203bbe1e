"""np.savez files: read lazily by name or by class, and written so that nothing is lost."""

import errno
import io
import os
import zipfile
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import Array
from jaxtyping import BFloat16, Float32, Key

from treaty.generator import load
from treaty.runtime import CorruptCheckpointError, StateMismatchError, StorageError, verify
from treaty.runtime._lazy import LazyArray
from treaty.runtime.formats import npz
from treaty.runtime.formats.npz.names import join, split
from treaty.schema import Dims, Length, TreatyError, state
from treaty.schema.dtypes import TABLE


@state
class Linear:
    kernel: Float32[np.ndarray, "d_in d_out"]
    bias: BFloat16[Array, "d_out"]


@state
class Nothing:
    """What an optimizer without state has."""


@state
class Model:
    layers: Annotated[tuple[Linear, ...], Length("n"), Dims(d_in="d", d_out="d")]
    rng: Key[Array, ""]
    step: int
    name: str
    extra: Any


load(Model)
load(Nothing)


def model() -> Model:
    layers = tuple(Linear(kernel=np.full((4, 4), i, np.float32), bias=jnp.full(4, i, jnp.bfloat16)) for i in range(3))
    return Model(layers=layers, rng=jax.random.key(5), step=7, name="x", extra={"a": [1, None], "b": {}})


def read(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: read(value) for key, value in node.items()}
    return node.read() if isinstance(node, LazyArray) else node


def test_an_instance_comes_back_as_it_was(tmp_path: Path) -> None:
    npz.write(tmp_path / "model.npz", model())
    restored = npz.restore(tmp_path / "model.npz", Model)
    assert (restored.step, restored.name, restored.extra) == (7, "x", {"a": {"0": 1, "1": None}, "b": {}})
    assert jax.random.key_data(restored.rng).tolist() == [0, 5]
    assert jax.tree.all(jax.tree.map(np.array_equal, restored.layers, model().layers))


def test_a_class_without_fields_comes_back(tmp_path: Path) -> None:
    npz.write(tmp_path / "x.npz", Nothing())
    assert isinstance(npz.restore(tmp_path / "x.npz", Nothing), Nothing)


def test_every_dtype_survives(tmp_path: Path) -> None:
    arrays = {row.name: np.arange(2).astype(row.numpy).reshape(2, 1) for row in TABLE}
    npz.write(tmp_path / "all.npz", arrays)
    for name, array in read(npz.read_tree(tmp_path / "all.npz")).items():
        assert array.dtype == arrays[name].dtype
        assert array.tobytes() == arrays[name].tobytes()


def test_numpy_reads_our_files_and_we_read_its(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {
        "a/b": np.ones((2, 3), order="F"),
        "c": np.arange(3, dtype=">i4"),
        "s": np.array(["x", "yz"]),
        "e": np.ones(0),
    }
    npz.write(tmp_path / "ours.npz", {"a": {"b": arrays["a/b"]}, **{name: arrays[name] for name in "cse"}})
    with np.load(tmp_path / "ours.npz") as ours:
        np.testing.assert_equal(dict(ours), arrays)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "theirs.npz", **arrays)
        theirs = read(npz.read_tree(tmp_path / "theirs.npz"))
        np.testing.assert_equal(theirs, {"a": {"b": arrays["a/b"]}, **{name: arrays[name] for name in "cse"}})
        assert theirs["c"].dtype.isnative


def test_the_schema_knows_what_savez_forgets(tmp_path: Path) -> None:
    saved: dict[str, Any] = {
        "layers/0/kernel": np.ones((4, 4), np.float32),
        "layers/0/bias": np.ones(4, ml_dtypes.bfloat16),  # numpy stores bytes without a dtype
        "rng/data": np.array([0, 5], np.uint32),
        "rng/impl": "threefry2x32",
        "step": 7,
        "name": "x",
        "extra": np.float32(2),
    }
    np.savez(tmp_path / "model.npz", **saved)
    restored = npz.restore(tmp_path / "model.npz", Model)
    assert (restored.step, restored.name, restored.rng) == (7, "x", jax.random.key(5))
    assert isinstance(restored.extra, np.ndarray)
    assert restored.layers[0].bias.dtype == jnp.bfloat16
    assert restored.layers[0].bias.tolist() == [1, 1, 1, 1]


def test_uncompressed_arrays_are_aligned_views_of_the_file(tmp_path: Path) -> None:
    npz.write(tmp_path / "a.npz", {"x": np.ones(3), "longer name": np.ones(3, ml_dtypes.bfloat16)})
    for array in read(npz.read_tree(tmp_path / "a.npz")).values():
        assert not array.flags.owndata
        assert not array.flags.writeable
        assert array.ctypes.data % 64 == 0


def test_every_mismatch_is_said_before_an_array_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "wrong.npz", kernel=np.ones((2, 3)), bias=np.ones(4, np.float32), more=1)
    damaged = (tmp_path / "wrong.npz").read_bytes().replace(np.float64(1).tobytes() * 6, bytes(48))
    (tmp_path / "wrong.npz").write_bytes(damaged)
    with pytest.raises(StateMismatchError) as caught:
        npz.restore(tmp_path / "wrong.npz", Linear)
    assert [str(one) for one in caught.value.mismatches] == [
        "expected float32[d_in=2, d_out=3], got float64[2, 3] at $.kernel",
        "expected bfloat16[d_out=3], got float32[4] at $.bias",
        "expected no such key in Linear, got int64[] at $.more",
    ]


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4), unique_by=tuple))
def test_no_two_paths_share_a_name(paths: list[list[str]]) -> None:
    assert len({join(path) for path in paths}) == len(paths)
    assert [split(join(path)) for path in paths] == paths


def test_odd_keys_come_back(tmp_path: Path) -> None:
    value = {"a/b": np.ones(1), "a": {"b": np.zeros(1), "": np.ones(2), "..": np.ones(3)}, "__treaty__": np.ones(4)}
    npz.write(tmp_path / "odd.npz", {**value, "%2F": np.ones(1, ml_dtypes.int4)})
    np.testing.assert_equal(read(npz.read_tree(tmp_path / "odd.npz")), {**value, "%2F": np.ones(1, ml_dtypes.int4)})


def test_keys_that_no_zip_archive_holds_are_refused(tmp_path: Path) -> None:
    for key, message in [("x" * 2**16, r"can hold, of 65535 bytes in all, got 65540 at x+…"), ("\ud800", "Unicode")]:
        with pytest.raises(TreatyError, match=message):
            npz.write(tmp_path / "odd.npz", {key: np.ones(1)})
    longest = {"x" * (2**16 - 5): np.ones(1)}
    npz.write(tmp_path / "odd.npz", longest)
    np.testing.assert_equal(read(npz.read_tree(tmp_path / "odd.npz")), longest)


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "pickle.npz", x=np.array([{}], object))
    with pytest.raises(CorruptCheckpointError, match=r"a pickle, which is never loaded, at 'x.npy'"):
        npz.read_tree(tmp_path / "pickle.npz")
    with pytest.raises(TreatyError, match=r"expected an array of numbers or text, got object at \$.x"):
        npz.write(tmp_path / "other.npz", {"x": np.array([{}], object)})
    assert not (tmp_path / "other.npz").exists()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damage_anywhere_is_noticed_or_harmless(save: Any, tmp_path: Path) -> None:
    """Each byte flipped, each length cut: an error of ours, or the same arrays."""
    path = tmp_path / "x.npz"
    save(path, a=np.arange(6), b=np.ones((2, 2), np.float32))
    whole, expected = path.read_bytes(), read(npz.read_tree(path))
    variants = [whole[:i] + bytes([whole[i] ^ 0x41]) + whole[i + 1 :] for i in range(len(whole))]
    variants += [whole[:i] for i in range(0, len(whole), 7)]
    noticed = 0
    for variant in variants:
        path.unlink()  # the file may still be mapped
        path.write_bytes(variant)
        try:
            found = read(npz.read_tree(path))
        except CorruptCheckpointError:
            noticed += 1
            continue
        np.testing.assert_equal(found, expected)
    assert noticed > len(whole) // 2


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"readme.txt": b"x"}, "expected arrays with a name each"),
        ({"x.npy": b"x"}, "expected an array, got"),
        (
            {"x.npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (9,)}" + b" " * 58},
            "got ",
        ),
        ({"x.npy": b"\x93NUMPY\x03\x00v\x00\x00\x00"}, "version"),
    ],
)
def test_members_that_are_no_arrays(members: dict[str, bytes], message: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for name, contents in members.items():
            archive.writestr(name, contents)
    with pytest.raises(CorruptCheckpointError, match=message):
        npz.read_tree(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{}",
        b'{"values":3,"dtypes":{}}',
        b'{"values":[[["x"],1]],"dtypes":{}}',
        b'{"values":[],"dtypes":{"x":"bfloat16"}}',
        b'{"values":[[[],1]],"dtypes":{}}',
    ],
)
def test_forged_notes(note: bytes, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones(3), __treaty__=np.frombuffer(note, np.uint8))
    with pytest.raises(CorruptCheckpointError):
        npz.read_tree(tmp_path / "x.npz")


def test_one_place_holds_one_value(tmp_path: Path) -> None:
    both: dict[str, Any] = {"a": np.ones(1), "a/b": np.ones(1)}
    np.savez(tmp_path / "x.npz", **both)
    with pytest.raises(CorruptCheckpointError, match=r"got two on the way to \$.a.b"):
        npz.read_tree(tmp_path / "x.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("call", ["pread", "preadv"])
def test_a_disk_that_fails_is_no_damage(save: Any, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "x.npz", w=np.arange(2000.0), v=np.arange(3000.0))
    whole = npz.read_tree(tmp_path / "x.npz")
    read = getattr(os, call)

    def fail(*_: object) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, fail)
    is_filled = (call == "preadv") == (save is np.savez)  # what is compressed is read as a stream
    for reading in [whole["w"].read] * is_filled + [lambda: npz.read_tree(tmp_path / "x.npz")] * (call == "pread"):
        with pytest.raises(StorageError) as told:
            reading()
        assert str(told.value) == f"cannot read {tmp_path / 'x.npz'}: {os.strerror(errno.EIO)}"
    with monkeypatch.context() as later:
        later.setattr(os, call, read)
        assert whole["w"].read()[7] == 7.0


@pytest.mark.parametrize("kind", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_compression_that_numpy_does_not_write_is_refused(kind: int, tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", w=np.arange(2000.0))
    with zipfile.ZipFile(tmp_path / "plain.npz") as plain, zipfile.ZipFile(tmp_path / "x.npz", "w", kind) as other:
        other.writestr("w.npy", plain.read("w.npy"))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[200:220] = bytes(20)
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=f"got compression {kind} at 'w.npy'"):
        npz.read_tree(tmp_path / "x.npz")["w"].read()


@pytest.mark.parametrize("shape", [(2**62, 0), (0, 2**40, 2**40), (1,) * 65])
def test_a_shape_that_numpy_cannot_hold_is_damage(shape: tuple[int, ...], tmp_path: Path) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("w.npy", head.getvalue() + bytes(8 if 0 not in shape else 0))
    with pytest.raises(CorruptCheckpointError, match=r"expected an array, got .* at 'w\.npy'"):
        verify(tmp_path / "x.npz")
