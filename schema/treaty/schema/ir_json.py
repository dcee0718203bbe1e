"""The JSON form of the schema IR, and the digest of what it says is stored. `docs/schema-ir.md` describes it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

import attrs

from treaty.schema._errors import NewerSchemaError, SchemaError
from treaty.schema.dims import Expr, Name, parse_dim, parse_expr
from treaty.schema.ir import EVERY, Class, Field, Schema, StoredKind, Type, nodes

FORMAT: Final = 1
_KINDS: Final = get_args(StoredKind)
_TYPES: Final[Mapping[str, Any]] = {cls.KIND: cls for cls in get_args(Type)}


def dump(schema: Schema) -> str:
    """Canonical JSON: sorted keys, no spaces, ASCII."""
    return canonical({"treaty": FORMAT, "root": schema.root, "classes": [class_to_data(cls) for cls in schema.classes]})


def load(text: str | bytes) -> Schema:
    try:
        data = json.loads(text)
        if type(data["treaty"]) is int and data["treaty"] > FORMAT:
            raise NewerSchemaError(f"format {data['treaty']}, this one reads up to {FORMAT}")
        if data["treaty"] != FORMAT:
            raise SchemaError(f"schema: expected format {FORMAT}, got {data['treaty']!r}")
        return Schema(data["root"], tuple(class_from_data(one) for one in data["classes"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SchemaError(f"schema: not a schema in JSON form: {error}") from error


def digest(schema: Schema) -> str:
    """Of the classes in the order of their fields' keys, without what is not stored: names, ids, the place of arrays,
    what a field or class was called before, and whose init says a type."""
    reached = list(by_key_order(schema))
    order = {cls.id: f"#{i}" for i, cls in enumerate(reached)}
    classes = []
    for cls in reached:
        data = class_to_data(cls)
        for unstored in ("id", "symbol", "args", "reserved"):
            data.pop(unstored, None)
        data["kind"] = "class" if cls.kind in ("state", "attrs") else cls.kind
        data["dims"] = sorted(cls.dims)
        data["fields"] = sorted((_anonymous(field, order) for field in data["fields"]), key=lambda f: str(f["key"]))
        classes.append(data)
    return digest_of(classes)


def class_to_data(cls: Class) -> dict[str, Any]:
    """A class as JSON data; what follows from the rest is left out: symbol = id, name = key, alias = name."""
    data = _plain(cls, without="fields")
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
    if data["kind"] not in _KINDS:
        raise NewerSchemaError(f"a class of kind {str(data['kind'])[:40]!r}, which this one does not know")
    values = {"symbol": data["id"], "dims": (), **data}
    values["fields"] = tuple(map(_field_from_data, data["fields"]))
    values["args"] = tuple(map(_type_from_data, data.get("args", ())))
    values["definitions"] = tuple((name, parse_expr(size)) for name, size in data.get("definitions", {}).items())
    return Class(**{name: _frozen(one) for name, one in values.items()})


def _field_from_data(data: Mapping[str, Any]) -> Field:
    _check_members(data, Field)
    name = data.get("name", data["key"])
    values = {"name": name, "alias": name, **data, "type": _type_from_data(data["type"])}
    return Field(**{name: _frozen(one) for name, one in values.items()})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_members(data: Mapping[str, Any], cls: Any) -> None:
    """The digest covers every member: one that is not known cannot be left aside."""
    for name in data:
        if name not in attrs.fields_dict(cls) and not (name == "kind" and hasattr(cls, "KIND")):
            raise NewerSchemaError(f"with {name[:40]!r} in a {cls.__name__.lower()}, which this one does not know")


def _plain(value: Any, without: str = "") -> dict[str, Any]:
    """An attrs instance as JSON data; attributes at their default are left out."""
    data: dict[str, Any] = {"kind": value.KIND} if hasattr(value, "KIND") else {}
    for attribute in attrs.fields(type(value)):
        found = getattr(value, attribute.name)
        if attribute.name != without and found != attribute.default:
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
            values[name] = tuple((dim, _tied(size)) for dim, size in value.items())
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


def _tied(size: str) -> Expr:
    return Name(EVERY) if size == EVERY else parse_expr(size)  # the mark, where type variables are not filled in


def by_key_order(schema: Schema) -> Iterator[Class]:
    seen = {schema.root: None}
    pending = [schema.root]
    while pending:
        cls = schema[pending.pop(0)]
        yield cls
        for field in sorted(cls.fields, key=lambda field: field.key):
            for node in nodes(field.type):
                if node.cls not in seen:
                    seen[node.cls] = None
                    pending.append(node.cls)


def _anonymous(data: Any, order: Mapping[str, str]) -> Any:
    """A field without its Python names, class references replaced by their place in the traversal."""
    if isinstance(data, dict):
        anonymous = {
            key: order[value] if key == "cls" else value if key == "ties" else _anonymous(value, order)
            for key, value in data.items()
            if key not in ("name", "alias", "symbol", "host", "aliases", "cast_from", "init")
        }
        return anonymous
    if isinstance(data, list):
        return [_anonymous(one, order) for one in data]
    return data


def canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest_of(data: Any) -> str:
    """Of JSON data: whatever the order of its keys and its layout."""
    return "sha256:" + hashlib.sha256(canonical(data).encode()).hexdigest()
