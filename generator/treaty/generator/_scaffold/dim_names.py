"""What the dims of a class are called where no size of the state names them: by the field, as people call them."""

from collections.abc import Collection, Iterator
from typing import Final

from attrs import frozen

from treaty.generator._scaffold.reading import field_name
from treaty.generator._scaffold.sized import Sized, SizedItems, SizedLeaf, parts_of

_KERNEL: Final = ("d_out", "d_in", "k", "k", "k")
_LAST_AXES: Final = {  # of a leaf by its key, from the last axis backwards
    "kernel": _KERNEL,
    "w": _KERNEL,
    "bias": ("d_out",),
    "b": ("d_out",),
    "embedding": ("d", "vocab"),
    "embeddings": ("d", "vocab"),
    "scale": ("d",),
    "offset": ("d",),
    "mean": ("d",),
    "var": ("d",),
}
_TRANSPOSED: Final = ("d_out", "d_in", "k", "k", "k")  # a weight of equinox, from the first axis on


@frozen
class AxisPlace:
    """Where a size stands: the key of the leaf, the keys above it, and which axis of how many. Lengths have none."""

    keys: tuple[str, ...]
    axis: int = 0
    rank: int = 0


def axis_places(sized: Sized, keys: tuple[str, ...] = ()) -> Iterator[AxisPlace]:
    """Of each size in a tree, in the order of `Shapes.slots`."""
    if isinstance(sized, SizedLeaf):
        rank = len(sized.axes)
        yield from (AxisPlace(keys, axis, rank) for axis in range(rank))
        return
    if isinstance(sized, SizedItems):
        yield AxisPlace(keys)
        if sized.each:
            return
    for key, part in parts_of(sized):
        yield from axis_places(part, (*keys, key) if key else keys)


def dim_name(place: AxisPlace, taken: Collection[str], siblings: Collection[str]) -> str:
    """A name that is not taken yet. `siblings` are the keys beside the leaf: the bias of a norm is no output."""
    key = place.keys[-1] if place.keys else ""
    if not place.rank:
        wanted = f"n_{field_name(key)}"
    elif key in ("bias", "b") and "scale" in siblings:
        wanted = "d"
    elif key == "weight" and place.rank > 1:
        wanted = _TRANSPOSED[min(place.axis, len(_TRANSPOSED) - 1)]
    elif key == "weight":
        wanted = "d"
    else:
        names = _LAST_AXES.get(key, ())
        back = place.rank - 1 - place.axis
        is_known = back < len(names) and not (place.rank == 3 and names is _KERNEL)  # which a dense layer has, too
        wanted = names[back] if is_known else _plain(key, place)
    return unused(wanted, taken)


def _plain(key: str, place: AxisPlace) -> str:
    name = f"d_{field_name(key).lower()}" if key and key not in _LAST_AXES else "d"
    return name if place.rank == 1 else f"{name}_{place.axis}"


def unused(name: str, taken: Collection[str], between: str = "_") -> str:
    """The name, with a number where it is taken."""
    number, found = 2, name
    while found in taken:
        number, found = number + 1, f"{name}{between}{number}"
    return found
