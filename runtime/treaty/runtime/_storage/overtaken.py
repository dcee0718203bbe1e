"""Readers that a save overtakes: what they give is of one checkpoint, or they begin again."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from treaty.schema import TreatyError

TRIES: Final = 10
_T = TypeVar("_T")


class Known(NamedTuple):
    """What a checkpoint was known by before it was read.

    `by`: identity of the checkpoint; if it changed when reading failed, read again. `is_whole`: after a read, whether nothing
    was replaced meanwhile. `seen`: what `look` found already (place and manifest).
    """

    by: object
    is_whole: Callable[[], bool] = lambda: True
    seen: Any = None


Look: TypeAlias = Callable[[ExitStack], Known]  # what must stay open, so that its number is not given to another file


def begin_again(where: str, look: Look, read: Callable[[], _T]) -> _T:
    """What `read` gives of the checkpoint that `look` sees. Errors are those of one that nobody replaced meanwhile."""
    for _ in range(TRIES):
        with ExitStack() as held:
            known = look(held)
            try:
                found = read()
            except Exception:  # whatever a reader trips over in what is being replaced
                if look(held).by == known.by:
                    raise
                continue
            if known.is_whole():
                return found
            del found  # or two of them would be in memory
    raise TreatyError(
        f"expected a checkpoint that stays, got {TRIES} replacements while it was read at {where}; "
        "save to a path of its own for each step, or restore when saves pause"
    )


def still(look: Callable[[], object]) -> Known:
    """Several files that nothing ties together: all must be afterwards what they were before."""
    found = look()
    return Known(found, lambda: look() == found)


def mark(path: str | os.PathLike[str]) -> object:
    """What a file is known by; None where there is none."""
    try:
        return _mark(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def known_file(path: str | os.PathLike[str], held: ExitStack) -> Known:
    """A file that is mapped or read from one descriptor: it may be replaced by another, but not changed itself."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except OSError:  # the reader says why
        return Known(mark(path))
    held.callback(os.close, descriptor)
    before = _mark(os.fstat(descriptor))
    return Known(before, lambda: _mark(os.fstat(descriptor)) == before)


def held_directory(path: str | os.PathLike[str], held: ExitStack) -> object:
    """What a directory is known by, as long as it is held: another one gets another number."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None
    held.callback(os.close, descriptor)
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _mark(found: os.stat_result) -> object:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
