"""Real pyright, ty and pyrefly, as strict as each can be, over the fixtures that mypy checks (see test_typing.py).

Each runs once, over all files: `schemas`, `accept` and generated code must pass, and types be revealed as the comments say;
what plain mypy reports of `reject`, each of the others reports on the same line, in its own words. What one of them gets
wrong, or does not see, is said in the fixture, on the line: `# ty: ignore[...]`, or `# not pyrefly` after the error of mypy.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.typing.comments import Report, compare, short, wanted

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent
CLEAN: Final = ("accept", "schemas", "generated", "tests")
REJECTED: Final = ("constructors", "field_options", "migrations", "restore")
# pyright refuses an empty key of a TypedDict, and ty does not know that attrs drops the underscore of `_private`.
NOT_CHECKED: Final = ("weird_names",)


class Checker(NamedTuple):
    command: list[str]
    read: Callable[[str], Iterator[tuple[str, int, str, str]]]  # output -> file, line, severity, message
    config: str
    settings: str


def _pyright(output: str) -> Iterator[tuple[str, int, str, str]]:
    for one in json.loads(output)["generalDiagnostics"]:
        revealed = re.fullmatch(r'Type of ".*" is "(.*)"', one["message"], re.DOTALL)
        text = f"reveals {revealed[1]}" if revealed and one["severity"] == "information" else one["message"]
        yield one["file"], one["range"]["start"]["line"] + 1, one["severity"], text


def _ty(output: str) -> Iterator[tuple[str, int, str, str]]:
    for line in output.splitlines():
        report = re.fullmatch(r"(\S+?):(\d+):\d+: (\w+)\[[\w-]+\] (.*)", line)
        if report is not None:
            text = re.sub("Revealed type: `(.*)`", r"reveals \1", report[4])
            yield report[1], int(report[2]), report[3], text
        elif not re.fullmatch(r"Found \d+ diagnostics?|All checks passed!", line):
            yield "ty", 0, "error", line


def _pyrefly(output: str) -> Iterator[tuple[str, int, str, str]]:
    for one in json.loads(output)["errors"]:
        text = re.sub("^revealed type: ", "reveals ", one["description"])
        yield one["path"], one["line"], one["severity"], text


CHECKERS: Final = {
    "pyright": Checker(
        [str(BIN / "pyright"), "--outputjson", f"--pythonpath={sys.executable}"],
        _pyright,
        "pyrightconfig.json",
        # JAX's own functions have parameters without types, and optax ships none: its users say so in their projects.
        json.dumps({"typeCheckingMode": "strict", "reportUnknownMemberType": False, "reportMissingTypeStubs": False}),
    ),
    "ty": Checker(
        [str(BIN / "ty"), "check", "--output-format=concise", f"--python={sys.prefix}"],
        _ty,
        "ty.toml",
        # Also what ty does not report by itself, but for Any where it was written on purpose.
        '[rules]\nall = "error"\nunsound-assignment = "ignore"\nundefined-reveal = "ignore"\n',
    ),
    "pyrefly": Checker(
        [str(BIN / "pyrefly"), "check", "--output-format=json", f"--python-interpreter-path={sys.executable}"],
        _pyrefly,
        "pyrefly.toml",
        'preset = "strict"\n[errors]\nunimported-directive = false\n',
    ),
}


@pytest.fixture(scope="session")
def files(tree: Path) -> Path:
    """The fixtures, our own generated code, and that of the generator's cases."""
    shutil.copytree(ROOT / "generated" / "treaty" / "generated", tree / "generated")
    cases = shutil.ignore_patterns("__pycache__", *NOT_CHECKED)
    shutil.copytree(ROOT / "tests" / "generator" / "cases", tree / "tests" / "generator" / "cases", ignore=cases)
    return tree


@pytest.mark.parametrize("name", CHECKERS)
def test_each_accepts_reveals_and_rejects_what_mypy_does(name: str, files: Path) -> None:
    found = _run(name, files)
    asked = [one for path in files.glob("accept/*.py") for one in wanted(path, name)]
    assert len(asked) > 50
    compare([(where, short(text)) for where, _, text in found if where.startswith(CLEAN)], asked)

    reported = {where for where, severity, _ in found if severity == "error"}
    rejected: list[Report] = []
    for stem in REJECTED:
        path = files / "reject" / f"{stem}.py"
        rejected += [one for one in wanted(path, "plain") if not _is_left_out(path, one[0], name)]
    assert len(rejected) > 40
    assert [one for one in rejected if one[0] not in reported] == []


def _is_left_out(path: Path, where: str, name: str) -> bool:
    line = path.read_text().splitlines()[int(where.rpartition(":")[2]) - 1]
    said = re.search(r"  # not (.*)$", line)
    return said is not None and name in said[1].split(", ")


def _run(name: str, files: Path) -> list[tuple[str, str, str]]:
    """One run over all files: where, how severe, and what."""
    checker = CHECKERS[name]
    (files / checker.config).write_text(checker.settings)
    folders = ["accept", "schemas", "reject", "generated", *map(str, (files / "tests").rglob("expected*.py"))]
    done = subprocess.run([*checker.command, *folders], cwd=files, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [
        (f"{Path(file).relative_to(files) if Path(file).is_absolute() else file}:{line}", severity, text)
        for file, line, severity, text in checker.read(done.stdout)
    ]
