"""Uses every class of the modules named: `python -m tests.generator.use_schemas SEED MODULE...`."""

import importlib
import sys
from random import Random
from typing import Any

import jax
import numpy as np

from treaty.generator._worker import roots
from treaty.runtime import StateMismatchError, abstract, from_bytes, from_state_dict, to_bytes, to_state_dict
from treaty.runtime._state.registry import codec_of_class
from treaty.schema import Schema, ir
from treaty.schema.dims import definition_order, evaluate
from treaty.schema.dtypes import BY_NAME, KEY_IMPLS

Env = dict[str, int | None]
_SCALARS = {"int": 3, "float": 0.5, "bool": True, "str": "s", "bytes": b"b", "complex": 1j, "none": None}
_OTHER = object()


class Contradiction(Exception):
    """A class whose ties and labels no sizes satisfy."""


class States:
    """State dicts that a schema allows."""

    def __init__(self, schema: Schema, random: Random) -> None:
        self.schema, self.random = schema, random

    def of_class(self, cls: ir.Class, given: Env, depth: int = 0) -> dict[str, Any]:
        defined = dict(cls.definitions)
        env: Env = {dim: given.get(dim) or self.random.randint(1, 3) for dim in cls.dims}
        for dim in definition_order(defined):
            size = evaluate(defined[dim], env)
            if given.get(dim) not in (None, size):
                raise Contradiction
            env[dim] = size
        return {one.key: self.of_type(one.type, env, depth) for one in cls.fields}

    def of_type(self, type: ir.Type, env: Env, depth: int) -> Any:
        if isinstance(type, ir.Array):
            return np.zeros([self._size(dim.size, env) for dim in type.dims], BY_NAME[type.dtype].numpy)
        if isinstance(type, ir.Key):
            impl = type.impl or "threefry2x32"
            shape = [self._size(dim.size, env) for dim in type.dims]
            return {"impl": impl, "data": np.zeros((*shape, KEY_IMPLS[impl]), np.uint32)}
        if isinstance(type, ir.Scalar):
            return _SCALARS[type.type]
        if isinstance(type, ir.NumpyScalar):
            return BY_NAME[type.dtype].numpy.type(1)
        if isinstance(type, ir.Enum):
            return self.random.choice(type.members)
        if isinstance(type, ir.Node):
            given: Env = {name: self._size(size, env) for name, size in type.ties}
            return self.of_class(self.schema[type.cls], given, depth + 1)
        if isinstance(type, ir.Tuple):
            return {str(i): self.of_type(item, env, depth) for i, item in enumerate(type.items)}
        if isinstance(type, ir.Partial):
            return {"args": self.of_type(type.args, env, depth), "keywords": self.of_type(type.keywords, env, depth)}
        if isinstance(type, ir.Optional):
            return None if self.random.random() < 0.3 else self.of_type(type.item, env, depth)
        if isinstance(type, (ir.Sequence, ir.Dict)):
            count = self.random.randint(0, 2) if type.length is None else self._size(type.length, env)
            item = type.item if isinstance(type, ir.Sequence) else type.value
            return {str(i): self.of_type(item, env, depth) for i in range(count)}
        return {"free": 1}

    def _size(self, size: Any, env: Env) -> int:
        found = evaluate(size, env)
        if found is None or found < 0:
            raise Contradiction
        return found


def places(schema: Schema, type: ir.Type, state: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Where a schema says what stands there: all but untyped subtrees."""
    inner = type.item if isinstance(type, ir.Optional) else type
    while isinstance(inner, ir.Optional):
        inner = inner.item
    if isinstance(inner, ir.Untyped):
        return []
    if state is None:
        return [path]
    type = inner
    below: dict[str, ir.Type] = {}
    if isinstance(type, ir.Node):
        below = {one.key: one.type for one in schema[type.cls].fields}
    elif isinstance(type, ir.Tuple):
        below = {str(i): item for i, item in enumerate(type.items)}
    elif isinstance(type, ir.Partial):
        below = {"args": type.args, "keywords": type.keywords}
    elif isinstance(type, (ir.Sequence, ir.Dict)):
        below = dict.fromkeys(state, type.item if isinstance(type, ir.Sequence) else type.value)
    return [path, *(place for key, one in below.items() for place in places(schema, one, state[key], (*path, key)))]


def replaced(state: Any, path: tuple[str, ...], value: Any) -> Any:
    return value if not path else {**state, path[0]: replaced(state[path[0]], path[1:], value)}


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(equal(one[k], other[k]) for k in one)
    if hasattr(one, "dtype"):
        return bool(one.dtype == other.dtype and np.array_equal(np.asarray(one), np.asarray(other)))
    return type(one) is type(other) and bool(one == other)


def use(cls: type, random: Random) -> None:
    codec = codec_of_class(cls)
    assert Schema.from_json(codec.schema.to_json()).digest == codec.digest
    if codec.abstract is not None:
        abstract(cls, **dict.fromkeys(codec.sizes, 4))
    states = States(codec.schema, random)
    for _ in range(3):
        try:
            saved = states.of_class(codec.schema.root_class, {})
        except Contradiction:
            continue
        value: Any = from_state_dict(cls, saved)
        assert equal(to_state_dict(value, cls), saved), cls
        jax.tree.leaves(value)
        assert equal(to_state_dict(from_bytes(cls, to_bytes(value, cls)), cls), saved), cls
        for place in places(codec.schema, ir.Node(codec.schema.root), saved)[:12]:
            try:
                from_state_dict(cls, replaced(saved, place, _OTHER))
            except StateMismatchError:
                continue
            raise AssertionError(f"{cls} took another object at {place}")


def main(seed: str, *names: str) -> None:
    for name in names:
        for cls in roots(importlib.import_module(name)):
            try:
                use(cls, Random(seed))
            except BaseException:
                print("failed:", name, cls.__name__)
                raise
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
