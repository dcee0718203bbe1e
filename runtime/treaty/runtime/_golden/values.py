"""A state made up from its schema alone: small, the same everywhere, and no two leaves alike."""

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Final, assert_never

import numpy as np
from attrs import frozen

from treaty.runtime._errors import show_keys
from treaty.runtime._golden.sizes import Env, env_of, small_sizes
from treaty.runtime._lazy import HostArray
from treaty.runtime._trees import Path
from treaty.schema import Schema, TreatyError, ir
from treaty.schema._key_texts import key_text
from treaty.schema.dims import Dim, Expr, evaluate
from treaty.schema.dtypes import BY_NAME, KEY_IMPLS
from treaty.schema.from_init.fitted import fitted_shape

_ITEMS: Final = 2  # of a list or dict whose length nothing says
_POWERS: Final = (0.5, 1.0, 2.0, 4.0)  # which the narrowest floats have


def made_up(schema: Schema) -> dict[str, Any]:
    """The state dict of an instance. Optionals are there, what is untyped is empty.

    All numbers are above 0 where their dtype can be, and floats are exact: a migration may divide by them or take their logarithm.
    """
    made: dict[str, Any] = _Maker(schema, small_sizes(schema)).cls(schema.root_class, {}, (), ())
    return made


@frozen
class _Maker:
    schema: Schema
    free: Mapping[str, int]

    def cls(self, cls: ir.Class, given: Env, path: Path, above: tuple[str, ...]) -> dict[str, Any]:
        if cls.id in above:
            raise TreatyError(f"expected a class that ends, got {cls.symbol} in itself at {show_keys(path)}")
        env = env_of(cls, given, self.free)
        below = (*above, cls.id)
        made = {field.key: self.type(field.type, env, (*path, field.key), below) for field in cls.fields}
        for field in cls.fields:
            if field.spread:
                made |= key_text(field.key).spread(made.pop(field.key))
        return made

    def type(self, type: ir.Type, env: Env, path: Path, above: tuple[str, ...]) -> Any:
        if isinstance(type, ir.Array):
            return array(type.dtype, _shape(type.dims, env), _seed(path))
        if isinstance(type, ir.Fitted):
            return array(type.dtype, fitted_shape(type, _shape(type.dims, env)), _seed(path))
        if isinstance(type, ir.Key):
            impl = type.impl or next(iter(KEY_IMPLS))
            return {"impl": impl, "data": array("uint32", (*_shape(type.dims, env), KEY_IMPLS[impl]), _seed(path))}
        if isinstance(type, ir.Scalar):
            return _scalar(type.type, _seed(path))
        if isinstance(type, ir.NumpyScalar):
            return array(type.dtype, (), _seed(path))[()]
        if isinstance(type, ir.Enum):
            return type.members[_seed(path) % len(type.members)]
        if isinstance(type, ir.Untyped):
            return {}
        if isinstance(type, ir.Node):
            given = {name: evaluate(size, env) for name, size in type.ties}
            return self.cls(self.schema[type.cls], given, path, above)
        if isinstance(type, ir.Optional):
            return None if _is_in_itself(type, above) else self.type(type.item, env, path, above)
        if isinstance(type, ir.Sequence):
            keys = [str(index) for index in range(_length(type, type.length, env, above))]
        elif isinstance(type, ir.Dict):
            count = _length(type, type.length, env, above)
            keys = [str(index + 1) if type.key == "int" else f"key{index + 1}" for index in range(count)]
        elif isinstance(type, (ir.Tuple, ir.Partial)):
            keys = []
        else:
            assert_never(type)
        parts = ir.parts(self.schema, type, keys) or {}
        return {key: self.type(part, env, (*path, key), above) for key, part in parts.items()}


def array(name: str, shape: tuple[int, ...], seed: int) -> HostArray:
    """Elements that differ from each other, as far as the dtype has so many."""
    dtype = BY_NAME[name].numpy
    numbers = np.arange(math.prod(shape), dtype=np.int64) * 37 + seed
    if name == "bool" or "int" in name:
        bits = 1 if name in ("bool", "int1") else int(name.lstrip("uint")) - (name[0] == "i")  # without the sign
        made = numbers % 101 + 1 if bits >= 7 else numbers % 2**bits
    elif BY_NAME[name].itemsize == 1:
        made = np.array(_POWERS)[numbers % len(_POWERS)]
    else:
        made = (numbers % 128 + 1) / 8
    return made.astype(dtype).reshape(shape)


def _scalar(name: str, seed: int) -> Any:
    number = seed % 1000 + 1
    known: dict[str, Any] = {
        "bool": seed % 2 == 0,
        "int": number,
        "float": number / 8,
        "complex": complex(number / 8, 1.5),
        "str": f"text {number}",
        "bytes": f"bytes {number}".encode(),
        "none": None,
    }
    return known[name]


def _shape(dims: tuple[Dim, ...], env: Env) -> tuple[int, ...]:
    return tuple(evaluate(dim.size, env) or 0 for dim in dims)


def _length(type: ir.Sequence | ir.Dict, length: Expr | None, env: Env, above: tuple[str, ...]) -> int:
    if length is not None:
        return evaluate(length, env) or 0
    return 0 if _is_in_itself(type, above) else _ITEMS


def _is_in_itself(type: ir.Type, above: tuple[str, ...]) -> bool:
    """Whether a class would hold itself once more: a tree of nodes ends at the first."""
    return any(node.cls in above for node in ir.nodes(type))


def _seed(path: Path) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(path).encode()).digest()[:4], "little")
