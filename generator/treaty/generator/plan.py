"""Decides what a generated module contains; the templates only lay it out."""

import json
import re
from collections.abc import Iterable, Mapping

from attrs import frozen

from treaty.generator import _expressions as ex
from treaty.generator._dims_plan import Path, look_around, size_text, solve, sure_path
from treaty.generator._layout import WIDTH, Call, Expression, Keyword, Text, lay_out
from treaty.generator._module_scope import ModuleScope
from treaty.generator._names import in_docstring, is_name, literal, local, short
from treaty.schema import ir
from treaty.schema.dims import definition_order, names
from treaty.schema.dtypes import BY_NAME
from treaty.schema.ir_json import class_to_data


@frozen
class StateField:
    key: str
    literal: str
    type: str


@frozen
class Peek:
    """A function that looks for a dim that a valid state may lack."""

    signature: list[str]
    body: list[str]


@frozen
class Record:
    """One class as the templates see it: names, and functions as lines."""

    title: str
    state_name: str
    state_fields: list[StateField]
    by_call: bool  # TypedDict("X", {...}), for keys that cannot be lines of a class
    write_signature: list[str]
    write: list[str]
    peeks: list[Peek]
    new: list[str]  # the constructor, for attrs classes
    read_signature: list[str]
    read: list[str]
    registered: bool
    from_signature: list[str]
    build: list[str]
    abstract_signature: list[str]
    abstract: list[str]
    register: list[str]


@frozen
class ModulePlan:
    source: str
    command: str
    imports: list[tuple[str, str]]
    injected: bool
    dtypes: list[tuple[str, str]]
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
) -> ModulePlan:
    """The plan of one generated module: the code of its roots and of what they use.

    `generated` maps modules of used classes to where their code lives; with `inject` all code is in this one.
    """
    scope = ModuleScope.of(module, tuple(roots), tuple(classes), generated, inject)
    records = [_record(scope, cls) for cls in scope.emitted]
    return ModulePlan(
        source=module,
        command=f"treaty generate {module}",
        imports=sorted(scope.imports().items()),
        injected=inject,
        dtypes=sorted((f"_{dtype}", _dtype_source(dtype)) for dtype in scope.dtypes),
        records=records,
        schema_lines=_schema_lines(scope.own_classes),
        uses=scope.used_schemas(),
    )


def _record(scope: ModuleScope, cls: ir.Class) -> Record:
    stem, title = scope.stems[cls.id]
    state_name, object_type = f"{title}State", ex.class_type(scope, cls)
    fields = [StateField(one.key, literal(one.key), ex.state_type(scope, one.type)) for one in cls.fields]
    dims = [f"{local(dim)}: int | None = None" for dim in cls.dims]
    sizes = [f"{local(size)}: int" for size in scope.sizes[cls.id]]
    registered = cls.kind in ("state", "attrs", "namedtuple", "typeddict")
    return Record(
        title=in_docstring(short(cls.id)),
        state_name=state_name,
        state_fields=fields,
        by_call=_by_call(fields),
        write_signature=_signature(f"{stem}_to_state_dict", [f"obj: {object_type}"], state_name),
        write=_write(scope, cls),
        peeks=_peeks(scope, cls, stem, state_name),
        new=_new(stem, object_type) if cls.kind in ("state", "attrs") else [],
        read_signature=_signature(f"{stem}_read", [f"state: {state_name}", "put: _codec.Put", *dims], object_type),
        read=_read(scope, cls),
        registered=registered,
        from_signature=_signature(
            f"{stem}_from_state_dict", [f"state: {state_name}", *(["*", *dims] if dims else [])], object_type
        ),
        build=_build(cls, stem),
        abstract_signature=_signature(f"{stem}_abstract", sizes, object_type),
        abstract=[] if scope.unsized[cls.id] else _abstract(scope, cls),
        register=_register(scope, cls, stem, object_type) if registered else [],
    )


def _by_call(fields: list[StateField]) -> bool:
    """Whether a key cannot be a line of a class body: no name, or one that Python changes, or that the types use."""
    used = {word for one in fields for word in re.findall(r"\w+", one.type)}
    return any(not is_name(one.key) or one.key.startswith("__") or one.key in used for one in fields)


