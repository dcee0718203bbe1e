"""Flax's own tests of its serialization module, run against ours: `make compat`.

They come from Flax's source release and are not kept here. FLAX_SERIALIZATION_TEST may name the file instead.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

ENV: Final = "FLAX_SERIALIZATION_TEST"
IMPORT: Final = "from flax import serialization, struct\n"
OURS: Final = "from flax import struct\nfrom treaty.runtime import serialization\n"


def run(text: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests with the import of the serialization module replaced, and nothing else."""
    if text.count(IMPORT) != 1:
        raise ValueError(f"expected one line {IMPORT.strip()!r} in Flax's tests, got {text.count(IMPORT)}")
    path = directory / "test_flax_serialization.py"
    path.write_text(text.replace(IMPORT, OURS))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={directory}", str(path)]
    env = {"JAX_PLATFORMS": "cpu", **os.environ}
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, check=False)


def download(directory: Path) -> str:
    """The tests in the source release of the Flax that is installed."""
    name = f"flax-{version('flax')}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--no-binary=flax", f"--dest={directory}", name.replace("-", "==")], check=True)
    with tarfile.open(directory / f"{name}.tar.gz") as release:
        member = release.extractfile(f"{name}/tests/serialization_test.py")
        assert member is not None
        return member.read().decode()


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        given = os.environ.get(ENV)
        done = run(Path(given).read_text() if given else download(directory), directory)
    print(done.stdout, done.stderr, sep="", end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
