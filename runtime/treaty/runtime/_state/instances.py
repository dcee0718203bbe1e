"""Instances without `__init__`: constructor and pytree functions of attrs classes, compiled as attrs compiles its own.

Setting slots directly is 1.8 times as fast as `__init__`, and slot by slot for many instances 1.7 times as fast again
(`python -m benchmarks fast_paths`); and an unflatten that ran validators would refuse tracers.
"""

import dataclasses
import linecache
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import repeat
from types import MemberDescriptorType
from typing import Any, Final

import attrs
from jax.tree_util import GetAttrKey, register_pytree_with_keys

from treaty.runtime._errors import CodecError
from treaty.runtime._state.registry import missing_code
from treaty.schema._classes import has_own_init
from treaty.schema._declare import options_of
from treaty.schema.modules import import_generated, symbol_of

_CACHED_HASH: Final = "_attrs_cached_hash"  # attrs' own name for it
_pytrees: dict[type, Sequence[Any]] = {}  # the functions that JAX has, which keeps the classes for ever too
_waiting: set[type] = set()  # classes of which it has functions that wait for generated code
_lock = threading.RLock()


def constructor(cls: type) -> Callable[..., Any]:
    """A faster way to call an attrs class with all its fields; the class itself where its `__init__` does more than store.

    An `__init__` that somebody wrote takes what it likes: then the fields are stored, and checked as attrs would.
    """
    if does_more(cls) and not has_own_init(cls):
        return cls
    values = {one.name: str(one.alias) for one in attrs.fields(cls)}
    store = _compile(cls, "construct", list(values.values()), _store(cls, values))
    return store if not does_more(cls) else lambda **given: _validated(store(**given))


def _validated(obj: Any) -> Any:
    attrs.validate(obj)
    return obj


def foreign_constructor(cls: Any) -> Callable[..., Any]:
    """How a class of another library is made from its fields: by its `__init__`, where that was made from them too."""
    if attrs.has(cls):
        return constructor(cls)
    return partial(blank, cls) if dataclasses.is_dataclass(cls) and has_own_init(cls) else cls


def runs_own_code(cls: Any) -> bool:
    """Whether making a class of another library runs code that its fields do not say."""
    if attrs.has(cls):
        return does_more(cls)
    return hasattr(cls, "__post_init__") or hasattr(cls, "__check_init__")  # of dataclasses, and of equinox


def blank(cls: Any, /, **values: object) -> Any:
    """An instance without `__init__`."""
    obj = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(obj, name, value)
    return obj


def many(cls: type, values: Mapping[str, list[Any]], count: int) -> list[Any]:
    """`count` instances from the values of each field, of a class that only stores them."""
    made: list[Any] = list(map(object.__new__, repeat(cls, count)))
    for name, column in values.items():
        deque(map(_setter(cls, name), made, column), maxlen=0)  # the fastest loop Python has
    if _caches_hash(cls):
        deque(map(object.__setattr__, made, repeat(_CACHED_HASH), repeat(None)), maxlen=0)
    return made


@cache
def columns(cls: type) -> Callable[[Sequence[Any]], tuple[list[Any], ...]]:
    """A function from instances to the values of each field, in order."""
    lists = _tuple([f"[obj.{one.name} for obj in many]" for one in attrs.fields(cls)])
    return _compile(cls, "columns", ["many"], [f"return {lists}"])


def register_pytree(cls: type, children: tuple[str, ...], static: tuple[str, ...]) -> None:
    """Make an attrs class a pytree; where it is one already (another module, the user's own), leave it."""
    with _lock:
        if cls not in _pytrees or cls in _waiting:
            _serve(cls, _functions(cls, children, static))


def register_declared(cls: type) -> None:
    """The same by the declaration, in a process that generates the code that would say it."""
    names = {one.name: options_of(one).static for one in attrs.fields(cls)}
    children = tuple(name for name, static in names.items() if not static)
    register_pytree(cls, children, tuple(name for name, static in names.items() if static))


