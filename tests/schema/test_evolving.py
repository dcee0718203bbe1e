"""What declarations say for earlier checkpoints: aliases, reserved keys, dtypes to cast from, defaults; and mistakes in them."""

import enum
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Any, Generic, NamedTuple, TypedDict, TypeVar

import attrs
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import Array
from jax.tree_util import Partial
from jaxtyping import BFloat16, Float32, Float64, Int32, Key

from treaty.schema import ArraySpec, Fields, Length, SchemaError, field, modules, schema_of, state
from treaty.schema._read import SchemaReader

T = TypeVar("T")
THREE: Any = 3


class Mode(enum.Enum):
    TRAIN = 1
    EVAL = 2


class Other(enum.Enum):
    TRAIN = 1


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Info(TypedDict):
    name: str


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Block:
    up: Linear


@state
class Sub(Linear):
    pass


PARTIAL_OF: Any = Partial  # JAX does not type it


def scaled(x: Any) -> Any:
    return x


def made(annotation: Any, **options: Any) -> Any:
    body = {"__annotations__": {"x": annotation}, "__module__": __name__, "__qualname__": "C"}
    return state(type("C", (), {**body, "x": field(**options)}))


def problems_of(cls: Any) -> list[str]:
    """What is wrong with a class, without its file and line."""
    with pytest.raises(SchemaError) as caught:
        schema_of(cls)
    found = [
        re.fullmatch(r"tests.schema.test_evolving(?:\.py:\d+)?: (?:\S*<locals>\.)?(.*)", one)
        for one in caught.value.problems
    ]
    assert all(found), caught.value.problems
    return [one[1] for one in found if one]


def test_aliases_and_reserved_keys_are_any_text() -> None:
    @state(reserved=("class", "", 'a"b'))
    class Odd:
        x: int = field(aliases=("def", "a b", "\n", "€", "__x"))

    cls = schema_of(Odd).root_class
    assert cls.reserved == ("class", "", 'a"b')
    assert cls.fields[0].aliases == ("def", "a b", "\n", "€", "__x")


def test_aliases_that_mean_two_things() -> None:
    @state(reserved=("gone",))
    class C:
        a: int = field(aliases=("a",))
        b: int = field(aliases=("a", "was_b"))
        c: int = field(key="k", aliases=("c", "was_b"))
        d: int = field(aliases=("e", "e", "gone"))
        f: int = field(aliases=("k",))

    assert problems_of(C) == [
        "C.a: alias 'a' is its own key; an alias is a key that no field has any more: remove it",
        "C.b: alias 'a' is the key of a; an alias is a key that no field has any more: remove it",
        "C.c: alias 'was_b' is one of b too; write it once",
        "C.d: alias 'e' stands there twice; write it once",
        "C.d: alias 'gone' is reserved by C, which drops what is stored under it; remove it from one of them",
        "C.f: alias 'k' is the key of c; an alias is a key that no field has any more: remove it",
    ]


def test_reserved_keys_in_use() -> None:
    @state(reserved=("a", "b"))
    class C:
        a: int
        c: int = field(key="b")

    assert problems_of(C) == [
        f"C.{name}: key {key!r} is reserved by C: earlier checkpoints hold another thing under it; "
        "write field(key=...) with another"
        for name, key in (("a", "a"), ("c", "b"))
    ]


def test_reserved_keys_are_inherited() -> None:
    @state(reserved=("a",))
    class Base:
        x: int

    @state(reserved=("b",))
    class Child(Base):
        y: int

    @state
    class Wrong(Child):
        a: int
        z: int = field(aliases=("b",))

    assert schema_of(Child).root_class.reserved == ("a", "b")
    (first, second) = problems_of(Wrong)
    assert first.startswith("Wrong.z: alias 'b' is reserved by Child, which drops ")
    assert second.startswith("Wrong.a: key 'a' is reserved by Base: earlier ")


@pytest.mark.parametrize(
    ("annotation", "cast_from", "problem"),
    [
        (
            int,
            ("float32",),
            "expected a field of arrays, got int; remove it, or write it on the field that is the array",
        ),
        (Key[Array, ""], ("uint32",), "expected a field of arrays, got key[]; remove"),
        (Linear, ("float64",), f"expected a field of arrays, got {__name__}:Linear; remove"),
        (Any, ("float64",), "expected a field of arrays, got untyped; remove"),
        (Float32[Array, "d"], ("float33",), "unknown dtype 'float33'; known: bool, int1, "),
        (Float32[Array, "d"], ("float32",), "'float32' is the dtype that the field has; remove it"),
        (list[Float32[Array, "d"]], ("float32",), "'float32' is the dtype that the field has; remove it"),
        (Float32[Array, "d"], ("int8", "int8"), "'int8' stands there twice; write it once"),
    ],
)
def test_wrong_dtypes_to_cast_from(annotation: Any, cast_from: tuple[str, ...], problem: str) -> None:
    (found,) = problems_of(made(annotation, cast_from=cast_from))
    assert found.startswith(f"C.x: field(cast_from=...): {problem}")


