"""`treaty inspect`: values and their types, alike layers as one line, parts, sums, steps, and terminals of any width."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from tests.command_runner import command_runner
from tests.faults.states import Run, run
from tests.runtime.test_restore_formats import WRITERS, train
from treaty.cli import main
from treaty.runtime import CheckpointManager, save
from treaty.runtime import inspect as inspect_checkpoint
from treaty.runtime.formats import msgpack
from treaty.schema import TreatyError


def inspect(*arguments: object, code: int = 0) -> Result:
    done = command_runner().invoke(main, ["inspect", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


def leaves(*arguments: object) -> list[str]:
    return inspect(*arguments).stdout.partition("\n\n")[2].splitlines()


def on_a_terminal(columns: int, *arguments: object) -> list[str]:
    """What the command prints on a terminal of so many columns, standard error too."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "treaty.cli", *map(str, arguments)]
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", "PYTHONUTF8": "1"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        said += piece
    process.wait()
    os.close(ours)
    return said.decode().replace("\r\n", "\n").splitlines()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    layers = {
        str(number): {"attn": {"kernel": np.zeros((4, 4), "f4"), "bias": np.zeros(4, "f4")}, "rate": number / 10}
        for number in range(12)
    }
    rest = {"step": 1000, "note": "a" * 5000, "ema": None, "counts": {"a": True, "b": 2j}, "seed": -(2**60)}
    msgpack.write_file(tmp_path / "model.msgpack", {**rest, "layers": layers})
    return tmp_path / "model.msgpack"


def test_values_are_shown_with_their_types_and_alike_layers_once(model: Path) -> None:
    assert leaves(model) == [
        "$.step                       int            1000",
        f"$.note                       str            {'a' * 200!r}…, of 5000",
        "$.ema                        None",
        "$.counts.a                   bool           True",
        "$.counts.b                   complex        2j",
        "$.seed                       int            -1152921504606846976",
        "$.layers[0..11].attn.kernel  float32[4, 4]  768 B                 12 alike",
        "$.layers[0..11].attn.bias    float32[4]     192 B                 12 alike",
        "$.layers[0..11].rate         float          0.0 … 1.1             12 alike",
    ]


def test_all_shows_every_leaf_and_json_always_does(model: Path) -> None:
    assert [line.split()[0] for line in leaves(model, "--all")][-2:] == [
        "$.layers[11].attn.bias",
        "$.layers[11].rate",
    ]
    found = json.loads(inspect(model, "--json").stdout)
    by_path = {tuple(leaf["path"]): leaf for leaf in found["leaves"]}
    assert len(by_path) == 42
    assert by_path["step",] == {"path": ["step"], "dtype": None, "shape": [], "nbytes": 0, "type": "int", "value": 1000}
    assert by_path["layers", "3", "rate"]["value"] == 0.3
    assert (by_path["note",]["type"], "value" in by_path["note",]) == ("str", False)  # it is too long
    assert by_path["counts", "b"]["type"] == "complex"


def test_at_takes_the_paths_that_it_shows_and_depth_sums(model: Path) -> None:
    assert (
        leaves(model, "--at", "layers[3]") == leaves(model, "--at", "$.layers[3]") == leaves(model, "--at", "layers.3")
    )
    assert leaves(model, "--at", "layers[3].attn") == [
        "$.layers[3].attn.kernel  float32[4, 4]  64 B",
        "$.layers[3].attn.bias    float32[4]     16 B",
    ]
    assert leaves(model, "--at", "step") == ["$.step  int  1000"]
    assert leaves(model, "--at", "layers", "--depth", "1") == ["$.layers[0..11]  36 leaves  960 B"]
    assert leaves(model, "--depth", "0") == ["$  42 leaves  960 B"]
    assert leaves(model, "--depth", "2", "--at", "layers") == [
        "$.layers[0..11].attn  24 leaves  960 B",
        "$.layers[0..11].rate  float      0.0 … 1.1  12 alike",
    ]


def test_a_part_that_is_not_there_has_the_code_of_a_checkpoint_that_is_not_and_names_what_is_near(model: Path) -> None:
    assert inspect(model, "--at", "layres[3].attn", code=3).stderr == (
        f"error: expected $.layres[3].attn in {model}, got counts, ema, layers, note, seed, step at $; "
        "did you mean $.layers[3].attn?\n"
    )
    assert "Invalid value for --at: expected a path like params" in inspect(model, "--at", "a..b", code=2).stderr
    assert "expected a key in quotes" in inspect(model, "--at", r"['a\']", code=2).stderr
    assert "--depth sums up what --all shows" in inspect(model, "--all", "--depth", "1", code=2).stderr


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    with CheckpointManager(tmp_path / "run", Run) as manager:
        for step in (80, 90, 100):
            manager.save(step, run(step))
    return tmp_path / "run"


