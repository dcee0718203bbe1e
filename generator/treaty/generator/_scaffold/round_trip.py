"""Whether what was written does what it is for: it generates, mypy agrees, and the state comes back."""

import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from treaty.generator._modules import Module
from treaty.generator._project import Project
from treaty.generator._scaffold.runtime_door import runtime
from treaty.schema import TreatyError


@frozen
class Written:
    """A schema module that was written, and the class of the whole state."""

    path: Path
    module: Module
    root: str

    def cls(self) -> Any:
        """The class, from the file: somebody may have imported another version."""
        importlib.invalidate_caches()
        return getattr(importlib.import_module(self.module.name), self.root)


def mypy_says(written: Written, code: Path, project: Project) -> tuple[bool, str]:
    """Whether mypy --strict finds nothing in the schema and its code, and what it says."""
    if importlib.util.find_spec("mypy") is None:
        return True, "not installed, and left out"
    path = os.pathsep.join([*project.search_path, *filter(None, [os.environ.get("MYPYPATH")])])
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--explicit-package-bases",
        "--follow-imports=silent",
        str(written.path),
        str(code),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "MYPYPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def live_comes_back(cls: Any, live: Any) -> int:
    """Take a live state to a checkpoint and back; how many leaves it has. Raises TreatyError where one differs."""
    with tempfile.TemporaryDirectory() as folder:
        runtime("save")(Path(folder, "state"), runtime("from_live")(cls, live))
        back = runtime("to_live")(runtime("restore")(Path(folder, "state"), cls), live)
    return _compare(live, back)


def checkpoint_comes_back(cls: Any, path: str) -> int:
    """The same for what a checkpoint holds."""
    to_state_dict: Callable[[Any], Any] = runtime("to_state_dict")
    found = runtime("restore")(path, cls, into="numpy")  # also of dtypes that this JAX has no room for
    with tempfile.TemporaryDirectory() as folder:
        runtime("save")(Path(folder, "state"), found)
        back = runtime("restore")(Path(folder, "state"), cls, into="numpy")
        return _compare(to_state_dict(found), to_state_dict(back))


def _compare(one: Any, other: Any) -> int:
    import jax

    leaves, others = jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other)
    wrong = list(_differences(leaves, others))
    if len(leaves) != len(others):
        wrong = [f"expected {len(leaves)} leaves, got {len(others)} after the round trip"]
    if wrong:
        raise TreatyError("\n".join(wrong))
    return len(leaves)


def _differences(leaves: Any, others: Any) -> Iterator[str]:
    import jax

    for (path, one), other in zip(leaves, others, strict=False):
        if one is not other and _bits(one) != _bits(other):
            yield f"expected state{jax.tree_util.keystr(path)} as it was, got another after the round trip"


def _bits(leaf: Any) -> object:
    import jax
    import numpy as np

    if not hasattr(leaf, "dtype"):
        return type(leaf), repr(leaf)
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return str(leaf.dtype), _bits(jax.random.key_data(leaf))
    return isinstance(leaf, jax.Array), str(leaf.dtype), leaf.shape, np.asarray(leaf).tobytes()
