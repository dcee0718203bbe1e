"""Every kind of single change, applied to a class that stands at the root and deep inside of others.

For each change, what the gate says of it is compared with what really happens when a checkpoint of the old class, in every
format, is restored by the new one, and both with what is true of it. `python -m tests.evolution.mutations` prints the counts; `--quick` takes one place inside for each change,
`--lock` restores after the change was locked.
"""

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final, Literal

import attrs
from attrs import frozen

from tests.evolution.project import Project, projects
from tests.evolution.states import WRITERS, leaf_bits
from treaty.runtime import InvalidArgumentError, TreatyError, restore
from treaty.runtime._evolve.histories import history_of
from treaty.schema.evolution.gate import breaches
from treaty.schema.evolution.history import Histories
from treaty.schema.ir import Schema

Truth = Literal["fine", "breaks", "depends", "silent"]
Verdict = Literal["fine", "LOAD", "SILENT"]
Outcome = Literal["right", "wrong", "refused", "asked", "crashed"]
Gate = Callable[[Mapping[str, Schema], Histories], Mapping[str, Verdict]]  # by symbol

# What the gate has to say of a change, by what is true of it.
OWED: Final[Mapping[Truth, Verdict]] = {"fine": "fine", "breaks": "LOAD", "depends": "LOAD", "silent": "SILENT"}


@frozen
class Change:
    """One change of a class `Part@`. In its texts, `@` is the number of the change, so that all can be in one module."""

    kind: str
    truth: Truth
    before: str  # fields
    after: str
    fits: str = "w=3"  # the values of a state that comes through, and of one that does not, where that depends
    clash: str = ""
    new: Mapping[str, str] = attrs.field(factory=dict)  # what fields are then, if not what they were, in terms of `old`
    above: str = ""  # classes before it
    above_after: str | None = None
    reserved: str = ""
    below: str = ""  # migrations


@frozen
class Host:
    """Where the class stands."""

    name: str
    text: str
    make: Callable[[Project, Any, str], Any]
    parts: Callable[[Any], list[Any]]


@frozen
class Case:
    """What happened of a change, at one place, in one format."""

    change: Change
    host: str
    format: str
    fits: bool  # whether the values come through, where that depends
    verdict: Verdict
    outcome: Outcome
    said: str = ""

    @property
    def fault(self) -> str:
        """What is wrong with it; "" where nothing is."""
        truth = self.change.truth
        if self.outcome in ("wrong", "crashed"):
            return f"{self.outcome}: {self.said}"
        if self.verdict != OWED[truth]:
            return f"{'false alarm' if truth == 'fine' else 'missed'}: the gate says {self.verdict}"
        if (truth == "fine" or (truth == "depends" and self.fits)) and self.outcome not in ("right", "asked"):
            return f"lost: {self.said}"
        if truth == "silent" and self.outcome == "right":
            return "silent: nobody was asked"
        if truth == "breaks" and self.outcome == "right" and self.format == "directory":
            return "a directory was read by a schema that it does not have"
        if truth == "depends" and not self.fits and self.outcome == "right":
            return "what cannot be read was read"
        return ""


F: Final = 'Float32[Array, "{}"]'
SQUARE: Final = "jnp.arange(9.0).reshape(3, 3)"
ENUM: Final = "class E@(enum.Enum):\n    A = 1\n    B = 2\n"
TUPLE: Final = "class N@(NamedTuple):\n    x: int\n    y: str\n"
TWO: Final = "@state\nclass B@:\n    x: int\n@state\nclass C@:\n    x: int\n    y: int = 0\n"
GENERIC: Final = "@state\nclass M@(Generic[P]):\n    mu: P\n"
LINEAR: Final = f"@state\nclass L@:\n    k: {F.format('a b')}\n"
FUNCTIONS: Final = "def f@(x): ...\ndef g@(x): ...\n"
CALL: Final = "w: Annotated[Partial, Fields(func={}, args=(int,), keywords={{}})]"

