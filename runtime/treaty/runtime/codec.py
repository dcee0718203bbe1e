"""What generated modules are written against: registration, and the check of one value each.

Checks raise `Misfit` without a message: the caller then runs `explain` over the whole state dict.
"""

import enum
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypedDict, TypeVar, cast, get_origin, overload

import attrs
import jax
import numpy as np
from jax.tree_util import Partial as Partial

from treaty.runtime import _errors as errors
from treaty.runtime._errors import StateMismatchError
from treaty.runtime._flax.bridge import Functions, share
from treaty.runtime._flax.read import restore_state_class
from treaty.runtime._flax.write import write_state_class
from treaty.runtime._state import alike, instances, registry
from treaty.runtime._state.arrays import Array0 as Array0
from treaty.runtime._state.arrays import Array1 as Array1
from treaty.runtime._state.arrays import Array2 as Array2
from treaty.runtime._state.arrays import Array3 as Array3
from treaty.runtime._state.arrays import Array4 as Array4
from treaty.runtime._state.arrays import Array5 as Array5
from treaty.runtime._state.arrays import ArrayN as ArrayN
from treaty.runtime._state.arrays import KeyState as KeyState
from treaty.runtime._state.arrays import Misfit as Misfit
from treaty.runtime._state.arrays import Put as Put
from treaty.runtime._state.arrays import host as host
from treaty.runtime._state.arrays import key_dtype
from treaty.runtime._state.arrays import read_key as read_key
from treaty.runtime._state.arrays import write_key as write_key
from treaty.runtime._state.explain import describe
from treaty.runtime._state.explain_value import DICTS, class_names
from treaty.runtime._state.numbering import index_keys, int_of
from treaty.runtime._state.registry import Codec as Codec
from treaty.runtime._state.scalar_types import bfloat16 as bfloat16
from treaty.runtime._state.scalar_types import float4_e2m1fn as float4_e2m1fn
from treaty.runtime._state.scalar_types import float6_e2m3fn as float6_e2m3fn
from treaty.runtime._state.scalar_types import float6_e3m2fn as float6_e3m2fn
from treaty.runtime._state.scalar_types import float8_e3m4 as float8_e3m4
from treaty.runtime._state.scalar_types import float8_e4m3 as float8_e4m3
from treaty.runtime._state.scalar_types import float8_e4m3b11fnuz as float8_e4m3b11fnuz
from treaty.runtime._state.scalar_types import float8_e4m3fn as float8_e4m3fn
from treaty.runtime._state.scalar_types import float8_e4m3fnuz as float8_e4m3fnuz
from treaty.runtime._state.scalar_types import float8_e5m2 as float8_e5m2
from treaty.runtime._state.scalar_types import float8_e5m2fnuz as float8_e5m2fnuz
from treaty.runtime._state.scalar_types import float8_e8m0fnu as float8_e8m0fnu
from treaty.runtime._state.scalar_types import int1 as int1
from treaty.runtime._state.scalar_types import int2 as int2
from treaty.runtime._state.scalar_types import int4 as int4
from treaty.runtime._state.scalar_types import uint1 as uint1
from treaty.runtime._state.scalar_types import uint2 as uint2
from treaty.runtime._state.scalar_types import uint4 as uint4
from treaty.runtime._state.scalars import binary as binary
from treaty.runtime._state.scalars import boolean as boolean
from treaty.runtime._state.scalars import complex_number as complex_number
from treaty.runtime._state.scalars import floating as floating
from treaty.runtime._state.scalars import integer as integer
from treaty.runtime._state.scalars import none as none
from treaty.runtime._state.scalars import text as text
from treaty.runtime._state.state_dict import build as build
from treaty.runtime._state.untyped import read_untyped as read_untyped
from treaty.runtime._state.untyped import write_untyped as write_untyped
from treaty.schema import Schema
from treaty.schema._classes import has_own_init
from treaty.schema._key_texts import key_text
from treaty.schema.from_init.fitted import shape_from
from treaty.schema.modules import symbol_of

