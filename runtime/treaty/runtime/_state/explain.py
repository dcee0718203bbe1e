"""Why a state dict does not fit its class: one walk over schema and state that lists every mismatch.

Generated code only says that something is wrong. Both read dims from the same sources (`treaty.schema.sources`),
so they accept the same state dicts; a property test holds them to it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, assert_never

import attrs
import numpy as np
from attrs import frozen

from treaty.runtime._errors import Mismatch, Path
from treaty.runtime._state.arrays import Misfit, is_array
from treaty.runtime._state.numbering import int_of
from treaty.runtime._state.scalars import CHECKS, same_static
from treaty.schema import Schema, ir
from treaty.schema._key_texts import key_text
from treaty.schema.dims import Dim, Int, definition_order, evaluate, names
from treaty.schema.dtypes import BY_NAME, KEY_IMPLS
from treaty.schema.from_init.fitted import fitted_shape
from treaty.schema.sources import DimSource, Each, Item, Present, sources

Container = ir.Sequence | ir.Dict | ir.Tuple | ir.Partial
_Env = Mapping[str, int | None]
_ABSENT: Final = object()


def explain(
    schema: Schema, state: object, dims: _Env | None = None, template: object = _ABSENT
) -> tuple[Mismatch, ...]:
    """Every mismatch between a state dict and a schema, and a template's state dict where one is given."""
    walker = _StateWalker(schema, by_majority=True)
    try:
        return tuple(walker.cls(schema.root_class, state, dict(dims or {}), (), template))
    except RecursionError:
        return (Mismatch("a state dict that Python can walk", "nesting beyond the recursion limit", ()),)


def fits(schema: Schema, state: object) -> bool:
    """Whether `explain` would find nothing; the first thing that it finds is enough."""
    try:
        return next(_StateWalker(schema).cls(schema.root_class, state, {}, (), _ABSENT), None) is None
    except RecursionError:
        return False


def dims_of(schema: Schema, state: object) -> dict[str, int]:
    """The dims of the root class that a state dict, which fits the schema, tells."""
    env, _ = _StateWalker(schema)._environment(schema.root_class, state, {}, ())
    return {name: size for name, size in env.items() if size is not None}


