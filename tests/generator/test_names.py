"""Names that meet in generated code: they work, or are refused clearly; what is generated is always Python."""

import ast
import enum
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import attrs
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import Array
from jax.tree_util import Partial
from jaxtyping import Float32

from tests.generator.cases.train_state import schema as train_state
from treaty.generator import generate, load
from treaty.generator._names import literal, local, module_aliases, pascal, snake
from treaty.generator._project import Project
from treaty.runtime import abstract, from_state_dict, to_state_dict
from treaty.schema import Dims, Fields, field, schema_of, state


def define(**annotations: Any) -> Any:
    body = {"__annotations__": annotations, "__module__": __name__, "__qualname__": "Defined"}
    cls = state(type("Defined", (), body))  # type: ignore[var-annotated]
    load(cls)
    return cls


def round_trip(cls: Any, /, **values: Any) -> None:
    tree = to_state_dict(cls(**values))
    assert to_state_dict(from_state_dict(cls, tree)).keys() == tree.keys()


@pytest.mark.parametrize("name", ["cls", "new", "obj", "set_x", "state", "put", "static", "children", "type"])
def test_any_field_name_works(name: str) -> None:
    round_trip(define(**{name: int, "x": float}), **{name: 1, "x": 1.0})


@given(st.text(min_size=1, max_size=6))
def test_any_key_works(key: str) -> None:
    body = {"__annotations__": {"x": int}, "x": field(key=key), "__module__": __name__, "__qualname__": "Keyed"}
    cls: Any = state(type("Keyed", (), body))
    load(cls)
    assert to_state_dict(cls(x=3)) == {key: 3}
    assert from_state_dict(cls, {key: 3}).x == 3


@pytest.mark.parametrize(
    "dims",
    [
        "type",
        "isinstance",
        "in in_",
        "lambda",
        "state put",
        "x x0 k at at0",
        "linear_read",
        "SCHEMA",
        "_d",
        "size",
        "D",
    ],
)
def test_any_dim_name_works(dims: str) -> None:
    cls = define(x=Float32[Array, dims], y=Float32[Array, dims] | None)
    round_trip(cls, x=jnp.ones([2] * len(dims.split())), y=None)
    assert abstract(cls, **dict.fromkeys(dims.split(), 2)).x.shape == (2,) * len(dims.split())


def test_names_are_made_one_way() -> None:
    assert snake("pkg.mod:HTTPServer") == "http_server"
    assert snake("pkg.mod:Adam[pkg.mod:Params]") == "adam_params"
    assert snake("m:f.<locals>.Inner") == "inner"
    assert pascal("pkg.mod:Adam[float32[d_in]]") == "AdamFloat32D_in"
    assert local("in") == "in_"
    assert local("in_") == "in__"
    assert literal("it's") == '"it\'s"'
    assert literal(b"it's") == 'b"it\'s"'
    assert module_aliases(["a.state", "b.state", "quant.int8", "np"]) == {
        "a.state": "_state",
        "b.state": "_b_state",
        "quant.int8": "_quant_int8",
        "np": "_np2",
    }
    assert module_aliases(["_", "State"], ["_State"]) == {"_": "_module", "State": "_State2"}


def test_a_class_called_schema_and_one_that_looks_like_a_tuple() -> None:
    @state
    class Schema:
        b: tuple[int, int]

    @state
    class SchemaB:
        both: Schema
        other: tuple[Schema, "Mixed"]

    load(SchemaB)
    one = Schema(b=(1, 2))
    restored = from_state_dict(SchemaB, to_state_dict(SchemaB(both=one, other=(one, Mixed(x=1)))))
    assert restored.both.b == (1, 2)


@state
class Mixed:
    x: int


def test_the_same_class_name_in_two_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    one = "from treaty.schema import state\n\n@state\nclass Linear:\n    x: int\n"
    two = "import names_a\nfrom treaty.schema import state\n\n@state\nclass Linear:\n    a: names_a.Linear\n"
    for name, text in {"names_a": one, "names_b": two}.items():
        (tmp_path / f"{name}.py").write_text(text)
        for path, code in generate(name, Project(tmp_path)).items():
            (tmp_path / path).write_text(code)
    import names_b  # type: ignore[import-not-found]

    assert from_state_dict(names_b.Linear, {"a": {"x": 1}}).a.x == 1
    del sys.modules["names_a"], sys.modules["names_b"]


