"""Damage of any kind is found, named, and nothing is returned."""

import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float32

from tests.runtime.directory.states import Linear, Train, bits, files_of, linear, train
from treaty.generator import load
from treaty.runtime import CorruptCheckpointError, IncompleteCheckpointError
from treaty.runtime.directory import inspect, restore, save, verify
from treaty.runtime.formats.directory.manifest import parse
from treaty.runtime.formats.directory.places import committed, place_of
from treaty.runtime.formats.directory.remote import Remote
from treaty.schema import TreatyError, state


@state
class Tiny:
    kernel: Float32[np.ndarray, "a b"]
    bias: Float32[np.ndarray, "b"]
    lr: float


load(Tiny)


def chunk_of(checkpoint: Path, leaf: str) -> Path:
    """The first chunk of an array."""
    number = next(i for i, one in enumerate(inspect(checkpoint).leaves) if ".".join(one.path) == leaf)
    return next(iter(sorted(checkpoint.glob(f"data-*/{number}/c.*"))))


@pytest.mark.usefixtures("fine_layout")
def test_every_flip_of_a_byte_is_found(tmp_path: Path) -> None:
    """In every byte of every file. What only other readers of zarr use may be wrong for a restore, not for verify."""
    value = Tiny(kernel=np.arange(32, dtype=np.float32).reshape(8, 4), bias=np.ones(4, np.float32), lr=0.5)
    checkpoint = tmp_path / "tiny"
    save(checkpoint, value)
    names = {file.name for file in files_of(checkpoint)}
    assert names == {"treaty.json", "values.msgpack", "small-0.msgpack", "zarr.json", "c.0.0"}
    for file in files_of(checkpoint):
        whole = file.read_bytes()
        for position in range(len(whole)):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << position % 8
            file.write_bytes(damaged)
            with pytest.raises(TreatyError):
                verify(checkpoint)
            if file.name != "zarr.json":
                with pytest.raises(TreatyError):
                    restore(checkpoint, Tiny)
        file.write_bytes(whole)
    assert bits(restore(checkpoint, Tiny)) == bits(value)


def _delete(file: Path) -> None:
    file.unlink()


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _extend(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0")


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _flip(file: Path) -> None:
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 128
    file.write_bytes(damaged)


def _replace_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _swap_with_neighbour(file: Path) -> None:
    other = file.with_name("c.1.0")
    file.rename(file.with_name("aside"))
    other.rename(file)
    file.with_name("aside").rename(other)


DAMAGES = [_delete, _truncate, _extend, _empty, _flip, _replace_by_folder, _swap_with_neighbour]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_chunk_is_reported_with_its_leaf(damage: Callable[[Path], None], checkpoint: Path) -> None:
    damage(chunk_of(checkpoint, "params.embed"))
    with pytest.raises(CorruptCheckpointError, match=r"got .* at \$\.params\.embed"):
        restore(checkpoint, Train)
    with pytest.raises(CorruptCheckpointError, match=r"got .* at \$\.params\.embed"):
        verify(checkpoint)


@pytest.mark.parametrize("damage", DAMAGES[:5])
@pytest.mark.parametrize("name", ["values.msgpack", "small-0.msgpack"])
def test_a_damaged_file_of_small_leaves_is_named(name: str, damage: Callable[[Path], None], checkpoint: Path) -> None:
    damage(next(checkpoint.glob(f"data-*/{name}")))
    with pytest.raises(CorruptCheckpointError, match=name):
        restore(checkpoint, Train)
    with pytest.raises(CorruptCheckpointError, match=name):
        verify(checkpoint)


@pytest.mark.parametrize("name", ["stray", "0/stray", "3/c.9.9", "3/c.0.0.__lock", "99999/zarr.json"])
def test_an_extra_file_is_reported(name: str, checkpoint: Path) -> None:
    (data,) = checkpoint.glob("data-*")
    (data / name).parent.mkdir(exist_ok=True)
    (data / name).write_bytes(b"?")
    with pytest.raises(CorruptCheckpointError, match=f"expected no other files, got {name}"):
        restore(checkpoint, Train)
    with pytest.raises(CorruptCheckpointError, match=f"expected no other files, got {name}"):
        verify(checkpoint)


def test_all_damage_is_reported_at_once(checkpoint: Path) -> None:
    _flip(chunk_of(checkpoint, "params.embed"))
    _flip(chunk_of(checkpoint, "params.blocks.1.up.kernel"))
    _flip(next(checkpoint.glob("data-*/small-0.msgpack")))
    _flip(next(checkpoint.glob("data-*/values.msgpack")))
    with pytest.raises(CorruptCheckpointError) as raised:
        verify(checkpoint)
    assert len(str(raised.value).splitlines()) == 5
    assert "at $.params.embed" in str(raised.value)
    assert "at $.params.blocks[1].up.kernel" in str(raised.value)


def test_what_is_whole_can_be_restored_from_a_damaged_checkpoint(checkpoint: Path) -> None:
    _flip(chunk_of(checkpoint, "params.embed"))
    block = train(1).params.blocks[1]
    assert bits(restore(checkpoint, type(block), at="params.blocks[1]")) == bits(block)


@pytest.mark.usefixtures("fine_layout")
@pytest.mark.parametrize("rows", [2**34, 2**40, 2**58])
@pytest.mark.parametrize("what", ["chunk", "file"])
@pytest.mark.parametrize("url", [False, True])
def test_a_forged_size_takes_no_memory(url: bool, what: str, rows: int, tmp_path: Path) -> None:
    path = f"memory://forged/{what}{rows}" if url else str(tmp_path / "a")
    save(path, linear(16, 8))
    place = place_of(path)
    found = parse(committed(place, place.manifest()), "")
    if what == "chunk":
        leaves = [leaf._replace(shape=(rows, 8), chunks=(rows, 8), checksums=("0" * 16,)) for leaf in found.leaves[:1]]
        forged = found._replace(leaves=(*leaves, *found.leaves[1:]))
    else:
        forged = found._replace(files=tuple(file._replace(size=rows) for file in found.files))
    if isinstance(place, Remote):
        place._store.write("treaty.json", forged.to_bytes()).result()
    else:
        (tmp_path / "a" / "treaty.json").write_bytes(forged.to_bytes())
    tracemalloc.start()
    try:
        for look in (verify, lambda path: restore(path, Linear)):
            with pytest.raises(TreatyError):
                look(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24 or url  # there memory is taken, but not touched
    finally:
        tracemalloc.stop()


def test_the_data_of_another_checkpoint_is_not_taken_for_its_own(checkpoint: Path, tmp_path: Path) -> None:
    save(tmp_path / "other", train(2))
    (mine,), (theirs,) = checkpoint.glob("data-*"), (tmp_path / "other").glob("data-*")
    shutil.rmtree(mine)
    shutil.copytree(theirs, mine)
    with pytest.raises(CorruptCheckpointError):
        restore(checkpoint, Train)


@pytest.mark.parametrize("look", [inspect, verify, lambda path: restore(path, Train)])
def test_a_directory_without_a_manifest_is_no_checkpoint(look: Callable[[Path], object], checkpoint: Path) -> None:
    with pytest.raises(IncompleteCheckpointError, match=r"expected a checkpoint, got nothing at"):
        look(checkpoint / "nowhere")
    with pytest.raises(CorruptCheckpointError, match="got something else at"):
        look(checkpoint / "treaty.json")
    (checkpoint / "treaty.json").unlink()
    with pytest.raises(IncompleteCheckpointError, match="the save did not finish"):
        look(checkpoint)
