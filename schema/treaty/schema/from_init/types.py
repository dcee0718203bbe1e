"""States that an optimizer's init made, of several sizes -> the one type that they all are of."""

import dataclasses
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never

import attrs
from attrs import define, evolve, field, frozen

from treaty.schema import ir
from treaty.schema._classes import constructor_names
from treaty.schema._identity import inline_id
from treaty.schema._settle import dims_of
from treaty.schema._ties import EVERY
from treaty.schema.dims import Dim, Int, Name
from treaty.schema.dtypes import BY_NAME, JAX_KEYS
from treaty.schema.from_init.fitted import sample, shape_from
from treaty.schema.from_init.trials import Env, Place, Trials
from treaty.schema.solving import solve

_LONGEST: Final = 160  # characters of an id
_OF_THE_OWNER: Final = ((EVERY, Name(EVERY)),)


@frozen
class Seen:
    """A part of a state in one trial, in the class whose dims are `env`, and the part of the params that it stands for."""

    value: Any
    env: Env
    trial: int
    param: Any = None
    place: Place = ()  # of the param
    leaf: tuple[ir.Array, Any] | None = None  # the param, where it is one array, and its type
    at: str = ""  # where the part would be if there were no other params


_Many: TypeAlias = Sequence[Seen]  # what is to be of one type


class Unlike(Exception):
    """Parts of a state that are of no one type."""


