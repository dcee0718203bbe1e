"""Decides what a generated module contains; the templates only lay it out."""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import assert_never, get_args

from attrs import frozen

from treaty.generator import _expressions as ex
from treaty.generator._changes import Changes, changes_of
from treaty.generator._dims_plan import Look, Path, looks, size_text, solve, sure_path
from treaty.generator._layout import WIDTH, Call, Expression, Text
from treaty.generator._module_scope import ModuleScope
from treaty.generator._names import (
    ORDERED,
    TypedEntry,
    gathered_locals,
    in_docstring,
    is_by_call,
    literal,
    local,
    short,
)
from treaty.schema import ir
from treaty.schema.dims import definition_order, names
from treaty.schema.dtypes import BY_NAME
from treaty.schema.ir_json import class_to_data
from treaty.schema.sources import sources


@frozen
class StateEntry(TypedEntry):
    """One entry of the state dict, and how it is written. Where it is spread, it is many: `written` is the call that adds them."""

    written: Expression
    spread: bool


@frozen
class Gathered:
    """A local with the items of a spread field: its type to mypy, and the key text as source."""

    local: str
    type: str
    literal: str


@frozen
class DimName:
    literal: str
    local: str


@frozen
class Bound:
    """A dim and its value; `steps` are names and values that are bound on the way to it."""

    local: str
    value: str
    steps: tuple[tuple[str, str], ...] = ()


@frozen
class Peek:
    """A function that looks for a dim that a valid state may lack."""

    dim: str
    gathered: list[Gathered]
    looks: list[Look]

    @property
    def is_sure(self) -> bool:
        """Whether the last look never fails: what it looks at is gathered, and so has no path of its own."""
        return bool(self.looks) and not self.looks[-1].guards and not self.looks[-1].below


@frozen
class Made:
    """A value that is built: `opening label value, ... closing`."""

    opening: str | Expression
    parts: list[tuple[str, Expression]]
    closing: str


@frozen
class Abstract:
    sizes: list[str]
    defined: list[Bound]
    made: Made


@frozen
class Record:
    """One class as the templates see it: names and expressions."""

    id: str
    title: str
    beside: str  # after the title: where the items of spread fields are
    stem: str
    codec: str
    symbol: str
    type: str
    state_name: str
    by_call: bool  # TypedDict("X", {...}), for keys that cannot be lines of a class
    fields: list[StateEntry]
    gathered: list[Gathered]
    count: str  # how many entries a state has, as source; "" where it has none
    check: str  # what refuses other values than those of a type without a class of its own; "" for classes
    peeks: list[Peek]
    has_constructor: bool
    dims: list[DimName]
    found: list[Bound]
    defined: list[Bound]
    read: Made
    abstract: Abstract | None
    changes: Changes | None  # of a class of this module
    unsized: str
    registered: bool
    digest: str
    revision: int | None  # in the lock
    names: list[tuple[str, Expression]]  # of dims and of attributes, for the registration


@frozen
class ModulePlan:
    source: str
    imports: list[tuple[str, str]]
    injected: bool
    dtypes: list[tuple[str, str]]
    types: list[tuple[str, Expression]]
    records: list[Record]
    schema_lines: list[str]
    uses: list[str]


def plan_module(
    module: str,
    roots: Iterable[str],
    classes: Iterable[ir.Class],
    generated: Mapping[str, str],
    *,
    inject: bool = False,
    revisions: Mapping[str, int] = MappingProxyType({}),
) -> ModulePlan:
    """The plan of one generated module: the code of its roots and of what they use.

    `generated` maps modules of used classes to where their code lives; with `inject` all code is in this one. `revisions` are
    those of the present declarations, by symbol, where they are locked.
    """
    scope = ModuleScope.of(module, tuple(roots), tuple(classes), generated, inject)
    records = [_record(scope, cls, revisions.get(cls.symbol)) for cls in scope.emitted]
    return ModulePlan(
        source=module,
        imports=sorted(scope.imports().items()),
        injected=inject,
        dtypes=sorted((f"_{dtype}", _dtype_source(dtype)) for dtype in scope.dtypes),
        types=[(name, type) for name, (_, type) in scope.types.items()],
        records=records,
        schema_lines=_schema_lines(scope.own_classes),
        uses=scope.used_schemas(),
    )


