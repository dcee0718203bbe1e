"""Real mypy and real pyright over fixtures that are never run.

`schemas` and `accept` must pass, and `reveal_type(...)  # X` must reveal X (`; pyright: Y` where pyright words it
otherwise). In `reject`, `# E: message  [code]` is an error that plain mypy reports on the next line, `# P: ...` one that
only the plugin reports, and nothing else may be reported. A fixture may say on its first line why it needs the plugin.
`stale` holds schemas before and after a change, and what mypy says of the code generated before. The code of
docs/static-checking.md is one more fixture, where `# mypy: ...` and `# plugin: ...` stand for E and P.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "static-checking.md"
CONFIG = {
    "plain": "[mypy]\nstrict = true\nexplicit_package_bases = true\n",
    "plugin": "[mypy]\nstrict = true\nexplicit_package_bases = true\nplugins = treaty.generator.mypy_plugin\n",
}

Report = tuple[str, str]  # where and what


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fixtures in a folder of their own, with generated code; that of `stale` is older than its schemas."""
    root = tmp_path_factory.mktemp("typing")
    for name in ("schemas", "accept", "reject"):
        shutil.copytree(HERE / name, root / name)
    shutil.copytree(HERE / "stale" / "before", root / "stale")
    declared, *uses = re.findall(r"^```py(?:thon)?\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    (root / "model.py").write_text(declared)
    (root / "reject" / "page.py").write_text("\n".join(uses))
    modules = [f"{path.parent.name}.{path.stem}" for name in ("schemas", "stale") for path in root.glob(f"{name}/*.py")]
    modules.remove("schemas.aliases")  # declares no class
    subprocess.run([sys.executable, "-m", "treaty.cli", "generate", "model", *sorted(modules)], cwd=root, check=True)
    shutil.copytree(HERE / "stale" / "after", root / "stale", dirs_exist_ok=True)
    for path in root.rglob("*.py"):
        path.write_text(f"{path.read_text()}# {root}\n")  # new to mypy's cache
    return root


def test_plain_mypy_reports_exactly_what_the_fixtures_say(tree: Path, pytestconfig: pytest.Config) -> None:
    files = [path for path in tree.glob("*/*.py") if not path.read_text().startswith("# Needs the plugin:")]
    output = _mypy(tree, "plain", files, pytestconfig)
    _compare(_found_by_mypy(tree, output), [one for path in files for one in _wanted(path, "plain")])


def test_mypy_with_the_plugin_reports_exactly_what_the_fixtures_say(tree: Path, pytestconfig: pytest.Config) -> None:
    files = list(tree.glob("*/*.py"))
    output = _mypy(tree, "plugin", files, pytestconfig)
    _compare(_found_by_mypy(tree, output), [one for path in files for one in _wanted(path, "plugin")])

    # Dims are no part of a type: that they changed must still reach the modules that mypy has in its cache.
    model = tree / "schemas" / "model.py"
    model.write_text(model.read_text().replace('"d_in d_out"', '"d_first d_out"'))
    output = _mypy(tree, "plugin", files, pytestconfig)
    assert "schemas.model:Linear has no dim 'd_model'; its dims: d_first, d_out" in output


def test_pyright_accepts_and_reveals_the_same(tree: Path) -> None:
    command = [sys.executable, "-m", "pyright", "--outputjson", f"--pythonpath={sys.executable}", "accept", "schemas"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    output = done.stdout or done.stderr
    if not output.startswith("{"):
        pytest.skip(f"pyright did not start: {output.strip()[-200:]}")
    found = []
    for one in json.loads(output)["generalDiagnostics"]:
        line = one["range"]["start"]["line"] + 1
        revealed = re.fullmatch(r'Type of ".*" is "(.*)"', one["message"], re.DOTALL)
        text = f"reveals {revealed[1]}" if revealed else one["message"]
        found.append((f"{Path(one['file']).relative_to(tree)}:{line}", text))
    wanted = [one for path in tree.glob("accept/*.py") for one in _wanted(path, "pyright")]
    _compare(found, wanted)


def _mypy(tree: Path, mode: str, files: Iterable[Path], pytestconfig: pytest.Config) -> str:
    """One run over all files. The cache outlives the test session, for what JAX and numpy take to analyse."""
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir(f"mypy-{mode}")
    (tree / f"{mode}.ini").write_text(CONFIG[mode])
    names = sorted(str(path.relative_to(tree)) for path in files)
    with contextlib.chdir(tree):
        output, crash, _ = api.run(["--show-traceback", f"--config-file={mode}.ini", f"--cache-dir={cache}", *names])
    return output + crash


def _wanted(path: Path, mode: str) -> Iterator[Report]:
    """What the comments of a fixture ask for."""
    name = f"{path.parent.name}/{path.stem}"
    above: list[str] = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if error := re.fullmatch(r" *# (E|P|mypy|plugin): (.*  \[[a-z-]+\])", line):
            above += [error[2]] if error[1] in ("E", "mypy") or mode == "plugin" else []
        elif stale := re.fullmatch(r"# stale: (.*)  # E: (.*)", line):
            yield f"{name}_treaty.py: {stale[1]}", stale[2]
        else:
            yield from ((f"{name}.py:{number}", text) for text in above)
            above.clear()
            if revealed := re.fullmatch(r" *reveal_type\(.*\)  # (.*?)(?:; pyright: (.*))?", line):
                yield f"{name}.py:{number}", f"reveals {(mode == 'pyright' and revealed[2]) or revealed[1]}"


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
            yield where, re.sub('Revealed type is "(.*)"', lambda found: f"reveals {_short(found[1])}", report[4])


def _short(revealed: str) -> str:
    """A type without module names, a TypedDict by its name alone."""
    while revealed != (revealed := re.sub(r"TypedDict\(([\w.]+), \{[^{}]*\}\)", r"\1", revealed)):
        pass
    return re.sub(r"(?:\w+\.)+(\w)", r"\1", revealed)


def _compare(found: Iterable[Report], wanted: Iterable[Report]) -> None:
    """Fail with what was not wanted and what is missing; the words wanted may be a part of the message."""
    missing, unexpected = list(wanted), []
    for where, text in found:
        for one in missing:
            part, _, code = one[1].rpartition("  ")
            if one[0] == where and part in text and text.endswith(code):
                missing.remove(one)
                break
        else:
            unexpected.append(f"unexpected at {where}: {text}")
    if missing or unexpected:
        pytest.fail(
            "\n".join([*unexpected, *(f"missing at {where}: {text}" for where, text in missing)]), pytrace=False
        )