CHANGES: Final[Sequence[Change]] = (
    Change("nothing", "fine", "w: int", "w: int"),
    Change("doc", "fine", "w: int", '"""Says more now."""\n    w: int'),
    Change("reorder", "fine", "w: int\n    v: str", "v: str\n    w: int", "w=3, v='x'"),
    Change("rename", "breaks", "w: int", "v: int"),
    Change("rename, alias", "fine", "w: int", 'v: int = field(aliases=("w",))', new={"v": "old.w"}),
    Change("rename, key", "fine", "w: int", 'v: int = field(key="w")', new={"v": "old.w"}),
    Change(
        "rename, migration",
        "fine",
        "w: int",
        "v: int",
        new={"v": "old.w"},
        below="migration(Part@, 1, moves=[Rule('w', 'v')])",
    ),
    Change("rename of an optional", "breaks", "w: int | None", "v: int | None"),
    Change("rename of an optional None", "breaks", "w: int | None", "v: int | None", "w=None"),
    Change("rename of a container", "breaks", "w: list[int]", "v: list[int]", "w=[1, 2]"),
    Change("rename of an empty container", "breaks", "w: list[int]", "v: list[int]", "w=[]"),
    Change("retype", "breaks", "w: int", "w: str"),
    Change("retype", "breaks", "w: str", "w: bytes", "w='x'"),
    Change("retype", "breaks", "w: bool", "w: int", "w=True"),
    Change("retype", "breaks", "w: float", "w: int", "w=2.0"),
    Change("retype, number and array", "breaks", "w: int", 'w: Int32[Array, ""]'),
    Change("retype, number and array", "breaks", 'w: Int32[Array, ""]', "w: int", "w=jnp.int32(3)", new={"w": "3"}),
    Change("retype, numpy", "breaks", "w: np.float32", "w: np.float64", "w=np.float32(2)"),
    Change("retype, wider", "fine", "w: int", "w: float", new={"w": "float(old.w)"}),
    Change("retype, wider", "fine", "w: float", "w: complex", "w=0.5", new={"w": "complex(old.w)"}),
    Change("retype, wider", "fine", "w: list[int]", "w: list[float]", "w=[1]", new={"w": "[1.0]"}),
    Change("retype, class and dict", "breaks", "w: B@", "w: dict[str, int]", "w=B@(x=1)", above=TWO),
    Change(
        "retype, class and TypedDict",
        "fine",
        "w: B@",
        "w: B@",
        "w=B@(x=1)",
        new={"w": "{'x': 1}"},
        above="@state\nclass B@:\n    x: int\n",
        above_after="class B@(TypedDict):\n    x: int\n",
    ),
    Change("rank", "breaks", f"w: {F.format('n')}", f"w: {F.format('n m')}", "w=jnp.ones(3)"),
    Change("rank", "breaks", f"w: {F.format('1 n')}", f"w: {F.format('n')}", "w=jnp.ones((1, 3))"),
    Change("rank of a key", "breaks", 'w: Key[Array, ""]', 'w: Key[Array, "2"]', "w=jax.random.key(0)"),
    Change(
        "rank, migration",
        "fine",
        f"w: {F.format('a b')}",
        f"w: {F.format('n')}",
        f"w={SQUARE}",
        new={"w": "old.w.reshape(9)"},
        below="migration(Part@, 1, moves=[Rule('w', 'w', 'a b -> (a b)')], sizes={'a': 3})",
    ),
    Change("dim renamed", "fine", f"w: {F.format('n m')}", f"w: {F.format('i j')}", f"w={SQUARE}"),
    Change("dim named", "fine", f"w: {F.format('3')}", f"w: {F.format('n')}", "w=jnp.ones(3)"),
    Change("dim fixed", "depends", f"w: {F.format('n')}", f"w: {F.format('3')}", "w=jnp.ones(3)", "w=jnp.ones(4)"),
    Change("dim fixed to another", "breaks", f"w: {F.format('3')}", f"w: {F.format('4')}", "w=jnp.ones(3)"),
    Change(
        "dim by a formula",
        "depends",
        f"w: {F.format('n')}\n    v: {F.format('m')}",
        f"w: {F.format('n')}\n    v: {F.format('2*n')}",
        "w=jnp.ones(2), v=jnp.ones(4)",
        "w=jnp.ones(2), v=jnp.ones(5)",
    ),
    Change(
        "dim by another formula",
        "depends",
        f"w: {F.format('n')}\n    v: {F.format('2*n')}",
        f"w: {F.format('n')}\n    v: {F.format('n*n')}",
        "w=jnp.ones(2), v=jnp.ones(4)",
        "w=jnp.ones(3), v=jnp.ones(6)",
    ),
    Change(
        "dim without a formula",
        "fine",
        f"w: {F.format('n')}\n    v: {F.format('2*n')}",
        f"w: {F.format('n')}\n    v: {F.format('m')}",
        "w=jnp.ones(2), v=jnp.ones(4)",
    ),
    Change("dim with a label", "fine", f"w: {F.format('n 2*n')}", f"w: {F.format('n h=2*n')}", "w=jnp.ones((2, 4))"),
    Change("dims permuted", "silent", f"w: {F.format('n m')}", f"w: {F.format('m n')}", f"w={SQUARE}"),
    Change(
        "dims permuted, not square", "silent", f"w: {F.format('n m')}", f"w: {F.format('m n')}", "w=jnp.ones((2, 3))"
    ),
    Change(
        "dims permuted in one of two",
        "silent",
        f"w: {F.format('n m')}\n    v: {F.format('n m')}",
        f"w: {F.format('n m')}\n    v: {F.format('m n')}",
        f"w={SQUARE}, v={SQUARE}",
    ),
    Change(
        "dims permuted of a class",
        "silent",
        "w: Annotated[L@, Dims(None)]",
        "w: Annotated[L@, Dims(None)]",
        f"w=L@(k={SQUARE})",
        above=LINEAR,
        above_after=LINEAR.replace("a b", "b a"),
    ),
    Change(
        "dims permuted, migration",
        "fine",
        f"w: {F.format('n m')}",
        f"w: {F.format('m n')}",
        f"w={SQUARE}",
        new={"w": "old.w.T"},
        below="migration(Part@, 1, moves=[Rule('w', 'w', 'n m -> m n')])",
    ),
    Change(
        "dims permuted, plain migration",
        "silent",
        f"w: {F.format('n m')}",
        f"v: {F.format('m n')}",
        f"w={SQUARE}",
        new={"v": "old.w"},
        below="migration(Part@, 1, moves=[Rule('w', 'v')])",
    ),
    Change(
        "fixed size, migration",
        "breaks",
        f"w: {F.format('n 3')}",
        f"v: {F.format('n 4')}",
        "w=jnp.ones((2, 3))",
        new={"v": "old.w"},
        below="migration(Part@, 1, moves=[Rule('w', 'v')])",
    ),
    Change(
        "fixed sizes, migration with a layout",
        "fine",
        f"w: {F.format('2 3')}",
        f"w: {F.format('3 2')}",
        "w=jnp.ones((2, 3))",
        new={"w": "old.w.T"},
        below="migration(Part@, 1, moves=[Rule('w', 'w', 'n m -> m n')])",
    ),
    Change(
        "attrs class swapped",
        "silent",
        "w: B@",
        "w: C@",
        "w=B@(x=1)",
        above="@attrs.frozen\nclass B@:\n    x: int\n@attrs.frozen\nclass C@:\n    x: int\n",
    ),
    Change("dims permuted, new names", "fine", f"w: {F.format('n m')}", f"w: {F.format('i j')}", f"w={SQUARE}"),
    Change(
        "dtype wider",
        "fine",
        'w: Float16[Array, "n"]',
        f"w: {F.format('n')}",
        "w=jnp.ones(3, jnp.float16)",
        new={"w": "old.w.astype(jnp.float32)"},
    ),
    Change(
        "dtype wider",
        "fine",
        'w: BFloat16[Array, "n"]',
        f"w: {F.format('n')}",
        "w=jnp.ones(3, jnp.bfloat16)",
        new={"w": "old.w.astype(jnp.float32)"},
    ),
    Change(
        "dtype wider",
        "fine",
        'w: Int8[Array, "n"]',
        'w: Int32[Array, "n"]',
        "w=jnp.ones(3, jnp.int8)",
        new={"w": "old.w.astype(jnp.int32)"},
    ),
    Change("dtype narrower", "breaks", f"w: {F.format('n')}", 'w: Float16[Array, "n"]', "w=jnp.ones(3)"),
    Change(
        "dtype narrower, cast_from",
        "fine",
        f"w: {F.format('n')}",
        'w: Float16[Array, "n"] = field(cast_from=("float32",))',
        "w=jnp.ones(3) / 3",
        new={"w": "old.w.astype(jnp.float16)"},
    ),
    Change(
        "dtype of the same size",
        "breaks",
        'w: Float16[Array, "n"]',
        'w: BFloat16[Array, "n"]',
        "w=jnp.ones(3, jnp.float16)",
    ),
    Change(
        "dtype of another kind", "breaks", 'w: Int32[Array, "n"]', f"w: {F.format('n')}", "w=jnp.ones(3, jnp.int32)"
    ),
    Change("host array", "fine", f"w: {F.format('n')}", 'w: Float32[np.ndarray, "n"]', "w=jnp.ones(3)"),
    Change("container, list and tuple", "fine", "w: list[int]", "w: tuple[int, ...]", "w=[1, 2]", new={"w": "(1, 2)"}),
    Change("container, tuple and list", "fine", "w: tuple[int, int]", "w: list[int]", "w=(1, 2)", new={"w": "[1, 2]"}),
    Change(
        "container, list and pair",
        "depends",
        "w: list[int]",
        "w: tuple[int, int]",
        "w=[1, 2]",
        "w=[1, 2, 3]",
        new={"w": "(1, 2)"},
    ),
    Change(
        "container, list and dict",
        "breaks",
        "w: list[int]",
        "w: dict[str, int]",
        "w=[1, 2]",
        new={"w": "{'0': 1, '1': 2}"},
    ),
    Change("container, dict and list", "breaks", "w: dict[str, int]", "w: list[int]", "w={'a': 1}"),
    Change(
        "container, array and list", "breaks", f"w: {F.format('n')}", 'w: list[Float32[Array, ""]]', "w=jnp.ones(2)"
    ),
    Change(
        "container, keys as text", "fine", "w: dict[int, int]", "w: dict[str, int]", "w={1: 2}", new={"w": "{'1': 2}"}
    ),
    Change(
        "container, keys as numbers",
        "depends",
        "w: dict[str, int]",
        "w: dict[int, int]",
        "w={'1': 2}",
        "w={'a': 2}",
        new={"w": "{1: 2}"},
    ),
    Change("container, items of a tuple", "breaks", "w: tuple[int, str]", "w: tuple[str, int]", "w=(1, 'x')"),
    Change("container, one item more", "breaks", "w: tuple[int, int]", "w: tuple[int, int, int]", "w=(1, 2)"),
    Change("container, one item less", "breaks", "w: tuple[int, int]", "w: tuple[int]", "w=(1, 2)"),
    Change(
        "container, a length",
        "depends",
        f"w: list[int]\n    v: {F.format('n')}",
        f'w: Annotated[list[int], Length("n")]\n    v: {F.format("n")}',
        "w=[1, 2], v=jnp.ones(2)",
        "w=[1, 2], v=jnp.ones(3)",
    ),
    Change("container, no length", "fine", 'w: Annotated[list[int], Length("n")]', "w: list[int]", "w=[1, 2]"),
    Change("add", "breaks", "w: int", "w: int\n    v: str"),
    Change("add, optional", "breaks", "w: int", "w: int\n    v: str | None"),
    Change("add, default", "fine", "w: int", "w: int\n    v: str = 'x'", new={"v": "'x'"}),
    Change("add, default None", "fine", "w: int", "w: int\n    v: str | None = None", new={"v": "None"}),
    Change("add, optional with a default", "fine", "w: int", "w: int\n    v: str | None = 'x'", new={"v": "'x'"}),
    Change(
        "add, factory",
        "fine",
        "w: int",
        f"w: int\n    v: {F.format('2')} = field(factory=lambda: jnp.ones(2))",
        new={"v": "jnp.ones(2)"},
    ),
    Change(
        "add, factory of a class",
        "fine",
        "w: int",
        "w: int\n    v: B@ = field(factory=lambda: B@(x=7))",
        new={"v": "{'x': 7}"},
        above=TWO,
    ),
    Change("add, key in use before", "breaks", "w: int", "w: str\n    v: int"),
    Change("remove", "breaks", "w: int\n    v: str", "w: int", "w=3, v='x'"),
    Change("remove, reserved", "fine", "w: int\n    v: str", "w: int", "w=3, v='x'", reserved="('v',)"),
    Change(
        "remove, reserved tree",
        "fine",
        "w: int\n    v: list[B@]",
        "w: int",
        "w=3, v=[B@(x=1), B@(x=2)]",
        reserved="('v',)",
        above=TWO,
    ),
    Change("remove and add alike", "breaks", "w: int", "v: int = 0"),
    Change("remove and add alike, told", "fine", "w: int", "v: int = 0", new={"v": "0"}, reserved="('w',)"),
    Change("key reuse", "breaks", f"w: {F.format('n')}", "w: list[int]", "w=jnp.ones(2)"),
    Change(
        "key reuse, exchanged",
        "fine",
        "w: int\n    v: int",
        'w: int = field(key="v")\n    v: int = field(key="w")',
        "w=3, v=4",
        new={"w": "old.v", "v": "old.w"},
    ),
    Change("optional", "fine", "w: int", "w: int | None"),
    Change("optional, of None", "fine", "w: None", "w: int | None", "w=None"),
    Change("required", "depends", "w: int | None", "w: int", "w=3", "w=None"),
    Change(
        "required, array", "depends", f"w: {F.format('n')} | None", f"w: {F.format('n')}", "w=jnp.ones(2)", "w=None"
    ),
    Change("required, class", "depends", "w: B@ | None", "w: B@", "w=B@(x=1)", "w=None", above=TWO),
    Change(
        "enum, member added",
        "fine",
        "w: E@",
        "w: E@",
        "w=E@.B",
        above=ENUM,
        above_after=ENUM + "    C = 3\n",
        new={"w": "'B'"},
    ),
    Change(
        "enum, members reordered",
        "fine",
        "w: E@",
        "w: E@",
        "w=E@.B",
        above=ENUM,
        above_after="class E@(enum.Enum):\n    B = 1\n    A = 2\n",
        new={"w": "'B'"},
    ),
    Change(
        "enum, member removed",
        "depends",
        "w: E@",
        "w: E@",
        "w=E@.A",
        "w=E@.B",
        above=ENUM,
        above_after="class E@(enum.Enum):\n    A = 1\n",
        new={"w": "'A'"},
    ),
    Change(
        "enum, member renamed",
        "depends",
        "w: E@",
        "w: E@",
        "w=E@.A",
        "w=E@.B",
        above=ENUM,
        above_after="class E@(enum.Enum):\n    A = 1\n    C = 2\n",
        new={"w": "'A'"},
    ),
    Change(
        "tie added", "depends", f"w: {F.format('n m')}", f"w: {F.format('n n')}", f"w={SQUARE}", "w=jnp.ones((2, 3))"
    ),
    Change(
        "tie added between arrays",
        "depends",
        f"w: {F.format('n')}\n    v: {F.format('m')}",
        f"w: {F.format('n')}\n    v: {F.format('n')}",
        "w=jnp.ones(2), v=jnp.ones(2)",
        "w=jnp.ones(2), v=jnp.ones(3)",
    ),
    Change(
        "tie added of a class",
        "depends",
        f"w: Annotated[L@, Dims(None)]\n    v: {F.format('n')}",
        f'w: Annotated[L@, Dims(a="n", b=None)]\n    v: {F.format("n")}',
        f"w=L@(k={SQUARE}), v=jnp.ones(3)",
        f"w=L@(k={SQUARE}), v=jnp.ones(2)",
        above=LINEAR,
    ),
    Change(
        "tie added of each item",
        "depends",
        "w: Annotated[list[L@], Dims(None)]",
        'w: Annotated[list[L@], Dims(a="n", b=None)]',
        "w=[L@(k=jnp.ones((2, 3))), L@(k=jnp.ones((2, 3)))]",
        "w=[L@(k=jnp.ones((2, 3))), L@(k=jnp.ones((3, 3)))]",
        above=LINEAR,
    ),
    Change(
        "tie added by a migration",
        "depends",
        f"w: {F.format('n')}\n    v: {F.format('m')}",
        f"w: {F.format('n')}\n    u: {F.format('n')}",
        "w=jnp.ones(2), v=jnp.ones(2)",
        "w=jnp.ones(2), v=jnp.ones(3)",
        new={"u": "old.v"},
        below="migration(Part@, 1, moves=[Rule('v', 'u')])",
    ),
    Change("size in a sum alone", "breaks", f"w: {F.format('2*n')}", f"w: {F.format('2*n+1')}", "w=jnp.ones(4)"),
    Change(
        "size in a product alone",
        "depends",
        f"w: {F.format('2*n')}",
        f"w: {F.format('3*n')}",
        "w=jnp.ones(6)",
        "w=jnp.ones(4)",
    ),
    Change("size in a product, renamed", "fine", f"w: {F.format('2*n')}", f"w: {F.format('2*m')}", "w=jnp.ones(4)"),
    Change("tie removed", "fine", f"w: {F.format('n n')}", f"w: {F.format('n m')}", f"w={SQUARE}"),
    Change(
        "tie removed of a class",
        "fine",
        f'w: Annotated[L@, Dims(a="n", b=None)]\n    v: {F.format("n")}',
        f"w: Annotated[L@, Dims(None)]\n    v: {F.format('n')}",
        f"w=L@(k={SQUARE}), v=jnp.ones(3)",
        above=LINEAR,
    ),
    Change("static", "fine", "w: int", "w: int = field(static=True)"),
    Change("static no more", "fine", "w: int = field(static=True)", "w: int"),
    Change("default changed", "fine", "w: int = 1", "w: int = 2"),
    Change(
        "generic argument", "fine", "w: M@[int]", "w: M@[float]", "w=M@(mu=3)", new={"w": "{'mu': 3.0}"}, above=GENERIC
    ),
    Change("generic argument", "breaks", "w: M@[int]", "w: M@[str]", "w=M@(mu=3)", above=GENERIC),
    Change(
        "generic argument, another class", "silent", "w: M@[B@]", "w: M@[C@]", "w=M@(mu=B@(x=1))", above=TWO + GENERIC
    ),
    Change(
        "generic class renamed its field",
        "breaks",
        "w: M@[int]",
        "w: M@[int]",
        "w=M@(mu=3)",
        above=GENERIC,
        above_after=GENERIC.replace("mu", "nu"),
    ),
    Change(
        "generic class, alias",
        "fine",
        "w: M@[int]",
        "w: M@[int]",
        "w=M@(mu=3)",
        above=GENERIC,
        above_after=GENERIC.replace("mu: P", 'nu: P = field(aliases=("mu",))'),
        new={"w": "{'nu': 3}"},
    ),
    Change("class swapped", "silent", "w: B@", "w: D@", "w=B@(x=1)", above=TWO + "@state\nclass D@:\n    x: int\n"),
    Change(
        "optax class swapped",
        "silent",
        f"w: Annotated[optax.AdamState[{F.format('n')}], Dims(None)]",
        f"w: Annotated[optax.BeliefState[{F.format('n')}], Dims(None)]",
        "w=optax.AdamState(count=jnp.int32(1), mu=jnp.ones(2), nu=jnp.ones(2))",
    ),
    Change(
        "optax class swapped",
        "silent",
        f"w: Annotated[optax.AdamState[{F.format('n')}], Dims(None)]",
        f"w: Annotated[optax.LionState[{F.format('n')}], Dims(None)]",
        "w=optax.AdamState(count=jnp.int32(1), mu=jnp.ones(2), nu=jnp.ones(2))",
    ),
    Change(
        "optax chain shifted",
        "silent",
        f"w: tuple[Annotated[optax.TraceState[{F.format('n')}], Dims(None)], optax.EmptyState, optax.ScheduleState]",
        f"w: tuple[Annotated[optax.TraceState[{F.format('n')}], Dims(None)], optax.ScheduleState, optax.EmptyState]",
        "w=(optax.TraceState(trace=jnp.ones(2)), optax.EmptyState(), optax.ScheduleState(count=jnp.int32(1)))",
    ),
    Change("NamedTuple swapped", "silent", "w: N@", "w: O@", "w=N@(1, 'a')", above=TUPLE + TUPLE.replace("N@", "O@")),
    Change(
        "NamedTuple reordered",
        "fine",
        "w: N@",
        "w: N@",
        "w=N@(1, 'a')",
        above=TUPLE,
        above_after="class N@(NamedTuple):\n    y: str\n    x: int\n",
        new={"w": "{'y': 'a', 'x': 1}"},
    ),
    Change(
        "NamedTuple, field renamed",
        "breaks",
        "w: N@",
        "w: N@",
        "w=N@(1, 'a')",
        above=TUPLE,
        above_after=TUPLE.replace("x:", "z:"),
    ),
    Change(
        "NamedTuple, field added",
        "breaks",
        "w: N@",
        "w: N@",
        "w=N@(1, 'a')",
        above=TUPLE,
        above_after=TUPLE + "    z: int\n",
    ),
    Change(
        "PRNG",
        "silent",
        'w: Annotated[Array, ArraySpec("key<rbg>")]',
        'w: Annotated[Array, ArraySpec("key<unsafe_rbg>")]',
        "w=jax.random.key(1, impl='rbg')",
    ),
    Change(
        "PRNG of any",
        "fine",
        'w: Annotated[Array, ArraySpec("key<rbg>")]',
        'w: Key[Array, ""]',
        "w=jax.random.key(1, impl='rbg')",
    ),
    Change("function", "silent", CALL.format("f@"), CALL.format("g@"), "w=Partial(f@, 1)", above=FUNCTIONS),
    Change("unchecked", "fine", "w: list[int]", "w: Any", "w=[1, 2]", new={"w": "{'0': 1, '1': 2}"}),
    Change("checked", "depends", "w: Any", "w: int", "w=3", "w='x'"),
    Change(
        "meaning, migration",
        "fine",
        "w: int",
        "w: int",
        new={"w": "2 * old.w"},
        below="@migration(Part@, 1)\ndef twice@(old):\n    return {**old, 'w': 2 * old['w']}",
    ),
)

