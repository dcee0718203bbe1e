"""Settles dims after all classes are read: which dims each class has, and that every one can be known."""

from collections.abc import Callable, Iterator, Mapping
from typing import assert_never

import attrs

from treaty.schema import ir
from treaty.schema._errors import SchemaError
from treaty.schema._loose import Loose
from treaty.schema._ties import OWN, rebuild
from treaty.schema.dims import Expr, Name, names
from treaty.schema.sources import sources


def settle(
    raw: Mapping[str, ir.Class],
    every: str,
    place_of: Callable[[str], str] | None = None,
    *,
    declared: bool = False,
) -> tuple[ir.Class, ...]:
    """Fill in `dims`, `definitions` and the ties marked `every`. Raises SchemaError with every problem.

    Of what is `declared` now it has to be clear whose each dim is; what was locked or stored once was taken without.

    A type variable that is not filled in has the dim `every`: the mark then stays on what is tied to it, and names of dims
    there may be those of the argument.

    `place_of` says where a class is declared; finding that reads source files, so only messages ask for it.
    """
    place_of = place_of or (lambda id: raw[id].qualname)
    problems: list[str] = []
    dims = _all_dims(raw, every)
    classes: dict[str, ir.Class] = {}
    for id, cls in raw.items():
        fields = []
        for field in cls.fields:
            problems += [f"{place_of(id)}.{field.name}: {problem}" for problem in _loose_ties(field.type, dims, every)]
            fields.append(attrs.evolve(field, type=_close(field.type, dims, every)))
        args = tuple(_close(arg, dims, every) for arg in cls.args)
        definitions = _definitions(cls, place_of, problems)
        classes[id] = attrs.evolve(cls, fields=tuple(fields), dims=dims[id], definitions=definitions, args=args)
    if declared and not problems:
        problems += Loose(raw, dims).problems(place_of)
    if not problems:
        schema = ir.Schema("", tuple(classes.values()))
        problems += _endless(schema, place_of)
        for cls in classes.values():
            fitted = _only_given(cls)
            for dim in cls.dims:
                if dim != every and dim not in fitted and not sources(schema, cls, dim):
                    problems.append(
                        f"{place_of(cls.id)}: dim {dim!r} cannot be known from the data; it must stand alone "
                        f"(or as in 2*{dim}+1) on some axis, Length or Dims"
                    )
    if problems:
        raise SchemaError(*problems)
    return tuple(classes.values())


def _only_given(cls: ir.Class) -> set[str]:
    """Dims that only the owner can give: those of params of which an optimizer has arrays of other shapes."""
    types = (type for field in cls.fields for type in ir.every_type(field.type))
    return {name for type in types if isinstance(type, ir.Fitted) for dim in type.dims for name in dim.names}


def _all_dims(raw: Mapping[str, ir.Class], every: str) -> dict[str, tuple[str, ...]]:
    """The dim names of each class, in order of appearance; grown until recursion adds nothing more."""
    dims: dict[str, tuple[str, ...]] = dict.fromkeys(raw, ())
    while True:
        grown = {id: cls.dims if id.startswith(ir.VARIABLE) else dims_of(cls, dims, every) for id, cls in raw.items()}
        if grown == dims:
            return dims
        dims = grown


def dims_of(cls: ir.Class, dims: Mapping[str, tuple[str, ...]], every: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for field in cls.fields for name in _names(field.type, dims, every)))


def _names(type: ir.Type, dims: Mapping[str, tuple[str, ...]], every: str) -> Iterator[str]:
    for one in ir.every_type(type):
        if isinstance(one, ir.Node):
            ties = dict(one.ties)
            for name in dims[one.cls]:
                if name in ties:
                    yield from (name for name in names(ties[name]) if name != OWN)
                elif every in ties:
                    yield name
        else:
            yield from (name for dim in ir.own_dims(one) for name in dim.names)


def _close(type: ir.Type, dims: Mapping[str, tuple[str, ...]], every: str) -> ir.Type:
    """Ties as marked become ties by name; a tie reaches those classes in the type that have the dim."""

    def close(node: ir.Node) -> ir.Node:
        ties = dict(node.ties)
        if ties.pop(every, None) is not None:
            ties = {**{name: Name(name) for name in dims[node.cls]}, **ties}
        ties = {name: size for name, size in ties.items() if size != Name(OWN)}
        known = dims[node.cls]
        return ir.Node(node.cls, tuple(sorted(one for one in ties.items() if one[0] in known or every in known)))

    return rebuild(type, close)


def _loose_ties(type: ir.Type, dims: Mapping[str, tuple[str, ...]], every: str) -> Iterator[str]:
    """Ties to a dim that no class in the type has."""
    found = list(ir.nodes(type))
    for name in dict.fromkeys(name for node in found for name, _ in node.ties if name not in (every, OWN)):
        tied = [node.cls for node in found if name in dict(node.ties)]
        if not any(name in dims[cls] or every in dims[cls] for cls in tied):
            known = ", ".join(dims[tied[0]]) or "none"
            yield f"Dims({name}=...): {tied[0]} has no dim {name!r}; its dims: {known}"


def _definitions(cls: ir.Class, place_of: Callable[[str], str], problems: list[str]) -> tuple[tuple[str, Expr], ...]:
    """Labels define a name once: `d=3` on one axis and `d=4` on another is a mistake."""
    found: dict[str, Expr] = {}
    for field in cls.fields:
        for dim in (dim for type in ir.every_type(field.type) for dim in ir.own_dims(type)):
            if dim.label is None or dim.size == Name(dim.label):
                continue
            if found.setdefault(dim.label, dim.size) != dim.size:
                problems.append(
                    f"{place_of(cls.id)}.{field.name}: dim {dim}: {dim.label} is {found[dim.label]} on another axis; give one of them another label"
                )
    for label, size in found.items():
        if label in _reached(size, found):
            problems.append(
                f"{place_of(cls.id)}: dim {label}={size}: {label} is defined by itself; define it by other dims"
            )
    return tuple(sorted(found.items()))


def _reached(size: Expr, defined: Mapping[str, Expr]) -> set[str]:
    """Every name that a size depends on, through definitions."""
    reached: set[str] = set()
    pending = list(names(size))
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += names(defined[name]) if name in defined else []
    return reached


def _endless(schema: ir.Schema, place_of: Callable[[str], str]) -> Iterator[str]:
    """Classes that cannot be built because every instance needs another one first."""
    needs = {
        cls.id: {node.cls: field.name for field in cls.fields for node in _needed(field.type)} for cls in schema.classes
    }
    for cls in schema.classes:
        for child, name in needs[cls.id].items():
            reached, pending = set(), [child]
            while pending:
                one = pending.pop()
                if one not in reached:
                    reached.add(one)
                    pending += needs[one]
            if cls.id in reached:
                yield f"{place_of(cls.id)}.{name}: {cls.qualname} contains itself; break the circle with X | None or list[X]"


def _needed(type: ir.Type) -> Iterator[ir.Node]:
    """The classes that every value of the type has an instance of."""
    if isinstance(type, ir.Node):
        yield type
    elif isinstance(type, (ir.Tuple, ir.Partial)):
        for part in ir.children(type):
            yield from _needed(part)
    elif not isinstance(type, (ir.Leaf, ir.Sequence, ir.Dict, ir.Optional)):
        assert_never(type)
