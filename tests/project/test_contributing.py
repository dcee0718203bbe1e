"""The recipes of CONTRIBUTING.md list what there is to do: mypy, and not memory, says which files a new kind of leaf touches."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.architecture.packages import ROOT

LAYERS = ("schema", "generator", "runtime")
NEW = "class Novel:\n    KIND: ClassVar = 'novel'\n\n\nLeaf = Novel | "


def listed() -> set[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return set(
        re.findall(r"^- `(.*)`$", text.partition("<!-- named by mypy -->")[2].partition("<!-- end -->")[0], re.M)
    )


def test_the_recipe_for_a_leaf_kind_lists_what_mypy_names(tmp_path: Path) -> None:
    for layer in LAYERS:
        shutil.copytree(ROOT / layer, tmp_path / layer, ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "schema/treaty/schema/ir.py"
    assert path.read_text().count("\nLeaf = ") == 1
    path.write_text(path.read_text().replace("\nLeaf = ", f"\n{NEW}"))
    (tmp_path / "mypy.ini").write_text("[mypy]\nmypy_path = schema:generator:runtime\nexplicit_package_bases = True\n")

    # Other packages are left unread, which takes much less time and says other things, too.
    options = ["--namespace-packages", "--follow-imports=skip", "--cache-dir=cache"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *LAYERS], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    named = set(re.findall(r'^(\S+):\d+: error: .*"(?:Novel\b|assert_never")', done.stdout, re.M))
    assert named == listed(), "\n".join(sorted(named))
