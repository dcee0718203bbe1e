"""`from_state_dict`: Flax's rules and messages, and a check of every array."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, Final, TypeAlias

import jax
from jax.tree_util import Partial

from treaty.runtime._errors import Mismatch, StateMismatchError
from treaty.runtime._flax.checks import agree, compare, fits, is_strict, mismatch
from treaty.runtime._flax.nodes import is_frozen_dict, struct_fields, thawed
from treaty.runtime._flax.paths import Names, error_path, joined, names_below
from treaty.runtime._flax.registry import functions_of, is_container, is_namedtuple
from treaty.runtime._flax.write import to_state_dict
from treaty.runtime._state import state_dict
from treaty.runtime._state.explain import describe
from treaty.runtime._state.numbering import index_keys
from treaty.runtime._state.registry import is_state_class

_Read: TypeAlias = Callable[[Any, Any, Names], Any]

# Registered functions call from_state_dict for their parts: the outermost call raises what all of them found.
_found_so_far: ContextVar[list[Mismatch] | None] = ContextVar("treaty_mismatches", default=None)


def from_state_dict(target: Any, state: Any, name: str = ".") -> Any:
    """A copy of `target` with the values of `state`; an array must have the shape of the one that it replaces.

    All differences are listed in one StateMismatchError. `name` is where `target` is in what is being restored.
    """
    return restore(target, state, name, dtypes=False)


def restore(target: Any, state: Any, name: str = ".", *, dtypes: bool) -> Any:
    """`from_state_dict`; with `dtypes`, an array must have the dtype of the one that it replaces, too."""
    names = names_below(name)
    outer = _found_so_far.get()
    if outer is not None:  # the outermost call checks what the registered function makes of this
        return _TargetReader(outer, shapes=False, dtypes=False).read(target, state, names)
    found: list[Mismatch] = []
    strict = is_strict()
    # In a context of its own: after a Ctrl-C between a set and a reset, no mismatch would ever be raised again.
    context = copy_context()
    context.run(_found_so_far.set, found)
    reader = _TargetReader(found, shapes=strict, dtypes=strict and dtypes)
    try:
        restored = context.run(reader.read, target, state, names)
    except ValueError as error:
        if found:
            error.add_note("\n".join(["Before that:", *map(str, found)]))
        raise
    if found:
        raise StateMismatchError(found)
    return restored


def restore_state_class(target: Any, state: Any, names: Names = ()) -> Any:
    """Restore an instance by generated code, always strict."""
    try:
        return state_dict.from_state_dict(target, state, into="numpy")
    except StateMismatchError as error:
        above = error_path(names)
        found = [one._replace(path=(*above, *one.path)) for one in error.mismatches]
    outer = _found_so_far.get()
    if outer is None:
        raise StateMismatchError(found)
    outer += found
    return target


class _TargetReader(dict[type, _Read | None]):
    """Restores one target. It notes mismatches and goes on as far as it can.

    As a dict it remembers which function restores each type; None means a leaf.
    """

    def __init__(self, found: list[Mismatch], *, shapes: bool, dtypes: bool) -> None:
        super().__init__()
        self._found = found
        self._shapes = shapes
        self._dtypes = dtypes
        self._on_device: set[type] = set()  # types of jax arrays, whose `aval` gives shape and dtype in one look-up

    def read(self, target: Any, state: Any, names: Names) -> Any:
        return self._entries([(names[-1], target)], {names[-1]: state}, names[:-1])[names[-1]]

    def _entries(self, items: Iterable[tuple[Any, Any]], state: Any, names: Names) -> dict[Any, Any]:
        """What the state has for each part of a node. Every leaf comes by here, so leaves are checked in place."""
        on_device, shapes, dtypes = self._on_device, self._shapes, self._dtypes
        restored = {}
        for key, target in items:
            try:
                restored[key] = value = state[key if type(key) is str else str(key)]
            except KeyError:  # such as 1 in both: state dicts have text as keys
                raise _missing_keys({str(key)}, names) from None
            cls = type(target)
            read = self[cls]
            if read is not None:
                restored[key] = read(target, value, (*names, str(key)))
            elif shapes:
                try:
                    like = target.aval if cls in on_device else target
                    if value.shape != like.shape or (dtypes and value.dtype is not like.dtype):
                        self._leaf(target, value, (*names, str(key)))
                except AttributeError:
                    self._leaf(target, value, (*names, str(key)))
        return restored

    def _leaf(self, target: Any, value: Any, names: Names) -> None:
        if not fits(target, value, self._dtypes):
            self._found.append(mismatch(target, value, names))

    def __missing__(self, cls: type) -> _Read | None:
        self[cls] = read = self._reader_of(cls)
        if issubclass(cls, jax.Array) and not issubclass(cls, jax.core.Tracer):
            self._on_device.add(cls)
        return read

    def _reader_of(self, cls: type) -> _Read | None:
        if is_namedtuple(cls):
            return self._namedtuple
        if is_container(cls):
            readers: dict[type, _Read] = {
                dict: self._dict,
                list: self._list,
                tuple: self._tuple,
                Partial: self._partial,
            }
            return readers[cls]
        if served := functions_of(cls):
            general: _Read = partial(self._registered, served.read)
            if (fields := struct_fields(cls)) is not None:
                return partial(self._struct, general, fields)
            return self._frozen_dict if is_frozen_dict(cls) else general
        if is_state_class(cls):
            return restore_state_class
        return self._class if issubclass(cls, type) else None

    def _dict(self, target: Mapping[Any, Any], state: Any, names: Names) -> Any:
        if type(state) is not dict or not target.keys() <= state.keys():
            if not self._is_dict(state, f"a dict of {len(target)}", names):
                return target
            if missing := {str(key) for key in target}.difference(state.keys()):
                raise _missing_keys(missing, names)
        return self._entries(target.items(), state, names)

    def _frozen_dict(self, target: Any, state: Any, names: Names) -> Any:
        return type(target)(self._dict(thawed(target), state, names))

    def _list(self, target: Sequence[Any], state: Any, names: Names) -> Any:
        count = len(target)
        if not count and type(state) is list and not state:
            return []
        if not self._is_dict(state, f"a list of {count}", names):
            return target
        if count != len(state):
            raise ValueError(
                "The size of the list and the state dict do not match, "
                f"got {count} and {len(state)} at path {joined(names)}"
            )
        keys = index_keys(count)[:count]
        if not self._has_keys(state, keys, names):
            return target
        return list(self._entries(zip(keys, target, strict=True), state, names).values())

    def _tuple(self, target: tuple[Any, ...], state: Any, names: Names) -> Any:
        return tuple(self._list(target, state, names))

    def _namedtuple(self, target: Any, state: Any, names: Names) -> Any:
        if not self._is_dict(state, type(target).__name__, names):
            return target
        state = _without_legacy(target, state)
        if set(state.keys()) != set(target._fields):
            raise ValueError(
                "The field names of the state dict and the named tuple do not match, "
                f"got {set(state.keys())} and {set(target._fields)} at path {joined(names)}"
            )
        return type(target)(**self._entries(_attributes(target, target._fields), state, names))

    def _partial(self, target: Partial, state: Any, names: Names) -> Any:
        if not self._is_dict(state, "a Partial", names) or not self._has_keys(state, _PARTIAL, names):
            return target
        parts = self._entries(_attributes(target, _PARTIAL), state, names)
        make: Callable[..., Partial] = Partial
        return make(target.func, *parts["args"], **parts["keywords"])

    def _registered(self, read: _Read, target: Any, state: Any, names: Names) -> Any:
        """What a registered function makes of the state. It may read older forms: then its result must fit the target."""
        if not self._shapes:
            return read(target, state, names)
        before = to_state_dict(target)
        if agree(before, state, self._dtypes):
            return read(target, state, names)
        restored = read(target, state, names)
        self._found += compare(before, to_state_dict(restored), self._dtypes, names)
        return restored

    def _struct(self, general: _Read, fields: tuple[str, ...], target: Any, state: Any, names: Names) -> Any:
        if type(state) is not dict or state.keys() != set(fields):
            return general(target, state, names)  # Flax has words for it
        return target.replace(**self._entries(_attributes(target, fields), state, names))

    def _class(self, target: type, state: Any, names: Names) -> Any:
        """A state class may stand for its instances; any other class is a leaf."""
        return restore_state_class(target, state, names) if is_state_class(target) else state

    def _is_dict(self, state: Any, expected: str, names: Names) -> bool:
        if hasattr(state, "keys"):
            return True
        self._found.append(Mismatch(expected, describe(state), error_path(names)))
        return False

    def _has_keys(self, state: Any, expected: Sequence[str], names: Names) -> bool:
        missing = [key for key in expected if key not in state]
        if missing:
            self._found.append(Mismatch(f"the keys {list(expected)}", str(list(state.keys())), error_path(names)))
        return not missing


_PARTIAL: Final = ("args", "keywords")


def _missing_keys(missing: set[str], names: Names) -> ValueError:
    return ValueError(
        "The target dict keys and state dict keys do not match, target dict contains keys "
        f"{missing} which are not present in state dict at path {joined(names)}"
    )


def _attributes(target: Any, names: Iterable[str]) -> list[tuple[str, Any]]:
    return [(name, getattr(target, name)) for name in names]


def _without_legacy(target: Any, state: Any) -> Any:
    """Flax once stored a NamedTuple as its name, its fields and their values."""
    if set(state.keys()) != {"name", "fields", "values"} or set(target._fields) == set(state.keys()):
        return state
    fields, values = state["fields"], state["values"]
    return {fields[str(index)]: values[str(index)] for index in range(len(fields))}