def _functions(cls: type, children: tuple[str, ...], static: tuple[str, ...]) -> Sequence[Any]:
    metadata = _tuple([f"obj.{name}" for name in static]) if static else "None"
    values = _tuple([f"obj.{name}" for name in children])
    pairs = _tuple([f"(_t_key_{name}, obj.{name})" for name in children])
    names = {name: f"v_{name}" for name in (*children, *static)}
    unpack = [f"{_tuple([f'v_{name}' for name in children])} = children"] if children else []
    unpack += [f"{_tuple([f'v_{name}' for name in static])} = static"] if static else []
    return (
        _compile(cls, "flatten_with_keys", ["obj"], [f"return {pairs}, {metadata}"]),
        _compile(cls, "unflatten", ["static", "children"], [*unpack, *_store(cls, names)]),
        _compile(cls, "flatten", ["obj"], [f"return {values}, {metadata}"]),
    )


def _serve(cls: type, functions: Sequence[Any]) -> None:
    if cls not in _waiting:
        _tell_jax(cls, functions)
        return
    for known, function in zip(_pytrees[cls], functions, strict=True):  # JAX keeps the functions that it has
        known.__globals__.update(function.__globals__)
        known.__code__ = function.__code__
    _waiting.discard(cls)


def expect_code(cls: type) -> None:
    """Register a class with JAX before its code is there.

    The registered functions import the code when JAX first flattens an instance, or raise CodecError.
    """
    names = {"flatten_with_keys": ["obj"], "unflatten": ["static", "children"], "flatten": ["obj"]}
    with _lock:
        if cls in _pytrees:
            return
        _waiting.add(cls)
        late = [
            _compile(cls, name, given, [f"return _t_late(_t_cls, {index})({', '.join(given)})"])
            for index, (name, given) in enumerate(names.items())
        ]
        _tell_jax(cls, late)


def _late(cls: type, index: int) -> Any:
    import_generated(cls.__module__)
    if cls in _waiting:
        raise CodecError(missing_code(cls, symbol_of(cls)))
    return _pytrees[cls][index]


def _tell_jax(cls: type, functions: Sequence[Any]) -> None:
    _pytrees[cls] = functions
    try:
        register_pytree_with_keys(cls, *functions)
    except ValueError as error:
        if "Duplicate" not in str(error):
            raise
        _waiting.discard(cls)


def does_more(cls: type) -> bool:
    """Whether `__init__` checks, converts or computes: then restoring runs it."""
    hooks = hasattr(cls, "__attrs_post_init__") or hasattr(cls, "__attrs_pre_init__")
    return has_own_init(cls) or hooks or any(one.validator or one.converter for one in attrs.fields(cls))


def _store(cls: type, values: Mapping[str, str]) -> list[str]:
    """The lines that make an instance with these attributes. Names begin with _t_: parameters are the user's."""
    lines = ["_t_obj = _t_new(_t_cls)"]
    lines += [f"_t_set_{name}(_t_obj, {value})" for name, value in values.items()]
    if _caches_hash(cls):
        lines.append(f"_t_setattr(_t_obj, {_CACHED_HASH!r}, None)")
    return [*lines, "return _t_obj"]


def _caches_hash(cls: type) -> bool:
    """Whether attrs' `__hash__` keeps what it computed in an attribute, which its `__init__` would set to None."""
    return _CACHED_HASH in getattr(getattr(cls.__hash__, "__code__", None), "co_names", ())


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _compile(cls: type, name: str, parameters: list[str], body: list[str]) -> Callable[..., Any]:
    """A function from its lines, with its source where tracebacks look for it."""
    fields = [one.name for one in attrs.fields(cls)]
    scope: dict[str, Any] = {"_t_cls": cls, "_t_new": object.__new__, "_t_setattr": object.__setattr__}
    scope["_t_late"] = _late
    scope |= {f"_t_set_{field}": _setter(cls, field) for field in fields}
    scope |= {f"_t_key_{field}": GetAttrKey(field) for field in fields}
    source = "\n    ".join([f"def {name}({', '.join(parameters)}):", *body]) + "\n"
    filename = f"<treaty {name} of {cls.__module__}.{cls.__qualname__}>"
    exec(compile(source, filename, "exec"), scope)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    function: Callable[..., Any] = scope[name]
    return function


def _setter(cls: type, name: str) -> Callable[[Any, Any], None]:
    """The fastest way to set an attribute of a frozen instance: its slot, or object's own setattr."""
    for base in cls.__mro__:
        slot = base.__dict__.get(name)
        if isinstance(slot, MemberDescriptorType):
            return slot.__set__
    return lambda obj, value: object.__setattr__(obj, name, value)
