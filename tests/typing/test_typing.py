"""Real mypy over fixtures that are never run.

`schemas` and `accept` must pass, and `reveal_type(...)  # X` must reveal X (`; others: Y`, `; pyright: Y` where other
checkers word it otherwise, see test_checkers.py). In `reject`, `# E: message  [code]` is an error that plain mypy reports on
the next line, `# P: ...` one that only the plugin reports, and nothing else may be reported. A fixture may say on its first
line why it needs the plugin.
`stale` holds schemas before and after a change, and what mypy says of the code generated before. The code of
docs/static-checking.md is one more fixture, where `# mypy: ...` and `# plugin: ...` stand for E and P.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from mypy import api

from tests.typing.comments import Report, compare, short, wanted

CONFIG = {
    "plain": "[mypy]\nstrict = true\nexplicit_package_bases = true\n",
    "plugin": "[mypy]\nstrict = true\nexplicit_package_bases = true\nplugins = treaty.generator.mypy_plugin\n",
}


def test_plain_mypy_reports_exactly_what_the_fixtures_say(tree: Path, pytestconfig: pytest.Config) -> None:
    files = [path for path in tree.glob("*/*.py") if not path.read_text().startswith("# Needs the plugin:")]
    output = _mypy(tree, "plain", files, pytestconfig)
    compare(_found_by_mypy(tree, output), [one for path in files for one in wanted(path, "plain")])


def test_mypy_with_the_plugin_reports_exactly_what_the_fixtures_say(tree: Path, pytestconfig: pytest.Config) -> None:
    files = list(tree.glob("*/*.py"))
    output = _mypy(tree, "plugin", files, pytestconfig)
    compare(_found_by_mypy(tree, output), [one for path in files for one in wanted(path, "plugin")])

    # Dims are no part of a type: that they changed must still reach the modules that mypy has in its cache.
    model = tree / "schemas" / "model.py"
    text = model.read_text()
    model.write_text(text.replace('"d_in d_out"', '"d_first d_out"'))
    output = _mypy(tree, "plugin", files, pytestconfig)
    model.write_text(text)  # other checkers follow
    assert "schemas.model:Linear has no dim 'd_model'; its dims: d_first, d_out" in output


def _mypy(tree: Path, mode: str, files: Iterable[Path], pytestconfig: pytest.Config) -> str:
    """One run over all files. The cache outlives the test session, for what JAX and numpy take to analyse."""
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir(f"mypy-{mode}")
    (tree / f"{mode}.ini").write_text(CONFIG[mode])
    names = sorted(str(path.relative_to(tree)) for path in files)
    with contextlib.chdir(tree):
        output, crash, _ = api.run(["--show-traceback", f"--config-file={mode}.ini", f"--cache-dir={cache}", *names])
    return output + crash


def _found_by_mypy(tree: Path, output: str) -> Iterator[Report]:
    for line in output.splitlines():
        report = re.fullmatch(r"(\S+?):(\d+): (error|note): (.*)", line)
        if report is None:
            if not line.startswith("Found "):
                yield "mypy", line
        elif report[3] == "error" or report[4].startswith("Revealed type is "):
            where = f"{report[1]}:{report[2]}"
            if report[1].endswith("_treaty.py"):
                source = (tree / report[1]).read_text().splitlines()
                where = f"{report[1]}: {source[int(report[2]) - 1].strip()}"
            yield where, re.sub('Revealed type is "(.*)"', lambda found: f"reveals {short(found[1])}", report[4])