TOP: Final = "from typing import TypedDict\nimport attrs\nfrom treaty.schema.library import optax\n@state\nclass Both(Generic[P]):\n    one: P\n    more: list[P]\n"
HOSTS: Final[Sequence[Host]] = (
    Host("root", "", lambda p, part, n: part, lambda found: [found]),
    Host(
        "field",
        "@state\nclass Field@:\n    part: Part@\n    step: int\n",
        lambda p, part, n: p[f"Field{n}"](part=part, step=1),
        lambda found: [found.part],
    ),
    Host(
        "containers",
        "@state\nclass Containers@:\n    parts: dict[str, list[Part@]]\n",
        lambda p, part, n: p[f"Containers{n}"](parts={"a.b": [part, part]}),
        lambda found: found.parts["a.b"],
    ),
    Host(
        "optional",
        "@state\nclass Maybe@:\n    maybe: Part@ | None\n    pair: Annotated[tuple[int, Part@], Dims(None)]\n",
        lambda p, part, n: p[f"Maybe{n}"](maybe=part, pair=(1, part)),
        lambda found: [found.maybe, found.pair[1]],
    ),
    Host(
        "generic",
        "@state\nclass Uses@:\n    both: Both[Part@]\n",
        lambda p, part, n: p[f"Uses{n}"](both=p["Both"](one=part, more=[part])),
        lambda found: [found.both.one, *found.both.more],
    ),
    Host(
        "recursive",
        '@state\nclass Tree@:\n    part: Part@\n    kids: "Annotated[list[Tree@], Dims(None)]"\n',
        lambda p, part, n: p[f"Tree{n}"](part=part, kids=[p[f"Tree{n}"](part=part, kids=[])]),
        lambda found: [found.part, found.kids[0].part],
    ),
    Host(
        "NamedTuple",
        "class Pair@(NamedTuple):\n    part: Part@\n    n: int\n@state\nclass Named@:\n    pair: Pair@\n",
        lambda p, part, n: p[f"Named{n}"](pair=p[f"Pair{n}"](part, 1)),
        lambda found: [found.pair.part],
    ),
    Host(
        "optimizer",
        "@state\nclass Opt@:\n    opt: optax.AdamState[Part@]\n",
        lambda p, part, n: p[f"Opt{n}"](opt=p["optax"].AdamState(count=p["jnp"].int32(1), mu=part, nu=part)),
        lambda found: [found.opt.mu, found.opt.nu],
    ),
)
INSIDE: Final = tuple(host for host in HOSTS if host.name != "root")