@pytest.mark.parametrize(
    ("annotation", "cast_from"),
    [
        (BFloat16[Array, "d"], ("float32", "float16")),
        (Float32[Array, "d"] | None, ("bfloat16",)),  # widened anyway, and meant
        (dict[str, Float32[np.ndarray, "d"]], ["float64"]),
        (tuple[Float32[Array, "d"], BFloat16[Array, "d"]], ("float32",)),  # of the second
    ],
)
def test_dtypes_to_cast_from(annotation: Any, cast_from: Any) -> None:
    assert schema_of(made(annotation, cast_from=cast_from)).root_class.fields[0].cast_from == tuple(cast_from)


LINEAR = Linear(kernel=jnp.zeros((2, 3)), bias=jnp.zeros(3))
PARTIAL = Annotated[Partial, Fields(func=scaled, args=(Float32[Array, "2"],))]


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (int, 3),
        (float, 3),
        (float, float("nan")),
        (complex, 1.5),
        (complex, 1),
        (str, ""),
        (bytes, b""),
        (bool, True),
        (None, None),
        (int | None, None),
        (Mode, Mode.EVAL),
        (np.float32, np.float32(1)),
        (ml_dtypes.bfloat16, ml_dtypes.bfloat16(1)),
        (Float32[Array, "d"], jnp.zeros(7)),
        (Float32[Array, "d d"], jnp.zeros((7, 7))),
        (Float32[Array, "2*d"], np.zeros(7, np.float32)),
        (Int32[Array, ""], np.int32(0)),
        (Float64[np.ndarray, "3"], np.zeros(3)),
        (Float64[Array, "3"], jnp.zeros(3)),  # of 32 bits, until the program tells JAX otherwise
        (Key[Array, ""], jax.random.key(0)),
        (Annotated[Array, ArraySpec("key<rbg>", "2")], jax.random.split(jax.random.key(0, impl="rbg"))),
        (list[int], [1, 2]),
        (tuple[int, ...], ()),
        (Annotated[tuple[int, ...], Length(2)], (1, 2)),
        (tuple[int, str], (1, "a")),
        (dict[str, int], {"a": 1}),
        (dict[int, int], OrderedDict({1: 1})),
        (Linear, LINEAR),
        (list[Linear], [LINEAR]),
        (Point, Point(1)),
        (Info, {"name": "a"}),
        (Annotated[Point, Fields(x=int, y=float)], Point(1)),
        (PARTIAL, PARTIAL_OF(scaled, jnp.zeros(2))),
        (Any, object()),
        (T, 3),
    ],
)
def test_defaults_that_fit(annotation: Any, default: Any) -> None:
    schema_of(made(annotation, default=default))


FITS = "write a default that fits, or none"


