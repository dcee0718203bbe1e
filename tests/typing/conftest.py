"""The fixtures in a folder of their own, where type checkers meet them."""

import re
import shutil
from pathlib import Path

import pytest

from tests import forked

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "static-checking.md"


@pytest.fixture(scope="session")
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
    forked.run("treaty", "generate", "model", *sorted(modules), cwd=root).check_returncode()
    shutil.copytree(HERE / "stale" / "after", root / "stale", dirs_exist_ok=True)
    for path in root.rglob("*.py"):
        path.write_text(f"{path.read_text()}# {root}\n")  # new to mypy's cache
    return root
