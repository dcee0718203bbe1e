"""Declarations that are refused: each with the file, the class, the field, what is wrong, and how to write it."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypedDict, TypeVar

import attrs
import numpy as np
import pytest
from jax import Array
from jax.tree_util import Partial
from jaxtyping import Float, Float32, Int32, Key

import treaty.schema
from tests.schema import declared
from tests.schema.declared import Block, Foreign, Linear
from treaty.schema import ArraySpec, Dims, Fields, Length, SchemaError, field, ir, schema_of, state
from treaty.schema._leaves import numpy_scalar

T = TypeVar("T")
UNTYPED: Any = treaty.schema  # for what mypy refuses already
CAN_STORE = (
    "expected an array (Float32[Array, 'a b']), a Python or numpy scalar, an enum, a state class, "
    "list, tuple, dict[str, X], X | None, or Any for an unchecked subtree"
)


def problem_of(annotation: Any, **options: Any) -> str:
    """The problem with a class whose one field `x` has this annotation, without where it is."""
    body = {"__annotations__": {"x": annotation}, "__module__": __name__, "__qualname__": "C"}
    cls: Any = state(type("C", (), {**body, **({"x": field(**options)} if options else {})}))
    with pytest.raises(SchemaError) as caught:
        schema_of(cls)
    (problem,) = caught.value.problems
    _, _, rest = problem.partition("C.x: ")
    assert rest, problem
    return rest


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        (Array, "Array has no dtype and shape; write Float32[Array, 'd_in d_out']"),
        (np.ndarray, "ndarray has no dtype and shape; write Float32[ndarray, 'd_in d_out']"),
        (Float[Array, "d"], "Float[...]: a stored array has one dtype; write Float32[...], BFloat16[...], …"),
        (Float32[Array, "... d"], "dim '...': a leaf has one rank: name every axis"),
        (Float32[Any, "d"], "array type Any: expected jax.Array or np.ndarray"),
        (set[int], f"cannot store set[int]; {CAN_STORE}"),
        (Callable[[], int], f"cannot store collections.abc.Callable[[], int]; {CAN_STORE}"),
        (pytest.Item, f"cannot store Item; {CAN_STORE}"),
        (
            int | str,
            "union int | str: a union cannot be restored without knowing which; write X | None, "
            "or one class with optional fields",
        ),
        (list, "list has no item type; write list[...], or Any for an unchecked subtree"),
        (dict[bytes, int], "dict[bytes, int]: expected dict[str, X] or dict[int, X]"),
        (np.floating, "floating: expected one numpy scalar type, such as np.float32"),
        (
            Partial,
            "write Annotated[Partial, Fields(func=the_function, args=(Float32[Array, 'd'],), keywords={'scale': float})]",
        ),
        (Annotated[int, Length("n")], "Length('n'): expected list[X], tuple[X, ...] or dict[K, X], got int"),
        (Annotated[int, Dims(d="e")], "Dims(d='e'): only a class has dims to tie, not int; remove Dims(...)"),
        (Annotated[list[int], Length], "Annotated[..., Length]: write Length(...) with its arguments"),
        (Annotated[int, ArraySpec("float32")], "array type int: expected jax.Array or np.ndarray"),
        (
            Annotated[np.ndarray, ArraySpec("key<rbg>")],
            "key<rbg>: PRNG keys are jax arrays; write Array, not np.ndarray",
        ),
        (Annotated[Foreign, Fields(count=int)], "Fields(...): no type for mu of Foreign; add mu=..."),
        (
            Annotated[Foreign, Fields(count=int, mu=int, nu=int)],
            "Fields(nu=...): Foreign has no field 'nu'; its fields: count, mu",
        ),
        (Annotated[int, Fields()], "Fields(...): expected a NamedTuple, dataclass or attrs class, got int"),
        (Annotated["list[int] | None", Fields()], None),
        (Annotated[Partial, Fields(func=3)], None),
        (Annotated[Partial, Fields(args=())], None),
    ],
)
def test_refused_annotations(annotation: Any, problem: str | None) -> None:
    found = problem_of(annotation)
    if problem is not None:
        assert found == problem


@pytest.mark.parametrize("annotation", [Float32[Array, "d"], list[int], Any])
def test_static_fields_hold_plain_values(annotation: Any) -> None:
    assert problem_of(annotation, static=True).startswith("a static field must be hashable, got ")


def test_a_problem_says_file_class_and_field() -> None:
    @state
    class Wrong:
        x: set[int]

    with pytest.raises(SchemaError, match=r"tests/schema/test_read.py:\d+: .*Wrong.x: cannot store set\[int\]; "):
        schema_of(Wrong)


def test_all_problems_of_all_classes_come_at_once() -> None:
    @state
    class Inner:
        a: set[int]
        b: Array

    @state
    class Outer:
        inner: Inner
        c: int | str

    with pytest.raises(SchemaError) as caught:
        schema_of(Outer)
    assert [problem.split(": ")[1].rpartition(".")[2] for problem in caught.value.problems] == ["a", "b", "c"]


def test_unknown_names_in_annotations() -> None:
    @state
    class Wrong:
        x: "Nowhere"  # type: ignore[name-defined]

    with pytest.raises(SchemaError, match="cannot resolve 'Nowhere': name 'Nowhere' is not defined"):
        schema_of(Wrong)


def test_ties_to_dims_that_the_child_lacks() -> None:
    @state
    class Wrong:
        up: Annotated[Linear, Dims(d_inn="d")]

    with pytest.raises(
        SchemaError, match=r"Wrong.up: Dims\(d_inn=...\): .*:Linear has no dim 'd_inn'; its dims: d_in, d_out"
    ):
        schema_of(Wrong)


def test_dims_that_the_data_cannot_tell() -> None:
    @state
    class Wrong:
        x: Float32[Array, "a*b"]

    with pytest.raises(SchemaError) as caught:
        schema_of(Wrong)
    assert [problem.partition("Wrong: ")[2] for problem in caught.value.problems] == [
        "dim 'a' cannot be known from the data; it must stand alone (or as in 2*a+1) on some axis, Length or Dims",
        "dim 'b' cannot be known from the data; it must stand alone (or as in 2*b+1) on some axis, Length or Dims",
    ]


def test_labels_define_a_name_once_and_not_by_itself() -> None:
    @state
    class Twice:
        x: Float32[Array, "d=3"]
        y: Float32[Array, "d=4"]

    @state
    class Circular:
        x: Float32[Array, "d=2*d"]

    with pytest.raises(SchemaError, match=r"Twice.y: dim d=4: d is 3 on another axis; give one of them another label"):
        schema_of(Twice)
    with pytest.raises(SchemaError, match=r"Circular: dim d=2\*d: d is defined by itself; define it by other dims"):
        schema_of(Circular)


def test_a_field_has_a_keyword_of_its_own() -> None:
    for names, message in [
        (("self",), "Wrong.self: expected a keyword that is free, got self: Python has it in the constructor; "),
        (("x", "_x"), "Wrong._x: expected a keyword that is free, got x: it is that of x as well; "),
    ]:
        with pytest.raises(SchemaError) as caught:
            state(type("Wrong", (), {"__annotations__": dict.fromkeys(names, int)}))
        assert str(caught.value) == f"{message}write {names[-1].lstrip('_')}_: ... = field(key={names[-1]!r})"


def test_labels_that_define_each_other() -> None:
    @state
    class Circle:
        x: Float32[Array, "d=2*e e=2*d"]

    with pytest.raises(SchemaError, match="defined by itself"):
        schema_of(Circle)


def test_keys_must_differ() -> None:
    @state
    class Wrong:
        a: int
        b: int = field(key="a")

    with pytest.raises(
        SchemaError, match=r"Wrong.b: key 'a' is already the key of a; write field\(key=...\) with another"
    ):
        schema_of(Wrong)


def test_names_that_type_checkers_and_attrs_pass_differently() -> None:
    @state
    class Hidden:
        _x: int

    with pytest.raises(SchemaError, match=r"'_x' starts with an underscore; rename it and write field\(key='_x'\)"):
        schema_of(Hidden)


def test_fields_that_init_does_not_take() -> None:
    @attrs.define
    class Wrong:
        x: int = attrs.field(init=False, default=1)

    with pytest.raises(
        SchemaError, match=r"Wrong.x: a field with init=False cannot be restored; remove init=False, and give"
    ):
        schema_of(Wrong)


def test_attrs_fields_without_annotation() -> None:
    with pytest.raises(SchemaError, match=r"C.x: no annotation; write x: Float32\[Array, 'd'\] or another type"):
        schema_of(attrs.make_class("C", ["x"]))


def test_typed_dict_keys_that_may_be_absent() -> None:
    class Loose(TypedDict, total=False):
        x: int

    with pytest.raises(SchemaError, match=r"Loose.x: a key that may be absent; write it as X"):
        schema_of(Loose)


def test_a_class_that_contains_itself_has_no_value() -> None:
    with pytest.raises(
        SchemaError, match=r"Endless.again: .*Endless contains itself; break the circle with X \| None or list\[X\]"
    ):
        schema_of(Endless)


@state
class Endless:
    again: "Endless"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UNTYPED.field(key=3), "field(key=3): expected a string"),
        (
            lambda: UNTYPED.state(version=2),
            "state(version=...): revisions are not counted by hand any more; write @state alone, and run: treaty lock",
        ),
        (
            lambda: UNTYPED.field(aliases="old"),
            "field(aliases='old'): expected a tuple of strings; write ('old',)",
        ),
        (lambda: UNTYPED.field(aliases=("a", 3)), "field(aliases=('a', 3)): expected a tuple of strings"),
        (lambda: UNTYPED.field(cast_from=None), "field(cast_from=None): expected a tuple of strings"),
        (lambda: UNTYPED.state(reserved={"a"}), "state(reserved={'a'}): expected a tuple of strings"),
        (lambda: Length(-1), "Length(-1): a size cannot be negative"),
        (lambda: Length(True), "Length(True): expected a name, an int or an expression, got bool"),
        (lambda: UNTYPED.Dims(d=2.5), "Dims(d=2.5): expected a name, an int or an expression, got float"),
        (lambda: UNTYPED.Dims(3), "Dims(3): expected the name of a dim, ... for all of them, or None for none of them"),
        (lambda: ArraySpec("float7", "d"), "ArraySpec('float7'): unknown dtype; known: bool, int1, "),
        (lambda: ArraySpec("float32", "d,e"), "dim 'd,e': expected a name"),
    ],
)
def test_wrong_arguments_are_refused_where_they_are_written(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_reprs_read_as_written() -> None:
    assert repr(Dims(..., d_in="2*d")) == "Dims(..., d_in='2*d')"
    assert repr(Length(3)) == "Length('3')"
    assert repr(ArraySpec("int4", "a b")) == "ArraySpec('int4', 'a b')"
    assert repr(Fields(a=int)) == "Fields(a)"


def dims_of(cls: Any) -> tuple[str, ...]:
    return schema_of(cls).root_class.dims


def types_of(cls: Any) -> dict[str, str]:
    return {one.name: ir.describe(one.type).replace(f"{__name__}:", "") for one in schema_of(cls).root_class.fields}


def test_a_type_variable_shares_its_dims_with_the_class() -> None:
    schema = schema_of(declared.Adam[Linear])
    assert schema.root_class.dims == ("d_in", "d_out")
    assert dims_of(declared.Adam[Annotated[Linear, Dims(d_in="3")]]) == ("d_out",)
    assert dims_of(declared.Adam) == ()


def test_generic_bases_pass_their_arguments_on() -> None:
    class Base(Generic[T]):
        pass

    @state
    class Middle(declared.Adam[T], Generic[T]):
        extra: T

    @state
    class Concrete(Middle[Block]):
        more: Int32[Array, ""]

    assert types_of(Concrete)["nu"].endswith("Block(d_model=d_model)")
    assert types_of(Concrete)["extra"].endswith("Block(d_model=d_model)")
    assert dims_of(Concrete) == ("d_model",)


def test_bounds_and_containers_of_type_variables() -> None:
    B = TypeVar("B", bound=Linear)

    @state
    class Bounded(Generic[B]):
        one: B
        many: tuple[B, ...]

    assert dims_of(Bounded) == ("d_in", "d_out")
    assert types_of(Bounded)["many"].startswith("tuple[")


def test_dims_of_named_tuples_and_typed_dicts() -> None:
    class Point(NamedTuple):
        x: Float32[Array, "d"]

    class Named(TypedDict):
        key: Key[Array, "n"]

    assert dims_of(Point) == ("d",)
    assert dims_of(Named) == ("n",)


def test_string_and_optional_annotations_mean_the_same() -> None:
    @state
    class Strings:
        a: "Float32[Array, 'd'] | None"
        b: "list['Linear']"

    assert types_of(Strings)["a"] == "float32[d] | None"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is of Python 3.12")
def test_the_type_parameter_syntax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "new_syntax.py").write_text(
        "from typing import Annotated\nfrom tests.schema.declared import Linear\nfrom treaty.schema import Dims, state\n\n"
        "type Layer = Linear\n\n@state\nclass Adam[P]:\n    mu: P\n    layer: Annotated[Layer, Dims(...)]\n"
    )
    module: Any = __import__("new_syntax")
    assert dims_of(module.Adam[Linear]) == ("d_in", "d_out")


def test_inherited_fields_come_first() -> None:
    @state
    class Child(Linear):
        extra: Float32[Array, "d_out"]

    assert list(types_of(Child)) == ["kernel", "bias", "extra"]


def test_defaults_are_part_of_the_schema() -> None:
    @state
    class Defaults:
        a: int = 3
        b: list[int] = field(factory=list)
        c: declared.Mode = declared.Mode.EVAL
        d: tuple[int, ...] = ()

    assert [one.default for one in schema_of(Defaults).root_class.fields] == [
        "3",
        "factory:builtins:list",
        "tests.schema.declared:Mode.EVAL",
        "()",
    ]


@pytest.mark.parametrize("name", ["generic", "number", "integer", "signedinteger", "inexact", "floating", "character"])
def test_kinds_of_numpy_scalars_are_no_type(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numpy.dtype", None)  # not asked: older versions of numpy answer with a warning and float64
    with pytest.raises(SchemaError, match=f"{name}: expected one numpy scalar type, such as np.float32"):
        numpy_scalar(getattr(np, name))


class Pair(NamedTuple):
    a: Any


def test_problems_of_classes_described_in_place_say_which_field_describes_them() -> None:
    @state
    class Owner:
        call: Annotated[Partial, Fields(func=print, keywords={"a": Annotated[Linear, Dims(wrong="d")]})]
        pair: Annotated[Pair, Fields(a=Annotated[Linear, Dims(wrong="d")])]

    with pytest.raises(SchemaError) as caught:
        schema_of(Owner)
    for problem, place in zip(caught.value.problems, ("Owner.call.a", "Owner.pair.a"), strict=True):
        assert re.match(rf"tests/schema/test_read.py:\d+: .*{place}: Dims\(wrong=...\): ", problem)