def the_gate(declared: Mapping[str, Schema], histories: Histories) -> Mapping[str, Verdict]:
    """What `treaty check` prints of each class."""
    found: dict[str, Verdict] = {}
    for one in breaches(declared, histories):
        rule: Verdict = "SILENT" if one.rule == "SILENT" else "LOAD"
        found[one.symbol] = "SILENT" if found.get(one.symbol) == "SILENT" else rule
    return found


def run(
    pairs: Iterable[tuple[Change, Host]], formats: Sequence[str], gate: Gate = the_gate, *, lock: bool = False
) -> Iterator[Case]:
    """Declare all old classes in one module, write a checkpoint of each, declare all new ones, and look.

    With `lock`, the new ones are locked before anything is restored, whatever the gate says of them.
    """
    numbered = dict(enumerate(pairs))
    with projects() as make, tempfile.TemporaryDirectory() as folder:
        project = make()
        project.release(TOP + "".join(_text(one, host, n, False) for n, (one, host) in numbered.items()))
        written = {}
        for n, (one, host) in numbered.items():
            for fits in (True, False) if one.clash else (True,):
                values = _numbered(one.fits if fits else one.clash, n)
                old = eval(f"Part{n}(kept=jnp.arange(3.0), last=1, {values})", vars(project.module))
                state = host.make(project, old, str(n))
                at = Path(folder, f"{n}-{fits}")
                at.mkdir()
                for format in formats:
                    WRITERS[format](at / format, state)
                written[n, fits] = at, old, type(state).__qualname__
        project.declare(TOP + "".join(_text(one, host, n, True) for n, (one, host) in numbered.items()))
        verdicts = _by_number(gate(project.declared(), history_of))
        if lock:
            project.lock()
        for (n, fits), (at, old, name) in written.items():
            change, host = numbered[n]
            expected = _expected(project, change, n, old)
            for format in formats:
                outcome, said = _outcome(at / format, project[name], host, expected)
                yield Case(change, host.name, format, fits, verdicts.get(n, "fine"), outcome, said)