def test_the_same_class_name_in_two_modules_in_memory() -> None:
    @state
    class Linear:
        x: int

    cls = define(a=Linear, b=train_state.Linear)
    saved = {"a": {"x": 1}, "b": {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}}
    restored = from_state_dict(cls, saved)
    assert type(restored.a) is Linear
    assert type(restored.b) is train_state.Linear


@pytest.mark.parametrize("name", ["_", "__", "_2D", "_2", "Pair_2", "Pair2", "模型", "Ω", "A_peek_x"])
def test_any_class_name_works(name: str) -> None:
    body = {"__annotations__": {"x": int}, "__module__": __name__, "__qualname__": name}
    named: Any = state(type(name, (), body))
    other = Annotated[Pair, Fields(a=int, b=float)]
    another = Annotated[Pair, Fields(a=int, b=str)]
    cls = define(a=named, b=other, c=another, d=list[Float32[Array, "x_read"]])
    round_trip(cls, a=named(x=1), b=Pair(1, 2.0), c=Pair(1, "c"), d=[])


def test_names_of_generics_stay_short_and_do_not_meet() -> None:
    deep = "pkg.mod:Adam[{}]"
    for _ in range(5):
        deep = f"pkg.mod:Adam[tuple[{deep}, ...]]"
    first, second = deep.format("float32[d]"), deep.format("host float32[d]")
    for name in (snake, pascal):
        assert len(name(first)) <= 25
        assert name(first) != name(second)
    assert re.fullmatch(r"adam_tuple_adam_[0-9a-f]{8}", snake(first))
    assert snake("m:Adam[m:Params]") == "adam_params"
    inline = "m:Foreign(a: m:Params, b: m:Params, c: m:Params, d: m:Params, e: m:Params, f: m:Params, g: m:Params).a"
    assert re.fullmatch(r"foreign_params_[0-9a-f]{8}", snake(inline))


DEEP = """
from typing import Generic, TypeVar
from jax import Array
from jaxtyping import Float32
from treaty.schema import state

P = TypeVar("P")

{first}
@state
class Params:
    w: Float32[Array, "d"]

@state
class Masked(Generic[P]):
    inner: P
    pair: tuple[P, int]

@state
class Train:
    opt: Masked[Masked[Masked[Masked[Masked[Masked[Masked[Masked[Masked[Params]]]]]]]]]
"""


