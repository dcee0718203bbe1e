"""The user's project: where the output of its modules lives, and the processes that import them."""

import os
import subprocess
import sys
from pathlib import Path

from attrs import frozen

from treaty.schema._settings import Settings


@frozen
class Project(Settings):
    """A project whose modules are generated."""

    def output_root(self, module: str, file: str) -> Path:
        """The directory that relative paths of generated files count from."""
        if self.out is not None:
            return self.out
        source = Path(file).resolve()
        above = source.parent if source.name == "__init__.py" else source
        return above.parents[module.count(".")]

    def python(self, module: str, *arguments: str, input: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a module of ours in a process of its own, which can import those of the project."""
        path = os.pathsep.join([*self.search_path, *filter(None, [os.environ.get("PYTHONPATH")])])
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, "PYTHONPATH": path},
            input=input,
            capture_output=True,
            text=True,
            check=False,
        )

    def has(self, module: str, beside: Path) -> bool:
        """Whether a schema module is still there, without importing it; `beside` is a file that was made from it."""
        roots = [*map(Path, self.search_path), *map(Path, sys.path), *beside.parents]
        name = module.replace(".", "/")
        return any((root / f"{name}.py").exists() or (root / name / "__init__.py").exists() for root in roots)


def last_words(done: "subprocess.CompletedProcess[str]") -> str:
    """What a process said at its end, where it gave no answer."""
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def relative_path(module: str) -> str:
    """`my.state_treaty` -> `my/state_treaty.py`."""
    return module.replace(".", "/") + ".py"
