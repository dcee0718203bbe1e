"""What a conversion may replace: an older checkpoint, and never the source, nor files that are somebody else's."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors.numpy

from treaty.runtime._convert.convert import convert
from treaty.runtime._convert.destination import take_place
from treaty.runtime._convert.diff import diff
from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._storage.workspace import workspace
from treaty.runtime.formats import msgpack
from treaty.runtime.formats import table as formats
from treaty.runtime.formats.directory.places import Local
from treaty.schema import TreatyError

TREE = {"layer": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}, "step": np.array([7], np.int32)}
DIRECTORIES = ("orbax", "eformer", "treaty")


def make(path: Path, to: str | None = None) -> Path:
    """A checkpoint at a path, in the format of its suffix or in `to`."""
    source = path.parent / "made.msgpack"
    msgpack.write_file(source, TREE)
    convert(source, path, to_format=to)
    source.unlink()
    return path


def contents(folder: Path) -> dict[str, bytes | str]:
    """All files and links below a folder."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def refused(folder: Path, message: str, source: Path, place: Path, to: str | None, replace: bool = True) -> None:
    before = contents(folder)
    with pytest.raises(InvalidArgumentError, match=message):
        convert(source, place, to_format=to, replace=replace)
    assert contents(folder) == before
    assert list(folder.rglob(".*.tmp")) == []


@pytest.mark.parametrize("to", DIRECTORIES)
def test_a_directory_that_is_no_checkpoint_is_not_replaced(to: str, tmp_path: Path) -> None:
    source = make(tmp_path / "a.npz")
    home = tmp_path / "home"
    (home / "photos").mkdir(parents=True)
    (home / "photos" / "me.jpg").write_bytes(b"me")

    refused(tmp_path, r"expected a directory with nothing but one checkpoint to replace, got photos/me.jpg in .*home",
            source, home, to)  # fmt: skip


@pytest.mark.parametrize("stranger", ["notes.txt", "deep/er/notes.txt", ".hidden", "config.json", "0/0", "d/notes"])
@pytest.mark.parametrize("to", DIRECTORIES)
@pytest.mark.parametrize("there", DIRECTORIES)
def test_a_stranger_in_a_checkpoint_keeps_it_from_being_replaced(
    there: str, to: str, stranger: str, tmp_path: Path
) -> None:
    source, place = make(tmp_path / "a.npz"), make(tmp_path / "place", there)
    file = place / stranger
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")

    refused(tmp_path, f"got {stranger} in ", source, place, to)


@pytest.mark.parametrize("there", DIRECTORIES)
def test_a_link_in_a_checkpoint_is_a_stranger(there: str, tmp_path: Path) -> None:
    source, place = make(tmp_path / "a.npz"), make(tmp_path / "place", there)
    (place / "link").symlink_to(tmp_path)

    refused(tmp_path, "got link in ", source, place, "treaty")


def test_many_strangers_are_counted(tmp_path: Path) -> None:
    source, place = make(tmp_path / "a.npz"), make(tmp_path / "place", "orbax")
    for name in "uvwxyz":
        (place / name).touch()

    refused(tmp_path, "got u, v, w and 3 more in ", source, place, "orbax")


@pytest.mark.parametrize("to", DIRECTORIES)
@pytest.mark.parametrize("there", [*DIRECTORIES, "empty", "ocdbt=False", "ocdbt=True"])
def test_a_checkpoint_of_any_kind_is_replaced(there: str, to: str, tmp_path: Path) -> None:
    source, place = make(tmp_path / "a.npz"), tmp_path / "place"
    if there in DIRECTORIES:
        make(place, there)
    elif there == "empty":
        place.mkdir()
    else:
        handler = ocp.PyTreeCheckpointHandler(use_ocdbt=there.endswith("True"), use_zarr3=True)
        ocp.Checkpointer(handler).save(place, {"a": jnp.ones((3, 4)), "x": {"y": np.ones(3)}})

    convert(source, place, to_format=to, replace=True)

    assert formats.format_at(str(place)).name == to
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "place"]


def test_a_managers_directory_of_steps_is_not_replaced(tmp_path: Path) -> None:
    source = make(tmp_path / "a.npz")
    with ocp.CheckpointManager(tmp_path / "steps") as manager:
        for step in (1, 2):
            manager.save(step, args=ocp.args.StandardSave({"a": jnp.ones(3)}))

    refused(tmp_path, "expected a directory with nothing but one checkpoint to replace", source, tmp_path / "steps", "orbax")  # fmt: skip


def test_damaged_metadata_owns_nothing(tmp_path: Path) -> None:
    source, place = make(tmp_path / "a.npz"), make(tmp_path / "place", "eformer")
    (place / "tensorstore_index.json").write_text("{")

    refused(tmp_path, "expected a directory with nothing but one checkpoint", source, place, "treaty")