@frozen
class _StateWalker:
    schema: Schema
    by_majority: bool = False  # so that the one place which is wrong is told, and not the many that are right
    _sources: dict[tuple[str, str], tuple[DimSource, ...]] = attrs.field(factory=dict)  # by class and dim

    def cls(self, cls: ir.Class, state: Any, given: _Env, path: Path, template: Any) -> Iterator[Mismatch]:
        if state.__class__ is not dict:
            yield Mismatch(f"{short(cls.id)} as a dict", _kind(state), path)
            return
        known = {field.key for field in cls.fields if not field.spread}
        texts = [key_text(field.key) for field in cls.fields if field.spread]
        env, wrong = self._environment(cls, state, given, path)
        yield from wrong
        for field in cls.fields:
            if field.spread:
                yield from self._spread(field, state, env, path, template)
            elif field.key in state:
                below = template[field.key] if isinstance(template, dict) and field.key in template else _ABSENT
                if field.static and below is not _ABSENT and not same_static(below, state[field.key]):
                    yield Mismatch(f"{below!r} as in the template", repr(state[field.key]), (*path, field.key))
                yield from self.type(field.type, state[field.key], env, (*path, field.key), below)
            else:
                yield Mismatch(_expected(field.type, env), "nothing", (*path, field.key))
        for key in state:
            if key not in known and all(text.item(key) is None for text in texts):
                yield Mismatch(f"no such key in {short(cls.id)}", describe(state[key]), (*path, as_key(key)))

    def _spread(self, field: ir.Field, state: Any, env: _Env, path: Path, template: Any) -> Iterator[Mismatch]:
        """Of a field whose items lie beside the other keys: told by the keys that they have there."""
        text = key_text(field.key)
        below = text.gathered(template) if isinstance(template, dict) else _ABSENT
        for one in self.type(field.type, text.gathered(state), env, (*path, field.key), below):
            item = one.path[len(path) + 1 :]
            if not item:
                yield one
            elif isinstance(item[0], int) or not isinstance(field.type, ir.Sequence):
                yield one._replace(path=(*path, text.key(str(item[0])), *item[1:]))
            # Else it is a number too high: a lower one is missing, and told.

    def type(self, type: ir.Type, state: Any, env: _Env, path: Path, template: Any) -> Iterator[Mismatch]:
        while isinstance(type, ir.Optional):  # here, since every call more takes from the depth that can be walked
            if template is not _ABSENT and (state is None) != (template is None):
                yield Mismatch(f"{describe(template)} as in the template", describe(state), path)
                return
            if state is None:
                return
            type = type.item
        if isinstance(type, (ir.Array, ir.Key)):
            yield from _array(type, state, env, path, template)
        elif isinstance(type, ir.Fitted):
            yield from _fitted(type, state, env, path, template)
        elif isinstance(type, ir.Scalar):
            if not _passes(type.type, state):
                yield Mismatch(type.type, describe(state), path)
        elif isinstance(type, ir.NumpyScalar):
            if state.__class__ is not BY_NAME[type.dtype].numpy.type:
                yield Mismatch(ir.describe(type), describe(state), path)
        elif isinstance(type, ir.Enum):
            if state.__class__ is not str or state not in type.members:
                yield Mismatch(f"one of {', '.join(type.members)}", describe(state), path)
        elif isinstance(type, ir.Node):
            child = self.schema[type.cls]
            given = {name: evaluate(size, env) for name, size in type.ties}
            yield from self.cls(child, state, given, path, template)
        elif isinstance(type, ir.Untyped):
            yield from _untyped(state, path, template)
        else:
            yield from self._container(type, state, env, path, template)

    def _container(
        self,
        type: Container,
        state: Any,
        env: _Env,
        path: Path,
        template: Any,
    ) -> Iterator[Mismatch]:
        if state.__class__ is not dict:
            yield Mismatch(f"{container_name(type)} as a dict", _kind(state), path)
            return
        keys = (
            [key for key in state if _is_key(type.key, key)]
            if isinstance(type, ir.Dict)
            else map(str, range(len(state)))
        )
        parts = ir.parts(self.schema, type, keys) or {}
        if isinstance(type, (ir.Sequence, ir.Dict)) and type.length is not None:
            length = evaluate(type.length, env)
            if length is not None and length != len(state):
                shown = _show_size(Dim(type.length), env)
                yield Mismatch(f"{shown} items", f"{len(state)} items", path)
        if isinstance(template, dict) and len(template) != len(state):
            yield Mismatch(f"{len(template)} items as in the template", f"{len(state)} items", path)
        elif isinstance(template, dict) and isinstance(type, ir.Dict):
            yield from _other_keys(_expected(type.value, env), state, path, template)
        for key, part in parts.items():
            below = template[key] if isinstance(template, dict) and key in template else _ABSENT
            step = int(key) if isinstance(type, (ir.Sequence, ir.Tuple)) else key
            if key in state:
                yield from self.type(part, state[key], env, (*path, step), below)
            else:
                yield Mismatch(_expected(part, env), "nothing", (*path, step))
        for key in state:
            if key not in parts:
                expected = f"no such key in a {container_name(type)}"
                yield Mismatch(expected, describe(state[key]), (*path, as_key(key)))

    def _environment(self, cls: ir.Class, state: Any, given: _Env, path: Path) -> tuple[_Env, list[Mismatch]]:
        """The dims of one instance: given from above, read from the data, or defined by a label."""
        env: dict[str, int | None] = {name: given.get(name) for name in cls.dims}
        wrong = []
        defined = dict(cls.definitions)
        for name in cls.dims:
            if env[name] is None and name not in defined:
                env[name] = self._find(cls, name, state)
        for name in definition_order(defined):
            size = defined[name]
            value = evaluate(size, env)
            if value is not None and env[name] is not None and env[name] != value:
                wrong.append(Mismatch(f"{name}={value} by {name}={size}", f"{name}={env[name]}", path))
            env[name] = value
        wrong += [
            Mismatch(f"{size} to be a size", "division by zero", path)
            for size in ir.sizes(cls)
            if evaluate(size, env) is None and all(env.get(name) is not None for name in names(size))
        ]
        wrong += [
            Mismatch(f"{name} of 0 or more", f"{name}={size}", path) for name, size in env.items() if (size or 0) < 0
        ]
        return env, wrong

    def _find(self, cls: ir.Class, dim: str, state: Any) -> int | None:
        """The size of a dim: what its first source says, as generated code takes it, or what most places say."""
        found = self._told(cls, dim, state)
        if not self.by_majority:
            return next((size for size, _ in found), None)
        sizes = list(found)
        votes = Counter(size for size, is_exact in sizes if is_exact) or Counter(size for size, _ in sizes)
        return max(votes, key=votes.__getitem__, default=None)  # of those that are told as often, the first

    def _told(self, cls: ir.Class, dim: str, state: Any) -> Iterator[tuple[int, bool]]:
        """The sizes that the sources of a dim say, in order, and whether the size there is one that the dim can have."""
        known = self._sources.get((cls.id, dim))
        if known is None:
            known = self._sources[cls.id, dim] = sources(self.schema, cls, dim)
        for source in known:
            if state.__class__ is dict and (source.spread or source.key in state):
                found = key_text(source.key).gathered(state) if source.spread else state[source.key]
                for size, is_exact in self._follow(source, source.steps, found):
                    yield (size - source.b) // source.a, is_exact and (size - source.b) % source.a == 0

    def _follow(
        self, source: DimSource, steps: tuple[Item | Each | Present, ...], state: Any
    ) -> Iterator[tuple[int, bool]]:
        """The sizes a source gives in this state: none where the data lacks it or has another form."""
        if steps:
            step, rest = steps[0], steps[1:]
            if isinstance(step, Present):
                if state is not None:
                    yield from self._follow(source, rest, state)
            elif state.__class__ is dict:
                if not isinstance(step, Item):
                    for one in state.values():
                        yield from self._follow(source, rest, one)
                elif step.key in state:
                    yield from self._follow(source, rest, state[step.key])
        elif source.child is not None:
            cls, dim = self.schema[source.child[0]], source.child[1]
            yield from self._told(cls, dim, state)
        elif source.axis is None:
            if state.__class__ is dict:
                yield len(state), True
        else:
            if source.through_key:
                state = state.get("data") if state.__class__ is dict else None
            shape = getattr(state, "shape", ())  # a lazy array has one, too
            if source.axis < len(shape):
                yield shape[source.axis], True


