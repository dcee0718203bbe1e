"""How a value of one type becomes one of another: leaf by leaf, and through containers. Classes are for whoever inherits."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Final, assert_never

from attrs import define, field

from treaty.schema import ir
from treaty.schema.dims import Expr, Int, Name
from treaty.schema.dtypes import WIDER
from treaty.schema.evolution.resolution import (
    EACH,
    ConvertLeaf,
    EachItem,
    From,
    Keep,
    LoadKind,
    Make,
    Path,
    Plan,
    Problem,
    SilentKind,
    Unless,
)
from treaty.schema.evolution.sizes import Sizes

_WIDER_SCALARS: Final = {"int": ("float", "complex"), "float": ("complex",)}


@define
class Outcome:
    """What was found of two classes, or of two types in them, by paths from there."""

    plan: Plan = field(factory=Keep)
    problems: list[Problem] = field(factory=list)
    conditions: list[Problem] = field(factory=list)
    sizes: Mapping[str, Expr] | None = None  # of the reader's dims in the writer's; None where that is not known
    revision: int | None = None
    present: int | None = None

    def take(self, other: "Outcome", *keys: str) -> Plan:
        """The plan of a part; what was found of it is said below these keys."""
        self.problems += [problem.below(*keys) for problem in other.problems]
        self.conditions += [problem.below(*keys) for problem in other.conditions]
        return other.plan

    def problem(self, kind: LoadKind, expected: str, got: str, path: Path, hint: str = "") -> Plan:
        self.problems.append(Problem("LOAD", kind, expected, got, path, hint))
        return Keep()

    def silent(self, kind: SilentKind, expected: str, got: str, path: Path, hint: str = "") -> Plan:
        self.problems.append(Problem("SILENT", kind, expected, got, path, hint))
        return Keep()

    def condition(self, kind: LoadKind, expected: str, got: str, path: Path, hint: str = "") -> None:
        self.conditions.append(Problem("LOAD", kind, expected, got, path, hint))


@define
class TypeWalk:
    """Two types, side by side; what is wrong is said in `found`, by paths from the class that the types stand in."""

    found: Outcome
    sizes: Sizes
    cast: Mapping[str, str]  # dtypes that the caller wants converted
    cast_from: tuple[str, ...] = ()  # those that the field itself converts

    @abstractmethod
    def node(self, writer: ir.Node, reader: ir.Node, path: Path) -> Plan:
        """How an instance of one class becomes one of another."""

    @abstractmethod
    def now(self, symbol: str) -> str:
        """What a function is called now."""

    def type(self, writer: ir.Type, reader: ir.Type, path: Path) -> Plan:
        """How a value of one type becomes one of another."""
        if isinstance(reader, ir.Untyped):
            return Keep()
        if isinstance(reader, ir.Optional):
            if writer == ir.Scalar("none"):
                return Keep()
            is_optional = isinstance(writer, ir.Optional)
            plan = self.type(writer.item if isinstance(writer, ir.Optional) else writer, reader.item, path)
            return Unless(plan) if is_optional and not isinstance(plan, Keep) else plan
        if isinstance(writer, ir.Optional):
            if reader != ir.Scalar("none"):
                hint = "write X | None, or a migration that says what stands for None"
                self.found.condition("required", ir.describe(reader), "None, where that was stored", path, hint)
            plan = self.type(writer.item, reader, path)
            return plan if isinstance(plan, Keep) else Unless(plan)
        if isinstance(writer, ir.Untyped):
            hint = "keep Any, or write a function that converts it"
            self.found.condition("untyped", ir.describe(reader), "what was stored unchecked", path, hint)
            return Keep()
        if isinstance(writer, ir.Leaf) or isinstance(reader, ir.Leaf):
            return self._leaf(writer, reader, path)
        if isinstance(reader, ir.Node):
            return self.node(writer, reader, path) if isinstance(writer, ir.Node) else self._other(writer, reader, path)
        if isinstance(reader, (ir.Sequence, ir.Tuple, ir.Dict, ir.Partial)):
            return self._container(writer, reader, path)
        assert_never(reader)

    def _leaf(self, writer: ir.Type, reader: ir.Type, path: Path) -> Plan:
        if isinstance(reader, ir.Array):
            if isinstance(writer, ir.Array):
                return self._array(writer, reader, path)
        elif isinstance(reader, ir.Key):
            if isinstance(writer, ir.Key):
                return self._key(writer, reader, path)
        elif isinstance(reader, ir.Fitted):
            if isinstance(writer, ir.Fitted) and (writer.dtype, writer.seen) == (reader.dtype, reader.seen):
                for mine, theirs in zip(reader.dims, writer.dims, strict=True):  # as many, or other shapes were seen
                    self.sizes.add(mine.size, theirs.size, path, mine.label)
                return Keep()
        elif isinstance(reader, ir.Scalar):
            if isinstance(writer, ir.Scalar) and reader.type in _WIDER_SCALARS.get(writer.type, ()):
                return ConvertLeaf(writer.type, reader.type, exact=True)
        elif isinstance(reader, ir.Enum):
            if isinstance(writer, ir.Enum):
                return self._enum(writer, reader, path)
        elif not isinstance(
            reader,
            (ir.NumpyScalar, ir.Untyped, ir.Node, ir.Sequence, ir.Tuple, ir.Dict, ir.Optional, ir.Partial),
        ):
            assert_never(reader)
        if writer == reader:
            return Keep()
        return self.found.problem(
            "type", ir.describe(reader), ir.describe(writer), path, "write a migration, a function that converts it"
        )

    def _enum(self, writer: ir.Enum, reader: ir.Enum, path: Path) -> Plan:
        if gone := [one for one in writer.members if one not in reader.members]:
            expected = f"one of {', '.join(reader.members)}"
            hint = "keep the member, or write a migration"
            self.found.condition("enum", expected, f"{' or '.join(gone)}, where that was stored", path, hint)
        return Keep()

    def _array(self, writer: ir.Array, reader: ir.Array, path: Path) -> Plan:
        if len(writer.dims) != len(reader.dims):
            hint = "write a migration, with a layout in a Rule or as a function"
            return self.found.problem("rank", ir.describe(reader), ir.describe(writer), path, hint)
        for mine, theirs in zip(reader.dims, writer.dims, strict=True):
            self.sizes.add(mine.size, theirs.size, path, mine.label)
        if writer.dtype == reader.dtype:
            return Keep()
        if reader.dtype in WIDER.get(writer.dtype, ()):
            return ConvertLeaf(writer.dtype, reader.dtype, exact=True)
        if writer.dtype in self.cast_from or self.cast.get(writer.dtype) == reader.dtype:
            return ConvertLeaf(writer.dtype, reader.dtype, exact=False)
        return self.found.problem(
            "dtype",
            ir.describe(reader),
            ir.describe(writer),
            path,
            f"write field(cast_from=({writer.dtype!r},)), or pass cast={{{writer.dtype!r}: {reader.dtype!r}}}",
        )

    def _key(self, writer: ir.Key, reader: ir.Key, path: Path) -> Plan:
        if len(writer.dims) != len(reader.dims):
            return self.found.problem("rank", ir.describe(reader), ir.describe(writer), path, "write a migration")
        for mine, theirs in zip(reader.dims, writer.dims, strict=True):
            self.sizes.add(mine.size, theirs.size, path, mine.label)
        if reader.impl in (None, writer.impl):
            return Keep()
        if writer.impl is None:
            hint = "keep the declaration, or write a migration that makes a new key"
            got = "a key of another implementation, where stored"
            self.found.condition("prng", ir.describe(reader), got, path, hint)
            return Keep()
        hint = "other numbers would follow: write a migration that makes a new key"
        return self.found.silent("prng", ir.describe(reader), ir.describe(writer), path, hint)

    def _container(self, writer: ir.Type, reader: ir.Type, path: Path) -> Plan:
        if isinstance(reader, ir.Sequence) and isinstance(writer, ir.Sequence):
            self._length(reader.length, writer.length, path)
            return _each(self.type(writer.item, reader.item, (*path, EACH)))
        if isinstance(reader, ir.Dict) and isinstance(writer, ir.Dict):
            if reader.key == "int" and writer.key == "str":
                hint = "write a function that makes them numbers"
                self.found.condition("keys", "numbers as keys", "text, where that was stored", path, hint)
            self._length(reader.length, writer.length, path)
            return _each(self.type(writer.value, reader.value, (*path, EACH)))
        if isinstance(reader, ir.Tuple) and isinstance(writer, ir.Tuple):
            if len(reader.items) != len(writer.items):
                expected, got = f"{len(reader.items)} items", f"{len(writer.items)}"
                hint = "write a migration that says which of them are which"
                return self.found.problem("tuple", expected, got, path, hint)
            return self._items(writer.items, reader.items, path)
        if isinstance(reader, ir.Sequence) and isinstance(writer, ir.Tuple):
            self._length(reader.length, Int(len(writer.items)), path)
            return self._items(writer.items, (reader.item,) * len(writer.items), path)
        if isinstance(reader, ir.Tuple) and isinstance(writer, ir.Sequence):
            self.sizes.add(Int(len(reader.items)), writer.length or Name(f"{'.'.join(path)}.length"), path)
            return self._items((writer.item,) * len(reader.items), reader.items, path)
        if isinstance(reader, ir.Partial) and isinstance(writer, ir.Partial):
            if reader.func != self.now(writer.func):
                return self.found.silent("function", reader.func, writer.func, path, "write a migration")
            args = self.type(writer.args, reader.args, (*path, "args"))
            keywords = self.type(writer.keywords, reader.keywords, (*path, "keywords"))
            return folded(Make((("args", From("args", args)), ("keywords", From("keywords", keywords)))))
        if not isinstance(reader, (ir.Leaf, ir.Node, ir.Sequence, ir.Tuple, ir.Dict, ir.Optional, ir.Partial)):
            assert_never(reader)
        return self._other(writer, reader, path)

    def _other(self, writer: ir.Type, reader: ir.Type, path: Path) -> Plan:
        hint = "write a migration, a function that rebuilds it"
        return self.found.problem("container", ir.describe(reader), ir.describe(writer), path, hint)

    def _items(self, writer: tuple[ir.Type, ...], reader: tuple[ir.Type, ...], path: Path) -> Plan:
        parts = []
        for index, (theirs, mine) in enumerate(zip(writer, reader, strict=True)):
            key = str(index)
            parts.append((key, From(key, self.type(theirs, mine, (*path, key)))))
        return folded(Make(tuple(parts)))

    def _length(self, reader: Expr | None, writer: Expr | None, path: Path) -> None:
        if reader is not None:
            self.sizes.add(reader, writer or Name(f"{'.'.join(path)}.length"), path)


def _each(plan: Plan) -> Plan:
    return plan if isinstance(plan, Keep) else EachItem(plan)


def folded(made: Make) -> Plan:
    """A dict that is made of all it was, as it was, is kept."""
    is_kept = all(isinstance(one, From) and one.key == key and one.plan == Keep() for key, one in made.parts)
    return Keep() if is_kept and not made.drops else made
