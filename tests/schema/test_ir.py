"""The IR: one JSON form that reads back equal, and a digest that changes only when what is stored changes."""

from __future__ import annotations

import json
from typing import Annotated, Any

import attrs
import numpy as np
import pytest
from jax import Array
from jaxtyping import Float32

from tests.schema import declared
from treaty.schema import Dims, Schema, SchemaError, field, ir, schema_of, state


def test_json_reads_back_equal() -> None:
    schema = schema_of(declared.Everything)
    assert Schema.from_json(schema.to_json()) == schema
    assert Schema.from_json(schema.to_json()).to_json() == schema.to_json()


def test_json_is_canonical() -> None:
    text = schema_of(declared.Everything).to_json()
    assert text.isascii()
    assert json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) == text


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"treaty": 2}', '{"treaty": 1, "root": "x", "classes": [{}]}', "\0"])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="schema: "):
        Schema.from_json(text)


def test_the_ir_is_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        schema_of(declared.Linear).root = "other"  # type: ignore[misc]


@state
class Base:
    a: Float32[Array, "d"]
    b: float = 1.0


@state
class OtherOrder:
    b: float = 1.0
    a: Float32[Array, "d"]


@state
class OtherNames:
    first: Float32[Array, "d"] = field(key="a")
    second: float = field(default=1.0, key="b")


@state
class OnHost:
    a: Float32[np.ndarray, "d"]
    b: float = 1.0


@state
class OtherKey:
    a: Float32[Array, "d"] = field(key="c")
    b: float = 1.0


@state
class OtherDim:
    a: Float32[Array, "d 1"]
    b: float = 1.0


@state
class OtherDefault:
    a: Float32[Array, "d"]
    b: float = 2.0


@state(version=2)
class OtherVersion:
    a: Float32[Array, "d"]
    b: float = 1.0


@pytest.mark.parametrize("cls", [OtherOrder, OtherNames, OnHost])
def test_the_digest_ignores_order_python_names_and_placement(cls: type) -> None:
    assert schema_of(cls).digest == schema_of(Base).digest


@pytest.mark.parametrize("cls", [OtherKey, OtherDim, OtherDefault, OtherVersion])
def test_the_digest_covers_what_is_stored(cls: type) -> None:
    assert schema_of(cls).digest != schema_of(Base).digest


@state
class Outer:
    inner: Annotated[Base, Dims("d")]


@state
class OuterUntied:
    inner: Base


def test_the_digest_covers_ties() -> None:
    assert schema_of(Outer).digest != schema_of(OuterUntied).digest


def test_digests_are_the_same_in_every_process() -> None:
    assert schema_of(Base).digest == "sha256:4de8c32b9c7cce8ee85abe8b35cd88107befc678d6b3517de62025b9fb0e2ffa"


def test_a_schema_holds_only_what_its_root_reaches() -> None:
    schema = schema_of(declared.Everything).at(f"{declared.__name__}:Block")
    assert [cls.qualname for cls in schema.classes] == ["Block", "Linear"]


def test_types_describe_themselves() -> None:
    by_name = {field.name: ir.describe(field.type) for field in schema_of(declared.Everything).root_class.fields}
    module = declared.__name__
    assert by_name["embed"] == "bfloat16[vocab, d_model]"
    assert by_name["rbg"] == "key<rbg>[]"
    assert by_name["blocks"] == f"tuple[{module}:Block(d_model=d_model), ...]"
    assert by_name["pair"] == f"tuple[float32[d_model], {module}:Linear]"
    assert by_name["empty"] == "tuple[()]"
    assert by_name["slots"] == "dict[int, int32[]]"
    assert by_name["maybe"] == "float32[o] | None"
    assert by_name["half"] == "numpy float16"
    assert by_name["call"] == f"Partial[{module}:scaled]"
    assert by_name["more"] == "untyped"


def test_schema_of_takes_only_classes_it_can_read() -> None:
    wrong: list[Any] = [int, 3, list[int]]
    for value in wrong:
        with pytest.raises(SchemaError, match="expected a class declared with @state"):
            schema_of(value)
