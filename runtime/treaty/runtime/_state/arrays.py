"""Array leaves: what counts as one, and how generated code checks and places it."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar, Union, cast

import jax
import jax.numpy as jnp
import numpy as np

from treaty.runtime._errors import show_keys
from treaty.runtime._process.forks import check_devices
from treaty.runtime._state.many_arrays import put_many
from treaty.schema import TreatyError
from treaty.schema.dtypes import KEY_IMPLS

_S = TypeVar("_S", bound=np.generic)
_DType: TypeAlias = "np.dtype[Any]"
Leaf: TypeAlias = Union[jax.Array, "np.ndarray[Any, np.dtype[Any]]"]
Array0: TypeAlias = jax.Array | np.ndarray[tuple[()], np.dtype[_S]]
Array1: TypeAlias = jax.Array | np.ndarray[tuple[int], np.dtype[_S]]
Array2: TypeAlias = jax.Array | np.ndarray[tuple[int, int], np.dtype[_S]]
Array3: TypeAlias = jax.Array | np.ndarray[tuple[int, int, int], np.dtype[_S]]
Array4: TypeAlias = jax.Array | np.ndarray[tuple[int, int, int, int], np.dtype[_S]]
Array5: TypeAlias = jax.Array | np.ndarray[tuple[int, int, int, int, int], np.dtype[_S]]
ArrayN: TypeAlias = jax.Array | np.ndarray[tuple[int, ...], np.dtype[_S]]

_array_type: type[Any] | None = None  # of committed jax arrays, once one was seen: isinstance on jax.Array is slow
_uint32 = np.dtype("uint32")
_ndarray = np.ndarray
_Masked = np.ma.MaskedArray


class Misfit(Exception):
    """Generated code met something wrong; `explain` says what."""


class Put(Protocol):
    """Checks one array leaf and says what the field will hold; a size of None is open."""

    def __call__(self, leaf: Leaf, dtype: _DType, shape: tuple[int | None, ...], /) -> jax.Array: ...


class KeyState(TypedDict):
    """State of a typed PRNG key array: the implementation's name and the raw words."""

    impl: str
    data: ArrayN[np.uint32]


def is_array(value: object) -> bool:
    """Whether a value may stand in an array field: numpy, jax, traced, or abstract. A mask would be lost."""
    if type(value) is _ndarray:
        return True
    arrays = (np.ndarray, np.generic, jax.ShapeDtypeStruct, jax.Array)
    return isinstance(value, arrays) and not isinstance(value, _Masked)


def is_key(value: object) -> bool:
    """Whether a value is an array of typed PRNG keys, and not of their words."""
    dtype = getattr(value, "dtype", None)
    return dtype is not None and _is_key_dtype(dtype)


@lru_cache  # JAX asks itself at length each time
def _is_key_dtype(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jax.dtypes.prng_key))


def _checked(leaf: Leaf, dtype: _DType, shape: tuple[int | None, ...]) -> bool:
    """Whether shape and dtype are right. None is a size that nothing determines: any will do."""
    if leaf.dtype is not dtype and leaf.dtype != dtype:
        return False
    if leaf.shape == shape:
        return True
    pairs = zip(leaf.shape, shape, strict=False)
    return None in shape and len(leaf.shape) == len(shape) and all(want in (None, size) for size, want in pairs)


def host(leaf: Leaf, dtype: _DType, shape: tuple[int | None, ...], /) -> "np.ndarray[Any, np.dtype[Any]]":
    """Check a leaf and return it as numpy; traced and abstract leaves stay what they are."""
    if type(leaf) is _ndarray and leaf.shape == shape and leaf.dtype is dtype:
        return leaf  # what most leaves are, without a call
    if not _checked(leaf, dtype, shape):
        raise Misfit
    if type(leaf) is np.ndarray:
        return leaf
    if not is_array(leaf):
        raise Misfit
    if isinstance(leaf, (jax.ShapeDtypeStruct, jax.core.Tracer)):
        return cast("np.ndarray[Any, np.dtype[Any]]", leaf)
    return np.asarray(leaf)


def keep_on_host(leaf: Leaf, dtype: _DType, shape: tuple[int | None, ...], /) -> jax.Array:
    """The `Put` of `into="numpy"`: every array stays on the host, whatever its field says."""
    return cast(jax.Array, host(leaf, dtype, shape))


def check(leaf: Leaf, dtype: _DType, shape: tuple[int | None, ...], /) -> jax.Array:
    """The `Put` that only looks, before something is stored."""
    if not _checked(leaf, dtype, shape) or not is_array(leaf):
        raise Misfit
    return cast(jax.Array, leaf)


