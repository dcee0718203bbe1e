"""The runtime's errors. All are TreatyErrors; each says what was expected, what was found, and where."""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Final, NamedTuple

from treaty.schema import NewerFormatError as NewerFormatError
from treaty.schema import TreatyError as TreatyError

Path = tuple[str | int, ...]  # str: a field, int: an index, and a dict key is a str that starts with "["

_STEPS_SHOWN: Final = 6

INDEX: Final = re.compile(r"(0|[1-9][0-9]{0,17})\Z", re.ASCII)


class Mismatch(NamedTuple):
    """One difference between a state dict and its schema."""

    expected: str
    got: str
    path: Path

    def __str__(self) -> str:
        return f"expected {self.expected}, got {self.got} at {show_path(self.path)}"


class StateMismatchError(TreatyError, ValueError):
    """A state dict does not fit its class. `mismatches` holds every difference; `hints` say what the caller can do."""

    def __init__(self, mismatches: Sequence[Mismatch], hints: Sequence[str] = ()) -> None:
        self.mismatches = tuple(mismatches)
        self.hints = tuple(hints)
        super().__init__(self.mismatches, self.hints)  # what it is made from, so that it can be pickled

    def __str__(self) -> str:
        return "\n".join([*map(str, self.mismatches), *self.hints])


class _ManyProblems(Exception):
    """What errors have in common that list all that is wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


class CorruptCheckpointError(TreatyError, ValueError):
    """Stored bytes are damaged, cut off, or were never a checkpoint. The message says where."""


class IncompleteCheckpointError(TreatyError):
    """There is no committed checkpoint: nothing is there, or a save into it never finished."""


class LeafError(TreatyError, ValueError):
    """A tree of `treaty.runtime.leaves` cannot be stored, found or placed as asked. The message names the leaf."""


class MissingCheckpointError(IncompleteCheckpointError, FileNotFoundError):
    """Nothing is there: no file, no directory, or no committed checkpoint in it."""

    __str__ = Exception.__str__  # an OSError would show its number

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno, self.strerror = errno.ENOENT, os.strerror(errno.ENOENT)


class StorageError(TreatyError, OSError):
    """A disk or an object store failed. It is also the error that Python has for its `errno`, such as a PermissionError.

    `errno`, `strerror` and `filename` are those of the system, or None where a store gives none; `__cause__` is the
    original, unless that may hold secrets of a store.
    """

    __str__ = Exception.__str__

    def __reduce__(self) -> tuple[object, ...]:
        return storage_error, (str(self), self.errno, self.filename)


def storage_error(message: str, number: int | None = None, path: str | None = None) -> StorageError:
    """A StorageError for a number of the system."""
    made = _storage_kind(number)(message)
    made.filename = path
    if number is not None:
        made.errno, made.strerror = number, os.strerror(number)
    return made


def cannot(verb: str, path: str | os.PathLike[str], error: OSError) -> StorageError:
    """`cannot write /x: No space left on device; make room and try again`"""
    place = os.fspath(path)
    return storage_error(f"cannot {verb} {place}: {error.strerror or error}{advice(error.errno)}", error.errno, place)


def advice(number: int | None) -> str:
    return "; make room and try again" if number in (errno.ENOSPC, errno.EDQUOT) else ""


@contextmanager
def storing(verb: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Let what the system says of a failure be a StorageError that names the place."""
    try:
        yield
    except OSError as error:
        if isinstance(error, TreatyError):
            raise
        raise cannot(verb, path, error) from error


@cache
def _storage_kind(number: int | None) -> type[StorageError]:
    kind = type(OSError(number, ""))  # Python chooses the class by the number
    return StorageError if kind is OSError else type("StorageError", (StorageError, kind), {})


class CodecError(TreatyError):
    """There is no generated code for a class, or it is stale. The message names the command to run."""


class InvalidArgumentError(TreatyError, ValueError):
    """An argument for which no result would be right."""


class MissingFunctionError(TreatyError, KeyError):
    """No function was given for a tensor, and mismatches are not allowed."""

    __str__ = Exception.__str__  # a KeyError would show the message quoted


class KeyMapError(_ManyProblems, TreatyError, ValueError):
    """A key map does not fit a checkpoint: a tensor without a rule, two for one field, a layout of other axes.

    `problems` holds all of them.
    """


class MigrationError(TreatyError):
    """A migration raised, or gave what is not the next revision; or a state cannot be written as an earlier one."""


class ConversionError(_ManyProblems, TreatyError):
    """What was written is not what was read. `problems` holds every leaf that differs; nothing was put in place."""


class UnaddressableArrayError(TreatyError, ValueError):
    """An array has shards on other hosts, so this process cannot write it to one file."""


class UnwritableArrayError(TreatyError, ValueError, TypeError):
    """An array that has no form in MessagePack: objects, fields, a mask, or no contents. Flax raises either of the two."""


class StateKeyError(TreatyError, AssertionError, TypeError):
    """A registered function gave a state dict with keys other than str: Flax asserts, eformer raises a TypeError."""


def show_path(path: Path) -> str:
    """`("blocks", 3, "up")` -> `$.blocks[3].up`; keys that are not names are quoted."""
    return "$" + "".join(map(_show_key, path))


def show_keys(keys: Sequence[str]) -> str:
    """A path of state-dict keys: `("blocks", "3", "up")` -> `$.blocks[3].up`."""
    return "$" + "".join(map(_show_state_key, keys))


def show_steps(wanted: int, steps: Iterable[int]) -> str:
    """Those that there are, or of many the nearest: `80, 100 and 998 others`."""
    found = sorted(steps)
    near = sorted(sorted(found, key=lambda one: abs(one - wanted))[:_STEPS_SHOWN])
    others = f" and {len(found) - len(near)} others" if len(found) > len(near) else ""
    return f"{', '.join(map(str, near))}{others}" if found else "none"


@lru_cache(2**16)
def _show_state_key(key: str) -> str:
    return _show_key(int(key) if INDEX.match(key) else key)


def _show_key(key: str | int) -> str:
    if key == "*":  # of a schema: every item of a list, tuple or dict
        return "[*]"
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if key.isidentifier() else f"[{key!r}]"