def _other_keys(expected: str, state: Any, path: Path, template: Mapping[Any, Any]) -> Iterator[Mismatch]:
    for key in template:
        if key not in state:
            yield Mismatch(f"{expected} as in the template", "nothing", (*path, as_key(key)))
    for key in state:
        if key not in template:
            yield Mismatch("no such key in the template", describe(state[key]), (*path, as_key(key)))


def _untyped(state: Any, path: Path, template: Any) -> Iterator[Mismatch]:
    """A subtree that no schema describes must have the form of the template's, and arrays of its shapes."""
    if template is _ABSENT:
        return
    if state.__class__ is dict and isinstance(template, dict) and state.keys() == template.keys():
        for key in template:
            yield from _untyped(state[key], (*path, as_key(key)), template[key])
    elif isinstance(template, dict):
        got = _keys(state) if state.__class__ is dict and state else describe(state)
        yield Mismatch(
            f"the keys {_keys(template)} as in the template" if template else "{} as in the template", got, path
        )
    elif (
        state.__class__ is dict
        or (state is None) != (template is None)
        or getattr(state, "shape", None) != getattr(template, "shape", None)
    ):
        yield Mismatch(f"{describe(template)} as in the template", describe(state), path)


def _keys(state: Mapping[Any, Any]) -> str:
    return ", ".join([str(key)[:40] for key in list(state)[:12]])


def _array(type: ir.Array | ir.Key, state: Any, env: _Env, path: Path, template: Any) -> Iterator[Mismatch]:
    expected = _expected(type, env)
    array: Any = state
    suffix: tuple[int, ...] = ()
    if isinstance(type, ir.Key):
        impl = state.get("impl") if state.__class__ is dict else None
        right_keys = state.__class__ is dict and len(state) == 2 and "impl" in state and "data" in state
        if not right_keys or impl.__class__ is not str or impl not in KEY_IMPLS or type.impl not in (None, impl):
            got = f"key<{impl}>" if right_keys else _kind(state)
            yield Mismatch(f"{expected} as {{impl, data}}", got, path)
            return
        array, suffix = state["data"], (KEY_IMPLS[impl],)
        template = template["data"] if isinstance(template, dict) and "data" in template else _ABSENT
    if not is_array(array):
        yield Mismatch(expected, describe(array), path)
        return
    dtype = np.dtype("uint32") if isinstance(type, ir.Key) else BY_NAME[type.dtype].numpy
    sizes = (*(evaluate(dim.size, env) for dim in type.dims), *suffix)
    wrong_size = any(want is not None and want != size for want, size in zip(sizes, array.shape, strict=False))
    if array.dtype != dtype or len(array.shape) != len(sizes) or wrong_size:
        yield Mismatch(expected, describe(array), path)
    elif template is not _ABSENT and is_array(template) and template.shape != array.shape:
        yield Mismatch(f"{describe(template)} as in the template", describe(array), path)


