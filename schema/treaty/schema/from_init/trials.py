"""Params of several sizes, without contents: instances of the declared classes, as an optimizer's init is given them."""

import dataclasses
import importlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final, TypeAlias, assert_never

import attrs
from attrs import define, field

from treaty.schema import ir
from treaty.schema._errors import SchemaError
from treaty.schema.dims import Dim, Expr, Int, definition_order, evaluate, names
from treaty.schema.dtypes import BY_NAME
from treaty.schema.from_init.fitted import fitted_shape

Place: TypeAlias = tuple[str | int, ...]  # of a part of the params
Env: TypeAlias = Mapping[str, int]  # what the dims of a class are

TRIALS: Final = 8
# How large dims are in each trial, at least: optimizers treat large arrays in other ways (adafactor, from 128 on). The last
# two mix small and large ones.
_LEAST: Final = (2, 17, 61, 150, 700, 5000)
_STEPS: Final = (1, 1, 3, 2, 5, 7)
_COUNTS: Final = (2, 3, 4, 5, 3, 2, 4, 3)  # of layers, which are made one by one
_UNSIZED: Final = 2  # items of a list without a Length
_SCALARS: Final[Mapping[str, Any]] = {
    "int": 0,
    "float": 0.0,
    "bool": False,
    "str": "",
    "bytes": b"",
    "complex": 0j,
    "none": None,
}
_NONE: Final = Int(0)  # a size without names
_PYTREES: Final = "treaty.runtime._state.instances"  # imported as generated code is: by name, when it is needed


class Untrieable(Exception):
    """A size that is none in this trial, such as d-100 of a small d."""


