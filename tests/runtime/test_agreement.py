"""Generated code and `explain` accept the same state dicts, whatever the schema and whatever the garbage.

Schemas, values and damage are all random: classes are declared on the fly, compiled with `load`, given a valid state
dict, which is then damaged in a few places.
"""

import enum
import itertools
from collections import OrderedDict
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple, Optional

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from jax import Array
from jaxtyping import BFloat16, Float32, Int32, Key

from treaty.generator import load
from treaty.runtime import StateMismatchError, explain, from_state_dict, to_state_dict
from treaty.schema import ArraySpec, Dims, Length, Schema, SchemaError, ir, schema_of, state
from treaty.schema.dims import definition_order, evaluate
from treaty.schema.dtypes import BY_NAME, KEY_IMPLS


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    one: Float32[Array, "p"]
    two: Float32[Array, "2*p"]


DIMS = st.sampled_from(["", "a", "b", "a b", "2", "a 2*a", "b+1", "a a", "a*b a b", "n=3", "c=2*a a", "a//2 a", "in"])
LIST: Any = list  # as Any: mypy reads subscripts of the classes themselves as types
TUPLE: Any = tuple
DICT: Any = dict
OPTIONAL: Any = Optional
ANNOTATED: Any = Annotated
LEAVES = st.one_of(
    st.builds(lambda dims: Float32[Array, dims], DIMS),
    st.builds(lambda dims: BFloat16[np.ndarray, dims], DIMS),
    st.builds(lambda dims: Annotated[Array, ArraySpec("float8_e4m3fn", dims)], DIMS),
    st.builds(lambda dims: Key[Array, dims], st.sampled_from(["", "a"])),
    st.sampled_from([Int32[Array, ""], int, float, bool, str, bytes, complex, None, np.float16, Colour, Any, Pair]),
)


