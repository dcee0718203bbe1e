"""The IR: one JSON form that reads back equal, and a digest that changes only when what is stored changes."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import attrs
import numpy as np
import pytest
from jax import Array
from jaxtyping import Float32

from tests.schema import declared
from treaty.schema import Dims, Schema, SchemaError, field, ir, schema_of, state
from treaty.schema.dims import Name, parse_dim


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


@state(reserved=("c", "d"))
class Evolved:
    a: Float32[Array, "d"] = field(aliases=("first", "class", "a b\n"), cast_from=("float64",))
    b: float = field(default=1.0, aliases=["second"])


@pytest.mark.parametrize("cls", [OtherOrder, OtherNames, OnHost, Evolved])
def test_the_digest_ignores_order_python_names_placement_and_what_was_before(cls: type) -> None:
    assert schema_of(cls).digest == schema_of(Base).digest


@pytest.mark.parametrize("cls", [OtherKey, OtherDim, OtherDefault])
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


def test_what_only_readers_need_is_in_the_json_and_not_in_checkpoints() -> None:
    schema = schema_of(Evolved)
    data = json.loads(schema.to_json())["classes"][0]
    assert data["reserved"] == ["c", "d"]
    assert data["fields"][0]["aliases"] == ["first", "class", "a b\n"]
    assert data["fields"][0]["cast_from"] == ["float64"]
    assert Schema.from_json(schema.to_json()) == schema

    stored = schema.as_stored
    assert not {"reserved", "aliases", "cast_from"} & set(re.findall(r"\w+", stored.to_json()))
    assert stored.digest == schema.digest
    assert stored.as_stored == stored
    assert schema_of(Base).as_stored == schema_of(Base)


OLD = """{"classes":[{"dims":["d"],"fields":[{"key":"a","type":{"dims":["d"],"dtype":"float32","kind":"array"}},\
{"default":"1.0","key":"b","type":{"kind":"scalar","type":"float"}}],"id":"m:Base","kind":"state","version":7}],\
"root":"m:Base","treaty":1}"""


def test_versions_that_older_checkpoints_have_are_read_as_they_are() -> None:
    schema = Schema.from_json(OLD)
    assert schema.root_class.version == 7
    assert schema.to_json() == OLD
    assert schema.digest == "sha256:d846a07b884d93bb80bc757ae58902371f80853a336dd28b4d012fd87c7c57ef"
    without = Schema.from_json(OLD.replace(',"version":7', ""))
    assert without.digest == schema_of(Base).digest != schema.digest


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


INT = ir.Scalar("int")


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        (ir.Node(f"{declared.__name__}:Linear"), ["kernel", "bias"]),
        (ir.Tuple((INT, ir.Untyped())), {"0": INT, "1": ir.Untyped()}),
        (ir.Tuple(()), {}),
        (ir.Sequence(INT, immutable=True), {"a": INT, "b": INT}),
        (ir.Dict("str", INT), {"a": INT, "b": INT}),
        (ir.Untyped(), {"a": ir.Untyped(), "b": ir.Untyped()}),
        (ir.Partial("m:f", ir.Tuple((INT,)), ir.Node("k")), {"args": ir.Tuple((INT,)), "keywords": ir.Node("k")}),
        (ir.Key(()), {"impl": ir.Scalar("str"), "data": ir.Untyped()}),
        (ir.Optional(ir.Dict("int", INT)), {"a": INT, "b": INT}),
        (ir.Optional(INT), None),
        (ir.Array("float32", ()), None),
        (ir.NumpyScalar("float32"), None),
        (ir.Enum("m:E", ("A",)), None),
    ],
)
def test_parts_are_what_the_state_dict_holds_by_key(type: ir.Type, expected: Any) -> None:
    found = ir.parts(schema_of(declared.Everything), type, ("a", "b"))
    assert (list(found) if found is not None and isinstance(expected, list) else found) == expected


def test_parts_without_keys_are_those_of_an_empty_container() -> None:
    schema = schema_of(declared.Linear)
    for empty in (ir.Sequence(INT, immutable=False), ir.Dict("str", INT), ir.Untyped()):
        assert ir.parts(schema, empty) == {}
    assert ir.parts(schema, INT) is None


def test_parts_reach_every_leaf_of_a_state_dict() -> None:
    schema = schema_of(declared.Everything)

    def leaves(type: ir.Type) -> int:
        below = ir.parts(schema, type, ("0",))
        return 1 if below is None or isinstance(type, ir.Untyped) else sum(map(leaves, below.values()))

    counts = {one.name: leaves(one.type) for one in schema.root_class.fields if one.name != "tree"}
    expected = {"blocks": 4, "pair": 3, "call": 2, "rbg": 2, "slots": 1, "empty": 0}
    assert {name: counts[name] for name in expected} == expected


def test_children_are_changed_in_every_container() -> None:
    every = ir.Partial("m:f", ir.Tuple((ir.Optional(ir.Sequence(ir.Dict("str", INT), immutable=True)),)), ir.Node("k"))

    def renamed(type: ir.Type) -> ir.Type:
        return ir.Scalar("str") if type == INT else ir.with_children(type, renamed)

    assert ir.describe(renamed(every.args)) == "tuple[tuple[dict[str, str], ...] | None]"
    changed = renamed(every)
    assert isinstance(changed, ir.Partial)
    assert (changed.args, changed.keywords) == (renamed(every.args), every.keywords)
    assert [ir.describe(one) for one in ir.every_type(changed)][-2:] == ["str", "k"]


def test_every_type_knows_its_own_dims() -> None:
    d = parse_dim("d_ff=4*d")
    assert ir.own_dims(ir.Array("float32", (d,))) == ir.own_dims(ir.Key((d,))) == (d,)
    assert d.names == ("d_ff", "d")
    assert ir.own_dims(ir.Sequence(INT, immutable=True, length=Name("n"))) == (parse_dim("n"),)
    assert ir.own_dims(ir.Node("k", (("d", Name("n")),))) == (parse_dim("n"),)
    assert ir.own_dims(ir.Tuple((ir.Array("float32", (d,)),))) == ()
