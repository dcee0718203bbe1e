"""The schema IR: what a declaration means, frozen, with one JSON form and one digest.

`docs/schema-ir.md` describes the JSON. The reader (`_read.py`) makes it, everything else consumes it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Final

import attrs
from attrs import frozen

from treaty.schema._errors import NewerSchemaError, SchemaError
from treaty.schema.dims import Dim, Expr, parse_dim, parse_expr

FORMAT: Final = 1
KINDS: Final = ("state", "attrs", "namedtuple", "typeddict", "foreign", "keywords")


@frozen
class Array:
    """A jax.Array, or a np.ndarray where `host`."""

    KIND: ClassVar = "array"
    dtype: str
    dims: tuple[Dim, ...]
    host: bool = False


@frozen
class Key:
    """A typed PRNG key array; `impl` None takes any implementation."""

    KIND: ClassVar = "key"
    dims: tuple[Dim, ...]
    impl: str | None = None


@frozen
class Scalar:
    """A Python int, float, bool, str, bytes, complex or None."""

    KIND: ClassVar = "scalar"
    type: str


@frozen
class NumpyScalar:
    KIND: ClassVar = "numpy_scalar"
    dtype: str


@frozen
class Enum:
    """An enum member, stored by its name."""

    KIND: ClassVar = "enum"
    symbol: str
    members: tuple[str, ...]


@frozen
class Node:
    """An instance of a class of the schema; `ties` give its dims in terms of the owner's."""

    KIND: ClassVar = "node"
    cls: str
    ties: tuple[tuple[str, Expr], ...] = ()


@frozen
class Sequence:
    """A list, or `tuple[X, ...]` where `immutable`."""

    KIND: ClassVar = "sequence"
    item: "Type"
    immutable: bool
    length: Expr | None = None


@frozen
class Tuple:
    KIND: ClassVar = "tuple"
    items: "tuple[Type, ...]"


@frozen
class Dict:
    """A dict with str or int keys, stored by their string form."""

    KIND: ClassVar = "dict"
    key: str
    value: "Type"
    length: Expr | None = None


@frozen
class Optional:
    KIND: ClassVar = "optional"
    item: "Type"


@frozen
class Partial:
    """A jax.tree_util.Partial of one known function; its arguments are stored, the function is not."""

    KIND: ClassVar = "partial"
    func: str
    args: Tuple
    keywords: Node


@frozen
class Untyped:
    """A subtree left unchecked on purpose."""

    KIND: ClassVar = "untyped"


Type = Array | Key | Scalar | NumpyScalar | Enum | Node | Sequence | Tuple | Dict | Optional | Partial | Untyped
_TYPES: Final[Mapping[str, Any]] = {
    cls.KIND: cls
    for cls in (Array, Key, Scalar, NumpyScalar, Enum, Node, Sequence, Tuple, Dict, Optional, Partial, Untyped)
}


@frozen
class Field:
    """One field. `key` is its identity on disk; `name` and `alias` are how Python reads and builds it."""

    key: str
    name: str
    alias: str
    type: Type
    static: bool = False
    default: str | None = None  # canonical text of the default, or factory:module:name


@frozen
class Class:
    """One class, its generic arguments filled in. `kind`: state, attrs, namedtuple, typeddict, foreign or keywords."""

    id: str
    symbol: str
    kind: str
    dims: tuple[str, ...]
    fields: tuple[Field, ...]
    version: int = 1
    args: tuple[Type, ...] = ()
    definitions: tuple[tuple[str, Expr], ...] = ()  # from labels: d_ff=4*d_model

    @property
    def module(self) -> str:
        return self.symbol.partition(":")[0]

    @property
    def qualname(self) -> str:
        return self.symbol.partition(":")[2]


