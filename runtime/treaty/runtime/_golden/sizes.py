"""Small sizes for the dims of a schema, such that its labels and ties hold: for a state that is made up."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from attrs import frozen

from treaty.schema import Schema, TreatyError, ir
from treaty.schema.dims import Expr, definition_order, evaluate, linear

Env = Mapping[str, int | None]

_LEAST: Final = 2  # an axis of one element could not be told from one that is not there
_DISTINCT: Final = 6  # so many sizes in turn: the axes of one array differ, and arrays stay small
_REPAIRS: Final = 100
_TRIES: Final = 5000


def small_sizes(schema: Schema) -> dict[str, int]:
    """Sizes of the free dims (not tied by the owner, not defined by a label), by name. Classes that use one free name share its size."""
    places = list(_places(schema, _DimPlace(schema.root_class, {}, None), ()))
    free = list(dict.fromkeys(name for place in places for name in place.free))
    sizes = {name: _LEAST + index % _DISTINCT for index, name in enumerate(free)}
    for _ in range(_REPAIRS):
        wrong = next(_conflicts(places, sizes), None)
        if wrong is None and _are_sizes(places, sizes, 1):
            return sizes
        if wrong is None or not _repaired(*wrong, sizes):
            break
    for least in (1, 0):  # an axis without elements only where it has to be
        random = Random(0)
        for _ in range(_TRIES):
            sizes = {name: random.randint(1, 8) for name in free}
            if next(_conflicts(places, sizes), None) is None and _are_sizes(places, sizes, least):
                return sizes
    raise TreatyError(f"expected small sizes that its labels and ties allow, found none for {schema.root_class.symbol}")


def env_of(cls: ir.Class, given: Env, free: Mapping[str, int]) -> dict[str, int | None]:
    """The dims of one instance: given from above, free, or defined by a label."""
    defined = dict(cls.definitions)
    env: dict[str, int | None] = {name: given.get(name, free.get(name)) for name in cls.dims if name not in defined}
    for name in definition_order(defined):
        env[name] = evaluate(defined[name], env)
    return env


@frozen(eq=False)
class _DimPlace:
    """A class where it stands in a tree."""

    cls: ir.Class
    ties: Mapping[str, Expr]
    owner: "_DimPlace | None"

    @property
    def free(self) -> list[str]:
        defined = dict(self.cls.definitions)
        return [name for name in self.cls.dims if name not in self.ties and name not in defined]

    def env(self, sizes: Mapping[str, int]) -> dict[str, int | None]:
        return env_of(self.cls, self.given(sizes), sizes)

    def given(self, sizes: Mapping[str, int]) -> dict[str, int | None]:
        above = {} if self.owner is None else self.owner.env(sizes)
        return {name: evaluate(size, above) for name, size in self.ties.items()}


def _places(schema: Schema, place: _DimPlace, above: tuple[str, ...]) -> Iterator[_DimPlace]:
    yield place
    for field in place.cls.fields:
        for node in ir.nodes(field.type):
            if node.cls not in (*above, place.cls.id):
                yield from _places(schema, _DimPlace(schema[node.cls], dict(node.ties), place), (*above, place.cls.id))


def _conflicts(places: list[_DimPlace], sizes: Mapping[str, int]) -> Iterator[tuple[_DimPlace, str, int]]:
    """Where a dim is tied to one size, and a label defines it as another, which comes with it."""
    for place in places:
        given = place.given(sizes)
        env = place.env(sizes)
        for name, _ in place.cls.definitions:
            defined = env[name]
            if name in given and defined is not None and given[name] != defined:
                yield place, name, defined


def _are_sizes(places: list[_DimPlace], sizes: Mapping[str, int], least: int) -> bool:
    for place in places:
        env = place.env(sizes)
        values = [*env.values(), *(evaluate(size, env) for size in ir.sizes(place.cls))]
        if any(value is None or value < least for value in values):
            return False
    return True


def _repaired(place: _DimPlace, dim: str, size: int, sizes: dict[str, int]) -> bool:
    """Give the dim above that one is tied to the size that the label asks for, as far up as it is tied itself."""
    tie = place.ties.get(dim)
    if tie is None:
        if dim in sizes:
            sizes[dim] = size
        return dim in sizes and dim not in dict(place.cls.definitions)
    solved = linear(tie)
    if solved is None or place.owner is None or (size - solved[2]) % solved[1] or size < solved[2]:
        return False
    return _repaired(place.owner, solved[0], (size - solved[2]) // solved[1], sizes)
