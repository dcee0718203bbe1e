"""The whole directory of a CheckpointManager of Orbax, as a directory of steps with which ours goes on."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from click.testing import CliRunner
from jax import Array
from jaxtyping import Float32, Int32

from tests import forked
from treaty.cli import main
from treaty.generator import load
from treaty.runtime import CheckpointManager, ConversionError, StateMismatchError, inspect
from treaty.runtime._convert.run import convert_run
from treaty.runtime._errors import InvalidArgumentError
from treaty.schema import Dims, TreatyError, state

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
LARGE = 2**20  # floats: an array of its own
KILLED = """
import os, signal, sys
from treaty.runtime._convert import convert as module
from treaty.runtime._convert.run import convert_run

take_place = module.take_place

def before(space, written, place, *rest):
    if place.name == "3":
        os.kill(os.getpid(), signal.SIGKILL)
    take_place(space, written, place, *rest)

module.take_place = before
convert_run(sys.argv[1], sys.argv[2])
"""


@state
class Model:
    step: Int32[Array, ""]
    frozen: Float32[Array, "n"]
    scale: Float32[Array, "d"]


@state
class Both:
    model: Annotated[Model, Dims(...)]
    ema: Annotated[Model, Dims(...)]


@state
class Tuned:
    """What Orbax tells not apart: an empty node and None, a numpy scalar and a Python number."""

    lr: np.float32
    seen: Int32[Array, ""]
    opt: tuple[optax.EmptyState, optax.EmptyState]
    epoch: int


load(Both)
load(Tuned)


def tree(step: int, frozen: bool = True) -> dict[str, Any]:
    return {
        "step": jnp.int32(step),
        "frozen": jnp.full(LARGE, 1.0 if frozen else float(step)),
        "scale": jnp.full(3, step / 2),
    }


def orbax_run(path: Path, steps: tuple[int, ...], several: bool = False, frozen: bool = True, **options: Any) -> Path:
    """What a program with Orbax has written."""
    chosen = ocp.CheckpointManagerOptions(best_fn=lambda metrics: metrics["loss"], best_mode="min", **options)
    with ocp.CheckpointManager(path, options=chosen) as manager:
        for step in steps:
            args: Any = ocp.args.StandardSave(tree(step, frozen))
            if several:
                rng, data = ocp.args.JaxRandomKeySave(jax.random.key(step)), ocp.args.JsonSave({"shard": step})
                args = ocp.args.Composite(model=args, ema=ocp.args.StandardSave(tree(-step)), data=data, rng=rng)
            metrics = {"loss": 1 / step, "accuracy": float("nan") if step == 3 else step}
            manager.save(step, args=args, metrics=metrics, custom_metadata={"note": f"step {step}"})
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("orbax")
    orbax_run(folder / "one", (1, 2, 3, 4), max_to_keep=3)
    orbax_run(folder / "several", (1, 2), several=True)
    return folder


@pytest.fixture
def source(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(made / "one", tmp_path / "old"))


def treaty_convert(*arguments: object, code: int = 0) -> list[str]:
    done = CliRunner().invoke(main, ["convert", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output.splitlines()


def edit_json(file: Path, change: dict[str, Any]) -> None:
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **change}))


def nested(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


def files(folder: Path) -> dict[str, int]:
    return {str(one.relative_to(folder)): one.stat().st_ino for one in folder.rglob("*") if one.is_file()}


def test_the_manager_goes_on_with_what_orbax_saved(source: Path, tmp_path: Path) -> None:
    lines = treaty_convert(source, tmp_path / "new", "--all-steps")
    assert lines == ["orbax -> treaty: 3 steps, 2 to 4, 12.0 MiB of arrays, all compared"]
    with CheckpointManager(tmp_path / "new", Model, dims={"n": LARGE, "d": 3}, keep_last=3) as manager:
        assert manager.all_steps() == [2, 3, 4]
        assert manager.best_step("loss", "min") == 4
        assert manager.best_step("accuracy", "max") == 4  # and not the NaN of step 3
        assert manager.metrics(2) == {"loss": 0.5, "accuracy": 2}
        for step in (2, 3):
            assert np.array_equal(manager.restore(step).scale, np.full(3, step / 2, np.float32))
        newest = manager.restore()
        assert int(newest.step) == manager.restored_step == 4
        assert np.array_equal(newest.frozen, np.ones(LARGE, np.float32))
        manager.save(5, newest, metrics={"loss": 0.1})
        manager.wait()
        assert manager.all_steps() == [3, 4, 5]  # rules are for steps of Orbax, too
    assert inspect(tmp_path / "new" / "3").metadata == {"note": "step 3"}


def test_what_orbax_leaves_open_the_class_decides_after_the_conversion_too(tmp_path: Path) -> None:
    tuned = {"lr": np.float32(0.1), "seen": np.int32(7), "opt": (optax.EmptyState(), optax.EmptyState()), "epoch": 3}
    with ocp.CheckpointManager(tmp_path / "old") as old:
        old.save(1, args=ocp.args.PyTreeSave(tuned))
    convert_run(tmp_path / "old", tmp_path / "new")
    with CheckpointManager(tmp_path / "new", Tuned) as manager:
        found = manager.restore()
    assert (type(found.lr), found.lr, found.epoch) == (np.float32, np.float32(0.1), 3)
    assert found.opt == (optax.EmptyState(), optax.EmptyState())


def test_the_times_are_those_of_orbax(source: Path, tmp_path: Path) -> None:
    convert_run(source, tmp_path / "new")
    with CheckpointManager(tmp_path / "new", Model, read_only=True) as manager:
        (oldest, *_) = manager.plan()
    assert oldest.time == json.loads((source / "2" / "_CHECKPOINT_METADATA").read_bytes())["init_timestamp_nsecs"] / 1e9


def test_what_did_not_change_between_steps_is_there_once(source: Path, tmp_path: Path) -> None:
    convert_run(source, tmp_path / "new")
    chunks = [one for one in (tmp_path / "new").rglob("c.0") if one.stat().st_size == 4 * LARGE]
    assert len(chunks) == 3
    assert len({one.stat().st_ino for one in chunks}) == 1


def test_of_several_items_one_is_the_state(made: Path, tmp_path: Path) -> None:
    done = convert_run(made / "several", tmp_path / "new", items=("ema",))
    assert done.left_out == {"model of 2 steps": "another item was asked for", "rng of 2 steps": "it is no tree"}
    with CheckpointManager(tmp_path / "new", Model, dims={"n": LARGE, "d": 3}) as manager:
        assert int(manager.restore().step) == -2
    assert inspect(tmp_path / "new" / "2").metadata == {"note": "step 2", "data": {"shard": 2}}


def test_of_several_items_each_is_a_field(made: Path, tmp_path: Path) -> None:
    treaty_convert(
        made / "several",
        tmp_path / "new",
        "--all-steps",
        "--item=model",
        "--item=ema",
        f"--schema={__name__}:Both",
        "--quiet",
    )
    with CheckpointManager(tmp_path / "new", Both, dims={"n": LARGE, "d": 3}) as manager:
        found = manager.restore()
    assert (int(found.model.step), int(found.ema.step)) == (2, -2)


def test_which_of_several_items_must_be_said(made: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"expected items to take, got none, of ema, model in .*\(--item\)"):
        convert_run(made / "several", tmp_path / "new")
    with pytest.raises(InvalidArgumentError, match=r"expected an item of .* \(ema, model\), got 'emma'"):
        convert_run(made / "several", tmp_path / "new", items=("emma",))
    assert not (tmp_path / "new").exists()


def test_a_save_that_did_not_end_is_named_and_left_out(source: Path, tmp_path: Path) -> None:
    (source / "4").rename(source / "4.orbax-checkpoint-tmp-1")
    (source / "2024").mkdir()  # of somebody's plots
    lines = treaty_convert(source, tmp_path / "new", "--all-steps")
    assert lines[0].startswith("orbax -> treaty: 2 steps, 2 to 3,")
    assert lines[1:] == [
        "left out: 2024: there is no tree in it",
        "left out: 4.orbax-checkpoint-tmp-1: its save did not end",
    ]


def test_a_damaged_step_is_an_error_when_all_others_are_there(source: Path, tmp_path: Path) -> None:
    (source / "4" / "default" / "manifest.ocdbt").unlink()
    (source / "2" / "metrics" / "metrics").write_bytes(b"")
    with pytest.raises(ConversionError) as told:
        convert_run(source, tmp_path / "new")
    first, second, last = str(told.value).splitlines()
    assert first.startswith(f"step 2 of {source} is damaged, and not converted: expected JSON")
    assert second.startswith(f"step 4 of {source} is damaged, and not converted: expected manifest.ocdbt, got nothing")
    assert last == "all others are there: 1 of 3"
    with CheckpointManager(tmp_path / "new", Model, read_only=True) as manager:
        assert manager.all_steps() == [3]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"custom_metadata": ["a", "list"]}, "expected a JSON object for custom_metadata, got list in "),
        ({"custom_metadata": {"a": nested(600)}}, "expected JSON of at most 256 levels, got more in "),
    ],
)
def test_metadata_that_orbax_does_not_write_is_damage_of_its_step(
    edit: dict[str, Any], said: str, source: Path, tmp_path: Path
) -> None:
    edit_json(source / "3" / "_CHECKPOINT_METADATA", edit)
    with pytest.raises(ConversionError) as told:
        convert_run(source, tmp_path / "new")
    first, last = str(told.value).splitlines()
    assert first.startswith(f"step 3 of {source} is damaged, and not converted: {said}{source}")
    assert last == "all others are there: 2 of 3"


def test_integers_that_are_no_floats_are_kept_beside_the_metrics_and_are_no_times(source: Path, tmp_path: Path) -> None:
    edit_json(source / "3" / "metrics" / "metrics", {"loss": 10**400})
    edit_json(source / "3" / "_CHECKPOINT_METADATA", {"init_timestamp_nsecs": 10**400})
    convert_run(source, tmp_path / "new")
    assert inspect(tmp_path / "new" / "3").metadata == {"note": "step 3", "metrics": {"loss": 10**400}}
    with CheckpointManager(tmp_path / "new", Model, read_only=True) as manager:
        assert manager.metrics(3).keys() == {"accuracy"}
        assert manager.plan()[1].time == (source / "3").stat().st_mtime


def test_what_is_left_out_is_told_in_one_line_each(source: Path, tmp_path: Path) -> None:
    (source / "3" / "a\n\x1b[31mb").mkdir()
    lines = treaty_convert(source, tmp_path / "new", "--all-steps")
    assert lines[1:] == ["left out: a\\n\\u001b[31mb of 1 steps: it is no tree"]


def test_a_killed_conversion_goes_on_where_it_was(source: Path, tmp_path: Path) -> None:
    place = tmp_path / "new"
    (tmp_path / "job.py").write_text(KILLED)
    done = forked.run("python", "job.py", source, place, cwd=tmp_path)
    assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), done.stderr
    assert len(os.listdir(place)) == 3  # and the folder of the one that it was at
    with CheckpointManager(place, Model, read_only=True) as manager:
        assert manager.latest_step() == 4  # the newest comes first: nobody goes on from an older one
        assert manager.all_steps() == [4]
    before = files(place / "4")

    again = convert_run(source, place)

    assert (again.there, again.written) == ([4], [3, 2])
    assert files(place / "4") == before
    assert sorted(os.listdir(place)) == [".treaty", "2", "3", "4"]
    assert convert_run(source, place).there == [4, 3, 2]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk that has room for one step."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("needs root, to mount a disk that is small")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_error_and_the_next_conversion_goes_on(tmp_path: Path, small_disk: Path) -> None:
    source, place = orbax_run(tmp_path / "old", (1, 2), frozen=False), small_disk / "new"
    (line,) = treaty_convert(source, place, "--all-steps", code=2)
    assert line.startswith("error: cannot write $.frozen in ")
    assert line.endswith("No space left on device; make room and try again")
    assert sorted(os.listdir(place)) == [".treaty", "2"]

    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)

    lines = treaty_convert(source, place, "--all-steps")
    assert lines[1:] == ["there already: step 2"]
    with CheckpointManager(place, Model, dims={"n": LARGE, "d": 3}) as manager:
        assert manager.all_steps() == [1, 2]
        assert int(manager.restore(1).step) == 1


def test_a_step_that_lost_a_file_is_written_again(source: Path, tmp_path: Path) -> None:
    convert_run(source, tmp_path / "new")
    next((tmp_path / "new" / "3").rglob("small-0.msgpack")).unlink()
    assert convert_run(source, tmp_path / "new").written == [3]
    with CheckpointManager(tmp_path / "new", Model, dims={"n": LARGE, "d": 3}) as manager:
        assert int(manager.restore(3).step) == 3


def test_steps_of_an_older_orbax_that_were_copied_are_written_again_and_not_refused(
    source: Path, tmp_path: Path
) -> None:
    for step in ("2", "3", "4"):
        edit_json(source / step / "_CHECKPOINT_METADATA", {"init_timestamp_nsecs": None})
    convert_run(source, tmp_path / "new")
    assert convert_run(source, tmp_path / "new").there == [4, 3, 2]
    os.utime(source / "3", (1, 1))
    again = convert_run(source, tmp_path / "new")
    assert (again.there, again.written) == ([4, 2], [3])
    assert convert_run(source, tmp_path / "new").there == [4, 3, 2]
    os.utime(source / "3", (2, 2))
    edit_json(source / "3" / "metrics" / "metrics", {"loss": 9.0})
    with pytest.raises(InvalidArgumentError, match=r"expected step 3 of this run, got that of another at"):
        convert_run(source, tmp_path / "new")


def test_steps_that_orbax_has_saved_since_are_added(made: Path, tmp_path: Path) -> None:
    old = orbax_run(tmp_path / "old", (1, 2))
    convert_run(old, tmp_path / "new")
    orbax_run(old, (3,))
    assert convert_run(old, tmp_path / "new").written == [3]


def test_a_run_of_others_is_not_mixed_with_it(source: Path, made: Path, tmp_path: Path) -> None:
    other = orbax_run(tmp_path / "other", (2,))
    convert_run(other, tmp_path / "new")
    with pytest.raises(InvalidArgumentError, match=r"expected step 2 of this run, got that of another at"):
        convert_run(source, tmp_path / "new")
    with CheckpointManager(tmp_path / "mine", Model) as manager:
        manager.save(1, Model(**tree(1)))
    with pytest.raises(InvalidArgumentError, match=r"got step 1, saved by other means, at"):
        convert_run(source, tmp_path / "mine")
    with CheckpointManager(tmp_path / "new", Model), pytest.raises(InvalidArgumentError, match="to be free, got a man"):
        convert_run(other, tmp_path / "new")


def test_places_and_sources_that_are_no_runs(source: Path, tmp_path: Path) -> None:
    convert_run(source, tmp_path / "new")
    for wrong, message in [
        (source / "4", "expected the directory of an Orbax CheckpointManager, got one step at"),
        (tmp_path / "new", "expected the directory of another library's manager, got a checkpoint of treaty at"),
        (tmp_path / "nowhere", "got nothing at"),
    ]:
        with pytest.raises(TreatyError, match=message):
            convert_run(wrong, tmp_path / "x")
    with pytest.raises(InvalidArgumentError, match="which is in"):
        convert_run(source, source / "new")
    with pytest.raises(InvalidArgumentError, match="expected another destination than the source"):
        convert_run(source, source)
    (source / "step_3").mkdir()
    with pytest.raises(TreatyError, match=r"expected one directory for step 3, got 3 and step_3 in"):
        convert_run(source, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_class_that_does_not_fit_is_told_before_a_step_is_there(source: Path, tmp_path: Path) -> None:
    with pytest.raises(StateMismatchError):
        convert_run(source, tmp_path / "new", cls=Both)
    assert sorted(os.listdir(tmp_path / "new")) == [".treaty"]


@pytest.mark.parametrize("options", [["--to=orbax"], ["--force"], ["--max-shard-bytes=9"]])
def test_options_of_one_checkpoint_are_refused(options: list[str], source: Path, tmp_path: Path) -> None:
    (line,) = treaty_convert(source, tmp_path / "new", "--all-steps", *options, code=2)
    assert "is for one checkpoint; with --all-steps DST is a directory of Treaty's steps" in line


def test_without_it_the_newest_step_is_taken_and_named(source: Path, tmp_path: Path) -> None:
    (line,) = treaty_convert(source, tmp_path / "one")
    assert line.startswith(f"orbax ({source}/4/default) -> treaty: 3 leaves,")
    (line,) = treaty_convert(source, tmp_path / "two", "--item=x", code=2)
    assert line == "error: --item needs --all-steps; of one step give the path of the item, like RUN/100/NAME"