@st.composite
def containers(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    item = draw(inner)
    return draw(
        st.sampled_from(
            [
                LIST[item],
                TUPLE[item, ...],
                TUPLE[item, draw(inner)],
                DICT[str, item],
                DICT[int, item],
                OPTIONAL[item],
                ANNOTATED[LIST[item], Length(draw(st.sampled_from(["m", "2", "m+1"])))],
            ]
        )
    )


_numbers = itertools.count()
ANNOTATIONS = st.recursive(LEAVES, containers, max_leaves=3)


@st.composite
def classes(draw: st.DrawFn, depth: int = 2) -> type:
    """A state class with up to four fields, some of them other such classes with their dims tied or not."""
    fields: dict[str, Any] = {}
    for index in range(draw(st.integers(0, 4))):
        if depth and draw(st.booleans()):
            child = draw(classes(depth - 1))
            known = schema_of(child).root_class.dims
            defined = dict(schema_of(child).root_class.definitions)
            free = [dim for dim in known if dim not in defined]  # a tie and a label can contradict each other
            sizes = st.sampled_from(["a", "b", "2*a", "3", "a+b", "b+2"])
            ties = {dim: draw(sizes) for dim in free if draw(st.booleans())}
            fields[f"f{index}"] = Annotated[child, Dims(None, **ties)]
        else:
            fields[f"f{index}"] = draw(ANNOTATIONS)
    cls = type(f"C{depth}", (), {"__annotations__": fields, "__qualname__": f"C{next(_numbers)}"})
    built: type = state(cls)
    try:
        schema_of(built)
    except SchemaError:  # a dim that nothing determines: refused, and so not of interest here
        reject()
    return built


@st.composite
def valid_states(draw: st.DrawFn, schema: Schema, cls: ir.Class, given_dims: dict[str, int | None]) -> dict[str, Any]:
    env: dict[str, int | None] = {dim: given_dims.get(dim) for dim in cls.dims}
    for dim, value in env.items():
        if value is None:
            env[dim] = draw(st.integers(1, 3))
    for dim in definition_order(dict(cls.definitions)):
        env[dim] = evaluate(dict(cls.definitions)[dim], env)
    return {field.key: draw(_value(schema, field.type, env)) for field in cls.fields}


def _value(schema: Schema, type: ir.Type, env: dict[str, int | None]) -> st.SearchStrategy[Any]:
    if isinstance(type, ir.Array):
        shape = tuple(evaluate(dim.size, env) or 0 for dim in type.dims)
        array = np.zeros(shape, BY_NAME[type.dtype].numpy)
        return st.sampled_from([array, jnp.asarray(array)])
    if isinstance(type, ir.Key):
        shape = tuple(evaluate(dim.size, env) or 0 for dim in type.dims)
        return st.sampled_from(
            [{"impl": impl, "data": np.zeros((*shape, words), np.uint32)} for impl, words in KEY_IMPLS.items()]
        )
    if isinstance(type, ir.Scalar):
        return {
            "int": st.integers(),
            "float": st.floats() | st.integers(-5, 5),
            "bool": st.booleans(),
            "str": st.text(max_size=3),
            "bytes": st.binary(max_size=3),
            "complex": st.complex_numbers(),
            "none": st.none(),
        }[type.type]
    if isinstance(type, ir.NumpyScalar):
        return st.just(BY_NAME[type.dtype].numpy.type(1))
    if isinstance(type, ir.Enum):
        return st.sampled_from(type.members)
    if isinstance(type, ir.Optional):
        return st.none() | _value(schema, type.item, env)
    if isinstance(type, ir.Node):
        given_dims = {name: evaluate(size, env) for name, size in type.ties}
        return valid_states(schema, schema[type.cls], given_dims)
    if isinstance(type, ir.Tuple):
        return st.fixed_dictionaries({str(i): _value(schema, item, env) for i, item in enumerate(type.items)})
    if isinstance(type, ir.Sequence):
        length = evaluate(type.length, env) if type.length else None
        counts = st.integers(0, 3) if length is None else st.just(length)
        return counts.flatmap(
            lambda n: st.fixed_dictionaries({str(i): _value(schema, type.item, env) for i in range(n)})
        )
    if isinstance(type, ir.Dict):
        keys = st.text(max_size=3) if type.key == "str" else st.integers(-3, 3).map(str)
        return st.dictionaries(keys, _value(schema, type.value, env), max_size=3)
    return st.none() | st.integers()


def _garbage_arrays() -> list[Any]:
    return [
        np.zeros((2, 2), np.float32),
        np.zeros(3, np.float64),
        np.zeros(2, ">f4"),
        np.array([None, 1], object),
        np.array(["x"]),
        np.zeros(2, [("kernel", "f4"), ("bias", "f4")]),
        np.float32(1),
        np.zeros((), np.int32),
        np.ma.masked_array(np.zeros(2, np.float32)),
        jnp.zeros((1,)),
        jax.random.key(0),
        jax.eval_shape(lambda: jnp.zeros(2)),
        ml_dtypes.bfloat16(1),
    ]


GARBAGE: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.just(10**400),
        st.just(2**60 + 1),
        st.floats(),
        st.text(max_size=4),
        st.binary(max_size=4),
        st.sampled_from(_garbage_arrays()),
        st.builds(object),
        st.just(SimpleNamespace(shape=(2,), dtype=np.dtype("float32"))),
        st.just(SimpleNamespace(shape=np.zeros(2), dtype="float32")),
        st.just(OrderedDict(a=1)),
        st.just(dict),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers(0, 3), st.sampled_from("012")), inner, max_size=3),
        st.tuples(inner),
    ),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    """The value with one thing wrong somewhere, or by chance still right."""
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(value, key=str)))
        return {**value, key: draw(damaged(value[key]))}
    if isinstance(value, dict):
        what = draw(st.sampled_from(["drop", "add", "replace", "non-string key"]))
        if what == "drop" and value:
            key = draw(st.sampled_from(sorted(value, key=str)))
            return {k: v for k, v in value.items() if k != key}
        if what == "add":
            return {**value, draw(st.text(max_size=2)): draw(GARBAGE)}
        if what == "non-string key":
            return {**value, draw(st.integers()): 1}
        return draw(GARBAGE)
    if isinstance(value, (np.ndarray, jax.Array)) and draw(st.booleans()):
        shape = draw(st.lists(st.integers(0, 4), max_size=3))
        dtype = draw(st.sampled_from([value.dtype, np.dtype("float32"), np.dtype("int32")]))
        return np.zeros(shape, dtype)
    return draw(GARBAGE)


def accepts(cls: type, tree: Any) -> bool:
    """Whether generated code takes it; any error but StateMismatchError fails the test."""
    try:
        from_state_dict(cls, tree, into="numpy")
    except StateMismatchError:
        return False
    return True


@settings(suppress_health_check=list(HealthCheck), report_multiple_bugs=False, phases=[Phase.generate])
@given(classes(), st.data())
def test_generated_code_and_explain_agree(cls: type, data: st.DataObject) -> None:
    load(cls)
    schema = schema_of(cls)
    tree = data.draw(valid_states(schema, schema.root_class, {}))
    assert explain(cls, tree) == ()
    restored: Any = from_state_dict(cls, tree)
    again = to_state_dict(restored)
    assert explain(cls, again) == ()
    assert str(jax.tree.structure(again)) == str(jax.tree.structure(tree))
    for _ in range(5):
        broken = data.draw(damaged(tree))
        assert accepts(cls, broken) == (explain(cls, broken) == ()), explain(cls, broken)


@settings(suppress_health_check=list(HealthCheck))
@given(GARBAGE)
def test_garbage_gives_one_error_and_no_other(garbage: Any) -> None:
    from tests.schema.declared import Everything

    load_once(Everything)
    assert not accepts(Everything, garbage)
    assert explain(Everything, garbage)


_loaded: set[type] = set()


def load_once(cls: type) -> None:
    if cls not in _loaded:
        load(cls)
        _loaded.add(cls)
