"""Comparing two checkpoints of any formats, either of which may be replaced meanwhile."""

import tempfile
from pathlib import Path

from treaty.runtime._convert.compare import Difference, compare
from treaty.runtime._overtaken import begin_again
from treaty.runtime.formats import _table as formats
from treaty.runtime.formats._known import looking_at


def diff(left: Path, right: Path, rtol: float = 0.0, atol: float = 0.0) -> list[Difference]:
    """As `compare`."""

    def read() -> list[Difference]:
        with tempfile.TemporaryDirectory() as folder:
            one, other = (formats.read(path, formats.recognise(path), Path(folder)).tree for path in (left, right))
            return compare(one, other, rtol, atol)

    return begin_again(f"{left} or {right}", looking_at(left, right), read)
