"""Where in the target a restore is, for `current_path` and for errors.

Flax records the names it walks through in its own module; ours are those below the last one that Flax recorded.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from treaty.runtime import _errors
from treaty.runtime._flax.bridge import loaded_flax

Names = tuple[str, ...]

_below: ContextVar[Names] = ContextVar("treaty_path_below_flax", default=())


def current_path() -> str:
    """Where the restore that runs now is, as `./params/0`; to be called by functions that restore a registered type."""
    return joined(_below.get())


def joined(names: Names) -> str:
    """Names below what Flax recorded, with that, as Flax writes them."""
    recorded = _recorded_by_flax()
    return "/".join([recorded, *names] if recorded else names)


def names_below(name: str) -> Names:
    return (*_below.get(), str(name))


@contextmanager
def entered(names: Names) -> Iterator[None]:
    """While a registered function runs: `names` is where it works, or () where Flax records that itself."""
    token = _below.set(names)
    try:
        yield
    finally:
        _below.reset(token)


def error_path(names: Names) -> _errors.Path:
    """The same place as errors show it, from the root: `$.params[0]`."""
    recorded = _recorded_by_flax()
    names = (*recorded.split("/"), *names) if recorded else names
    return tuple(int(name) if _errors.INDEX.match(name) else name for name in names if name != ".")


def _recorded_by_flax() -> str:
    flax = loaded_flax()
    return "" if flax is None else str(flax.current_path())
