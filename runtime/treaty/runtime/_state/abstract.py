"""States without values: shapes and dtypes of every leaf, from the schema and its dims alone."""

from typing import Any, TypeVar

import jax

from treaty.runtime._state.registry import codec_of_class
from treaty.runtime._state.sizes import estimate_array_nbytes
from treaty.schema import TreatyError

_T = TypeVar("_T")


def abstract(cls: type[_T], /, **dims: int) -> _T:
    """An instance of ShapeDtypeStructs. A dim that several classes leave free has one value for all of them.

    Python scalars and static fields hold their default, or the zero of their type.
    """
    codec = codec_of_class(cls)
    if codec.abstract is None:
        raise TreatyError(
            f"abstract({codec.id}): nothing says how many items {codec.unsized} has; "
            "declare Annotated[tuple[X, ...], Length('n')]"
        )
    needed = ", ".join(codec.sizes) or "no dims"
    for name in dims:
        if name not in codec.sizes:
            raise TreatyError(f"abstract({codec.id}) has no dim {name!r}; it takes {needed}")
    missing = [name for name in codec.sizes if name not in dims]
    if missing:
        raise TreatyError(f"abstract({codec.id}) needs {', '.join(missing)}; it takes {needed}")
    for name, size in dims.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise TreatyError(f"abstract({codec.id}): {name}={size!r}: expected an int of 0 or more")
    made: _T = codec.abstract(*(dims[name] for name in codec.sizes))
    return made


def nbytes(cls: type[Any], /, **dims: int) -> int:
    """How many bytes the arrays of a state take; Python scalars and strings do not count."""
    leaves = jax.tree.leaves(abstract(cls, **dims))
    return sum(estimate_array_nbytes(leaf) for leaf in leaves if isinstance(leaf, jax.ShapeDtypeStruct))