_T = TypeVar("_T")
_S = TypeVar("_S", bound=np.generic)
_E = TypeVar("_E", bound=enum.Enum)
_P = ParamSpec("_P")
_R = TypeVar("_R")
_N = TypeVar("_N", int, int | None)
_L = TypeVar("_L", bound=Iterable[object])
_D = TypeVar("_D", bound=Mapping[Any, object])

HostArray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Keywords: TypeAlias = "dict[str, Any]"

_struct: Callable[..., object] = jax.ShapeDtypeStruct


class Schemas:
    """The schemas of a generated module, parsed when first asked for, with those of the modules it uses.

    Modules may use each other in a circle, so those used are looked up no sooner than that.
    """

    def __init__(self, text: str, uses: "tuple[Schemas | Callable[[], Schemas], ...]") -> None:
        self._text = text
        self._uses = uses

    def __call__(self) -> Schema:
        return self._whole

    @cached_property
    def _own(self) -> Schema:
        return Schema.from_json(self._text)

    @cached_property
    def _whole(self) -> Schema:
        reached = [self]
        for one in reached:  # grows while it is walked
            used = [use if isinstance(use, Schemas) else use() for use in one._uses]
            reached += [use for use in used if use not in reached]
        classes = {cls.id: cls for one in reversed(reached) for cls in one._own.classes}
        return attrs.evolve(self._own, classes=tuple(classes.values()))


def schema(text: str, *uses: Schemas | Callable[[], Schemas]) -> Schemas:
    return Schemas(text, uses)


def register(
    cls: type[_T],
    id: str,
    *,
    schemas: Callable[[], Schema],
    digest: str,
    revision: int | None = None,
    write: Callable[[_T], Mapping[str, object]],
    read: Callable[..., _T],
    abstract: Callable[..., _T] | None = None,
    dims: tuple[str, ...] = (),
    sizes: tuple[str, ...] = (),
    unsized: str = "",
    children: tuple[str, ...] | None = None,
    static: tuple[str, ...] = (),
) -> Codec[_T]:
    """Enter the generated functions of a class into the registry, and into Flax's; with `children`, make the class a pytree."""
    origin: type[_T] = get_origin(cls) or cls
    if children is not None:
        registry.check_fields(origin, id, children, static)
        instances.register_pytree(origin, children, static)
    share(origin, Functions(write_state_class, restore_state_class), override=False)
    return registry.register(Codec(origin, id, schemas, digest, write, read, abstract, dims, sizes, unsized, revision))


def constructor(cls: type[_T]) -> type[_T]:
    """The class as a function of its fields, without the cost of an `__init__` that only stores.

    To type checkers it is the class itself, whose calls they know best.
    """
    origin: type[_T] = get_origin(cls) or cls
    make: Callable[..., _T] = instances.constructor(origin)
    if attrs.has(origin) and instances.does_more(origin):
        make = alike.whole(make)
    return cast("type[_T]", make)


def replaced(obj: _T, changes: Mapping[str, object]) -> _T:
    """Another instance, with other values of some fields. An `__init__` that somebody wrote need not take them."""
    cls: Any = type(obj)
    if not has_own_init(cls):
        return cast(_T, attrs.evolve(cast(Any, obj), **changes))
    values = {one.alias: getattr(obj, one.name) for one in attrs.fields(cls)}
    return cast(_T, _own_constructor(cls)(**{**values, **changes}))


@cache
def _own_constructor(cls: type) -> Callable[..., Any]:
    return instances.constructor(cls)


@overload
def indexed(items: Iterable[_T]) -> dict[str, _T]: ...
@overload
def indexed(items: Iterable[_T], write: Callable[[_T], _R]) -> dict[str, _R]: ...
def indexed(items: Iterable[Any], write: Callable[[Any], Any] | None = None) -> dict[str, Any]:
    """A sequence in state-dict form, keys "0", "1", …, with its items written by `write`."""
    values = items if isinstance(items, (list, tuple)) else list(items)
    return alike.write_each(values, write, index_keys(len(values)))


