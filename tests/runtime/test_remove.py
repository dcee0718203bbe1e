"""`remove`: all of a checkpoint or nothing of it, and never what is not one."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orbax.checkpoint as ocp
import pytest

from tests.command_runner import command_runner
from tests.runtime.test_files import ROOT, Model, model
from tests.runtime.test_paths import WRITERS, is_back, small
from tests.runtime.test_strays import litter_all
from treaty.runtime import (
    IncompleteCheckpointError,
    MissingCheckpointError,
    StorageError,
    TreatyError,
    inspect,
    remove,
    restore,
    save,
)
from treaty.runtime._storage import workspace as _workspace
from treaty.runtime._storage.workspace import locked_directory
from treaty.runtime.commands import checkpoints as commands
from treaty.runtime.formats.directory import write as _write


def sharded(path: Path) -> None:
    save(path, model(1), max_shard_bytes=50_000)


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_checkpoint_of_any_format_goes(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    for given in (path, str(path), os.fsencode(path), f"{tmp_path}/./x{suffix}"):
        WRITERS[suffix](path, small())
        remove(given)
        assert os.listdir(tmp_path) == []
    with pytest.raises(MissingCheckpointError, match="got nothing at"):
        remove(tmp_path / f"x{suffix}")


@pytest.mark.parametrize("name", ["x.safetensors", "x.safetensors.index.json", "folder"])
def test_shards_go_with_their_index(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    sharded(folder / "x.safetensors")
    if name == "folder":
        litter_all(folder)
        remove(folder)
        assert os.listdir(tmp_path) == []
        return
    (folder / "config.json").touch()
    (folder / "y.safetensors").touch()
    with pytest.raises(TreatyError, match="got a shard of one"):
        remove(folder / "x-00001-of-00004.safetensors")
    with pytest.raises(TreatyError, match=r"got .*config\.json"):
        remove(folder)
    remove(folder / name)
    assert sorted(os.listdir(folder)) == ["config.json", "y.safetensors"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_step_of_orbax_goes_and_the_others_stay(tmp_path: Path) -> None:
    with ocp.CheckpointManager(tmp_path) as manager:
        for step in (1, 2):
            manager.save(step, args=ocp.args.StandardSave({"layers": [{"kernel": small().layers[0].kernel}]}))
    with pytest.raises(TreatyError, match="expected a directory with nothing but one checkpoint"):
        remove(tmp_path)
    remove(tmp_path / "2")
    assert os.listdir(tmp_path) == ["1"]
    assert is_back(tmp_path)


def test_what_is_no_checkpoint_stays(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").touch()
    save(tmp_path / "run", small())
    (tmp_path / "run" / "notes.txt").touch()
    (tmp_path / "link").symlink_to("run")
    before = sorted(tmp_path.rglob("*"))
    for name in ("notes.txt", "empty", "folder", "run", "link", "missing", ".", ".."):
        with pytest.raises(TreatyError):
            remove(tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_a_killed_save_left_goes_too(tmp_path: Path) -> None:
    save(tmp_path / "run", small())
    (tmp_path / "run" / "treaty.json").unlink()
    (data,) = (tmp_path / "run").iterdir()
    (data / "0").mkdir(exist_ok=True)
    (data / "0" / "c.0.0_61281e939c6ef488.__lock").touch()  # which TensorStore had not renamed yet
    remove(tmp_path / "run")
    assert os.listdir(tmp_path) == []


def test_what_comes_at_the_last_moment_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "run", small())
    rename = os.rename

    def late(source: Path, target: Path) -> None:
        (source / "notes.txt").touch() if source.name == "run" else None
        rename(source, target)

    monkeypatch.setattr(os, "rename", late)
    with pytest.raises(TreatyError, match=r"got notes\.txt in"):
        remove(tmp_path / "run")
    assert is_back(tmp_path / "run")


def test_a_save_under_way_is_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "run", small())
    complete = _write._complete

    def meanwhile(*args: object) -> object:
        with pytest.raises(TreatyError, match="got another save that is writing to it"):
            remove(tmp_path / "run")
        return complete(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(_write, "_complete", meanwhile)
    save(tmp_path / "run", small())
    assert is_back(tmp_path / "run")
    with locked_directory(tmp_path / "run"), pytest.raises(TreatyError, match="got another save"):
        save(tmp_path / "run", small())


def test_a_kill_at_any_moment_leaves_all_or_nothing(tmp_path: Path) -> None:
    kinds = tmp_path / "kinds"
    for kind, suffix in {"directory": "", "orbax": ".orbax", "eformer": ".eformer", "file": ".msgpack"}.items():
        (kinds / f"{kind}:x{suffix}").mkdir(parents=True)
        WRITERS[suffix](kinds / f"{kind}:x{suffix}" / f"x{suffix}", small())
    for kind in ("shards:x.safetensors", "folder:x"):
        folder = kinds / kind / "x" if kind == "folder:x" else kinds / kind
        folder.mkdir(parents=True)
        sharded(folder / "x.safetensors")
    command = [sys.executable, "-m", "tests.faults.remover", str(kinds)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    lines = [line.split(maxsplit=3) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert {(state, rest) for _, _, state, rest in lines} == {("whole", "finished []"), ("gone", "finished []")}, lines
    for kind in os.listdir(kinds):
        states = [state for name, _, state, _ in lines if name == kind]
        assert states == sorted(states, reverse=True), kind  # whole until it is gone
        assert states[0] == "whole"


@pytest.mark.parametrize("suffix", ["", ".orbax", ".eformer"])
def test_inspect_and_restore_agree_on_what_is_whole(suffix: str, tmp_path: Path) -> None:
    """Whatever file of a directory is missing, or cut off."""
    path = tmp_path / f"x{suffix}"
    WRITERS[suffix](path, model(1, layers=2))
    look = inspect
    for name in sorted(str(one.relative_to(path)) for one in path.rglob("*") if one.is_file()):
        for damage in (Path.unlink, lambda file: file.write_bytes(b"")):
            shutil.rmtree(tmp_path / "copy", ignore_errors=True)
            shutil.copytree(path, tmp_path / "copy")
            damage(tmp_path / "copy" / name)
            works = [_works(one, tmp_path / "copy") for one in (look, lambda path: restore(path, Model, into="numpy"))]
            assert works[0] == works[1], (name, works)


def _works(look: Callable[[Path], object], path: Path) -> bool:
    try:
        return look(path) is not None
    except TreatyError:
        return False


def test_a_directory_whose_data_is_gone_is_not_listed(tmp_path: Path) -> None:
    save(tmp_path / "run", small())
    shutil.rmtree(next((tmp_path / "run").glob("data-*")))
    done = command_runner().invoke(commands.inspect, [str(tmp_path / "run")])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {tmp_path / 'run'} is damaged:\nerror: expected ")
    with pytest.raises(TreatyError, match="is damaged"):
        inspect(tmp_path / "run")
    remove(tmp_path / "run")
    with pytest.raises(IncompleteCheckpointError):
        inspect(tmp_path / "run")


def test_the_command_removes_what_it_can(tmp_path: Path) -> None:
    save(tmp_path / "a", small())
    save(tmp_path / "b.msgpack", small())
    (tmp_path / "notes.txt").write_text("hello")
    paths = [str(tmp_path / name) for name in ("a", "notes.txt", "b.msgpack")]
    done = command_runner().invoke(commands.remove, paths)
    assert done.exit_code == 1
    assert done.stdout == f"removed {paths[0]}\nremoved {paths[2]}\n"
    assert done.stderr.startswith("error: expected a checkpoint of treaty, safetensors, ")
    assert os.listdir(tmp_path) == ["notes.txt"]
    assert command_runner().invoke(commands.remove, []).exit_code == 2


def test_a_directory_that_cannot_be_locked_is_not_removed_unlocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "x", model(1))

    def no_more(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(_workspace, "open_lock", no_more)
        with pytest.raises(StorageError, match="Too many open files"):
            remove(tmp_path / "x")
    assert restore(tmp_path / "x", Model).layers
