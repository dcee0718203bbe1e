"""The schema IR: what a declaration means, frozen, with one JSON form and one digest.

`docs/schema-ir.md` describes the JSON, which `ir_json.py` reads and writes. The reader (`_read.py`) makes the IR,
everything else consumes it. Code that tells types apart ends with `assert_never`: a new kind of type is then a list
of mypy errors. `Leaf` stands for all leaves where they are alike.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, assert_never

import attrs
from attrs import frozen

from treaty.schema._default_texts import FACTORY
from treaty.schema._key_texts import key_text
from treaty.schema.dims import Dim, Expr

DeclaredKind = Literal["state", "attrs", "namedtuple", "typeddict"]
StoredKind = Literal[DeclaredKind, "foreign", "keywords"]  # the others are described in place
Kind = Literal[StoredKind, "tuple", "partial"]  # the last two in the generator only: it makes classes of such types

EVERY: Final = "..."  # in ties: every dim of the child is tied to its namesake here
VARIABLE: Final = "~"  # how the id of a class begins that stands for a type variable: ~0, ~1, …


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
class Fitted:
    """An array of an optimizer's state whose shape no expression says: init makes it of the shape of a param, at any size.

    `dims` and `param` are the shape and dtype of the param, `init` the function that makes the optimizer, `at` where its state of
    one such param has the array. `seen` stands for the shapes that it had when the declaration was read.
    """

    KIND: ClassVar = "fitted"
    dtype: str
    dims: tuple[Dim, ...]
    param: str
    init: str
    at: str
    seen: str


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


Leaf = Array | Key | Fitted | Scalar | NumpyScalar | Enum | Untyped  # a type that is made of no other
Type = Leaf | Node | Sequence | Tuple | Dict | Optional | Partial


@frozen
class Field:
    """One field. `key` is its identity on disk; `name` and `alias` are how Python reads and builds it.

    Where it is `spread`, its items lie beside the other keys of the class, and `key` is what they are called: `block_{i}`.
    """

    key: str
    name: str
    alias: str
    type: Type
    static: bool = False
    default: str | None = None  # canonical text of the default, or factory:module:name
    aliases: tuple[str, ...] = ()  # keys that it had before
    cast_from: tuple[str, ...] = ()  # stored dtypes that are converted to its own
    spread: bool = False
    init: str | None = None  # the function whose optimizer says the type


@frozen
class Class:
    """One class, its generic arguments filled in."""

    id: str
    symbol: str
    kind: Kind
    dims: tuple[str, ...]
    fields: tuple[Field, ...]
    version: int = 1  # given by hand once; only schemas that were stored then have another
    args: tuple[Type, ...] = ()
    definitions: tuple[tuple[str, Expr], ...] = ()  # from labels: d_ff=4*d_model
    reserved: tuple[str, ...] = ()  # keys that it had once; what is stored under them is dropped

    @property
    def module(self) -> str:
        return self.symbol.partition(":")[0]

    @property
    def qualname(self) -> str:
        return self.symbol.partition(":")[2]

    @property
    def is_dict(self) -> bool:
        """Whether its instances are dicts."""
        return self.kind in ("typeddict", "keywords")

    def value_of(self, field: Field, instance: Any) -> Any:
        return instance[field.name] if self.is_dict else getattr(instance, field.name)


def variable(number: int) -> Class:
    """What stands for a type variable in a generic class without arguments: whatever dims it has, they are `...`.

    The version keeps two of them apart in a digest, which has no ids.
    """
    id = f"{VARIABLE}{number}"
    return Class(id, id, "state", (EVERY,), (), version=number + 1)


@frozen(slots=False, repr=False)
class Schema:
    """A root class and every class it reaches."""

    root: str
    classes: tuple[Class, ...]

    def __repr__(self) -> str:
        from treaty.schema._showing_schemas import schema_text

        return schema_text(self)

    def _repr_html_(self) -> str:
        from treaty.schema._showing_schemas import schema_html

        return schema_html(self)

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
        return Schema(root, tuple(self[id] for id in reached(self._by_id, Node(root))))

    @cached_property
    def as_stored(self) -> "Schema":
        """Without what no checkpoint needs of its own schema: what to do with earlier ones, and where a type comes from."""
        return Schema(self.root, tuple(map(_as_stored, self.classes)))

    @cached_property
    def spreads(self) -> bool:
        """Whether a field of some class is spread."""
        return any(field.spread for cls in self.classes for field in cls.fields)

    @cached_property
    def gathered(self) -> "Schema":
        """With no field spread: of states whose items are gathered under the key of their field (`gathering.py`)."""
        return Schema(self.root, tuple(map(_gathered, self.classes))) if self.spreads else self

    def is_like(self, other: "Schema") -> bool:
        """Whether both are one declaration. A digest holds no names; two classes may differ in nothing else."""
        return self.digest == other.digest and self.symbols == other.symbols

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Of the classes, in an order that does not depend on that of fields."""
        from treaty.schema import ir_json

        return tuple(cls.symbol for cls in ir_json.by_key_order(self))

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, ASCII; `from_json` reads it back equal."""
        from treaty.schema import ir_json  # here, since it is made of the types above

        return ir_json.dump(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Schema":
        from treaty.schema import ir_json

        return ir_json.load(text)

    @cached_property
    def digest(self) -> str:
        """Changes when what is stored changes; not with field order, Python names, or class names."""
        from treaty.schema import ir_json

        return ir_json.digest(self)


def _as_stored(cls: Class) -> Class:
    if not cls.reserved and not any(field.aliases or field.cast_from or field.init for field in cls.fields):
        return cls
    fields = tuple(attrs.evolve(field, aliases=(), cast_from=(), init=None) for field in cls.fields)
    return attrs.evolve(cls, fields=fields, reserved=())


def _gathered(cls: Class) -> Class:
    return attrs.evolve(cls, fields=tuple(attrs.evolve(field, spread=False) for field in cls.fields))


def children(type: Type) -> tuple[Type, ...]:
    """The types that a type is directly made of; () for leaves and class references."""
    if isinstance(type, (Sequence, Optional)):
        return (type.item,)
    if isinstance(type, Tuple):
        return type.items
    if isinstance(type, Dict):
        return (type.value,)
    if isinstance(type, Partial):
        return (type.args, type.keywords)
    if isinstance(type, (Node, Leaf)):
        return ()
    assert_never(type)


def with_children(type: Type, change: Callable[[Type], Type]) -> Type:
    """The type with each type that it is directly made of changed; a Partial's stay a Tuple and a Node."""
    if isinstance(type, (Sequence, Optional)):
        return attrs.evolve(type, item=change(type.item))
    if isinstance(type, Tuple):
        return Tuple(tuple(map(change, type.items)))
    if isinstance(type, Dict):
        return attrs.evolve(type, value=change(type.value))
    if isinstance(type, Partial):
        args, keywords = change(type.args), change(type.keywords)
        assert isinstance(args, Tuple)
        assert isinstance(keywords, Node)
        return Partial(type.func, args, keywords)
    if isinstance(type, (Node, Leaf)):
        return type
    assert_never(type)


