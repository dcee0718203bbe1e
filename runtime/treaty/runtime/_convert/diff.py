"""Comparing two checkpoints of any formats, either of which may be replaced meanwhile."""

import tempfile
from pathlib import Path

from treaty.runtime._convert.compare import Difference, compare
from treaty.runtime._restore.source import Source
from treaty.runtime.formats.table import reading


def diff(left: Path, right: Path, rtol: float = 0.0, atol: float = 0.0) -> list[Difference]:
    """As `compare`."""
    with tempfile.TemporaryDirectory() as folder:

        def read(one: Source, other: Source) -> list[Difference]:
            one.scratch = other.scratch = Path(folder)
            return compare(one.settled(), other.settled(), rtol, atol)

        return reading(left, lambda one: reading(right, lambda other: read(one, other)))