def test_the_newest_step_is_taken_and_named_or_the_one_that_is_asked_for(steps: Path) -> None:
    assert inspect(steps).stdout.startswith(f"{steps}/100\nstep      100\nformat    treaty\n")
    assert inspect(steps, "--step", "80").stdout.startswith(f"{steps}/80\nstep      80\n")
    assert json.loads(inspect(steps, "--step", "80", "--json").stdout)["step"] == 80
    assert not re.search("^step", inspect(steps / "80").stdout, re.MULTILINE)  # nothing was chosen
    assert inspect(steps, "--step", "85", code=3).stderr == f"error: expected step 85, got 80, 90, 100 in {steps}\n"
    assert "expected a directory of steps, got one checkpoint" in inspect(steps / "80", "--step", "1", code=2).stderr
    assert inspect(steps / "95", code=3).stderr == (
        f"error: expected a checkpoint, got nothing at {steps}/95\nnote: there is {steps}/90 and {steps}/100\n"
    )


def test_after_a_rollback_the_newer_step_of_a_number_is_meant(steps: Path) -> None:
    with CheckpointManager(steps, Run) as manager:
        manager.restore(80)
        manager.save(90, run(90))
    assert inspect(steps, "--step", "90").stdout.startswith(f"{steps}/90-r1\n")


def test_of_an_orbax_manager_the_step_is_named_too(tmp_path: Path) -> None:
    place = WRITERS["orbax manager"](tmp_path / "run", train())
    newest = max(int(one.name) for one in Path(place).iterdir())
    assert inspect(place).stdout.startswith(f"{place}/{newest}/default\nstep      {newest}\nformat    orbax\n")
    assert inspect(place, "--step", "1").stdout.startswith(f"{place}/1/default\nstep      1\n")
    assert inspect(place, "--step", "7", code=3).stderr == f"error: expected step 7, got 1, {newest} in {place}\n"
    alone = WRITERS["npz"](tmp_path / "alone", train())
    assert "got a checkpoint of npz" in inspect(alone, "--step", "1", code=2).stderr


def test_damaged_values_are_told_and_the_rest_is_shown(steps: Path) -> None:
    (values,) = (steps / "100").rglob("values.msgpack")
    values.write_bytes(values.read_bytes()[:-1] + b"\xff")
    done = inspect(steps, code=1)
    assert re.search(r"^\$\.lr +value$", done.stdout, re.MULTILINE)
    assert done.stderr.splitlines()[1].startswith("error: expected checksum ")


def test_hostile_names_and_values_move_no_cursor_and_print_no_megabytes(tmp_path: Path) -> None:
    evil = "\x1b]0;title\x07\u202e\n"
    tree: dict[str, Any] = {"k" * 10**6: 1, evil: evil * 10**5, "b": b"\x1b" * 10**6}
    tree |= {f"name {chr(97 + number % 26)}{number}x": np.zeros(number % 5) for number in range(5000)}
    msgpack.write_file(tmp_path / "x.msgpack", tree)
    done = inspect(tmp_path / "x.msgpack")
    assert len(done.stdout) < 10**6
    assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", done.stdout) is None
    assert "\n… and " in done.stdout
    assert len(inspect(tmp_path / "x.msgpack", "--at", "nothing", code=3).stderr) < 10**4
    assert len(inspect(tmp_path / "x.msgpack", "--json").stdout) < 4 * 10**6


@pytest.mark.parametrize("columns", [20, 60, 100])
def test_on_a_terminal_no_line_is_wrapped_and_both_ends_of_a_path_are_seen(columns: int, tmp_path: Path) -> None:
    path = tmp_path / "x.msgpack"
    inner = {"kernel": np.zeros((2, 3), "f4"), "日本語": "値" * 100}
    msgpack.write_file(path, {"encoder": {"self_attention_of_the_first_kind": {"and_of_a_long_name": inner}}})
    lines = on_a_terminal(columns, "inspect", os.path.relpath(path))
    wide = [line for line in lines if sum(2 if ord(one) > 0x2E80 else 1 for one in line) > columns]
    assert wide == lines[:1] or wide == []  # the path of the checkpoint is not cut: it is for copying
    shown = r"\$\.encoder\.self\S+\.kernel" if columns == 100 else r"\$\.enc\S*…\S*ernel"
    assert any(re.match(f"{shown} +float", line) for line in lines)


def test_where_there_is_no_terminal_a_path_is_whole(tmp_path: Path) -> None:
    msgpack.write_file(tmp_path / "x.msgpack", {"a" * 150: {"b": 1}})
    assert leaves(tmp_path / "x.msgpack") == [f"$.{'a' * 150}.b  int  1"]


def test_a_look_imports_neither_jax_nor_numpy(tmp_path: Path) -> None:
    with CheckpointManager(tmp_path / "run", Run) as manager:
        manager.save(1, run(1))
    code = f"""
import sys
from click.testing import CliRunner
from treaty.cli import main
done = CliRunner().invoke(main, ["inspect", {str(tmp_path / "run")!r}, "--at", "step"])
assert done.exit_code == 0, done.output
print(*sorted({{"jax", "numpy", "tensorstore", "treaty.generator"}} & set(sys.modules)), len(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"[0-9]+\n", done.stdout)


def test_values_of_a_checkpoint_that_was_replaced_since_are_not_called_damaged(tmp_path: Path) -> None:
    save(tmp_path / "run", run(1))
    found = inspect_checkpoint(tmp_path / "run")
    save(tmp_path / "run", run(2))
    with pytest.raises(TreatyError, match=r"as it was inspected, got another checkpoint since; inspect it again$"):
        _ = found.values
    assert inspect_checkpoint(tmp_path / "run").values["note",] == "run 2"