def every_type(type: Type) -> Iterator[Type]:
    """A type and all it is made of, left to right: for walks that look for one kind, wherever it is."""
    yield type
    for part in children(type):
        yield from every_type(part)


def nodes(type: Type) -> Iterator[Node]:
    """Every class reference in a type, left to right."""
    return (one for one in every_type(type) if isinstance(one, Node))


def reached(classes: Mapping[str, Class], *types: Type) -> dict[str, None]:
    """The ids of the classes that types reach, each as it is met first, in field order."""
    found: dict[str, None] = {}

    def enter(type: Type) -> None:
        for node in nodes(type):
            if node.cls not in found:
                found[node.cls] = None
                for field in classes[node.cls].fields:
                    enter(field.type)

    for type in types:
        enter(type)
    return found


def parts(schema: Schema, type: Type, keys: Iterable[str] = ()) -> dict[str, Type] | None:
    """What the state dict of a type holds: the type of each entry by its key, in order; None where there is no dict.

    The keys of a list, a dict, an untyped subtree and of items that are spread are those that the state has: hand over
    `keys`, or `()` where the state is not a dict. An Optional has the parts of its item: whether there is a None is for the caller to see.
    """
    if isinstance(type, Optional):
        return parts(schema, type.item, keys)
    if isinstance(type, Node):
        keys = tuple(keys)
        return {key: part for field in schema[type.cls].fields for key, part in entries(schema, field, keys).items()}
    if isinstance(type, Tuple):
        return {str(index): item for index, item in enumerate(type.items)}
    if isinstance(type, Partial):
        return {"args": type.args, "keywords": type.keywords}
    if isinstance(type, Sequence):
        return dict.fromkeys(keys, type.item)
    if isinstance(type, Dict):
        return dict.fromkeys(keys, type.value)
    if isinstance(type, Untyped):
        return dict.fromkeys(keys, type)
    if isinstance(type, Key):
        return {"impl": Scalar("str"), "data": Untyped()}  # the words of a key have no declared type of their own
    if isinstance(type, (Array, Fitted, Scalar, NumpyScalar, Enum)):
        return None
    assert_never(type)


