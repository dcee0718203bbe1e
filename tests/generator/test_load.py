"""`load`: the same code, compiled in memory, for classes that have no module file."""

import importlib
import inspect
import traceback
from pathlib import Path
from typing import Any, Generic, TypeVar

import jax.numpy as jnp
import pytest
from jax import Array
from jaxtyping import Float32

from tests.generator.cases.train_state import schema as train_state
from treaty.generator import load
from treaty.runtime import CodecError, StateMismatchError, from_state_dict, to_state_dict
from treaty.schema import SchemaError, state

P = TypeVar("P")


def test_local_classes_round_trip() -> None:
    @state
    class Local:
        x: Float32[Array, "d"]

    @state
    class Outer(Generic[P]):
        inner: P

    load(Outer[Local])
    value = Outer(inner=Local(x=jnp.ones(3)))
    restored = from_state_dict(Outer[Local], to_state_dict(value))
    assert isinstance(restored.inner, Local)
    assert restored.inner.x is value.inner.x


def test_the_source_is_there_for_people_and_tracebacks() -> None:
    module: Any = load(train_state.Linear)
    source = inspect.getsource(module.linear_read)
    assert 'kernel=put(state["kernel"], _float32, (d_in, d_out)),' in source
    with pytest.raises(AttributeError) as caught:
        module.linear_read({"kernel": 1, "bias": 2}, None)
    assert 'd_in = state["kernel"].shape[0]' in "".join(traceback.format_tb(caught.value.__traceback__))


def test_without_it_the_error_says_what_to_do() -> None:
    @state
    class Unknown:
        x: int

    with pytest.raises(
        CodecError,
        match=r"no generated code for .*Unknown; in a notebook or script call treaty.generator.load\(Unknown\) first",
    ):
        from_state_dict(Unknown, {"x": 1})
    with pytest.raises(CodecError, match="no generated code for"):
        to_state_dict(Unknown(x=1))


def test_declaration_mistakes_come_out_here_too() -> None:
    @state
    class Wrong:
        x: set[int]

    with pytest.raises(SchemaError, match=r"Wrong.x: cannot store set\[int\]"):
        load(Wrong)


def test_redefining_a_class_in_a_notebook() -> None:
    def define(annotation: Any) -> Any:
        body = {"__annotations__": {"x": annotation}, "__module__": __name__, "__qualname__": "Cell"}
        return state(type("Cell", (), body))

    first, second = define(int), define(str)
    load(first)
    load(second)
    assert from_state_dict(first, {"x": 1}).x == 1
    assert from_state_dict(second, {"x": "a"}).x == "a"


@state
class SumOfOthers:
    w: Float32[Array, "d e"]
    both: tuple[Float32[Array, "d+e"]]


def test_a_tuple_whose_sizes_only_its_owner_knows() -> None:
    load(SumOfOthers)
    state_dict = to_state_dict(SumOfOthers(w=jnp.zeros((2, 3)), both=(jnp.zeros(5),)))
    assert from_state_dict(SumOfOthers, state_dict).both[0].shape == (5,)
    state_dict["both"] = {"0": jnp.zeros(6)}
    with pytest.raises(StateMismatchError, match=r"expected float32\[d\+e=5\], got float32\[6\] at \$\.both\[0\]"):
        from_state_dict(SumOfOthers, state_dict)


def test_a_field_may_be_called_as_the_module_of_its_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The type of such a field is a text in the TypedDict of `load`, and has quotes itself."""
    text = "from treaty.schema import state\n\n\n@state\nclass Model:\n    a: int\n\n\n@state\nclass Train:\n    model: Model\n"
    (tmp_path / "model.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    train = importlib.import_module("model").Train
    load(train)
    assert from_state_dict(train, {"model": {"a": 1}}).model.a == 1