def _text(change: Change, host: Host, n: int, after: bool) -> str:
    above = change.above_after if after and change.above_after is not None else change.above
    fields, reserved = (change.after, change.reserved) if after else (change.before, "")
    state = f"@state(reserved={reserved})" if reserved else "@state"
    doc, _, rest = fields.rpartition('"""\n    ') if fields.startswith('"""') else ("", "", fields)
    order = f'    {doc}"""\n' if doc else ""
    order += f"    kept: {F.format('kept')}\n    last: int\n    {rest}\n"
    below = change.below if after else ""
    return _numbered(f"{above}{state}\nclass Part@:\n{order}{below}\n{host.text}", n)


def _numbered(text: str, n: int) -> str:
    return re.sub(r"@(?!state|migration|attrs)", str(n), text)


def _by_number(found: Mapping[str, Verdict]) -> dict[int, Verdict]:
    """The verdicts of the classes of each change: all of their names end with its number."""
    worst: dict[int, Verdict] = {}
    for symbol, verdict in found.items():
        digits = symbol[len(symbol.rstrip("0123456789")) :]
        if digits and worst.get(int(digits)) != "SILENT":
            worst[int(digits)] = verdict
    return worst


def _expected(project: Project, change: Change, n: int, old: Any) -> dict[str, Any]:
    """What each field of the new class should be, as bits."""
    found = {"kept": leaf_bits(old.kept), "last": leaf_bits(1)}
    names = [one.name for one in attrs.fields(project[f"Part{n}"])]
    for name in names:
        if name in change.new:
            found[name] = leaf_bits(eval(change.new[name], {**vars(project.module), "old": old}))
        elif name not in found and hasattr(old, name):
            found[name] = leaf_bits(getattr(old, name))
    return found