@pytest.mark.parametrize(
    ("annotation", "default", "problem"),
    [
        (int, "a", f"expected int, got 'a'; {FITS}"),
        (int, True, f"expected int, got True; {FITS}"),
        (int, None, "expected int, got None; write X | None as its type, or another default"),
        (float, 10**400, None),
        (int, np.int64(3), f"expected int, got int64[]; {FITS}"),
        (int | None, 1.5, f"expected int, got 1.5; {FITS}"),
        (Mode, 1, f"expected a member of Mode, got 1; {FITS}"),
        (Mode, Other.TRAIN, f"expected a member of Mode, got an instance of Other; {FITS}"),
        (np.float32, 1.0, f"expected numpy float32, got 1.0; {FITS}"),
        (np.float32, np.zeros((), np.float32), f"expected numpy float32, got float32[]; {FITS}"),
        (Float32[Array, "d"], None, "expected float32[d], got None; write X | None as its type, or another default"),
        (Float32[Array, ""], 0.0, f"expected float32[], got 0.0; {FITS}"),
        (Float32[Array, "d"], [0.0], f"expected float32[d], got [0.0]; {FITS}"),
        (Float32[Array, "d"], jnp.zeros(3, jnp.int32), f"expected float32[d], got int32[3]; {FITS}"),
        (Float32[Array, "d"], jnp.zeros(()), f"expected float32[d], got float32[]; {FITS}"),
        (Float32[Array, "3"], jnp.zeros(4), f"expected float32[3], got float32[4]; {FITS}"),
        (Float32[Array, "d d"], jnp.zeros((3, 4)), f"expected float32[d, d], got float32[3, 4]; {FITS}"),
        (Float32[np.ndarray, "d"], np.zeros(3), f"expected float32[d], got float64[3]; {FITS}"),
        (Key[Array, ""], jnp.zeros(2, jnp.uint32), f"expected key[], got uint32[2]; {FITS}"),
        (Annotated[Array, ArraySpec("key<rbg>", "")], jax.random.key(0), f"expected key<rbg>[], got key<fry>[]; {FITS}"),
        (list[int], (), f"expected list[int], got (); {FITS}"),
        (list[int], [1, "a"], f"expected int, got 'a' at $.x[1]; {FITS}"),
        (tuple[int, ...], [], f"expected tuple[int, ...], got []; {FITS}"),
        (Annotated[list[int], Length(2)], [1], f"expected list[int], got [1]; {FITS}"),
        (tuple[int, str], (1,), f"expected tuple[int, str], got (1,); {FITS}"),
        (dict[str, int], {1: 1}, f"expected dict[str, int], got {{1: 1}}; {FITS}"),
        (dict[str, int], {"a b": "c"}, f"expected int, got 'c' at $.x['a b']; {FITS}"),
        (Linear, {}, f"expected an instance of Linear, got {{}}; {FITS}"),
        (Linear, Sub(kernel=LINEAR.kernel, bias=LINEAR.bias), f"expected an instance of Linear, got an instance of Sub; {FITS}"),
        (
            list[Block],
            [Block(up=Linear(kernel=jnp.zeros(2), bias=LINEAR.bias))],
            f"expected float32[d_in, d_out], got float32[2] at $.x[0].up.kernel; {FITS}",
        ),
        (Point, (1, 2.0), f"expected an instance of Point, got (1, 2.0); {FITS}"),
        (Info, {"title": "a"}, f"expected a dict with the keys of Info, got {{'title': 'a'}}; {FITS}"),
        (PARTIAL, PARTIAL_OF(np.sin), f"expected a Partial of scaled, got an instance of Partial; {FITS}"),
        (PARTIAL, PARTIAL_OF(scaled, jnp.zeros(3)), f"expected float32[2], got float32[3] at $.x.args[0]; {FITS}"),
    ],
)  # fmt: skip
def test_defaults_that_do_not_fit(annotation: Any, default: Any, problem: str | None) -> None:
    (found,) = problems_of(made(annotation, default=default))
    assert problem is None or found == f"C.x: default: {problem}"


def test_defaults_of_plain_classes() -> None:
    @attrs.define
    class Plain:
        x: int = None  # type: ignore[assignment]
        converted: int = attrs.field(default="3", converter=int)  # type: ignore[assignment]
        later: int = attrs.field()

        @later.default
        def _later(self) -> str:
            return "not run"

    class Named(NamedTuple):
        x: int = "a"  # type: ignore[assignment]

    assert problems_of(Plain) == [
        "Plain.x: default: expected int, got None; write X | None as its type, or another default"
    ]
    assert problems_of(Named) == [f"Named.x: default: expected int, got 'a'; {FITS}"]


@pytest.mark.parametrize(
    ("factory", "problem"),
    [
        (lambda: 3, None),
        (lambda: "a", "factory: expected int, got 'a'; write a factory that fits, or none"),
        (list, "factory: expected int, got []; write a factory that fits, or none"),
        (
            lambda: int("many\nlines"),
            "factory: it raises ValueError: invalid literal for int() with base 10: 'many\\nlines'; "
            "write one that works wherever treaty generate runs",
        ),
    ],
)
def test_factories_are_called_where_code_is_generated_and_nowhere_else(
    factory: Callable[[], Any], problem: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = made(int, factory=factory)
    schema_of(cls)
    monkeypatch.setattr(modules, "generating", True)
    if problem is None:
        schema_of(cls)
    else:
        assert problems_of(cls) == [f"C.x: {problem}"]


def test_defaults_below_open_type_variables_are_for_whoever_fills_them_in() -> None:
    @state
    class Box(Generic[T]):
        inside: T = field(default=THREE)

    @state
    class Boxes(Generic[T]):
        box: Box[T] = field(default=Box(inside=THREE))

    for cls in (Box, Boxes):
        reader = SchemaReader()
        reader.generic(cls)
        reader.classes()
    (first, second) = problems_of(Boxes[str])
    assert first.startswith("Box.inside: default: expected str, got 3; ")
    assert second.startswith("Boxes.box: default: expected str, got 3 at $.box.inside; ")