@frozen(slots=False)
class Schema:
    """A root class and every class it reaches."""

    root: str
    classes: tuple[Class, ...]

    def __getitem__(self, id: str) -> Class:
        return self._by_id[id]

    @property
    def root_class(self) -> Class:
        return self[self.root]

    @cached_property
    def _by_id(self) -> dict[str, Class]:
        return {cls.id: cls for cls in self.classes}

    def at(self, root: str) -> "Schema":
        """The schema of one of the classes: that class first, then what it reaches, in field order."""
        reached = {root: None}
        self._reach(root, reached)
        return Schema(root, tuple(self[id] for id in reached))

    def _reach(self, id: str, reached: dict[str, None]) -> None:
        for field in self[id].fields:
            for node in nodes(field.type):
                if node.cls not in reached:
                    reached[node.cls] = None
                    self._reach(node.cls, reached)

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, ASCII; `from_json` reads it back equal."""
        data = {"treaty": FORMAT, "root": self.root, "classes": [class_to_data(cls) for cls in self.classes]}
        return _dump(data)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Schema":
        try:
            data = json.loads(text)
            if type(data["treaty"]) is int and data["treaty"] > FORMAT:
                raise NewerSchemaError(f"format {data['treaty']}, this one reads up to {FORMAT}")
            if data["treaty"] != FORMAT:
                raise SchemaError(f"schema: expected format {FORMAT}, got {data['treaty']!r}")
            return cls(data["root"], tuple(class_from_data(one) for one in data["classes"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SchemaError(f"schema: not a schema in JSON form: {error}") from error

    @cached_property
    def digest(self) -> str:
        """Changes when what is stored changes; not with field order, Python names, or class names."""
        reached = list(self._by_key_order())
        order = {cls.id: f"#{i}" for i, cls in enumerate(reached)}
        classes = []
        for cls in reached:
            data = class_to_data(cls)
            for unstored in ("id", "symbol", "args"):
                data.pop(unstored, None)
            data["kind"] = "class" if cls.kind in ("state", "attrs") else cls.kind
            data["dims"] = sorted(cls.dims)
            data["fields"] = sorted((_anonymous(field, order) for field in data["fields"]), key=lambda f: str(f["key"]))
            classes.append(data)
        return "sha256:" + hashlib.sha256(_dump(classes).encode()).hexdigest()

    def _by_key_order(self) -> Iterator[Class]:
        seen = {self.root: None}
        pending = [self.root]
        while pending:
            cls = self[pending.pop(0)]
            yield cls
            for field in sorted(cls.fields, key=lambda field: field.key):
                for node in nodes(field.type):
                    if node.cls not in seen:
                        seen[node.cls] = None
                        pending.append(node.cls)


def nodes(type: Type) -> Iterator[Node]:
    """Every class reference in a type, left to right."""
    if isinstance(type, Node):
        yield type
    for part in children(type):
        yield from nodes(part)


def children(type: Type) -> tuple[Type, ...]:
    """The types a container type is made of; () for leaves and class references."""
    if isinstance(type, (Sequence, Optional)):
        return (type.item,)
    if isinstance(type, Tuple):
        return type.items
    if isinstance(type, Dict):
        return (type.value,)
    if isinstance(type, Partial):
        return (type.args, type.keywords)
    return ()


def every_type(type: Type) -> Iterator[Type]:
    """A type and all it is made of."""
    yield type
    for part in children(type):
        yield from every_type(part)


def sizes(cls: Class) -> Iterator[Expr]:
    """Every size that the fields of a class mention."""
    for field in cls.fields:
        for type in every_type(field.type):
            if isinstance(type, (Array, Key)):
                yield from (dim.size for dim in type.dims)
            elif isinstance(type, (Sequence, Dict)) and type.length is not None:
                yield type.length
            elif isinstance(type, Node):
                yield from (size for _, size in type.ties)


def describe(type: Type) -> str:
    """A type in one short phrase, for messages."""
    if isinstance(type, Array):
        return f"{type.dtype}[{', '.join(map(str, type.dims))}]"
    if isinstance(type, Key):
        return f"{f'key<{type.impl}>' if type.impl else 'key'}[{', '.join(map(str, type.dims))}]"
    if isinstance(type, Scalar):
        return type.type
    if isinstance(type, NumpyScalar):
        return f"numpy {type.dtype}"
    if isinstance(type, Enum):
        return type.symbol
    if isinstance(type, Node):
        ties = [f"{name}={size}" for name, size in type.ties]
        return type.cls + (f"({', '.join(ties)})" if ties else "")
    if isinstance(type, Sequence):
        return f"tuple[{describe(type.item)}, ...]" if type.immutable else f"list[{describe(type.item)}]"
    if isinstance(type, Tuple):
        return f"tuple[{', '.join(map(describe, type.items)) or '()'}]"
    if isinstance(type, Dict):
        return f"dict[{type.key}, {describe(type.value)}]"
    if isinstance(type, Optional):
        return f"{describe(type.item)} | None"
    if isinstance(type, Partial):
        return f"Partial[{type.func}]"
    return "untyped"


def class_to_data(cls: Class) -> dict[str, Any]:
    """A class as JSON data; what follows from the rest is left out: symbol = id, name = key, alias = name."""
    data = _plain(cls)
    if cls.symbol == cls.id:
        del data["symbol"]
    data["fields"] = [_field_to_data(field) for field in cls.fields]
    return data


def _field_to_data(field: Field) -> dict[str, Any]:
    data = _plain(field)
    if field.alias == field.name:
        del data["alias"]
    if field.name == field.key:
        del data["name"]
    return data


def class_from_data(data: Mapping[str, Any]) -> Class:
    _check_members(data, Class)
    if data["kind"] not in KINDS:
        raise NewerSchemaError(f"a class of kind {str(data['kind'])[:40]!r}, which this one does not know")
    return Class(
        id=data["id"],
        symbol=data.get("symbol", data["id"]),
        kind=data["kind"],
        dims=tuple(data.get("dims", ())),
        fields=tuple(_field_from_data(one) for one in data["fields"]),
        version=data.get("version", 1),
        args=tuple(_type_from_data(one) for one in data.get("args", ())),
        definitions=tuple((name, parse_expr(size)) for name, size in data.get("definitions", {}).items()),
    )


def _field_from_data(data: Mapping[str, Any]) -> Field:
    _check_members(data, Field)
    name = data.get("name", data["key"])
    return Field(
        key=data["key"],
        name=name,
        alias=data.get("alias", name),
        type=_type_from_data(data["type"]),
        static=data.get("static", False),
        default=data.get("default"),
    )


def _check_members(data: Mapping[str, Any], cls: Any) -> None:
    """The digest covers every member: one that is not known cannot be left aside."""
    for name in data:
        if name not in attrs.fields_dict(cls) and not (name == "kind" and hasattr(cls, "KIND")):
            raise NewerSchemaError(f"with {name[:40]!r} in a {cls.__name__.lower()}, which this one does not know")


def _plain(value: Any) -> dict[str, Any]:
    """An attrs instance as JSON data; attributes at their default are left out."""
    data: dict[str, Any] = {"kind": value.KIND} if hasattr(value, "KIND") else {}
    for attribute in attrs.fields(type(value)):
        found = getattr(value, attribute.name)
        if found != attribute.default:
            data[attribute.name] = _encode(attribute.name, found)
    return data


def _encode(name: str, value: Any) -> Any:
    if name in ("ties", "definitions"):
        return {dim: str(size) for dim, size in value}
    if isinstance(value, tuple):
        return [_encode("", one) for one in value]
    if value is None or isinstance(value, (str, int)):
        return value
    return _plain(value) if hasattr(value, "KIND") else str(value)


def _type_from_data(data: Mapping[str, Any]) -> Type:
    values = dict(data)
    kind = values.pop("kind")
    if kind not in _TYPES:
        raise NewerSchemaError(f"a type of kind {str(kind)[:40]!r}, which this one does not know")
    cls = _TYPES[kind]
    _check_members(values, cls)
    for name, value in values.items():
        if name == "dims":
            values[name] = tuple(map(parse_dim, value))
        elif name == "ties":
            values[name] = tuple((dim, parse_expr(size)) for dim, size in value.items())
        elif name == "length":
            values[name] = parse_expr(value)
        elif name == "items":
            values[name] = tuple(map(_type_from_data, value))
        elif name in ("item", "value", "args", "keywords"):
            values[name] = _type_from_data(value)
        elif name == "members":
            values[name] = tuple(value)
    made: Type = cls(**values)
    return made


def _anonymous(data: Any, order: Mapping[str, str]) -> Any:
    """A field without its Python names, class references replaced by their place in the traversal."""
    if isinstance(data, dict):
        anonymous = {
            key: order[value] if key == "cls" else value if key == "ties" else _anonymous(value, order)
            for key, value in data.items()
            if key not in ("name", "alias", "symbol", "host")
        }
        return anonymous
    if isinstance(data, list):
        return [_anonymous(one, order) for one in data]
    return data


def _dump(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