def _outcome(path: Path, cls: Any, host: Host, expected: Mapping[str, Any]) -> tuple[Outcome, str]:
    """What becomes of a checkpoint; where the caller has to say which revision it is, that is said."""
    try:
        try:
            return _compared(restore(path, cls), host, expected)
        except InvalidArgumentError as error:
            if "pass revision=" not in str(error):
                raise
            try:
                outcome, said = _compared(restore(path, cls, revision=1), host, expected)
            except TreatyError as refused:
                return "refused", str(refused)
            return ("asked", "") if outcome == "right" else (outcome, said)
    except TreatyError as error:
        return "refused", str(error)
    except Exception as error:  # whatever else it is, it is a fault
        return "crashed", f"{type(error).__name__}: {error}"


def _compared(found: Any, host: Host, expected: Mapping[str, Any]) -> tuple[Outcome, str]:
    for part in host.parts(found):
        for name, wanted in expected.items():
            if (got := leaf_bits(getattr(part, name))) != wanted:
                return "wrong", f"{name} is {got}, not {wanted}"
    return "right", ""


def each_at_the_root_and_inside() -> list[tuple[Change, Host]]:
    """Every change at the root, and at one place inside, each place in turn."""
    places = islice(cycle(INSIDE), len(CHANGES))
    return [(change, HOSTS[0]) for change in CHANGES] + list(zip(CHANGES, places, strict=True))