def _signature(name: str, parameters: list[str], returns: str) -> list[str]:
    return lay_out("", Call(f"def {name}", tuple(map(Text, parameters))), f" -> {returns}:", 0)


def _new(stem: str, object_type: str) -> list[str]:
    return lay_out(f"{stem}_new = ", Call("_codec.constructor", (Text(object_type),)), "", 0)


def _write(scope: ModuleScope, cls: ir.Class) -> list[str]:
    guard = []
    if cls.kind == "partial":
        guard = [f"_codec.check_partial(obj, {scope.symbol(cls.symbol)})"]
    elif cls.kind == "tuple":
        guard = [f"_codec.check_tuple(obj, {len(cls.fields)})"]
    elif cls.kind in ("typeddict", "keywords"):
        guard = [f"_codec.check_keys(obj, {len(cls.fields)})"]
    else:
        symbol = scope.symbol(cls.symbol)
        guard = [f"if type(obj) is not {symbol}:", f"    raise _codec.other_class(obj, {symbol})"]
    values = {one.key: ex.write(scope, one.type, _attribute(cls, one)) for one in cls.fields}
    return [*guard, *_entries(values)]


def _attribute(cls: ir.Class, one: ir.Field) -> str:
    if cls.kind in ("typeddict", "keywords"):
        return f"obj[{literal(one.name)}]"
    if cls.kind == "foreign":
        return f"_codec.attribute(obj, {literal(one.name)})"
    return f"obj[{one.name}]" if cls.kind == "tuple" else f"obj.{one.name}"


def _peeks(scope: ModuleScope, cls: ir.Class, stem: str, state_name: str) -> list[Peek]:
    return [
        Peek(
            _signature(f"{stem}_peek_{dim}", [f"state: {state_name}"], "int | None"),
            look_around(scope.schema, cls, dim, scope.peek),
        )
        for dim in sorted(scope.unsure[cls.id])
    ]


def _read(scope: ModuleScope, cls: ir.Class) -> list[str]:
    unsure = scope.unsure[cls.id]
    defined = dict(cls.definitions)
    count = len(cls.fields)
    lines = [f"if type(state) is not dict or len(state) != {count}:", "    raise _codec.Mismatch"]
    if not count:
        lines = ["_codec.empty(state)"]
    for dim in cls.dims:
        if dim not in defined:
            path = sure_path(scope.schema, cls, dim)
            lines.append(f"if {local(dim)} is None:")
            lines += [f"    {local(dim)} = {scope.peek(cls.id, dim)}(state)"] if path is None else _from_path(dim, path)
    for dim in definition_order(defined):
        lines.append(f"{local(dim)} = _codec.defined({local(dim)}, {size_text(defined[dim], unsure)})")
    values = {one.name: ex.read(scope, one.type, f"state[{literal(one.key)}]", unsure) for one in cls.fields}
    return [*lines, *_construct(scope, cls, values)]


def _from_path(dim: str, path: Path) -> list[str]:
    """`dim = <path>`, by way of a local where one line is too long."""
    start, steps = "state", list(path.steps)
    lines: list[str] = []
    while True:
        at = start + "".join(steps)
        size = f"len({at})" if path.length else at
        line = f"    {local(dim)} = {solve(size, path.a, path.b)}"
        if len(line) + 4 <= WIDTH:
            return [*lines, line]
        if len(steps) <= 2:
            return [*lines, f"    size = {size}", f"    {local(dim)} = {solve('size', path.a, path.b)}"]
        taken = steps.pop(0)
        while len(steps) > 2 and len(f"{start}{taken}{steps[0]}") + 20 <= WIDTH:
            taken += steps.pop(0)
        lines.append(f"    at{len(lines)} = {start}{taken}")
        start = f"at{len(lines) - 1}"


