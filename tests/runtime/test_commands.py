"""`treaty inspect` and `treaty verify`, run as a user runs them."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import forked
from tests.runtime.directory.states import linear
from tests.runtime.test_restore_formats import WRITERS, train
from treaty.runtime.commands import checkpoints as commands
from treaty.runtime.directory import inspect, save
from treaty.runtime.formats import orbax


def treaty(*args: str) -> subprocess.CompletedProcess[str]:
    return forked.run("treaty", *args, cwd=Path.cwd(), env={**os.environ, "COLUMNS": "100"})


@pytest.fixture
def path(tmp_path: Path) -> str:
    save(tmp_path / "a", linear(2, 300), metadata={"epoch": 3})
    return str(tmp_path / "a")


def test_inspect_prints_what_is_there(path: str) -> None:
    assert treaty("inspect", path).stdout == (
        f"{path}\n"
        "format    treaty\n"
        "class     tests.runtime.directory.states:Linear\n"
        f"digest    {inspect(path).digest}\n"
        "dims      d_in=2  d_out=300\n"
        'metadata  {"epoch": 3}\n'
        "leaves    2, 3.5 KiB of arrays\n"
        "\n"
        "$.kernel  float32[2, 300]  2.3 KiB\n"
        "$.bias    float32[300]     1.2 KiB\n"
    )


def test_inspect_prints_json(path: str) -> None:
    found = json.loads(treaty("inspect", "--json", path).stdout)
    assert found["leaves"][1] == {"path": ["bias"], "dtype": "float32", "shape": [300], "nbytes": 1200}
    assert found["metadata"] == {"epoch": 3}


@pytest.mark.parametrize("name", WRITERS)
def test_inspect_lists_every_format(name: str, tmp_path: Path) -> None:
    place = WRITERS[name](tmp_path / "saved", train())
    runner = CliRunner()
    found = json.loads(runner.invoke(commands.inspect, [str(place), "--json"], catch_exceptions=False).stdout)
    assert found["format"] == {"flax": "msgpack"}.get(name, name.split()[0])
    assert found["step"] == (12 if name in ("orbax manager",) else None)
    leaves = {".".join(leaf["path"]): leaf for leaf in found["leaves"]}
    kernel = {"dtype": "float32", "shape": [8, 8], "nbytes": 256}
    assert leaves["params.layers.2.kernel"] == {"path": ["params", "layers", "2", "kernel"], **kernel}
    assert leaves["host"]["dtype"] == "int32"
    assert found["nbytes"] >= 6 * 256 + 5 * 4
    shown = runner.invoke(commands.inspect, [str(place), "--all"]).stdout
    assert re.search(r"^\$\.params\.layers\[2\]\.kernel +float32\[8, 8\] +256 B$", shown, re.MULTILINE)
    assert f"\nformat    {found['format']}\n" in shown
    assert re.search(r"^\$\.rng\.impl +str +'threefry2x32'$", shown, re.MULTILINE)
    shown = runner.invoke(commands.inspect, [str(place)]).stdout
    assert re.search(r"^\$\.params\.layers\[0\.\.2\]\.kernel +float32\[8, 8\] +768 B +3 alike$", shown, re.MULTILINE)
    assert "[2]." not in shown


def test_inspect_reads_no_arrays(tmp_path: Path) -> None:
    """There is nothing right in their chunks, and nobody notices."""
    place = WRITERS["eformer"](tmp_path / "saved", train())
    for chunk in place.rglob("0.0"):
        chunk.write_bytes(b"nothing right")
    done = treaty("inspect", str(place))
    assert done.stdout.startswith(f"{place}\nformat    eformer\nleaves    10, 1.5 KiB of arrays\n\n$")


def test_inspect_names_the_items_of_a_step(tmp_path: Path) -> None:
    (tmp_path / "5").mkdir()
    for item in ("ema", "state"):
        orbax.write(tmp_path / "5" / item, {"w": 1})
    done = treaty("inspect", str(tmp_path / "5"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: expected one item, got ema, state in {tmp_path / '5'}; give the path of one")


def test_verify_says_that_all_is_well_or_what_is_not(path: str) -> None:
    assert treaty("verify", path).stdout == f"{path}: 2 leaves, 3.5 KiB of arrays, all as they were written\n"
    found = json.loads(treaty("verify", "--json", path).stdout)
    assert found == {"path": path, "leaves": 2, "nbytes": 3600, "is_checked": True}
    (small,) = Path(path).glob("data-*/small-0.msgpack")
    small.write_bytes(small.read_bytes()[:-1] + b"?")
    done = treaty("verify", path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {path} is damaged:\nerror: expected checksum ")


def test_a_place_without_a_checkpoint_is_an_error_of_one_line(tmp_path: Path) -> None:
    for command in ("inspect", "verify"):
        done = treaty(command, str(tmp_path))
        assert done.returncode == 3
        assert done.stderr.startswith(f"error: expected a checkpoint, got no treaty.json at {tmp_path}")
        assert done.stderr.count("\n") == 1
