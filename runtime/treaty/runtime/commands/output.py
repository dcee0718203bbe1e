"""What commands print: results on standard output, and on standard error a line for each problem, never a traceback."""

import errno
import sys
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Final, ParamSpec, TypeVar

import click

from treaty.runtime._display.unseen import without_unseen
from treaty.runtime._errors import (
    ConversionError,
    CorruptCheckpointError,
    IncompleteCheckpointError,
    KeyMapError,
    MissingCheckpointError,
    StateMismatchError,
)
from treaty.runtime.commands.arguments import paths_given
from treaty.schema import TreatyError

# The exit codes of all commands; docs/command-line.md has the table.
FOUND: Final = 1  # what was looked for: damage, a difference, something stale, or what does not fit
IMPOSSIBLE: Final = 2  # wrong usage, and what cannot be done
NOT_THERE: Final = 3  # a checkpoint, a step, or a part of one

_FINDINGS: Final = (
    CorruptCheckpointError,
    IncompleteCheckpointError,
    StateMismatchError,
    KeyMapError,
    ConversionError,
)
_LONGEST: Final = 4000  # characters of a line of an error, which may name keys of anybody's

_P = ParamSpec("_P")
_T = TypeVar("_T")


def reporting(
    damaged: int = FOUND, in_words: Callable[[str], str] = str
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Let a command end with the code of the error that it meets. `damaged` is that of a checkpoint which cannot be read,
    or does not fit: another one where 1 is a command's own answer. `in_words` puts messages in the words of a terminal."""

    def decorate(command: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(command)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                return command(*args, **kwargs)
            except (TreatyError, OSError, MemoryError, RecursionError, UnicodeError) as error:
                if isinstance(error, OSError) and error.errno == errno.EPIPE:
                    raise  # who read the output has seen enough: click ends quietly
                tell(error, in_words)
                hint(error, paths_given(click.get_current_context(silent=True)))
                sys.exit(exit_code(error, damaged))

        return run

    return decorate


def exit_code(error: BaseException, damaged: int = FOUND) -> int:
    from treaty.runtime._restore.select import MissingPartError  # not before there is an error

    if isinstance(error, (MissingCheckpointError, MissingPartError)):
        return NOT_THERE
    return damaged if isinstance(error, _FINDINGS) else IMPOSSIBLE


def tell(error: BaseException, in_words: Callable[[str], str] = str) -> None:
    """On standard error."""
    text = (
        "expected a tree of fewer levels, got one that is too deep" if isinstance(error, RecursionError) else str(error)
    )
    for line in in_words(text).splitlines() or [type(error).__name__]:
        shown = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
        click.echo(f"error: {_printable(shown, sys.stderr.encoding)}", err=True)


def hint(error: BaseException, paths: Iterable[str]) -> None:
    """What there is beside a path that is not there, on standard error."""
    if isinstance(error, MissingCheckpointError):
        from treaty.schema._nearest import near_paths

        for path in paths:
            if near := near_paths(path):
                click.echo(f"note: there is {_printable(' and '.join(near), sys.stderr.encoding)}", err=True)


def say(text: str) -> None:
    """On standard output; what it has no letters for is escaped."""
    click.echo(_printable(text, sys.stdout.encoding))


def escaped(text: str) -> str:
    """What is one line, as one line."""
    return without_unseen(text.replace("\n", "\\n"))


@cache
def size_shown(count: int) -> str:
    power = max(0, min(4, (count.bit_length() - 1) // 10))
    unit = ("B", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{count} {unit}" if power == 0 else f"{count / 1024**power:.1f} {unit}"


def _printable(text: str, encoding: str | None) -> str:
    encoding = encoding or "utf-8"
    return without_unseen(text).encode(encoding, "backslashreplace").decode(encoding)
