"""What file managers and file systems leave in directories is nobody's, and in nobody's way."""

import os
from pathlib import Path

import numpy as np
import orbax.checkpoint as ocp
import pytest

from tests.runtime.test_files import Model, model
from tests.runtime.test_paths import WRITERS, is_back, small
from treaty.runtime import TreatyError, restore, save, verify
from treaty.runtime._convert.convert import convert
from treaty.runtime._storage.paths import is_stray
from treaty.runtime.formats import safetensors

STRAYS = [".DS_Store", "._treaty.json", ".nfs0000000000a1b2c300000001", "Thumbs.db", "desktop.ini"]


def litter(folder: Path) -> None:
    for name in STRAYS:
        (folder / name).write_bytes(b"\0" * 8)
    (folder / "lost+found").mkdir(exist_ok=True)


def litter_all(folder: Path) -> None:
    for one in [folder, *(below for below in folder.rglob("*") if below.is_dir())]:
        litter(one)


def test_names_that_people_give_are_not_strays() -> None:
    for name in ("treaty.json", "data-0", ".hidden", "_METADATA", "0", "c.0", ".zarray", "nfs", "DS_Store", "."):
        assert not is_stray(name)


@pytest.mark.parametrize("suffix", ["", ".orbax", ".eformer"])
def test_a_directory_is_read_as_if_they_were_not_there(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    WRITERS[suffix](path, small())
    litter_all(path)
    assert is_back(path)
    convert(path, tmp_path / "y.msgpack")
    assert is_back(tmp_path / "y.msgpack")
    if not suffix:
        assert verify(path).leaves


def test_a_save_goes_into_a_directory_that_holds_nothing_else(tmp_path: Path) -> None:
    litter(tmp_path)
    for seed in (1, 2):
        save(tmp_path, model(seed))
        litter_all(tmp_path)
    assert restore(tmp_path, Model, into="numpy").layers
    (tmp_path / "notes.txt").touch()
    with pytest.raises(TreatyError, match=r"got notes\.txt in "):
        save(tmp_path, model(3))


@pytest.mark.parametrize("suffix", ["", ".orbax", ".eformer"])
def test_a_conversion_replaces_a_directory_that_holds_nothing_else(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    WRITERS[suffix](path, small())
    litter_all(path)
    save(tmp_path / "y.msgpack", small())
    convert(tmp_path / "y.msgpack", path, to_format="treaty", replace=True)
    assert is_back(path)
    (path / "lost+found").mkdir()
    (path / "lost+found" / "found").touch()
    with pytest.raises(TreatyError, match=r"got lost\+found/found"):
        convert(tmp_path / "y.msgpack", path, to_format="treaty", replace=True)


@pytest.mark.parametrize("limit", [None, 20_000])
def test_a_folder_of_safetensors(limit: int | None, tmp_path: Path) -> None:
    save(tmp_path / "x.safetensors", model(1), max_shard_bytes=limit)
    for name in [*os.listdir(tmp_path)]:
        (tmp_path / f"._{name}").write_bytes(b"\0\5\x16\7")
    litter(tmp_path)
    assert np.array_equal(restore(tmp_path, Model, into="numpy").layers[3].kernel, model(1).layers[3].kernel)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_steps_of_orbax(tmp_path: Path) -> None:
    with ocp.CheckpointManager(tmp_path) as manager:
        for step in (1, 2):
            manager.save(step, args=ocp.args.StandardSave({"layers": [{"kernel": small().layers[0].kernel}]}))
    litter_all(tmp_path)
    (tmp_path / "._2").touch()
    (tmp_path / "._step_7").touch()
    assert is_back(tmp_path)
    assert is_back(tmp_path / "1")


def test_one_shard_alone_in_a_folder_is_no_checkpoint(tmp_path: Path) -> None:
    save(tmp_path / "x.safetensors", model(1), max_shard_bytes=100_000)
    (tmp_path / "x.safetensors.index.json").unlink()
    (first, *others) = sorted(tmp_path.iterdir())
    for other in others:
        other.unlink()
    with pytest.raises(TreatyError, match=f"got {first.name} in"):
        restore(tmp_path, Model)
    assert safetensors.load(first)[0]
