"""Schema modules written at random: right ones, and now and then one with a mistake in it."""

from random import Random

IMPORTS = """\
from __future__ import annotations

import enum
import typing
from typing import Annotated, Any, Generic, NamedTuple, TypedDict, TypeVar

import attrs
import numpy as np
import numpy.typing as npt
from jax import Array
from jax.tree_util import Partial
from jaxtyping import BFloat16, Bool, Float32, Int8, Int32, Key, PyTree, UInt4

from treaty.schema import ArraySpec, Dims, Fields, Length, field, state

P = TypeVar("P")
Q = TypeVar("Q")


def call(*args: object, **keywords: object) -> None: ...


class Colour(enum.Enum):
    RED = 1
    blue = "b"


class Level(enum.IntEnum):
    LOW = 1
    name_ = 2


class Foreign(NamedTuple):
    one: Any
    two: Any


"""
DIMS = [
    "",
    "a",
    "b",
    "a b",
    "2",
    "a 2*a",
    "b+1",
    "a a",
    "a*b a b",
    "n=3",
    "c=2*a a",
    "a//2 a",
    "in",
    "value a",
    "state",
    "x k",
    "size=a a",
]
SIZES = ["a", "b", "2*a", "3", "a+1", "m", "2*m+1"]
NAMES = ["a", "b", "x", "state", "obj", "put", "kernel", "mu", "type", "items", "value", "int_", "cls", "str"]
WRONG = [
    "set[int]",
    "Float32[Array, '...']",
    "Array",
    "int | str",
    "Float32[Array, 'd-1 2*(d']",
    "dict[float, int]",
    "Nowhere",
    "Annotated[int, Dims('a')]",
]


class Module:
    """The text of one module, and what it declares."""

    def __init__(self, random: Random, name: str, others: "list[Module]") -> None:
        self.random, self.name = random, name
        self.plain: dict[str, list[str]] = {}  # class -> names of dims that it surely has
        self.generic: list[str] = []
        used = random.sample(others, min(len(others), random.randint(0, 2)))
        self.text = IMPORTS + "".join(f"import {other.name}\n" for other in used)
        self.foreign = {f"{other.name}.{cls}": dims for other in used for cls, dims in other.plain.items()}
        for index in range(random.randint(1, 4)):
            self.text += self._class(f"{random.choice(['Linear', 'C', 'HTTPState', 'block', 'A_b'])}{index}")

    def _class(self, name: str) -> str:
        kind = (
            "state"
            if name.endswith("0")
            else self.random.choice(["state"] * 5 + ["attrs", "named", "typed", "generic", "generic"])
        )
        fields = self.random.sample(NAMES, self.random.randint(0 if kind == "state" else 1, 4))
        dims: list[str] = []
        lines = [f"    {one}: {self._field(kind, dims)}\n" for one in fields] or ["    pass\n"]
        if kind == "generic":
            self.generic.append(name)
            return f"\n\n@state\nclass {name}(Generic[P]):\n    p: P\n    q: list[P]\n{''.join(lines)}"
        self.plain[name] = dims
        head = {"state": "@state\n", "attrs": "@attrs.frozen(kw_only=True)\n"}.get(kind, "")
        base = {"named": "(NamedTuple)", "typed": "(TypedDict)"}.get(kind, "")
        return f"\n\n{head}class {name}{base}:\n{''.join(lines)}"

    def _field(self, kind: str, dims: list[str]) -> str:
        random = self.random
        if random.random() < 0.01:
            return random.choice(WRONG)
        if kind == "state" and random.random() < 0.15:
            type, default = random.choice(
                [("int", "3"), ("str", "'it\\'s \"'"), ("Colour", "Colour.blue"), ("tuple[int, str] | None", "None")]
            )
            return f"{type} = field(static=True, default={default})"
        type = self._type(2, dims)
        if kind == "state" and random.random() < 0.2:
            return f"{type} = field(key={random.choice(['k', 'a b', 'class', 'it s', chr(34), 'int'])!r})"
        return type

    def _type(self, depth: int, dims: list[str]) -> str:
        random = self.random
        if depth and random.random() < 0.5:
            return self._container(depth - 1, dims)
        children = {**self.plain, **self.foreign}
        if children and random.random() < 0.4:
            child = random.choice(list(children))
            ties = [f"{dim}={random.choice(SIZES)!r}" for dim in children[child] if random.random() < 0.6]
            how = random.choice(["", "Dims(None)", "Dims(...)", f"Dims({', '.join(['None', *ties])})"])
            if how == "Dims(...)":
                dims += children[child]
            return f"Annotated[{child}, {how}]" if how else child
        dim = random.choice(DIMS)
        if dim.isidentifier():
            dims.append(dim)
        return random.choice(
            [
                *[f"{dtype}[Array, {dim!r}]" for dtype in ("Float32", "BFloat16", "Int8", "Bool", "UInt4")],
                f"Float32[npt.NDArray[Any], {dim!r}]",
                f"Annotated[Array, ArraySpec('float8_e4m3', {dim!r})]",
                "Key[Array, 'a']",
                "Annotated[Array, ArraySpec('key<rbg>', '')]",
                *(
                    "int",
                    "float",
                    "bool",
                    "str",
                    "bytes",
                    "complex",
                    "None",
                    "np.float16",
                    "np.int32",
                    "Colour",
                    "Level",
                ),
                *("Any", "object", "PyTree"),
            ]
        )

    def _container(self, depth: int, dims: list[str]) -> str:
        random = self.random
        item = self._type(depth, dims)
        length = f"Length({random.choice([*SIZES, 'm'])!r})"
        forms = [
            f"list[{item}]",
            f"Annotated[list[{item}], {length}]",
            f"tuple[{item}, ...]",
            f"Annotated[tuple[{item}, ...], {length}]",
            f"tuple[{item}, {self._type(depth, dims)}]",
            f"tuple[{item}]",
            "tuple[()]",
            f"dict[str, {item}]",
            f"dict[int, {item}]",
            f"typing.Optional[{item}]",
            f"Annotated[Foreign, Fields(one={item}, two={self._type(depth, dims)})]",
            f"Annotated[Partial, Fields(func=call, args=({item},), keywords={{'a': {self._type(0, dims)}}})]",
        ]
        forms += [f"Annotated[{name}[{item}], Dims(None)]" for name in self.generic]
        return random.choice(forms)


def modules(seed: int, count: int) -> list[Module]:
    random = Random(seed)
    made: list[Module] = []
    for index in range(count):
        made.append(Module(random, f"schema{index}", made[-4:]))
    return made