@pytest.mark.parametrize("name", ["x.msgpack", "x.npz", "x.safetensors"])
def test_a_file_does_not_replace_a_directory_nor_a_directory_a_file(name: str, tmp_path: Path) -> None:
    source = make(tmp_path / "a.npz")
    make(tmp_path / name.partition(".")[0], "treaty").rename(tmp_path / name)
    refused(tmp_path, f"expected a file to replace, got a directory at .*{name}", source, tmp_path / name, None)

    (tmp_path / "diary").write_text("Monday")
    refused(tmp_path, "expected a checkpoint directory to replace, got a file at .*diary",
            source, tmp_path / "diary", "orbax")  # fmt: skip


def same(folder: Path, source: Path) -> Path:
    return source


def through_link(folder: Path, source: Path) -> Path:
    (folder / "link").symlink_to(source.parent)
    return folder / "link" / source.name


def link_itself(folder: Path, source: Path) -> Path:
    (folder / f"link{source.suffix}").symlink_to(source)
    return folder / f"link{source.suffix}"


def dots(folder: Path, source: Path) -> Path:
    """As the system walks it: `..` of a link is above what it leads to."""
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "link").symlink_to(source.parent / "sub")
    (source.parent / "sub").mkdir()
    return folder / "elsewhere" / "link" / ".." / source.name