def _record(scope: ModuleScope, cls: ir.Class, revision: int | None) -> Record:
    stem, title = scope.stems[cls.id]
    unsized = scope.unsized[cls.id]
    registered = cls.kind in get_args(ir.DeclaredKind)
    fields = [_field(scope, cls, one) for one in cls.fields]
    gathered = _gathered(scope, cls)
    check = _check(scope, cls)
    return Record(
        id=literal(cls.id),
        title=in_docstring(short(cls.symbol if cls.kind == "foreign" else cls.id)),
        beside=_beside(cls),
        stem=stem,
        codec=f"{stem.upper()}_CODEC",
        symbol="" if check else scope.symbol(cls.symbol),
        type=ex.class_type(scope, cls),
        state_name=f"{title}State",
        by_call=is_by_call(one for one in fields if not one.spread),
        fields=fields,
        gathered=list(gathered.values()),
        count=_count(fields, gathered.values()),
        check=check,
        peeks=[_peek(scope, cls, dim, gathered) for dim in sorted(scope.unsure[cls.id])],
        has_constructor=_is_attrs(cls),
        dims=[DimName(literal(dim), local(dim)) for dim in cls.dims],
        found=_found(scope, cls),
        defined=_defined(cls, scope.unsure[cls.id]),
        read=_read(scope, cls),
        abstract=None if unsized else _abstract(scope, cls),
        changes=changes_of(scope, cls),
        unsized=literal(f"${unsized}"),
        registered=registered,
        digest=literal(scope.declared.at(cls.id).digest) if registered else "",
        revision=revision,
        names=_names(scope, cls) if registered else [],
    )


def _field(scope: ModuleScope, cls: ir.Class, one: ir.Field) -> StateEntry:
    # What the annotation of a FromInit says, which may be anything, is not the type that init says.
    at = f"_codec.attribute(obj, {literal(one.name)})" if one.init else _attribute(cls, one)
    written = ex.write(scope, one.type, at)
    if one.spread:
        written = Call("_codec.spread_into", (Text("state"), Text(literal(one.key)), written))
    return StateEntry(one.key, ex.state_type(scope.state_name, one.type), written, one.spread)


def _beside(cls: ir.Class) -> str:
    spread = [f"{in_docstring(one.name)} are in {in_docstring(one.key)}" for one in cls.fields if one.spread]
    return f"; {', '.join(spread)}" if spread else ""


def _gathered(scope: ModuleScope, cls: ir.Class) -> dict[str, Gathered]:
    """By key, what is gathered before a state is read."""
    return {
        one.key: Gathered(name, ex.state_type(scope.state_name, one.type), literal(one.key))
        for one in cls.fields
        if (name := gathered_locals(cls).get(one.key)) is not None
    }


def _count(fields: Iterable[StateEntry], gathered: Iterable[Gathered]) -> str:
    plain = sum(not one.spread for one in fields)
    return " + ".join([*([str(plain)] if plain else []), *(f"len({one.local})" for one in gathered)])


def _peek(scope: ModuleScope, cls: ir.Class, dim: str, gathered: Mapping[str, Gathered]) -> Peek:
    used = [gathered[key] for key in dict.fromkeys(one.key for one in sources(scope.schema, cls, dim) if one.spread)]
    found: list[Look] = []
    for look in looks(scope.schema, cls, dim, scope.peek):
        found.append(look)
        if not look.guards and not look.below:
            break
    return Peek(dim, used, found)


def _is_attrs(cls: ir.Class) -> bool:
    return cls.kind in ("state", "attrs")


def _check(scope: ModuleScope, cls: ir.Class) -> str:
    match cls.kind:
        case "partial":
            return f"_codec.check_partial(obj, {scope.symbol(cls.symbol)})"
        case "tuple":
            return f"_codec.check_tuple(obj, {len(cls.fields)})"
        case "typeddict" | "keywords":
            return f"_codec.check_keys(obj, {len(cls.fields)})"
        case "state" | "attrs" | "namedtuple" | "foreign":
            return ""
        case _:
            assert_never(cls.kind)


def _attribute(cls: ir.Class, one: ir.Field) -> str:
    match cls.kind:
        case "typeddict" | "keywords":
            return f"obj[{literal(one.name)}]"
        case "foreign":
            return f"_codec.attribute(obj, {literal(one.name)})"
        case "tuple":
            return f"obj[{one.name}]"
        case "state" | "attrs" | "namedtuple" | "partial":
            return f"obj.{one.name}"
        case _:
            assert_never(cls.kind)


def _found(scope: ModuleScope, cls: ir.Class) -> list[Bound]:
    """The dims that the data gives: from a path that is surely there, or by the function that looks around."""
    found: list[Bound] = []
    for dim in cls.dims:
        path = sure_path(scope.schema, cls, dim)
        if dim in dict(cls.definitions):
            continue
        if path is None:
            found.append(Bound(local(dim), f"{scope.peek(cls.id, dim)}(state)"))
        else:
            # Each local has a name of its own: to mypy a name has one type in a function.
            found.append(_from_path(local(dim), path, sum(len(one.steps) for one in found)))
    return found


def _from_path(name: str, path: Path, number: int) -> Bound:
    """The value at a path, by way of locals, numbered from `number` on, where one line is too long."""
    start, steps = "state", list(path.steps)
    bound: list[tuple[str, str]] = []
    while True:
        at = start + "".join(steps)
        size = f"len({at})" if path.length else at
        value = solve(size, path.a, path.b)
        if len(f"        {name} = {value}") <= WIDTH:
            return Bound(name, value, tuple(bound))
        if len(steps) <= 2:
            return Bound(name, solve("size", path.a, path.b), (*bound, ("size", size)))
        taken = steps.pop(0)
        while len(steps) > 2 and len(f"{start}{taken}{steps[0]}") + 20 <= WIDTH:
            taken += steps.pop(0)
        bound.append((f"at{number + len(bound)}", f"{start}{taken}"))
        start = bound[-1][0]