@define
class StateTypes:
    """`symbol(cls)` gives a class its name in the IR; `enter(cls)` adds a class that only init describes."""

    trials: Trials
    of: ir.Type  # the type of the params
    params: Mapping[int, Any]  # by trial
    symbol: Callable[[Any], str]
    enter: Callable[[ir.Class], None]
    factory: tuple[str, Callable[[], Any]]  # by its symbol
    problems: list[str] = field(factory=list)
    _dims: dict[str, tuple[str, ...]] = field(factory=dict)

    def state(self, values: Iterable[tuple[int, Any, Env]]) -> ir.Type:
        """The type of the state that init made in each trial."""
        self._dims |= {id: cls.dims for id, cls in self.trials.classes.items()}
        return self._type([Seen(value, env, trial) for trial, value, env in values], "$")

    def _type(self, seen: _Many, path: str) -> ir.Type:
        """Of parts that are no part of a tree like the params; they may be such a tree."""
        if all(one.place == () and _are_params(one.value, self.params[one.trial]) for one in seen):
            below = [evolve(one, param=self.params[one.trial], at=path.removeprefix("$")) for one in seen]
            return self._like(below, self.of, path)
        return self._own(seen, path)

    def _like(self, seen: _Many, like: ir.Type, path: str) -> ir.Type:
        """Of parts that stand where the params are of the type `like`: the same type, where nothing differs."""
        if isinstance(like, ir.Optional):
            there = [one for one in seen if one.param is not None]
            return ir.Optional(self._like(there, like.item, path))
        if not seen:
            return like
        if isinstance(like, ir.Leaf):
            return self._leaf_like(seen, like, path)
        if not all(_is_like(one.value, one.param) for one in seen):
            return self._own(seen, path)
        if isinstance(like, ir.Node):
            return self._class_like(seen, like, path)
        if isinstance(like, ir.Sequence):
            return self._items_like(seen, like, path)
        if isinstance(like, ir.Dict):
            return evolve(like, value=self._like(_items(seen), like.value, f"{path}[...]"))
        if isinstance(like, ir.Tuple):
            parts = enumerate(like.items)
            return ir.Tuple(tuple(self._like(_at(seen, index), item, f"{path}[{index}]") for index, item in parts))
        if isinstance(like, ir.Partial):
            return ir.with_children(like, lambda part: self._argument(seen, like, part, path))
        assert_never(like)

    def _argument(self, seen: _Many, like: ir.Partial, part: ir.Type, path: str) -> ir.Type:
        name = "args" if part is like.args else "keywords"
        return self._like(_at(seen, name), part, f"{path}.{name}")

    def _items_like(self, seen: _Many, like: ir.Sequence, path: str) -> ir.Type:
        """One type for all items; where their number is fixed, each may be of its own."""
        try:
            return evolve(like, item=self._like(_items(seen), like.item, f"{path}[...]"))
        except Unlike:
            count = like.length.value if isinstance(like.length, Int) and like.immutable else None
            if count is None:
                raise
        return ir.Tuple(tuple(self._like(_at(seen, index), like.item, f"{path}[{index}]") for index in range(count)))

    def _leaf_like(self, seen: _Many, like: ir.Leaf, path: str) -> ir.Type:
        if isinstance(like, ir.Array):
            seen = [evolve(one, leaf=(like, one.param)) for one in seen]
        if not all(_is_array(one.value) and one.value.shape == getattr(one.param, "shape", ()) for one in seen):
            return self._own(seen, path)
        dtypes = {one.value.dtype.name for one in seen}
        if all(_is_array(one.param) and one.value.dtype == one.param.dtype for one in seen):
            return like
        if isinstance(like, ir.Array) and len(dtypes) == 1 and dtypes <= BY_NAME.keys():
            return evolve(like, dtype=dtypes.pop())
        return self._own(seen, path)

    def _class_like(self, seen: _Many, like: ir.Node, path: str) -> ir.Type:
        """The class itself, or the same class with other types of its fields, described in place."""
        cls = self.trials.classes[like.cls]
        inner = [evolve(one, env=self.trials.below(like, one.env, one.place, one.trial)) for one in seen]
        fields = []
        for one in cls.fields:
            type = one.type if one.static else self._like(_at(inner, one.name), one.type, _step(path, one.name))
            fields.append(one if type == one.type else evolve(one, type=type, default=None, cast_from=(), init=None))
        if fields == list(cls.fields):
            return like
        kind: ir.StoredKind = "keywords" if cls.kind in ("typeddict", "keywords") else "foreign"
        symbol = cls.symbol if cls.kind != "typeddict" else "builtins:dict"
        id = self._entered(symbol, kind, fields, cls.reserved)
        return ir.Node(id, tuple(one for one in like.ties if one[0] in self._dims[id] or EVERY in self._dims[id]))

    def _own(self, seen: _Many, path: str) -> ir.Type:
        """Of parts as they are, whatever the params are there."""
        seen = [evolve(one, param=None) for one in seen]
        first = seen[0].value
        for one in seen:
            if _kind(one.value) != _kind(first):
                raise Unlike(f"{path} is {_described(first)} for some params and {_described(one.value)} for others")
        if first is None:
            return ir.Scalar("none")
        if _is_array(first):
            return self._array(seen, path)
        if type(first) is tuple:
            return ir.Tuple(tuple(self._type(_at(seen, index), f"{path}[{index}]") for index in range(len(first))))
        if type(first) is list:
            return self._list(seen, path)
        if type(first) in (dict, OrderedDict):
            return self._dict(seen, path)
        return self._instance(seen, path)

    def _instance(self, seen: _Many, path: str) -> ir.Type:
        first = seen[0].value
        cls = type(first)
        if not (hasattr(cls, "_fields") or attrs.has(cls) or dataclasses.is_dataclass(cls)) or isinstance(first, type):
            self.problems.append(f"{path}: init returns {_described(first)}, which is no array and cannot be stored")
            return ir.Untyped()
        aliases = {one.name: str(one.alias) for one in attrs.fields(cls)} if attrs.has(cls) else {}
        fields = []
        for name in constructor_names(cls):
            type_ = self._type(_at(seen, name), _step(path, name))
            fields.append(ir.Field(name, name, aliases.get(name, name), type_))
        return ir.Node(self._entered(self.symbol(cls), "foreign", fields), _OF_THE_OWNER)

    def _dict(self, seen: _Many, path: str) -> ir.Type:
        first = seen[0].value
        types = {key: self._type(_at(seen, key), f"{path}[{key!r}]") for key in first}
        if all(isinstance(key, str) for key in first):
            symbol = "builtins:dict" if type(first) is dict else "collections:OrderedDict"
            fields = [ir.Field(key, key, key, type) for key, type in types.items()]
            return ir.Node(self._entered(symbol, "keywords", fields), _OF_THE_OWNER)
        if all(type(key) is int for key in first) and len(set(types.values())) == 1:
            return ir.Dict("int", next(iter(types.values())), Int(len(types)))
        what = "text, or numbers with values of one type"
        self.problems.append(
            f"{path}: init returns a dict with the keys {', '.join(map(repr, first))}; expected {what}"
        )
        return ir.Untyped()

    def _list(self, seen: _Many, path: str) -> ir.Type:
        types = [self._type(_at(seen, index), f"{path}[{index}]") for index in range(len(seen[0].value))]
        if len(set(types)) == 1:
            return ir.Sequence(types[0], immutable=False, length=Int(len(types)))
        what = ", ".join(map(ir.describe, types)) or "nothing"
        self.problems.append(f"{path}: init returns a list of {what}; a list has items of one type: return a tuple")
        return ir.Untyped()

    def _array(self, seen: _Many, path: str) -> ir.Type:
        dtypes = {one.value.dtype.name for one in seen}
        shapes = [one.value.shape for one in seen]
        sizes = list(zip(*shapes, strict=True)) if len(set(map(len, shapes))) == 1 else None
        dims = None if sizes is None else [solve([one.env for one in seen], axis) for axis in sizes]
        if len(dtypes) != 1 or dims is None or None in dims:
            if (fitted := self._fitted(seen)) is not None:
                return fitted
            some = " and ".join(dict.fromkeys(map(_described, (seen[0].value, seen[-1].value))))
            self.problems.append(f"{path}: init returns {some}, which no dims of the params say")
            return ir.Untyped()
        dtype, axes = dtypes.pop(), tuple(Dim(size) for size in dims if size is not None)
        if dtype in JAX_KEYS:
            return ir.Key(axes, JAX_KEYS[dtype])
        if dtype not in BY_NAME:
            self.problems.append(f"{path}: init returns an array of {dtype}, which cannot be stored")
            return ir.Untyped()
        return ir.Array(dtype, axes)

    def _fitted(self, seen: _Many) -> ir.Fitted | None:
        """Of arrays whose shapes are those that init makes of the param alone, in every trial; None where they are not."""
        name, make = self.factory
        dtypes = {one.value.dtype.name for one in seen}
        for one in seen:
            if one.leaf is None or len(dtypes) != 1 or not dtypes <= BY_NAME.keys():
                return None
            try:
                shape = shape_from(make, one.at, one.leaf[1].shape, one.leaf[0].dtype)
            except Exception:  # an init that needs all the params, by name, may raise anything for one of them
                return None
            if shape != one.value.shape:
                return None
        like = seen[0].leaf[0] if seen[0].leaf is not None else None
        if like is None or any(one.leaf is None or one.leaf[0] != like or one.at != seen[0].at for one in seen):
            return None
        said = sample(make, seen[0].at, len(like.dims), like.dtype)
        return ir.Fitted(dtypes.pop(), like.dims, like.dtype, name, seen[0].at, said)

    def _entered(
        self, symbol: str, kind: ir.StoredKind, fields: Sequence[ir.Field], reserved: tuple[str, ...] = ()
    ) -> str:
        """The id of a class that is described in place: its content, or what stands for that where nobody would read it."""
        id = inline_id(symbol, {_title(one): one.type for one in fields})
        if len(id) > _LONGEST:
            id = f"{symbol}(#{hashlib.sha256(id.encode()).hexdigest()[:16]})"
        made = ir.Class(id, symbol, kind, (), tuple(fields), reserved=reserved)
        self._dims[id] = dims_of(made, self._dims, EVERY)
        self.enter(made)
        return id