def everywhere() -> list[tuple[Change, Host]]:
    return [(change, host) for change in CHANGES for host in HOSTS]


def table(cases: Sequence[Case]) -> Iterator[str]:
    """How often which outcome: a line for each kind of change and what the gate says of it."""
    outcomes: tuple[Outcome, ...] = ("right", "asked", "refused", "wrong", "crashed")
    yield f"{'change':36}{'in truth':9}{'gate':8}" + "".join(f"{one:>9}" for one in outcomes)
    rows: dict[tuple[str, str, str], Counter[str]] = {}
    for case in cases:
        key = (case.change.kind, case.change.truth, case.verdict)
        rows.setdefault(key, Counter())[case.outcome] += 1
    for (kind, truth, verdict), counts in rows.items():
        yield f"{kind:36}{truth:9}{verdict:8}" + "".join(f"{counts[one] or '':>9}" for one in outcomes)
    faults = Counter(case.fault.partition(":")[0] for case in cases if case.fault)
    changes = len({(case.change.kind, case.change.before, case.change.after) for case in cases})
    places, formats = ({getattr(case, name) for case in cases} for name in ("host", "format"))
    yield f"{changes} changes, {len(places)} places, {len(formats)} formats: {len(cases)} restores"
    yield f"faults: {', '.join(f'{count} {name}' for name, count in faults.items()) or 'none'}"


def main() -> None:
    pairs = each_at_the_root_and_inside() if "--quick" in sys.argv else everywhere()
    cases = list(run(pairs, list(WRITERS), lock="--lock" in sys.argv))
    print("\n".join(table(cases)))
    for case in cases:
        if case.fault:
            print(
                f"{case.change.kind} ({case.change.before!r} -> {case.change.after!r}) in {case.host}, {case.format}, {'fits' if case.fits else 'clash'}: {case.fault[:300]}"
            )


if __name__ == "__main__":
    main()
