"""Where the value of a dim can be read from the data: shared by generated code and by `explain`.

A dim of a class is known from an axis of an array, the length of a sequence, or a dim of a child that is
tied to it. Generated code and the explaining walker try the same sources in the same order, so they agree.
"""

from collections.abc import Iterator
from typing import assert_never

from attrs import evolve, frozen

from treaty.schema import ir
from treaty.schema.dims import Expr, linear


@frozen
class Item:
    """Step into one item of a fixed tuple or one field of a Partial, by state-dict key."""

    key: str


@frozen
class Each:
    """Step into the items of a list, tuple or dict: the first that knows the dim decides."""


@frozen
class Present:
    """Go on only where the value is not None."""


Step = Item | Each | Present


@frozen
class DimSource:
    """size = a*dim + b, where size is an axis, a length, or a child's dim, found below the field `key`."""

    key: str
    steps: tuple[Step, ...]
    axis: int | None  # of an array; for keys, of the key array (its data has one axis more)
    child: tuple[str, str] | None  # (class id, dim); neither axis nor child: the length
    a: int
    b: int
    through_key: bool = False
    spread: bool = False  # below what is gathered of the items that `key` stands for

    @property
    def conditional(self) -> bool:
        """Whether the data may lack it: inside an Optional or a sequence that may be empty. What is gathered comes last, too."""
        return self.spread or not all(isinstance(step, Item) for step in self.steps)


def sources(schema: ir.Schema, cls: ir.Class, dim: str) -> tuple[DimSource, ...]:
    """Every source of a dim, unconditional ones first, in field order."""
    found = [
        source
        for field in cls.fields
        for source in _in_type(schema, field.type, dim, DimSource(field.key, (), None, None, 1, 0, spread=field.spread))
    ]
    return tuple(sorted(found, key=lambda source: (source.conditional, source.child is not None)))


def _in_type(schema: ir.Schema, type: ir.Type, dim: str, at: DimSource) -> Iterator[DimSource]:
    if isinstance(type, (ir.Array, ir.Key)):
        for axis, one in enumerate(type.dims):
            if one.label == dim:
                yield evolve(at, axis=axis, through_key=isinstance(type, ir.Key))
            elif (solved := _solve(one.size, dim)) is not None:
                yield evolve(at, axis=axis, a=solved[0], b=solved[1], through_key=isinstance(type, ir.Key))
    elif isinstance(type, (ir.Sequence, ir.Dict)):
        if type.length is not None and (solved := _solve(type.length, dim)) is not None:
            yield evolve(at, a=solved[0], b=solved[1])
        item = type.item if isinstance(type, ir.Sequence) else type.value
        yield from _in_type(schema, item, dim, _step(at, Each()))
    elif isinstance(type, ir.Tuple):
        for index, item in enumerate(type.items):
            yield from _in_type(schema, item, dim, _step(at, Item(str(index))))
    elif isinstance(type, ir.Optional):
        yield from _in_type(schema, type.item, dim, _step(at, Present()))
    elif isinstance(type, ir.Partial):
        yield from _in_type(schema, type.args, dim, _step(at, Item("args")))
        yield from _in_type(schema, type.keywords, dim, _step(at, Item("keywords")))
    elif isinstance(type, ir.Node):
        for name, size in type.ties:
            if (solved := _solve(size, dim)) is not None:
                yield evolve(at, child=(type.cls, name), a=solved[0], b=solved[1])
    elif not isinstance(type, (ir.Fitted, ir.Scalar, ir.NumpyScalar, ir.Enum, ir.Untyped)):
        assert_never(type)


def _solve(size: Expr, dim: str) -> tuple[int, int] | None:
    solved = linear(size)
    return solved[1:] if solved is not None and solved[0] == dim else None


def _step(at: DimSource, step: Step) -> DimSource:
    return evolve(at, steps=(*at.steps, step))