def _construct(scope: ModuleScope, cls: ir.Class, values: Mapping[str, Expression]) -> list[str]:
    """`return Cls(a=..., b=...)` in the form that the kind of class wants."""
    if cls.kind == "tuple":
        return _exploded("return (", list(values.values()), ")") if len(values) != 1 else _alone(*values.values())
    if cls.kind == "partial":
        args = [Text(scope.symbol(cls.symbol)), values["args"], values["keywords"]]
        return _exploded("return _codec.partial(", args, ")")
    if cls.kind in ("typeddict", "keywords"):
        return _entries(values)
    by_name: list[Expression] = [Keyword(one.alias, values[one.name]) for one in cls.fields]
    if cls.kind == "foreign":
        return _exploded("return _codec.construct(", [Text(scope.symbol(cls.symbol)), *by_name], ")")
    new = f"{scope.stems[cls.id][0]}_new" if cls.kind in ("state", "attrs") else scope.symbol(cls.symbol)
    return _exploded(f"return {new}(", by_name, ")")


def _build(cls: ir.Class, stem: str) -> list[str]:
    given = Call("", tuple(Text(f"{literal(dim)}: {local(dim)}") for dim in cls.dims), "{}")
    call = Call("_codec.build", (Text(f"{stem.upper()}_CODEC"), Text("state"), given))
    return [line[4:] for line in lay_out("return ", call, "", 4)]


def _abstract(scope: ModuleScope, cls: ir.Class) -> list[str]:
    defined = dict(cls.definitions)
    used = {name for size in (*ir.sizes(cls), *defined.values()) for name in names(size)}
    untied = {
        name
        for one in cls.fields
        for node in ir.nodes(one.type)
        for name in scope.sizes[node.cls]
        if name not in dict(node.ties)
    }
    lines = [
        f"{local(dim)} = {size_text(defined[dim], frozenset())}"
        for dim in definition_order(defined)
        if dim in used | untied
    ]
    values = {one.name: ex.abstract(scope, cls.id, one.type, one.default) for one in cls.fields}
    if cls.kind in ("state", "attrs"):
        named: list[Expression] = [Keyword(name, value) for name, value in values.items()]
        return [*lines, *_exploded("return _codec.blank(", [Text(scope.symbol(cls.symbol)), *named], ")")]
    return [*lines, *_construct(scope, cls, values)]


def _register(scope: ModuleScope, cls: ir.Class, stem: str, object_type: str) -> list[str]:
    unsized = scope.unsized[cls.id]
    args: list[Expression] = [
        Text(object_type),
        Text(literal(cls.id)),
        Text("schemas=SCHEMA"),
        Text(f"digest={literal(scope.declared.at(cls.id).digest)}"),
        Text(f"write={stem}_to_state_dict"),
        Text(f"read={stem}_read"),
        Text(f"unsized={literal('$' + unsized)}" if unsized else f"abstract={stem}_abstract"),
    ]
    tuples = {"dims": cls.dims, "sizes": () if unsized else scope.sizes[cls.id]}
    if cls.kind in ("state", "attrs"):
        tuples["children"] = tuple(one.name for one in cls.fields if not one.static)
        tuples["static"] = tuple(one.name for one in cls.fields if one.static)
    for name, values in tuples.items():
        if values or name == "children":
            args.append(Keyword(name, Call("", tuple(Text(literal(value)) for value in values))))
    inner = [line for arg in args for line in lay_out("", arg, ",", 4)]
    return [f"{stem.upper()}_CODEC = _codec.register(", *inner, ")"]


def _exploded(head: str, args: list[Expression], tail: str) -> list[str]:
    """A bracket with one argument a line; nothing in it: on one line."""
    if not args:
        return [f"{head}{tail}"]
    return [head, *(line[4:] for arg in args for line in lay_out("", arg, ",", 8)), tail]


def _alone(value: Expression) -> list[str]:
    return [line[4:] for line in lay_out("return ", Call("", (value,)), "", 4)]


def _entries(values: Mapping[str, Expression]) -> list[str]:
    if not values:
        return ["return {}"]
    lines = [line[4:] for key, value in values.items() for line in lay_out(f"{literal(key)}: ", value, ",", 8)]
    return ["return {", *lines, "}"]


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