@define
class Trials:
    """The sizes of every dim of a tree in each trial, and the tree. `classes` are settled."""

    classes: Mapping[str, ir.Class]
    objects: Mapping[str, Any]  # by symbol
    _numbers: dict[tuple[Place, str], int] = field(factory=dict)

    def env(self, type: ir.Type, trial: int) -> Env:
        """The dims of the class that has a field of this type, as far as the type says them."""
        counts = set(self._counting(type))
        return {name: self._size((), name, trial, name in counts) for name in _dims(type)}

    def below(self, node: ir.Node, env: Env, place: Place, trial: int) -> dict[str, int]:
        """The dims of an instance: those that are tied, by its owner's; each other one by itself."""
        cls = self.classes[node.cls]
        ties, defined, counts = dict(node.ties), dict(cls.definitions), set(self._counts(node.cls))
        found: dict[str, int] = {}
        for dim in cls.dims:
            if dim in ties:
                found[dim] = sized(ties[dim], env)
            elif dim not in defined and dim != ir.EVERY:
                found[dim] = self._size(place, dim, trial, dim in counts)
        for dim in definition_order(defined):
            found.setdefault(dim, sized(defined[dim], found))
        return found

    def items(self, type: ir.Sequence | ir.Dict, env: Env) -> int:
        return _UNSIZED if type.length is None else sized(type.length, env)

    def value(self, type: ir.Type, env: Env, place: Place, trial: int, above: frozenset[str] = frozenset()) -> Any:
        """A value of the type. `above` are the classes that it is part of: one that may end there, does."""
        if isinstance(type, ir.Optional):
            return None if self._contains(type.item, above) else self.value(type.item, env, place, trial, above)
        if isinstance(type, ir.Node):
            return self._instance(type, env, place, trial, above)
        if isinstance(type, ir.Sequence):
            made = list(self._items(type, type.item, env, place, trial, above).values())
            return tuple(made) if type.immutable else made
        if isinstance(type, ir.Dict):
            return self._items(type, type.value, env, place, trial, above)
        if isinstance(type, ir.Tuple):
            return tuple(self.value(one, env, (*place, n), trial, above) for n, one in enumerate(type.items))
        if isinstance(type, ir.Partial):
            args = self.value(type.args, env, (*place, "args"), trial, above)
            keywords = self.value(type.keywords, env, (*place, "keywords"), trial, above)
            make: Any = importlib.import_module("jax").tree_util.Partial
            return make(self.objects[type.func], *args, **keywords)
        if isinstance(type, ir.Array):
            return abstract(shape(type.dims, env), BY_NAME[type.dtype].numpy)
        if isinstance(type, ir.Key):
            return abstract(shape(type.dims, env), _key_dtype(type.impl))
        if isinstance(type, ir.Fitted):
            return abstract(fitted_shape(type, shape(type.dims, env)), BY_NAME[type.dtype].numpy)
        if isinstance(type, ir.Scalar):
            return _SCALARS[type.type]
        if isinstance(type, ir.NumpyScalar):
            return BY_NAME[type.dtype].numpy.type(0)
        if isinstance(type, ir.Enum):
            return self.objects[type.symbol][type.members[0]]
        if isinstance(type, ir.Untyped):
            at = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in place)
            raise SchemaError(f"${at} of the params is not typed, so nothing is known of its optimizer; declare it")
        assert_never(type)

    def _items(
        self, type: ir.Sequence | ir.Dict, item: ir.Type, env: Env, place: Place, trial: int, above: frozenset[str]
    ) -> dict[Any, Any]:
        count = 0 if self._contains(item, above) else self.items(type, env)
        keys = _keys(type, count)
        return {key: self.value(item, env, (*place, key), trial, above) for key in keys}

    def _instance(self, node: ir.Node, env: Env, place: Place, trial: int, above: frozenset[str]) -> Any:
        cls = self.classes[node.cls]
        own = self.below(node, env, place, trial)
        inside = above | {node.cls}
        values = {one.name: self.value(one.type, own, (*place, one.name), trial, inside) for one in cls.fields}
        return self._made(cls, values)

    def _made(self, cls: ir.Class, values: dict[str, Any]) -> Any:
        match cls.kind:
            case "typeddict":
                return values
            case "keywords":
                return OrderedDict(values) if cls.symbol == "collections:OrderedDict" else values
            case "state" | "attrs":
                known = self.objects[cls.symbol]
                importlib.import_module(_PYTREES).register_declared(known)
                return _blank(known, values)
            case "namedtuple":
                return self.objects[cls.symbol](**values)
            case "foreign":
                known = self.objects[cls.symbol]
                plain = attrs.has(known) or dataclasses.is_dataclass(known)
                return _blank(known, values) if plain else known(**values)
            case "tuple" | "partial":
                raise AssertionError(f"{cls.kind}: of the generator only")
            case _:
                assert_never(cls.kind)

    def _contains(self, type: ir.Type, above: frozenset[str]) -> bool:
        return bool(ir.reached(self.classes, type).keys() & above)

    def _size(self, place: Place, name: str, trial: int, counts: bool) -> int:
        number = self._numbers.setdefault((place, name), len(self._numbers))
        if counts:
            return _COUNTS[(trial + number) % TRIALS]
        last = len(_LEAST) - 1
        scale = trial if trial <= last else (0 if (number + trial) % 2 else last)
        primes = _primes()
        first = next(n for n, prime in enumerate(primes) if prime >= _LEAST[scale])
        return primes[(first + (number + trial // len(_LEAST)) * _STEPS[scale]) % len(primes)]

    def _counts(self, id: str, above: frozenset[str] = frozenset()) -> Iterator[str]:
        """The dims of a class that are numbers of items, there or below."""
        if id not in above:
            for one in self.classes[id].fields:
                yield from self._counting(one.type, above | {id})

    def _counting(self, type: ir.Type, above: frozenset[str] = frozenset()) -> Iterator[str]:
        for one in ir.every_type(type):
            length: Expr | None = getattr(one, "length", None)  # of a list, a tuple or a dict
            yield from names(length or _NONE)
            if isinstance(one, ir.Node):
                ties = dict(one.ties)
                yield from (name for dim in self._counts(one.cls, above) for name in names(ties.get(dim, _NONE)))


def sized(size: Expr, env: Env) -> int:
    found = evaluate(size, env)
    if found is None or found < 0:
        raise Untrieable
    return found


def shape(dims: Iterable[Dim], env: Env) -> tuple[int, ...]:
    return tuple(sized(dim.size, env) for dim in dims)


def abstract(shape: tuple[int, ...], dtype: Any) -> Any:
    return importlib.import_module("jax").ShapeDtypeStruct(shape, dtype)


def _dims(type: ir.Type) -> dict[str, None]:
    return dict.fromkeys(name for one in ir.every_type(type) for dim in ir.own_dims(one) for name in names(dim.size))


def _keys(type: ir.Sequence | ir.Dict, count: int) -> list[Any]:
    has_names = isinstance(type, ir.Dict) and type.key == "str"
    return [f"key{index}" for index in range(count)] if has_names else list(range(count))


@cache
def _key_dtype(impl: str | None) -> Any:
    import jax

    return jax.eval_shape(partial(jax.random.key, 0, impl=impl)).dtype


@cache
def _primes() -> list[int]:
    sieve = bytearray([1]) * 20_000
    for number in range(2, 142):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, len(sieve), number)))
    return [number for number in range(2, len(sieve)) if sieve[number]]


def _blank(cls: Any, values: Mapping[str, Any]) -> Any:
    """An instance without `__init__`, which may look at values."""
    made = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made