def collect(pending: list[Any]) -> Put:
    """The `Put` of a first pass: checks everything, and lists the host arrays that must go to the device."""

    array_type = _array_type

    def put(leaf: Any, dtype: _DType, shape: tuple[int | None, ...], /) -> Any:
        if type(leaf) is array_type:
            aval: Any = leaf.aval  # one look-up for both: shape and dtype each cost as much through the array
            if aval.shape == shape and (aval.dtype is dtype or aval.dtype == dtype):
                return leaf
        if not _checked(leaf, dtype, shape):
            raise Misfit
        return _first_sight(leaf, pending)

    return cast(Put, put)


def place_each(leaf: Leaf, dtype: _DType, shape: tuple[int | None, ...], /) -> jax.Array:
    """The `Put` that transfers at once, for classes whose validators want to see device arrays."""
    return transfer([leaf])[0] if isinstance(leaf, (np.ndarray, np.generic)) else leaf


def _first_sight(leaf: Any, pending: list[Any]) -> Any:
    global _array_type
    if isinstance(leaf, (np.ndarray, np.generic)) and not isinstance(leaf, _Masked):
        pending.append(leaf)
    elif not is_array(leaf):
        raise Misfit
    elif _array_type is None and not isinstance(leaf, (jax.ShapeDtypeStruct, jax.core.Tracer)):
        _array_type = type(leaf)
    return leaf


def placed(arrays: Sequence[jax.Array]) -> Put:
    """The `Put` of a second pass: hands out the transferred arrays in the order they were listed."""
    transferred = iter(arrays)

    def put(leaf: Leaf, dtype: _DType, shape: tuple[int | None, ...], /) -> jax.Array:
        return next(transferred) if isinstance(leaf, (np.ndarray, np.generic)) else leaf

    return put


def transfer(pending: Sequence[Any]) -> list[jax.Array]:
    """One batched copy to the default device, refusing what JAX would silently narrow."""
    check_devices()
    for leaf in pending:
        refuse_narrowing(leaf.dtype)
    try:
        return put_many([np.asarray(leaf) for leaf in pending])
    except (TypeError, ValueError, jax.errors.JaxRuntimeError) as error:
        dtypes = ", ".join(sorted({str(leaf.dtype) for leaf in pending}))
        raise TreatyError(f'JAX cannot place arrays of {dtypes} on this device; pass into="numpy": {error}') from error


def narrowed(dtype: _DType) -> _DType:
    """What JAX would hold of a dtype: without jax_enable_x64, 32 bits of 64."""
    return jax.dtypes.canonicalize_dtype(dtype)


def refuse_narrowing(dtype: _DType) -> None:
    if narrowed(dtype) != dtype:
        raise TreatyError(cannot_hold(dtype))


def cannot_hold(dtype: _DType, path: Sequence[str] | None = None) -> str:
    at = "" if path is None else f" at {show_keys(path)}"
    return (
        f"expected {dtype}{at}, got a JAX that holds {narrowed(dtype)} (jax_enable_x64 is off); "
        'set it, declare np.ndarray, or pass into="numpy"'
    )


def write_key(key: jax.Array) -> KeyState:
    """A typed PRNG key as its implementation's name and its words; words alone would come back as a key."""
    if not is_key(key):
        raise Misfit
    is_abstract = isinstance(key, jax.ShapeDtypeStruct)
    data = jax.eval_shape(jax.random.key_data, key) if is_abstract else jax.random.key_data(key)
    return {"impl": impl_of(key), "data": data}


def outline_key(key: Any) -> Any:
    """What `write_key` would make of a key, by its attributes alone; another value as it is."""
    if not is_key(key):
        return key
    impl, struct = impl_of(key), cast(Any, jax.ShapeDtypeStruct)
    return {"impl": impl, "data": struct((*key.shape, KEY_IMPLS.get(impl, 0)), _uint32)}


def read_key(state: KeyState, put: Put, shape: tuple[int | None, ...], impl: str | None = None) -> jax.Array:
    if type(state) is not dict or len(state) != 2:
        raise Misfit
    found = state["impl"]
    if type(found) is not str or found not in KEY_IMPLS or (impl is not None and found != impl):
        raise Misfit
    data = put(state["data"], _uint32, (*shape, KEY_IMPLS[found]))
    if isinstance(data, jax.ShapeDtypeStruct):
        wrapped: Any = jax.eval_shape(_wrap(found), data)
        return cast(jax.Array, wrapped)
    return _wrap(found)(data)


def key_dtype(impl: str | None) -> Any:
    """The dtype of keys of an implementation; None means JAX's default one."""
    return jax.eval_shape(lambda: jax.random.key(0, impl=impl)).dtype


def impl_of(key: Any) -> str:
    """The name of a key's implementation."""
    if isinstance(key, jax.ShapeDtypeStruct):
        return next((impl for impl in KEY_IMPLS if key_dtype(impl) == key.dtype), str(key.dtype))
    return str(jax.random.key_impl(key))


def _wrap(impl: str) -> Callable[[Any], jax.Array]:
    return lambda data: jax.random.wrap_key_data(data, impl=impl)
