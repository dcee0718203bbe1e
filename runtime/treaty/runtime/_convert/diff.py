"""Comparing two checkpoints of any formats, either of which may be replaced meanwhile."""

import tempfile
from pathlib import Path

from treaty.runtime._convert.compare import Difference, compare, nbytes_of
from treaty.runtime._process.progress import progress_bar
from treaty.runtime._restore.source import Source
from treaty.runtime.formats.table import reading


def diff(
    left: Path, right: Path, rtol: float = 0.0, atol: float = 0.0, progress: bool | None = False
) -> list[Difference]:
    """As `compare`."""
    with tempfile.TemporaryDirectory() as folder:

        def read(one: Source, other: Source) -> list[Difference]:
            one.scratch = other.scratch = Path(folder)
            here, there = one.settled(), other.settled()
            with progress_bar("diff", nbytes_of(here), progress) as advance:
                return compare(here, there, rtol, atol, advance)

        return reading(left, lambda one: reading(right, lambda other: read(one, other)))
