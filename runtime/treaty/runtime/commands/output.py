"""What commands print: results on standard output, and on standard error a line for each problem, never a traceback."""

import errno
import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import click

from treaty.schema import TreatyError

_P = ParamSpec("_P")
_T = TypeVar("_T")


def reporting(status: int) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Let a command end with an exit status where it meets something that it cannot do."""

    def decorate(command: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(command)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                return command(*args, **kwargs)
            except (TreatyError, OSError, MemoryError, RecursionError, UnicodeError) as error:
                if isinstance(error, OSError) and error.errno == errno.EPIPE:
                    raise  # who read the output has seen enough: click ends quietly
                tell(error)
            sys.exit(status)

        return run

    return decorate


def tell(error: BaseException) -> None:
    """On standard error."""
    text = (
        "expected a tree of fewer levels, got one that is too deep" if isinstance(error, RecursionError) else str(error)
    )
    for line in text.splitlines() or [type(error).__name__]:
        click.echo(f"error: {_printable(line, sys.stderr.encoding)}", err=True)


def say(text: str) -> None:
    """On standard output; what it has no letters for is escaped."""
    click.echo(_printable(text, sys.stdout.encoding))


def column(cells: list[str]) -> list[str]:
    """Cells of one width."""
    width = max(map(len, cells), default=0)
    return [cell.ljust(width) for cell in cells]


@cache
def size_shown(count: int) -> str:
    power = max(0, min(4, (count.bit_length() - 1) // 10))
    unit = ("B", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{count} {unit}" if power == 0 else f"{count / 1024**power:.1f} {unit}"


def _printable(text: str, encoding: str | None) -> str:
    encoding = encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
