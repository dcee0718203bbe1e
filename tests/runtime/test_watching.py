"""Every save and restore is a line on the log `treaty`, and a call of whoever watches."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.states import Run, run
from tests.runtime.directory.states import linear
from treaty.runtime import CorruptCheckpointError, Transfer, TreatyError, restore, save, save_async, watch
from treaty.runtime._process import watching as _watching

NBYTES = 4 + 16 * 16 * 4 + 16 * 4


@pytest.fixture
def seen() -> Iterator[list[Transfer]]:
    found: list[Transfer] = []
    stop = watch(found.append)
    yield found
    stop()


@pytest.mark.parametrize("name", ["a", "a.msgpack", "a.safetensors", "a.npz"])
def test_saves_and_restores_of_every_format_are_told(name: str, seen: list[Transfer], tmp_path: Path) -> None:
    save(tmp_path / name, run(1))
    restore(tmp_path / name, Run)
    assert [(one.what, one.path, one.error) for one in seen] == [
        ("save", str(tmp_path / name), None),
        ("restore", str(tmp_path / name), None),
    ]
    assert seen[1].nbytes == NBYTES
    assert seen[0].nbytes == NBYTES or name == "a.msgpack"
    assert all(one.blocked == one.seconds > 0 and one.bytes_per_second > 0 for one in seen)


def test_of_a_save_in_the_background_it_is_told_how_long_the_caller_waited(
    seen: list[Transfer], tmp_path: Path
) -> None:
    save_async(tmp_path / "a", run(1)).result()
    (one,) = seen
    assert 0 < one.blocked < one.seconds
    assert one.nbytes == NBYTES


def test_a_line_says_bytes_seconds_and_speed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "treaty")
    save(tmp_path / "a", run(1))
    (line,) = caplog.messages
    assert line.startswith(f"save of {tmp_path / 'a'}: {NBYTES} bytes in ")
    assert line.endswith(" GB/s")
    told = Transfer("save", "x", 3_000_000_000, 1.5, 0.25, "")
    assert str(told) == "save of x: 3000000000 bytes in 1.5 s, 2 GB/s, of which the caller waited 0.25 s"
    assert str(Transfer("restore", "x", 0, 0.0, 0.0, "as Net: 2 renamed")).endswith("0 GB/s, as Net: 2 renamed")


def test_failures_are_told_too(seen: list[Transfer], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "treaty")
    (tmp_path / "a").write_text("in the way")
    with pytest.raises(TreatyError):
        save(tmp_path / "a", run(1))
    (tmp_path / "b.msgpack").write_bytes(b"\x81")
    with pytest.raises(CorruptCheckpointError):
        restore(tmp_path / "b.msgpack", Run)
    assert isinstance(seen[0].error, TreatyError)
    assert f"save of {tmp_path / 'a'} failed after " in caplog.messages[0]


def test_what_a_hook_raises_goes_to_the_log_and_a_hook_that_was_stopped_hears_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Transfer) -> None:
        raise ValueError("no metrics today")

    stop = watch(fail)
    save(tmp_path / "a", linear(2, 3))
    stop()
    stop()
    assert "no metrics today" in caplog.text
    caplog.clear()
    save(tmp_path / "a", linear(2, 3))
    assert not caplog.text


def test_a_save_that_takes_long_says_how_far_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "treaty")
    monkeypatch.setattr(_watching, "PAUSE", 0.0)
    save(tmp_path / "a", run(1))
    assert any(line.startswith(f"save of {tmp_path / 'a'}: ") and "%" in line for line in caplog.messages[:-1])