def _fitted(type: ir.Fitted, state: Any, env: _Env, path: Path, template: Any) -> Iterator[Mismatch]:
    """An array whose shape init says, where the sizes that it depends on are known."""
    yield from _array(ir.Array(type.dtype, _fitted_dims(type, state, env)), state, env, path, template)


def _fitted_dims(type: ir.Fitted, state: Any, env: _Env) -> tuple[Dim, ...]:
    sizes = [evaluate(dim.size, env) for dim in type.dims]
    known = tuple(size for size in sizes if size is not None and size >= 0)
    shape = fitted_shape(type, known) if len(known) == len(sizes) else getattr(state, "shape", ())
    return tuple(Dim(Int(size)) for size in shape)


def _expected(type: ir.Type, env: _Env) -> str:
    if isinstance(type, ir.Fitted):
        if any(evaluate(dim.size, env) is None for dim in type.dims):
            return ir.describe(type)
        type = ir.Array(type.dtype, _fitted_dims(type, None, env))
    if isinstance(type, ir.Array):
        return f"{type.dtype}[{', '.join(_show_size(dim, env) for dim in type.dims)}]"
    if isinstance(type, ir.Key):
        name = f"key<{type.impl}>" if type.impl else "key"
        return f"{name}[{', '.join(_show_size(dim, env) for dim in type.dims)}]"
    if isinstance(type, ir.Node):
        return short(type.cls)
    if isinstance(type, ir.Optional):
        return f"{_expected(type.item, env)} or None"
    if isinstance(type, (ir.Sequence, ir.Dict, ir.Tuple, ir.Partial)):
        return container_name(type)
    if isinstance(type, (ir.Scalar, ir.NumpyScalar, ir.Enum, ir.Untyped)):
        return ir.describe(type)
    assert_never(type)


def expected_name(type: ir.Type) -> str:
    """What a field is to hold, with the names of its dims."""
    return _expected(type, {})


def of_values(expected: str) -> str:
    """What is said of state dicts, said of what they are made from."""
    return expected.removesuffix(" as a dict").removesuffix(" as {impl, data}")


def _show_size(dim: Dim, env: _Env) -> str:
    size = evaluate(dim.size, env)
    if isinstance(dim.size, Int) and dim.label is None:
        return str(dim.size)
    name = dim.label or str(dim.size)
    return name if size is None else f"{name}={size}"


def container_name(type: Container) -> str:
    if isinstance(type, ir.Sequence):
        return "tuple" if type.immutable else "list"
    if isinstance(type, ir.Dict):
        return f"dict[{type.key}, ...]"
    if isinstance(type, ir.Partial):
        return "Partial"
    if isinstance(type, ir.Tuple):
        return f"tuple of {len(type.items)}"
    assert_never(type)


def describe(value: Any) -> str:
    """A found value in a few words; never its contents, which may be large or hostile."""
    if is_array(value):
        shape = f"[{', '.join(map(str, value.shape))}]"
        if isinstance(value, np.generic):
            return f"numpy scalar {value.dtype}"
        dtype = value.dtype
        name = str(dtype) if not isinstance(dtype, np.dtype) or dtype.isnative else f"byte-swapped {dtype.name}"
        return f"{name}{shape}"
    if value.__class__ in (int, float, bool, complex):
        text = repr(value) if value.__class__ is not int or abs(value) < 10**20 else "a huge number"
        return f"{value.__class__.__name__} {text}"
    if value.__class__ is str:
        return f"str {value[:40]!r}"
    return _kind(value)


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    if is_array(value):
        return describe(value)
    return str(value.__class__.__name__)


def _passes(scalar: str, value: object) -> bool:
    try:
        CHECKS[scalar](value)
    except Misfit:
        return False
    return True


def _is_key(kind: str, key: object) -> bool:
    if type(key) is not str:
        return False
    return kind == "str" or int_of(key) is not None


def as_key(key: object) -> str | int:
    return key if type(key) is str else f"{type(key).__name__} key {str(key)[:40]}"


def short(id: str) -> str:
    """`pkg.state:Adam[pkg.state:Params]` -> `Adam[Params]`."""
    words = id.replace("[", " [ ").replace("]", " ] ").replace(", ", " , ").split(" ")
    return "".join(", " if word == "," else word.rpartition(":")[2] for word in words)