def entries(schema: Schema, field: Field, keys: Iterable[str]) -> dict[str, Type]:
    """What the state dict of a class holds of a field: one entry, or those of `keys` that are its items."""
    if not field.spread:
        return {field.key: field.type}
    text = key_text(field.key)
    items = [item for key in keys if (item := text.item(key)) is not None]
    return text.spread(parts(schema, field.type, items) or {})


def symbols(cls: Class) -> Iterator[str]:
    """What a class speaks of by name: itself, enums, functions, and what makes its defaults."""
    yield cls.symbol
    for field in cls.fields:
        yield from (one for type in every_type(field.type) if (one := _symbol(type)) is not None)
        if field.init is not None:
            yield field.init
        if field.default is not None and field.default.startswith(FACTORY):
            yield field.default.removeprefix(FACTORY)


def _symbol(type: Type) -> str | None:
    if isinstance(type, Enum):
        return type.symbol
    if isinstance(type, Partial):
        return type.func
    if isinstance(type, Fitted):
        return type.init
    if isinstance(type, (Array, Key, Scalar, NumpyScalar, Untyped, Node, Sequence, Tuple, Dict, Optional)):
        return None
    assert_never(type)


def own_dims(type: Type) -> tuple[Dim, ...]:
    """The sizes that a type itself mentions, without those of its children: axes, a length, ties."""
    if isinstance(type, (Array, Key, Fitted)):
        return type.dims
    if isinstance(type, (Sequence, Dict)):
        return () if type.length is None else (Dim(type.length),)
    if isinstance(type, Node):
        return tuple(Dim(size) for _, size in type.ties)
    if isinstance(type, (Scalar, NumpyScalar, Enum, Tuple, Optional, Partial, Untyped)):
        return ()
    assert_never(type)


def sizes(cls: Class) -> Iterator[Expr]:
    """Every size that the fields of a class mention."""
    for field in cls.fields:
        for type in every_type(field.type):
            yield from (dim.size for dim in own_dims(type))


def describe(type: Type) -> str:
    """A type in one short phrase, for messages."""
    if isinstance(type, Array):
        return f"{type.dtype}[{', '.join(map(str, type.dims))}]"
    if isinstance(type, Key):
        return f"{f'key<{type.impl}>' if type.impl else 'key'}[{', '.join(map(str, type.dims))}]"
    if isinstance(type, Fitted):
        return f"{type.dtype} of init for [{', '.join(map(str, type.dims))}]"
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
    if isinstance(type, Untyped):
        return "untyped"
    assert_never(type)