def spread_into(state: Mapping[str, object], text: str, items: Mapping[str, object]) -> None:
    """Add the states of items to that of their class, by the keys that they have there: `block_0`, `block_1`, …

    `state` is a TypedDict of the other keys: no type checker knows keys that count.
    """
    cast("dict[str, object]", state).update(key_text(text).spread(alike.written_out(items)))


class SpreadItems(TypedDict):
    """Entries that lie beside those of a class, in code that was generated before `spread_into`."""


def spread(text: str, items: Mapping[str, object]) -> SpreadItems:
    """What `spread_into` adds; pyrefly refuses it between the entries of a TypedDict."""
    state: SpreadItems = {}
    spread_into(state, text, items)
    return state


def gathered(state: Mapping[str, object], text: str) -> Any:
    """The way back: the states of items as if they lay under a key of their own."""
    if type(state) is not dict:
        raise Misfit
    return key_text(text).gathered(alike.entries_of(state))


def exact_list(value: _L) -> _L:
    """A list to be written: a tuple or a subclass would come back as a plain list."""
    if type(value) is not list:
        raise refused("list", value)
    return value


def exact_tuple(value: _L) -> _L:
    """A tuple of any length to be written."""
    if type(value) is not tuple:
        raise refused("tuple", value)
    return value


def check_tuple(value: tuple[object, ...], length: int) -> None:
    """Refuse another than the declared tuple: items beyond it would be lost."""
    if type(value) is not tuple or len(value) != length:
        raise refused(f"tuple of {length}", value)


def check_keys(value: Mapping[str, object], count: int) -> None:
    """Refuse a dict with other than the declared keys; one that lacks a key fails when that is asked for."""
    if type(value) not in DICTS or len(value) != count:
        raise refused(f"a dict of {count}", value)


def str_keyed(value: _D) -> _D:
    """A dict to be written by its keys."""
    if type(value) not in DICTS or not {str}.issuperset(map(type, value)):
        raise refused("a dict with keys of type str", value)
    return value


def int_keyed(value: _D) -> _D:
    """A dict to be written by the text of its keys, which 1, True and "1" share."""
    if type(value) not in DICTS or not {int}.issuperset(map(type, value)):
        raise refused("a dict with keys of type int", value)
    return value


def member_name(value: _E, cls: type[_E]) -> str:
    """What an enum member is stored as."""
    if type(value) is not cls:
        raise other_class(value, cls)
    return value._name_  # `name` may be a member itself


def empty(state: object) -> None:
    """Check the state of something without fields."""
    if type(state) is not dict or state:
        raise Misfit


def items(state: Mapping[str, _T], length: int | None = None) -> list[_T]:
    """The items of a sequence in order."""
    if type(state) is not dict or (length is not None and len(state) != length):
        raise Misfit
    return alike.items_of(state, index_keys(len(state)))


def each(read: Callable[Concatenate[_T, _P], _R], items: list[_T], /, *args: _P.args, **kwargs: _P.kwargs) -> list[_R]:
    """`read(item, ...)` for every item."""
    return alike.read_each(lambda item: read(item, *args, **kwargs), items)


def entries(state: Mapping[str, _T], length: int | None = None) -> Mapping[str, _T]:
    """The entries of a dict with str keys."""
    if type(state) is not dict or (length is not None and len(state) != length):
        raise Misfit
    for key in state:
        if type(key) is not str:
            raise Misfit
    return alike.entries_of(state)


def int_entries(state: Mapping[str, _T], length: int | None = None) -> dict[int, _T]:
    """The entries of a dict with int keys, which a state dict holds by their string form."""
    values = {}
    for key, value in entries(state, length).items():
        number = int_of(key)
        if number is None:
            raise Misfit
        values[number] = value
    return values