WAYS = [same, through_link, link_itself, dots]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["x.msgpack", "x.safetensors", "x.npz", *DIRECTORIES])
def test_the_source_is_never_the_destination(name: str, way: Callable[[Path, Path], Path], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    to = name if name in DIRECTORIES else None
    source = make(tmp_path / "data" / name, to)

    refused(tmp_path, "expected another destination than the source", source, way(tmp_path, source), to)
    refused(tmp_path, "expected a free place|expected another destination", source, source, to, replace=False)


@pytest.mark.parametrize("name", ["x.msgpack", "x.safetensors", "x.npz"])
def test_a_hard_link_of_the_source_is_the_source(name: str, tmp_path: Path) -> None:
    source = make(tmp_path / name)
    other = tmp_path / f"y{source.suffix}"
    other.hardlink_to(source)

    refused(tmp_path, "expected another destination than the source", source, other, None)


@pytest.mark.parametrize("to", DIRECTORIES)
def test_a_destination_that_holds_the_source_is_refused(to: str, tmp_path: Path) -> None:
    outer = make(tmp_path / "outer", to)
    inner = make(tmp_path / "in.npz").rename(outer / "in.npz")
    refused(tmp_path, "which holds", inner, outer, to)

    (tmp_path / "link.npz").symlink_to(inner)
    refused(tmp_path, "which holds", tmp_path / "link.npz", outer, to)


@pytest.mark.parametrize("to", DIRECTORIES)
@pytest.mark.parametrize("name", ["new.msgpack", "new.safetensors", "new"])
def test_a_destination_in_the_source_is_refused(name: str, to: str, tmp_path: Path) -> None:
    source = make(tmp_path / "source", to)
    (tmp_path / "link").symlink_to(source)

    for place in (source / name, tmp_path / "link" / name):
        refused(tmp_path, "which is in", source, place, None, replace=False)


def test_a_source_made_of_links_into_the_destination_is_refused(tmp_path: Path) -> None:
    place = make(tmp_path / "place", "orbax")
    (tmp_path / "view").mkdir()
    for one in place.iterdir():
        (tmp_path / "view" / one.name).symlink_to(one)

    refused(tmp_path, "to which .*view.* leads", tmp_path / "view", place, "orbax")


def test_shards_that_are_the_source_are_not_removed_as_an_older_save(tmp_path: Path) -> None:
    """The single file is free, but a save under its name removes numbered shards."""
    shard = tmp_path / "x-00001-of-00002.safetensors"
    safetensors.numpy.save_file({"a": np.ones(2)}, shard)

    refused(tmp_path, "expected a free place", shard, tmp_path / "x.safetensors", None, replace=False)
    refused(tmp_path, "expected another destination than the source", shard, tmp_path / "x.safetensors", None)


def test_shards_of_any_name_belong_to_the_source(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"a": np.ones(2)}, tmp_path / "x.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "x.safetensors"}}))

    refused(tmp_path, "expected another destination than the source", index, tmp_path / "x.safetensors", None)
    refused(tmp_path, "expected another destination than the source", index, tmp_path / "model.safetensors", None)


def test_a_directory_where_a_shard_belongs_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    source, place = make(tmp_path / "a.npz"), make(tmp_path / "x.safetensors")
    (tmp_path / "x-00002-of-00002.safetensors").mkdir()
    before = contents(tmp_path)

    with pytest.raises(InvalidArgumentError, match="expected a file to replace, got a directory"):
        convert(source, place, max_shard_bytes=24, replace=True)

    assert contents(tmp_path) == before


@pytest.mark.parametrize("to", ["msgpack", "safetensors", "treaty"])
def test_what_comes_to_the_place_meanwhile_stays(to: str, tmp_path: Path) -> None:
    place = tmp_path / "x.safetensors"
    with workspace(place) as space:
        written = space.folder / "new" / place.name
        written.parent.mkdir()
        written.mkdir() if to == "treaty" else written.write_text("new")
        place.mkdir() if to == "treaty" else place.write_text("other")

        with pytest.raises(InvalidArgumentError, match="expected a free place, got something that came to"):
            take_place(space, written, place, formats.FORMATS[to], replace=False)

    assert place.is_dir() if to == "treaty" else place.read_text() == "other"
    assert os.listdir(tmp_path) == [place.name]


def test_a_stranger_that_comes_meanwhile_stays(tmp_path: Path) -> None:
    place = make(tmp_path / "x", "treaty")
    (place / "mine").write_text("mine")
    before = contents(place)
    with workspace(place) as space:
        written = space.folder / "new" / place.name
        written.mkdir(parents=True)

        with pytest.raises(InvalidArgumentError, match="got mine in"):
            take_place(space, written, place, formats.FORMATS["treaty"], replace=True)

    assert contents(place) == before
    assert os.listdir(tmp_path) == ["x"]


def test_a_long_name_has_room_for_a_workspace(tmp_path: Path) -> None:
    source, place = make(tmp_path / "a.npz"), tmp_path / ("x" * 247 + ".msgpack")

    convert(source, place)

    assert sorted(os.listdir(tmp_path)) == ["a.npz", place.name]


KILLED = """
import os, signal, sys
from treaty.runtime._convert import destination as places
from treaty.runtime._convert.convert import convert
from treaty.runtime._convert.diff import diff
places.exchange = lambda one, other: False
rename, left = os.rename, int(sys.argv[4])
def dying(source, target):
    global left
    if str(target) == sys.argv[2] or str(source) == sys.argv[2]:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)
os.rename = dying
convert(sys.argv[1], sys.argv[2], to_format=sys.argv[3], replace=True)
"""


@pytest.mark.parametrize("to", ["treaty", "orbax"])
def test_where_two_renames_replace_a_directory_a_reader_puts_the_old_one_back(to: str, tmp_path: Path) -> None:
    """On file systems that cannot exchange two names, a conversion that is killed leaves nothing at the place."""
    source, place = make(tmp_path / "a.npz"), make(tmp_path / "place", to)
    killed = subprocess.run([sys.executable, "-c", KILLED, source, place, to, "1"], check=False)
    assert killed.returncode == -9
    assert not place.exists()
    assert len(os.listdir(tmp_path)) == 2

    assert diff(place, source) == []

    assert sorted(os.listdir(tmp_path)) == ["a.npz", "place"]
    assert formats.format_at(str(place)).name == to


@pytest.mark.parametrize("moment", ["0", "1"])
def test_where_two_renames_replace_a_directory_the_next_conversion_clears_up(moment: str, tmp_path: Path) -> None:
    source, place = make(tmp_path / "a.npz"), make(tmp_path / "place", "orbax")
    subprocess.run([sys.executable, "-c", KILLED, source, place, "eformer", moment], check=False)

    convert(source, place, to_format="treaty", replace=True)

    assert sorted(os.listdir(tmp_path)) == ["a.npz", "place"]
    assert diff(place, source) == []


def test_two_conversions_to_one_place_are_refused(tmp_path: Path) -> None:
    source, place = make(tmp_path / "a.npz"), make(tmp_path / "place", "orbax")
    with workspace(place), pytest.raises(TreatyError, match="to be free, got another save that is writing to it"):
        convert(source, place, to_format="orbax", replace=True)
    assert diff(place, source) == []


def test_a_directory_into_which_a_save_is_writing_is_not_replaced(tmp_path: Path) -> None:
    """Or what the save commits would be in the older checkpoint, which goes."""
    source, place = make(tmp_path / "a.npz"), make(tmp_path / "place", "treaty")
    saving = Local(place)
    saving.begin()
    with pytest.raises(TreatyError, match="to be free, got another save that is writing to it"):
        convert(source, place, to_format="orbax", replace=True)
    saving.abandon(None)
    assert formats.format_at(str(place)).name == "treaty"
    convert(source, place, to_format="orbax", replace=True)
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "place"]


def test_a_link_to_a_checkpoint_is_replaced_and_not_what_it_leads_to(tmp_path: Path) -> None:
    source, real = make(tmp_path / "a.npz"), make(tmp_path / "real", "orbax")
    (tmp_path / "link").symlink_to(real)
    convert(source, tmp_path / "link", to_format="treaty", replace=True)
    assert formats.format_at(str(tmp_path / "link")).name == "treaty"
    assert formats.format_at(str(real)).name == "orbax"
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "link", "real"]