def _are_params(value: Any, params: Any) -> bool:
    """Whether a part of a state is a tree like the params, as far as one can see from above."""
    if _is_array(value) or _is_array(params):
        return _is_array(value) and _is_array(params) and (value.shape, value.dtype) == (params.shape, params.dtype)
    if not _is_like(value, params):
        return False
    pairs = (
        [(_get(value, key), _get(params, key)) for key in _keys(params)]
        if isinstance(params, (tuple, list, dict))
        else []
    )
    return all(_is_like(one, other) or _is_array(one) or not _keys(one) for one, other in pairs)


def _is_like(value: Any, param: Any) -> bool:
    """Whether both are nodes of one kind with children at the same places, or both are leaves."""
    return _kind(value) == _kind(param) and getattr(value, "func", None) is getattr(param, "func", None)


def _kind(value: Any) -> Any:
    """What two parts of one type have in common."""
    if _is_array(value) or isinstance(value, (bool, int, float, complex)):
        return "array"
    return type(value), (
        len(value) if type(value) in (tuple, list) else tuple(value) if type(value) in (dict, OrderedDict) else None
    )


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _keys(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value)
    return list(range(len(value))) if isinstance(value, (tuple, list)) else []


def _items(seen: _Many) -> list[Seen]:
    """All items of sequences or dicts."""
    return [below for one in seen for key in _keys(one.value) for below in _at([one], key)]


def _at(seen: _Many, key: str | int) -> list[Seen]:
    """A part of each."""
    return [
        evolve(
            one,
            value=_get(one.value, key),
            param=None if one.param is None else _get(one.param, key),
            place=one.place if one.param is None else (*one.place, key),
            at=one.at + _keystr(one.value, key) if one.param is None and one.leaf is not None else one.at,
        )
        for one in seen
    ]


def _get(value: Any, key: str | int) -> Any:
    by_key = isinstance(value, Mapping) or (isinstance(value, (tuple, list)) and isinstance(key, int))
    return value[key] if by_key else getattr(value, str(key))


def _keystr(value: Any, key: str | int) -> str:
    """A step as JAX writes it."""
    return f".{key}" if isinstance(key, str) and not isinstance(value, Mapping) else f"[{key!r}]"


def _step(path: str, name: str) -> str:
    return f"{path}.{name}" if name.isidentifier() else f"{path}[{name!r}]"


def _title(field: ir.Field) -> str:
    """What tells the field from one of the same name in another description of the class."""
    plain = ir.Field(field.name, field.name, field.alias, field.type)
    return field.name if field == plain else repr(evolve(field, type=ir.Untyped()))


def _described(value: Any) -> str:
    if _is_array(value):
        return f"{value.dtype.name}[{', '.join(map(str, value.shape))}]"
    if value is None:
        return "None"
    if type(value) in (tuple, list, dict, OrderedDict):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