def _defined(cls: ir.Class, unsure: frozenset[str] = frozenset()) -> list[Bound]:
    """The dims that labels define, each after those it uses."""
    defined = dict(cls.definitions)
    return [Bound(local(dim), size_text(defined[dim], unsure)) for dim in definition_order(defined)]


def _read(scope: ModuleScope, cls: ir.Class) -> Made:
    unsure = scope.unsure[cls.id]
    gathered = gathered_locals(cls)
    places = {one.name: gathered.get(one.key) or f"state[{literal(one.key)}]" for one in cls.fields}
    values = {one.name: ex.read(scope, one.type, places[one.name], unsure) for one in cls.fields}
    return _made(scope, cls, values)


def _made(scope: ModuleScope, cls: ir.Class, values: Mapping[str, Expression]) -> Made:
    """An instance with these values of its fields, in the form that its kind of class wants."""
    by_name = [(f"{one.alias}=", values[one.name]) for one in cls.fields]
    match cls.kind:
        case "state" | "attrs":
            return Made(f"{scope.stems[cls.id][0]}_new(", by_name, ")")
        case "namedtuple":
            return Made(f"{scope.symbol(cls.symbol)}(", by_name, ")")
        case "foreign":
            return Made("_codec.construct(", [("", Text(scope.symbol(cls.symbol))), *by_name], ")")
        case "keywords" if cls.symbol == ORDERED:
            pairs: list[tuple[str, Expression]] = []
            pairs += [("", Call("", (Text(literal(name)), value))) for name, value in values.items()]
            return Made("_codec.ordered(", pairs, ")")
        case "typeddict" | "keywords":
            return Made("{", [(f"{literal(name)}: ", value) for name, value in values.items()], "}")
        case "partial":
            given = [("", Text(scope.symbol(cls.symbol))), *(("", value) for value in values.values())]
            return Made("_codec.partial(", given, ")")
        case "tuple":
            if len(values) == 1:  # the comma after it does not keep its brackets apart
                return Made(Call("", tuple(values.values())), [], "")
            return Made("(", [("", value) for value in values.values()], ")")
        case _:
            assert_never(cls.kind)


def _abstract(scope: ModuleScope, cls: ir.Class) -> Abstract:
    defined = dict(cls.definitions)
    used = {name for size in (*ir.sizes(cls), *defined.values()) for name in names(size)}
    for one in cls.fields:
        for node in ir.nodes(one.type):
            used |= {*scope.sizes[node.cls]} - {*dict(node.ties)}
    values = {one.name: ex.abstract(scope, cls.id, one.type, one.default) for one in cls.fields}
    given = [(f"{name}=", value) for name, value in values.items()]
    return Abstract(
        sizes=[local(size) for size in scope.sizes[cls.id]],
        defined=[known for dim, known in zip(definition_order(defined), _defined(cls), strict=True) if dim in used],
        made=(
            Made("_codec.blank(", [("", Text(scope.symbol(cls.symbol))), *given], ")")
            if _is_attrs(cls)
            else _made(scope, cls, values)
        ),
    )


def _names(scope: ModuleScope, cls: ir.Class) -> list[tuple[str, Expression]]:
    given: dict[str, Iterable[str]] = {
        "dims": cls.dims,
        "sizes": () if scope.unsized[cls.id] else scope.sizes[cls.id],
    }
    if _is_attrs(cls):
        given["children"] = [one.name for one in cls.fields if not one.static]
        given["static"] = [one.name for one in cls.fields if one.static]
    tuples = {name: Call("", tuple(Text(literal(value)) for value in values)) for name, values in given.items()}
    return [(name, values) for name, values in tuples.items() if values.args or name == "children"]


def _dtype_source(dtype: str) -> str:
    """What np.dtype makes the dtype from: numpy knows its own names, ml_dtypes' only by class."""
    return literal(dtype) if BY_NAME[dtype].numpy.type.__module__ == "numpy" else f"_ml_dtypes.{dtype}"


def _schema_lines(classes: Iterable[ir.Class]) -> list[str]:
    """The IR as JSON with one field a line, so that a change shows as a change of one line."""
    texts = []
    for cls in classes:
        data = class_to_data(cls)
        fields = ",\n".join(f"  {json.dumps(one)}" for one in data.pop("fields"))
        texts.append(f' {json.dumps(data)[:-1]}, "fields": [\n{fields}\n ]}}')
    return ['{"treaty": 1, "root": "", "classes": [', *",\n".join(texts).splitlines(), "]}"]
