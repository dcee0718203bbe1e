"""`verify` of every format: what is whole is said to be, and what is cut off, gone or changed is found."""

import json
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from click.testing import CliRunner

from tests.runtime.directory.states import files_of
from tests.runtime.restore_options import Train, train
from tests.runtime.test_every_option import WRITERS, every_format
from treaty.cli import main
from treaty.runtime import CorruptCheckpointError, IncompleteCheckpointError, verify

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

# Those that have a checksum for every byte of an array.
CHECKED = ("x.msgpack.gz", "x.npz", "compressed.npz", "directory", "chunks")
DAMAGE = (CorruptCheckpointError, IncompleteCheckpointError)


def state() -> Train:
    """One array is so much larger than all else that it fills the largest file of any format but chunks."""
    return train(vocab=1024)


@pytest.fixture
def path(name: str, tmp_path: Path) -> Path:
    WRITERS[name](tmp_path / name, state())
    return tmp_path / name


def command(path: Path, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["verify", str(path), *options])
    return done.exit_code, done.output


@every_format
def test_what_is_whole_is_said_to_be(name: str, path: Path) -> None:
    arrays = [leaf for leaf in jax.tree.leaves(state()) if hasattr(leaf, "nbytes")]
    found = verify(path)
    of_step = 8 if name in ("compressed.npz", "orbax", "our orbax") else 0  # which these store as an array
    assert (found.path, found.leaves) == (str(path), len(arrays) + 1)
    assert found.nbytes == sum(leaf.nbytes for leaf in arrays) + of_step
    how = "all as they were written" if name in ("directory", "chunks") else "all can be read"
    status, said = command(path)
    assert (status, said.startswith(f"{path}: 11 leaves, 9."), said.endswith(f" KiB of arrays, {how}\n")) == (
        0,
        True,
        True,
    )
    assert json.loads(command(path, "--json")[1])["is_checked"] is (name in ("directory", "chunks"))


@every_format
def test_a_file_that_is_cut_off_or_gone_is_found(name: str, path: Path, tmp_path: Path) -> None:
    largest = max(files_of(tmp_path), key=lambda file: file.stat().st_size)
    whole = largest.read_bytes()
    # Orbax's database may end a file with what it needs no more, whoever writes it.
    last = len(whole) // 2 if name.endswith("orbax") else len(whole) - 1
    for size in (last, len(whole) // 3, 0):
        largest.write_bytes(whole[:size])
        with pytest.raises(DAMAGE):
            verify(path)
    status, said = command(path)
    assert status == 1
    assert said.startswith("error: ")
    largest.unlink()
    with pytest.raises(DAMAGE):
        verify(path)
    largest.write_bytes(whole)
    assert verify(path).leaves == 11


@pytest.mark.parametrize("name", CHECKED)
def test_a_changed_byte_is_found_where_there_are_checksums(name: str, path: Path, tmp_path: Path) -> None:
    file, at = place_of_an_array(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(CorruptCheckpointError):
        verify(path)
    assert command(path)[0] == 1


def place_of_an_array(folder: Path) -> tuple[Path, int]:
    """A file and a byte in it that is of an array: as it is in memory, or else compressed, in the middle of the largest."""
    start = np.asarray(state().params.embed).tobytes()[:32]
    files = sorted(files_of(folder), key=lambda file: file.stat().st_size)
    places = [(file, at) for file in files if (at := file.read_bytes().find(start)) >= 0]
    return places[0] if places else (files[-1], files[-1].stat().st_size // 2)


def test_a_step_of_orbax_that_misses_a_chunk_of_an_array_is_found(tmp_path: Path) -> None:
    WRITERS["our orbax"](tmp_path / "step", state())
    data = max((tmp_path / "step" / "d").iterdir(), key=lambda file: file.stat().st_size)
    data.unlink()
    with pytest.raises(IncompleteCheckpointError, match=rf"expected the whole file d/{data.name}, got nothing"):
        verify(tmp_path / "step")


def test_of_several_shards_each_is_looked_at(tmp_path: Path) -> None:
    WRITERS["shards.safetensors"](tmp_path / "x.safetensors", state())
    shards = sorted(tmp_path.glob("*-of-*.safetensors"))
    assert len(shards) > 2
    for shard in shards:
        whole = shard.read_bytes()
        shard.write_bytes(whole[:-1])
        with pytest.raises(CorruptCheckpointError, match=shard.name):
            verify(tmp_path / "x.safetensors")
        shard.write_bytes(whole)


@every_format
def test_a_bar_goes_to_its_end_in_units_of_powers_of_two(
    name: str, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # Rich takes the output for a terminal
    found = verify(path, progress=True)
    bars = re.findall(r"([0-9.]+)/([0-9.]+) (\w+)", capsys.readouterr().err)
    whole = f"{found.nbytes / 1024:.1f}"
    assert (bars[0], bars[-1]) == (("0.0", whole, "KiB"), (whole, whole, "KiB"))
    assert command(path, "--quiet") == (0, "")
