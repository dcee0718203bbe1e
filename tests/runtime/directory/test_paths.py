"""Paths that are not what they seem: links, "..", pipes, and what is turned or removed while it is read or written."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.directory.states import Linear, Train, bits, linear, train
from treaty.runtime import CorruptCheckpointError, IncompleteCheckpointError
from treaty.runtime.directory import inspect, restore, save, save_async, verify
from treaty.runtime.formats.directory import read as _read
from treaty.runtime.formats.directory import write as _write
from treaty.schema import TreatyError


@pytest.mark.usefixtures("fine_layout")
def test_a_path_may_go_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path / "runs")
    save("../a", train(1))
    assert bits(restore(tmp_path / "runs" / ".." / "a", Train)) == bits(train(1))
    assert verify(tmp_path / "a").leaves == len(inspect("../a").leaves)


@pytest.mark.usefixtures("fine_layout")
def test_up_from_a_link_is_up_from_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "disk" / "runs").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "runs")
    save(tmp_path / "link" / ".." / "a", train(1))
    assert bits(restore(tmp_path / "disk" / "a", Train)) == bits(train(1))


@pytest.mark.usefixtures("fine_layout")
@pytest.mark.parametrize("linked", ["run", "run/last"])
def test_a_link_that_is_turned_during_a_save_does_not_tear_it_apart(
    linked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / name / "last").mkdir(parents=True)
    (tmp_path / "run").mkdir(exist_ok=True)
    link = tmp_path / linked
    below = "last" if linked == "run/last" else ""
    if linked == "run":
        link.rmdir()
    link.symlink_to(tmp_path / "first" / below)
    complete = _write._complete

    def turn(*args: Any) -> Any:
        link.unlink()
        link.symlink_to(tmp_path / "second" / below)
        return complete(*args)

    monkeypatch.setattr(_write, "_complete", turn)
    save(tmp_path / "run" / "last", train(1))
    assert bits(restore(tmp_path / "first" / "last", Train)) == bits(train(1))
    assert not os.listdir(tmp_path / "second" / "last")


def test_a_save_in_the_background_goes_where_the_path_led_when_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    handle = save_async("a", train(1))
    monkeypatch.chdir("other")
    handle.result()
    assert bits(restore(tmp_path / "a", Train)) == bits(train(1))


@pytest.mark.usefixtures("fine_layout")
def test_a_reader_follows_a_link_that_is_turned_while_the_old_checkpoint_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "1", train(1))
    save(tmp_path / "2", train(2))
    latest = tmp_path / "latest"
    latest.symlink_to("1")
    check = _read.CheckpointReader.check_files

    def overtaken(self: _read.CheckpointReader, wanted: Any) -> None:
        if latest.readlink() == Path("1"):
            latest.unlink()
            latest.symlink_to("2")
            shutil.rmtree(tmp_path / "1")
        check(self, wanted)

    monkeypatch.setattr(_read.CheckpointReader, "check_files", overtaken)
    assert bits(restore(latest, Train)) == bits(train(2))


@pytest.mark.parametrize("moment", ["check_files", "pack", "jobs"])
def test_a_reader_that_is_overtaken_at_any_moment_begins_again(
    moment: str, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(_read.CheckpointReader, moment)
    saves = [2]

    def overtake(self: _read.CheckpointReader, *args: Any) -> Any:
        if saves:
            save(checkpoint, train(saves.pop()))
        return real(self, *args)

    monkeypatch.setattr(_read.CheckpointReader, moment, overtake)
    assert bits(restore(checkpoint, Train)) == bits(train(2))
    assert not saves


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket may only be short
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


STRANGE: list[Callable[[Path], None]] = [_pipe, _socket, _device, Path.mkdir, _loop]


@pytest.mark.parametrize("make", STRANGE, ids=lambda make: make.__name__.strip("_"))
def test_what_is_no_file_is_no_manifest(make: Callable[[Path], None], checkpoint: Path) -> None:
    (checkpoint / "treaty.json").unlink()
    make(checkpoint / "treaty.json")
    for look in (inspect, verify, lambda path: restore(path, Train), lambda path: save(path, train(2))):
        with pytest.raises(CorruptCheckpointError, match="expected a file, got"):
            look(checkpoint)


@pytest.mark.parametrize("make", STRANGE, ids=lambda make: make.__name__.strip("_"))
@pytest.mark.parametrize("name", ["*/c.*", "small-0.msgpack", "values.msgpack"])
def test_what_is_no_file_is_no_chunk(name: str, make: Callable[[Path], None], checkpoint: Path) -> None:
    (data,) = checkpoint.glob("data-*")
    chunk = min(data.glob(name))
    chunk.unlink()
    make(chunk)
    for look in (verify, lambda path: restore(path, Train)):
        with pytest.raises(CorruptCheckpointError, match=chunk.name):
            look(checkpoint)


def test_no_path_and_impossible_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    _loop(tmp_path / "loop")
    for path in ("", "a\0b", tmp_path / "file" / "below", tmp_path / "loop" / "below", tmp_path / ("x" * 300)):
        with pytest.raises(TreatyError):
            save(path, linear(2, 2))
        with pytest.raises((IncompleteCheckpointError, TreatyError)):
            restore(path, Linear)
