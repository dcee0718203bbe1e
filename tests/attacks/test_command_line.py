"""Hostile arguments to every command: a line for each problem and a status of 1, 2 or 3, never a traceback."""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from tests.command_runner import command_runner
from tests.runtime.test_paths import WRITERS, small
from treaty.cli import main
from treaty.runtime import save
from treaty.runtime.formats import msgpack

RUNS = int(os.environ.get("TREATY_FUZZ_RUNS", "150"))
NOWHERE = ["", "\0", "missing", "missing/x.npz", "x" * 300, "\udcff", "-", "a\\b", "x.msgpack/", "loop", "pipe.msgpack"]
OUTSIDE = [
    "/dev/null",
    "/proc/self/mem",
    "gs:/x",
    "file:///missing/x",
    "file://x",
    "s3://b/x.msgpack",
    "S3://key@bucket",
]
MODULES = {
    "raising.py": "raise RuntimeError('boom')",
    "leaving.py": "import sys; sys.exit(7)",
    "wrong.py": "def (",
    "other.py": "X = 5\nclass Y: pass\nfrom treaty.schema.keymap import KeyMap as Z",
}
NAMES = [
    "raising:X",
    "leaving:X",
    "wrong:X",
    "other:X",
    "other:Y",
    "other:Z",
    "none:X",
    ":",
    "x",
    "..:x",
    "\udcff:x",
    "",
]
FILES = {
    "bytes.json": b"\xff\xfe{",
    "cut.json": b"[1,",
    "shape.json": b'{"rules": 5}',
    "deep.json": b"[" * 10**5,
    "bytes.toml": b"\xff = 1",
    "deep.msgpack": b"\x81\xa1k" * 5000 + b"\x01",
    "empty.msgpack": b"",
    "empty.safetensors": b"",
    "empty.npz": b"",
    "y.safetensors.index.json": b"{}",
}
FORMATS = ["none", "", "msgpack", "treaty", "orbax", "eformer", "npz", "safetensors"]
SIZES = ["a", "a=", "=3", "a=-1", "a=1", "\udcff=1", "a=" + "9" * 5000]
PARTS = [
    "",
    "$",
    "a..b",
    "['",
    r"['a\']",
    "['\\x']",
    "[9]",
    "[-1]",
    "\0",
    "\udcff",
    "x" * 10**5,
    "layers",
    "layers[0]",
    "*",
]
OPTIONS: dict[str, list[list[str]]] = {
    "inspect": [
        *(["--at", part] for part in PARTS),
        *(["--depth", depth] for depth in ("0", "-1", "x", "9" * 30)),
        *(["--step", step] for step in ("0", "-1", "x", "9" * 5000)),
        *(["--json"], ["--all"], ["--all", "--depth", "1"], ["--at", "layers", "--json"]),
    ],
    "verify": [["--json"], ["--quiet"]],
    "plan": [
        *(["--at", part] for part in PARTS),
        *([option, size] for option in ("--dim", "--cast") for size in SIZES),
        *(["--revision", "9" * 30], ["--all"], ["--json"]),
    ],
    "steps": [["--plan"], ["--json"]],
    "diff": [
        ["--json"],
        ["--all"],
        ["--quiet"],
        ["--rtol", "nan"],
        ["--rtol", "1e999"],
        ["--atol", "-1"],
        ["--atol", ""],
    ],
    "remove": [],
    "report": [
        *(["--max-bytes", size] for size in ("x", "-1", "1e3", "9" * 30, "1 GiB", "")),
        *(["-o", name] for name in [*NOWHERE, *OUTSIDE, "empty", "bytes.json"]),
        *(["--verify"], ["--force", "--quiet", "-o", "out.html"]),
    ],
    "convert": [
        *(["--schema", name] for name in NAMES),
        *(["--map", name] for name in [*NAMES, *FILES, "directory.json", "missing.toml"]),
        *(["--dim", size] for size in SIZES),
        *([option, name] for option in ("--from", "--to") for name in FORMATS),
        *(["--max-shard-bytes", size] for size in ("0", "x", "9" * 30)),
        *(["--force"], ["--quiet"], ["--reverse"], ["--reverse", "--map", "cut.json"]),
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    for name in ("empty", "directory.json", "directory.msgpack", "directory.safetensors"):
        (tmp_path / name).mkdir()
    for suffix, write in WRITERS.items():
        write(tmp_path / f"x{suffix}", small())
    msgpack.write_file(tmp_path / "odd.msgpack", {"é\n": np.ones(1)})
    os.mkfifo(tmp_path / "pipe.msgpack")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def run(*arguments: str) -> Result:
    done = command_runner().invoke(main, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), (arguments, done.exc_info)
    assert done.exit_code in (0, 1, 2, 3), arguments
    assert done.exit_code == 0 or (done.stdout + done.stderr).strip(), arguments
    return done


def test_each_option_with_each_odd_value(folder: Path) -> None:
    for command, options in OPTIONS.items():
        for number, option in enumerate(options):
            paths = {
                "diff": ["x.npz", "x"],
                "report": ["x.npz", "x"],
                "convert": ["x.msgpack", f"out{number}"],
                "plan": ["x", "tests.runtime.test_files:Model"],
            }.get(command, ["x"])
            run(command, *option, *paths)


def test_each_odd_path(folder: Path) -> None:
    for path in [*NOWHERE, *OUTSIDE, "empty", "bytes.json"]:
        assert run("remove", "--", path).exit_code in (1, 3)
    inside = sorted(name for name in os.listdir(folder) if not name.startswith("x"))
    for number, path in enumerate([*NOWHERE, *OUTSIDE, *inside]):
        run("inspect", "--json", "--", path)
        run("verify", "--", path)
        run("diff", "--", path, "x.msgpack")
        run("report", "-o", "out.html", "--", path)
        run("report", "-o", "out.html", "--", "x.msgpack", path)
        run("convert", "--", path, f"{number}.npz")
        run("convert", "--quiet", "--", "x.msgpack", path)


def test_golden_with_each_odd_module(folder: Path) -> None:
    for name in [*MODULES, *(name.partition(":")[0] for name in NAMES), "other.py", *NOWHERE]:
        assert run("golden", "--", name).exit_code == 2, name
    assert not (folder / "tests").exists()


def test_scaffold_of_each_odd_target(folder: Path) -> None:
    odd = [*NOWHERE, *OUTSIDE, *NAMES, *sorted(os.listdir(folder))]
    for target in odd:
        run("scaffold", "--", target)
    for option in ("-o", "--name", "--dim"):
        for value in [*NOWHERE, "loop.py", "empty/x.py", *SIZES]:
            run("scaffold", option, value, "--", "x.msgpack")


def test_what_chance_brings(folder: Path) -> None:
    chance = random.Random(1)
    inside = sorted(os.listdir(folder))
    for number in range(RUNS):
        command = chance.choice(["inspect", "verify", "diff", "convert", "report"])
        options = [one for _ in range(2) if chance.random() < 0.5 for one in chance.choice(OPTIONS[command])]
        paths = [
            chance.choice([*NOWHERE, *OUTSIDE, *inside]) for _ in range(1 if command in ("inspect", "verify") else 2)
        ]
        if command == "convert" and chance.random() < 0.7:
            paths[1] = f"out{number}" + chance.choice(["", ".msgpack", ".npz", ".safetensors"])
        run(command, *options, "--", *paths)


def treaty(*arguments: str, **variables: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "treaty.cli", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, env={**os.environ, **variables})


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    msgpack.write_file(tmp_path / "x.msgpack", {f"leaf {i}": np.ones(1) for i in range(5000)})
    with treaty("inspect", str(tmp_path / "x.msgpack")) as done:
        assert done.stdout is not None
        assert done.stderr is not None
        assert done.stdout.readline().strip() == os.fsencode(tmp_path / "x.msgpack")
        done.stdout.close()
        assert done.stderr.read() == b""


def test_an_output_that_has_not_every_letter(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff\xc3\xa9.msgpack")
    save(path, small())
    with treaty("inspect", os.fsdecode(path), PYTHONIOENCODING="ascii") as done:
        output, errors = done.communicate()
    assert (done.returncode, errors) == (0, b"")
    assert b"\\udcff\\xe9.msgpack" in output
