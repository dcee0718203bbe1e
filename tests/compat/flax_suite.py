"""Flax's own tests, run against ours: `make compat`.

Those of its serialization module run with only their import changed; all others that reach it run twice, once with ours
in the place of `flax.serialization` for Flax's own code too, and every difference must be one that is meant.
They come from Flax's source release and are not kept here. FLAX_SERIALIZATION_TEST may name the file of the first kind.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from pathlib import Path
from typing import Final

ENV: Final = "FLAX_SERIALIZATION_TEST"
IMPORT: Final = "from flax import serialization, struct\n"
OURS: Final = "from flax import struct\nfrom flax_private import serialization\n"
PLUGIN: Final = "flax_with_ours"

OTHERS: Final = [
    *("serialization", "checkpoints", "struct", "early_stopping", "traverse_util", "cursor", "jax_utils", "pickle"),
    *("core/core_frozen_dict", "core/core_meta", "core/core_scope", "core/core_lift"),
    *("linen/linen_module", "linen/linen_meta", "linen/linen_transforms", "linen/linen_combinators"),
    *("linen/kw_only_dataclasses", "linen/partitioning"),
    *("nnx/state", "nnx/variable", "nnx/containers", "nnx/integration", "nnx/bridge/module", "nnx/bridge/wrappers"),
]
MEANT: Final = {
    f"tests.checkpoints_test.CheckpointsTest::test_smaller_target{index}": "restores arrays into smaller ones"
    for index in (0, 1)
}


def run(text: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests with the import of the serialization module replaced, and nothing else."""
    if text.count(IMPORT) != 1:
        raise ValueError(f"expected one line {IMPORT.strip()!r} in Flax's tests, got {text.count(IMPORT)}")
    path = directory / "test_flax_serialization.py"
    path.write_text(text.replace(IMPORT, OURS))
    return _pytest(directory, str(path))


def failures(directory: Path, name: str, *options: str) -> tuple[int, set[str]]:
    """How many tests of a file there are, and which of them fail or cannot run."""
    report = directory / "report.xml"
    report.unlink(missing_ok=True)
    done = _pytest(directory, *options, f"--junitxml={report}", f"tests/{name}_test.py")
    if not report.exists():
        raise RuntimeError(done.stdout + done.stderr)
    cases = list(ElementTree.parse(report).iter("testcase"))
    wrong = [one for one in cases if one.find("failure") is not None or one.find("error") is not None]
    return len(cases), {f"{one.get('classname')}::{one.get('name')}" for one in wrong}


def compare(directory: Path, names: list[str]) -> list[str]:
    """Run files with both modules, say what came of each, and return the tests that fail with ours alone."""
    different: list[str] = []
    for name in names:
        count, theirs = failures(directory, name)
        _, ours = failures(directory, name, "-p", PLUGIN)
        print(f"{name:30} {count:4} tests, {len(theirs)} fail with Flax's module, {len(ours)} with ours", flush=True)
        for test in sorted(ours - theirs):
            print(f"    {test}: {MEANT.get(test, 'NOT MEANT')}", flush=True)
        different += sorted(ours - theirs - MEANT.keys())
    return different


def download(directory: Path) -> None:
    """Put the tests in the source release of the Flax that is installed into directory/tests."""
    name = f"flax-{version('flax')}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--no-binary=flax", f"--dest={directory}", name.replace("-", "==")], check=True)
    with tarfile.open(directory / f"{name}.tar.gz") as release:
        members = [one for one in release.getmembers() if one.name.startswith(f"{name}/tests/")]
        release.extractall(directory, members, filter="data")
    (directory / name / "tests").rename(directory / "tests")


def main() -> int:
    given = os.environ.get(ENV)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if not given:
            download(directory)
        source = Path(given) if given else directory / "tests" / "serialization_test.py"
        done = run(source.read_text(), directory)
        print(done.stdout, done.stderr, sep="", end="", flush=True)
        different = [] if given else compare(directory, OTHERS)
    return done.returncode or bool(different)


def _pytest(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={directory}", *options]
    env = {"JAX_PLATFORMS": "cpu", **os.environ, "PYTHONPATH": str(Path(__file__).parent)}  # where the plugin is
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