def maybe(
    function: Callable[Concatenate[Any, _P], _R], value: object, /, *args: _P.args, **kwargs: _P.kwargs
) -> _R | None:
    """`function(value, ...)`, or None for None."""
    return None if value is None else function(value, *args, **kwargs)


def solve(size: int, a: int, b: int) -> int:
    """The dim in size = a*dim + b."""
    if size < b:
        raise Misfit
    return (size - b) // a


def defined(given: int | None, size: _N) -> _N:
    """A dim that a label defines (`d_ff=4*d_model`): a value from outside must agree."""
    if given is not None and size is not None and given != size:
        raise Misfit
    return size


def numpy_scalar(value: object, cls: type[_S]) -> _S:
    if type(value) is not cls:
        raise Misfit
    return value


def member(value: object, cls: type[_E]) -> _E:
    """An enum member by its stored name."""
    if type(value) is not str or value not in cls.__members__:
        raise Misfit
    return cls.__members__[value]


def check_partial(value: Partial, func: Callable[..., Any]) -> None:
    """Refuse a Partial of another function than the declared one: it would be lost on restore."""
    if type(value) is not Partial or value.func is not func:
        raise refused(f"a Partial of {func}", getattr(value, "func", value))


def partial(func: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Partial:
    make: Callable[..., Partial] = Partial
    return make(func, *args, **keywords)


def fitted(
    value: Any,
    put: Put,
    dtype: "np.dtype[Any]",
    make: Callable[[], Any],
    at: str,
    shape: "tuple[int | None, ...]",
    param: "np.dtype[Any]",
) -> jax.Array:
    """An array of an optimizer's state whose shape its init says, for a param of this shape and dtype."""
    known = tuple(size for size in shape if size is not None)
    expected = fitted_shape(make, at, known, param) if len(known) == len(shape) else value.shape
    return put(value, dtype, expected)


def fitted_shape(make: Callable[[], Any], at: str, shape: tuple[int, ...], param: "np.dtype[Any]") -> tuple[int, ...]:
    return shape_from(make, at, shape, param.name)


def ordered(*items: tuple[str, Any]) -> Keywords:
    """A dict that JAX takes for another than a plain one: by the order of its keys."""
    return OrderedDict(items)


def other_class(obj: object, cls: type) -> StateMismatchError:
    """An instance of another class than the declared one, also of a subclass: what that adds would be lost."""
    return StateMismatchError([errors.Mismatch(*class_names(symbol_of(cls), obj), ())])


def refused(expected: str, value: object) -> StateMismatchError:
    """What is said of a value that would come back as another; whoever knows the schema says where it is."""
    return StateMismatchError([errors.Mismatch(expected, describe(value), ())])


def attribute(obj: object, name: str) -> Any:
    """An attribute of a class that another library owns, whose own annotations may say less, or something else."""
    return getattr(obj, name)


def construct(cls: Callable[..., _T], /, **values: object) -> _T:
    """An instance of a class that another library owns."""
    made: _T = _foreign_constructor(cls)(**values)
    return made


@cache
def _foreign_constructor(cls: Callable[..., Any]) -> Callable[..., Any]:
    make = instances.foreign_constructor(cls)
    return alike.whole(make) if instances.runs_own_code(cls) else make


def blank(cls: type[_T], /, **values: object) -> _T:
    """An instance without `__init__`, so that abstract values meet no validator."""
    made: _T = instances.blank(cls, **values)
    return made


def abstract(shape: tuple[int, ...], dtype: "np.dtype[Any]") -> jax.Array:
    """A ShapeDtypeStruct, typed as the array it stands for."""
    return cast(jax.Array, _struct(shape, dtype))


def abstract_host(shape: tuple[int, ...], dtype: "np.dtype[Any]") -> "np.ndarray[Any, np.dtype[Any]]":
    return cast("np.ndarray[Any, np.dtype[Any]]", _struct(shape, dtype))


def abstract_key(shape: tuple[int, ...], impl: str | None = None) -> jax.Array:
    return cast(jax.Array, _struct(shape, key_dtype(impl)))
