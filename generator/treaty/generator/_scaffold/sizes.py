"""Which sizes a factory is called with, so that what follows them can be told apart."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from attrs import define, field

from treaty.generator._scaffold.align import Sighting, StructureChange, align
from treaty.generator._scaffold.factory import FactoryError, StateFactory, check_leaves
from treaty.schema import TreatyError, ir
from treaty.schema.dims import Expr, Int, Name
from treaty.schema.outline import OutlineLeaf, outline_leaves

_COUNTS: Final = re.compile(r"layer|block|depth|stage|repeat|expert", re.IGNORECASE)
_MOST_ELEMENTS: Final = 2**26  # of a state that is made to be saved and restored: 256 MiB of float32
_Tell: TypeAlias = Callable[[str], None]


def sightings_of(factory: StateFactory, dims: Mapping[str, Sequence[int]], tell: _Tell) -> list[Sighting]:
    """The factory's state for enough sizes. `dims` are those that the user names, with values; else all are varied.

    `tell` is told what could not be varied, and why.
    """
    _check(factory, dims)
    return _Varying(factory, dict(dims), tell).run()


def sizes_to_try(sightings: Sequence[Sighting]) -> Mapping[str, int]:
    """The sizes that the factory has by itself, or those of the smallest state that was seen where that is a large one."""
    first = sightings[0]
    return first.sizes if _elements(first) <= _MOST_ELEMENTS else min(sightings, key=_elements).sizes


@define
class _Varying:
    factory: StateFactory
    dims: dict[str, Sequence[int]]
    tell: _Tell
    seen: list[Sighting] = field(factory=list)
    base: dict[str, int] = field(factory=dict)

    def run(self) -> list[Sighting]:
        given = {name: values[0] for name, values in self.dims.items()}
        self.base = {**self.factory.sizes, **given}
        first = self.factory.sighting(self.base)
        check_leaves(first, self.factory.target)
        self.seen.append(first)
        varied = [name for name, values in self.dims.items() if len(values) > 1]
        named = varied if self.dims else sorted(self.base, key=lambda name: not _COUNTS.search(name))
        for name in named:
            self._vary(name)
        return self.seen

    def _vary(self, name: str) -> None:
        """Two more values of one size, all others being as they are."""
        is_asked = name in self.dims
        values = self.dims[name][1:] if is_asked else _others(name, self.base)
        wanted = len(self.dims[name]) - 1 if is_asked else 2
        found: list[Sighting] = []
        why = ""
        for value in values:
            try:
                one = self.factory.sighting({**self.base, name: value})
                align([self.seen[0], one], _any)
            except FactoryError as error:
                if is_asked:
                    raise
                why = why or str(error)
                continue
            except StructureChange as change:
                said = f"{self.factory.target}: {name}={value} changes the structure of the state, and not only its sizes: {change}"
                if is_asked:
                    raise TreatyError(f"{said}; give {name} one value: --dim {name}={self.base[name]}") from change
                why = why or said
                continue
            found.append(one)
            if len(found) == wanted:
                break
        if len(found) < wanted and not is_asked:
            self.tell(f"{name} stays {self.base[name]}: {why}")
            return
        if is_asked and all(_same_shapes(one, self.seen[0]) for one in found):
            raise TreatyError(f"--dim {name}: no axis and no number of layers follows it; leave it out")
        self.seen += found
        if _leaves(found[0]) < _leaves(self.seen[0]):
            self.base[name] = found[0].sizes[name]  # fewer layers take less time, and show as much


def _others(name: str, base: Mapping[str, int]) -> list[int]:
    """Values for a size that is not asked for: small ones for what looks like a number of layers, each of which takes time; else multiples.

    Of those, such come first by which sizes stay multiples of each other, as a model's width is of its number of heads.
    """
    size = base[name]
    if size < 1:
        return [1, 2] if size == 0 else []
    if _COUNTS.search(name):
        return [one for one in dict.fromkeys([2, 3, 4, 2 * size, 3 * size, 1]) if one != size]
    candidates = [2 * size, 3 * size, 4 * size, size // 2, size // 4, size + 1, size + 2]
    rest = [other for one, other in base.items() if one != name and other > 1]

    def broken(value: int) -> int:
        lost = sum(1 for other in rest if size % other == 0 and value % other)
        return lost + sum(1 for other in rest if other % size == 0 and other % value)

    return sorted((one for one in dict.fromkeys(candidates) if one not in (0, size)), key=broken)


def _check(factory: StateFactory, dims: Mapping[str, Sequence[int]]) -> None:
    known = {*factory.sizes, *factory.needed}
    for name in dims:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise TreatyError(f"--dim {name}: {factory.target} has no such parameter; its whole numbers: {listed}")
    missing = [name for name in factory.needed if name not in dims]
    if missing and isinstance(factory.call, type):
        sizes = ", ".join(f"{name}: int = {size}" for name, size in factory.sizes.items())
        given = ", ".join([*(f"{name}={name}" for name in factory.sizes), *(f"{name}=..." for name in missing)])
        raise TreatyError(
            f"{factory.target}: {', '.join(missing)}: expected a default for each parameter, got none; write a function, "
            f"def make_state({sizes}): return {factory.call.__name__}({given}), and name that"
        )
    if missing:
        raise TreatyError(
            f"{factory.target}: {', '.join(missing)}: expected a default for each parameter, got none; "
            f"give one, or sizes: {' '.join(f'--dim {name}=64,96' for name in missing)}"
        )


def _any(assignments: Sequence[Mapping[str, int]], sizes: Sequence[int]) -> Expr:
    return Name("any")


def _elements(sighting: Sighting) -> int:
    leaves = (leaf for _, leaf in outline_leaves(sighting.outline) if isinstance(leaf, OutlineLeaf))
    arrays = (leaf.type for leaf in leaves if isinstance(leaf.type, ir.Array))
    return sum(math.prod(dim.size.value for dim in one.dims if isinstance(dim.size, Int)) for one in arrays)


def _leaves(sighting: Sighting) -> int:
    return sum(1 for _ in outline_leaves(sighting.outline))


def _same_shapes(one: Sighting, other: Sighting) -> bool:
    return list(outline_leaves(one.outline)) == list(outline_leaves(other.outline))