def names_of_deep(folder: Path, first: str) -> set[str]:
    (folder / "deep_names.py").write_text(DEEP.format(first=first))
    (text,) = generate("deep_names", Project(folder)).values()
    types = [line for line in text.splitlines() if "Masked[" in line and not re.match(r' *[{"]', line)]
    assert max(map(len, types)) <= 110  # the deepest in full has more than 180
    tree = ast.parse(text)
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return named | {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def test_names_of_deep_generics_are_short_and_no_other_class_changes_them(tmp_path: Path) -> None:
    alone = names_of_deep(tmp_path, "")
    assert max(map(len, alone)) <= 48 + len("_from_state_dict")
    assert any(re.fullmatch(r"masked_masked_[0-9a-f]{8}_read", name) for name in alone)
    other = "@state\nclass First:\n    a: 'Masked[Masked[First | None]]'\n    b: tuple[int, float]\n"
    assert names_of_deep(tmp_path, other) > alone


P = TypeVar("P")


@state
class Wrapped(Generic[P]):
    inner: P
    pair: tuple[P, int]


def test_deep_generics_come_back() -> None:
    def wrap(inner: Any) -> Any:
        return Wrapped(inner=inner, pair=(inner, 1))

    cls = define(deep=Wrapped[Wrapped[Wrapped[Wrapped[Wrapped[Wrapped[Mixed]]]]]])
    value = Mixed(x=3)
    for _ in range(6):
        value = wrap(value)
    restored = from_state_dict(cls, to_state_dict(cls(deep=value)))
    assert restored.deep.inner.pair[0].inner.inner.inner.inner.x == 3


def test_inline_classes_are_known_by_their_content() -> None:
    inner = Annotated[Pair, Fields(a=int, b=float)]
    other = Annotated[Pair, Fields(a=int, b=str)]
    alone = define(x=other)
    both = define(y=inner, x=other)
    assert schema_of(alone).root_class.fields[0].type == schema_of(both).root_class.fields[1].type
    round_trip(both, y=Pair(1, 2.0), x=Pair(1, "b"))


@attrs.frozen
class Pair:
    a: Any
    b: Any


@attrs.frozen
class Hidden:
    _x: Any


def test_private_fields_of_foreign_attrs_classes() -> None:
    round_trip(define(h=Annotated[Hidden, Fields(_x=int)]), h=Hidden(x=3))


def scaled(x: Any) -> Any:
    return x


def test_dims_reach_into_partials() -> None:
    call = Annotated[Partial, Fields(func=scaled, args=(train_state.Linear,)), Dims(d_in="3")]
    cls = define(call=call)
    make: Any = Partial
    linear = train_state.Linear(kernel=jnp.ones((2, 2)), bias=jnp.ones(2))
    with pytest.raises(ValueError, match="d_in=3"):
        from_state_dict(cls, to_state_dict(cls(call=make(scaled, linear))))


def test_a_label_reaches_children_that_leave_the_dim_open() -> None:
    cls = define(x=Float32[Array, "d_in=3"], c=Annotated[train_state.Linear, Dims(None)])
    assert abstract(cls, d_out=2).c.kernel.shape == (3, 2)


class Colour(enum.StrEnum):
    RED = "r"
    GREEN = "g"


def test_defaults_of_every_kind_in_abstract_values() -> None:
    @state
    class Defaults:
        a: bytes = b'it\'s "quoted"'
        b: Colour = Colour.GREEN
        c: str | None = field(default=None, static=True)
        d: float = float("inf")
        e: str = "\n"

    load(Defaults)
    value = abstract(Defaults)
    assert (value.a, value.b, value.c, value.d, value.e) == (b'it\'s "quoted"', Colour.GREEN, None, 0.0, "\n")


def test_state_classes_of_other_modules_in_memory() -> None:
    from treaty.schema.library.optax import EmptyState

    round_trip(define(x=EmptyState, y=train_state.Block), x=EmptyState(), y=_block())


def _block() -> train_state.Block:
    def linear(d_in: int, d_out: int) -> train_state.Linear:
        return train_state.Linear(kernel=jnp.ones((d_in, d_out)), bias=jnp.ones(d_out))

    return train_state.Block(up=linear(1, 4), down=linear(4, 1))


def test_division_by_zero_is_a_mismatch() -> None:
    cls = define(a=Float32[np.ndarray, "a"], b=Float32[np.ndarray, "b"], c=Float32[np.ndarray, "a//b"])
    empty = np.zeros(0, np.float32)
    with pytest.raises(ValueError, match=r"expected a//b to be a size, got division by zero at \$"):
        from_state_dict(cls, {"a": np.ones(2, np.float32), "b": empty, "c": empty})


def test_dims_are_called_the_same_whatever_builtins_python_has(tmp_path: Path) -> None:
    """`exit` is there without -S only."""
    (tmp_path / "sized.py").write_text(
        "from jax import Array\nfrom jaxtyping import Float32\nfrom treaty.schema import state\n\n\n"
        '@state\nclass Sized:\n    w: Float32[Array, "exit max width"]\n'
    )
    code = "import sys; sys.path[:0] = {!r}; from treaty.generator import generate; print(generate('sized')['sized_treaty.py'])"
    texts = {
        subprocess.run(
            [sys.executable, *flags, "-c", code.format(sys.path)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for flags in ((), ("-S",))
    }
    (text,) = texts
    assert "    exit_: int | None = None,\n    max_: int | None = None,\n    width: int | None = None,\n" in text
