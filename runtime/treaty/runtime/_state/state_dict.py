"""State dicts of values: `to_state_dict`, `from_state_dict`, and the driver behind every generated reader."""

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from operator import getitem
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

import jax

from treaty.runtime._errors import Mismatch, StateMismatchError
from treaty.runtime._state import alike
from treaty.runtime._state import template as templates
from treaty.runtime._state.arrays import cannot_hold, collect, keep_on_host, narrowed, place_each, placed, transfer
from treaty.runtime._state.declared import declared_arrays
from treaty.runtime._state.explain import explain as walk
from treaty.runtime._state.explain_value import explain_value
from treaty.runtime._state.registry import Codec, codec_for, codec_of, codec_of_class, codec_of_instance, is_class
from treaty.schema import TreatyError
from treaty.schema.keymap import KeyMap

_T = TypeVar("_T")
Into = Literal["numpy"]


def to_state_dict(obj: object, cls: Any = None, *, keymap: KeyMap | None = None) -> dict[str, Any]:
    """The state of an instance as nested dicts, laid out as Flax does; nothing is copied or moved.

    Leaves are what they were, right or wrong; a container or class other than the declared one, which would come back
    as that, is refused. `cls` names the generic alias where the class of `obj` alone does not say it. With a `keymap` names
    and layouts are those of its stored side, and arrays that it re-arranges are numpy's, made here.
    """
    state = write_state(codec_for(obj, cls), obj)
    if keymap is None:
        return state
    from treaty.runtime._keymaps.apply import stored_state

    return stored_state(keymap, state)


def write_state(codec: Codec[_T], obj: _T) -> dict[str, Any]:
    """Run a generated writer, and say what is wrong where it refuses."""
    try:
        state = codec.write(obj)
    except Exception:  # whatever a writer trips over, the explanation says what is wrong
        _tell(explain_value(codec.schema, obj))
        raise
    assert isinstance(state, dict)
    return state


def check_state(codec: Codec[Any], state: Mapping[str, Any]) -> None:
    """Raise what a restore would, before anything is stored."""
    try:
        codec.read(state, collect([]), *[None] * len(codec.dims))
    except Exception:  # whatever a reader trips over, the explanation says what is wrong
        _tell(walk(codec.schema, state))
        raise


class ReadOptions(TypedDict, total=False):
    """The keywords of `from_state_dict`."""

    dims: Mapping[str, int] | None
    into: Into | None
    keymap: KeyMap | None


@overload
def from_state_dict(target: type[_T], state: Mapping[str, Any], **options: Unpack[ReadOptions]) -> _T: ...
@overload
def from_state_dict(target: _T, state: Mapping[str, Any], **options: Unpack[ReadOptions]) -> _T: ...
def from_state_dict(
    target: Any,
    state: Mapping[str, Any],
    *,
    dims: Mapping[str, int] | None = None,
    into: Into | None = None,
    keymap: KeyMap | None = None,
) -> Any:
    """Build `target` from a state dict, or raise one StateMismatchError that lists every mismatch.

    `target` is a class, a generic alias, or a template instance, whose shapes and static fields must then
    match too. Host arrays go to the device in one transfer where the field says jax.Array; `into="numpy"`
    keeps them where they are. A `keymap` says which of the names in `state` are which fields; `dims` are also sizes that it may need.
    """
    if keymap is not None:
        from treaty.runtime._keymaps.apply import field_state

        if not isinstance(state, Mapping):
            _tell(explain(target, state))
        state = field_state(keymap, state, dims)
        dims = class_dims(codec_of(target), dims, keymap)
    if is_class(target):
        return build(codec_of_class(target), state, dims or {}, into)
    codec = codec_of_instance(target)
    try:
        filled = templates.fill_untyped(codec.schema, state, target, partial(from_state_dict, into=into))
    except (
        Exception
    ):  # of an instance inside, which does not know where it is, or of a template that is not as declared
        _tell(walk(codec.schema, state, dims or {}, write_state(codec, target)))
        raise
    obj = build(codec, filled, dims or {}, into)
    if not templates.same_shapes(obj, target):
        found = walk(codec.schema, state, dims or {}, write_state(codec, target))
        raise StateMismatchError(found or [_other_structure(obj, target)])
    return obj


def explain(target: Any, state: object, *, dims: Mapping[str, int] | None = None) -> tuple[Mismatch, ...]:
    """Every mismatch that `from_state_dict` would raise, without building anything; () where all is well."""
    codec = codec_of(target)
    check_arguments(codec, dims or {}, None)
    if is_class(target):
        return walk(codec.schema, state, dims)
    return walk(codec.schema, state, dims, write_state(codec, target))


def build(codec: Codec[_T], state: Any, dims: Mapping[str, int | None], into: Into | None = None) -> _T:
    """Run a generated reader: check and list host arrays, transfer them at once, build."""
    check_arguments(codec, dims, into)
    values = [dims.get(name) for name in codec.dims]
    pending: list[Any] = []
    try:
        obj = codec.read(state, keep_on_host if into else collect(pending), *values)
    except Exception:  # whatever a reader trips over, the explanation says what is wrong
        _tell(walk(codec.schema, state, dims))
        if into:
            raise
        return codec.read(state, place_each, *values)
    return codec.read(state, placed(_transferred(codec, state, pending)), *values) if pending else obj


def attempt_build(
    codec: Codec[_T],
    state: Any,
    dims: Mapping[str, int | None],
    into: Into | None,
    runs: Mapping[int, list[alike.AlikeRun]],
) -> _T:
    """`build`, without an explanation of what is wrong: `alike.NotAlike` says that there is something."""
    values = [dims.get(name) for name in codec.dims]
    if into:
        if runs:
            return alike.attempt(lambda: alike.reading(runs, lambda: codec.read(state, keep_on_host, *values)))
        return alike.attempt(lambda: codec.read(state, keep_on_host, *values))
    pending: list[Any] = []
    obj = alike.attempt(lambda: codec.read(state, collect(pending), *values))
    return codec.read(state, placed(_transferred(codec, state, pending)), *values) if pending else obj


def _transferred(codec: Codec[Any], state: Any, pending: Sequence[Any]) -> list[jax.Array]:
    """The host arrays on the device; where JAX would narrow them, which ones."""
    try:
        return transfer(pending)
    except TreatyError:
        wide = {id(leaf) for leaf in pending if narrowed(leaf.dtype) != leaf.dtype}
        leaves = ((path, reduce(getitem, path, state)) for path in declared_arrays(codec.schema, state))
        if told := [cannot_hold(leaf.dtype, path) for path, leaf in leaves if id(leaf) in wide]:
            raise TreatyError("\n".join(told)) from None
        raise


def explain_quickly(codec: Codec[Any], state: Any, dims: Mapping[str, int | None]) -> tuple[Mismatch, ...]:
    """What `explain` finds; where all is well, as fast as the generated reader finds nothing."""
    try:
        codec.read(state, collect([]), *(dims.get(name) for name in codec.dims))
    except Exception:  # whatever a reader trips over, the explanation says what is wrong
        return walk(codec.schema, state, dims)
    return ()


def class_dims(codec: Codec[Any], dims: Mapping[str, int] | None, keymap: KeyMap | None) -> dict[str, int]:
    """The sizes that are of dims of the class: with a key map, some may be of its axes only."""
    axes = () if keymap is None else keymap.axes
    return {name: size for name, size in (dims or {}).items() if name not in axes or name in codec.dims}


def check_arguments(codec: Codec[Any], dims: Mapping[str, int | None], into: str | None) -> None:
    """What a caller may have misspelt, before any work is done."""
    if into not in (None, "numpy"):
        raise TreatyError(f'into={into!r}: expected "numpy" or None')
    for name in dims:
        if name not in codec.dims:
            raise TreatyError(f"{codec.id} has no dim {name!r}; its dims: {', '.join(codec.dims) or 'none'}")
        if type(dims[name]) not in (int, type(None)):
            raise TreatyError(f"dims={{{name!r}: {dims[name]!r}}}: expected an int")


def _tell(found: Sequence[Mismatch]) -> None:
    """Raise what an explanation found. Where it finds nothing, the error at hand is that of the user's own code."""
    if found:
        raise StateMismatchError(found) from None


def _other_structure(obj: Any, target: Any) -> Mismatch:
    """What a schema does not say: the static fields of a class of another library, a container in an untyped subtree."""
    structures = (jax.tree.structure(templates.plain_dicts(one)) for one in (obj, target))
    told = templates.difference(*structures)
    expected, got = told or ("leaves of the shapes", "others")
    return Mismatch(f"{expected} as in the template", got, ())
