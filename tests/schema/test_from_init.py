"""What is said of a `FromInit` that cannot be: file, class and field, and what to write."""

import functools
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import pytest
from jax import Array
from jaxtyping import Float32

from treaty.schema import Dims, FromInit, Keys, Length, Schema, SchemaError, field, ir, schema_of, state


@state
class Dense:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Net:
    inner: Annotated[Dense, Dims(...)]
    layers: Annotated[tuple[Dense, ...], Length("n"), Dims(d_in="d_out", d_out="d_out")]
    rest: Any = None


class Text(NamedTuple):
    name: Any
    count: Any


def transformation(init: Callable[[Any], Any]) -> Callable[[], Any]:
    """A factory that is found by a name: that of this module's globals, below."""
    return functools.partial(optax.GradientTransformation, init, lambda updates, state, params=None: (updates, state))


def raises() -> Any:
    raise RuntimeError("no data\nhere")


def no_optimizer() -> Any:
    return {"init": 1}


def momentum() -> Any:
    return optax.trace(0.9)


def _first_layer(params: Any) -> Any:
    masks = [jax.tree.map(lambda _, at=index: at == 0, layer) for index, layer in enumerate(params)]
    return tuple(masks)


def first_layer() -> Any:
    return optax.masked(optax.trace(0.9), _first_layer)


def lists() -> Any:
    return optax.sm3(1e-3)


adam_with_rate = functools.partial(optax.adam, 1e-3)
odd = transformation(lambda params: Text(name="text", count=Text))
by_value = transformation(lambda params: jnp.zeros(3) if params.bias.sum() > 0 else jnp.zeros(4))
crossed = transformation(lambda params: jnp.zeros(params.kernel.size % 7 + 1))
by_size = transformation(lambda params: (jnp.zeros(3), None)[int(params.bias.size > 100)])
failing = transformation(lambda params: params.missing)
counting = transformation(lambda params: {"steps": 0, "rate": 0.5})


TIED: Any = Annotated[Dense, Dims(...)]


def declared(marker: Any, of: Any = TIED, **options: Any) -> Any:
    annotations = {"params": of, "opt": Annotated[optax.OptState, marker]}
    names = {"__module__": __name__, "__qualname__": "Train", "__annotations__": annotations}
    return state(type("Train", (), {**names, "opt": field(**options)} if options else names))


def refusal(marker: Any, of: Any = TIED, **options: Any) -> list[str]:
    with pytest.raises(SchemaError) as raised:
        schema_of(declared(marker, of, **options))
    return [problem.partition("Train.opt: ")[2] for problem in raised.value.problems]


def opt_type(schema: Schema) -> ir.Type:
    return next(one.type for one in schema.root_class.fields if one.name == "opt")


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        (FromInit(momentum, of="parms"), "has no field 'parms'; its fields: params"),
        (FromInit(momentum, of="params.kernel.x"), "params.kernel is float32[d_in, d_out], which has no fields"),
        (FromInit(momentum, of="opt"), "opt holds what it would be made of; name the field of the params"),
        (FromInit(raises, of="params"), "it raises RuntimeError: no data here; write one that works wherever"),
        (FromInit(no_optimizer, of="params"), "it returns dict, which has no init; return an optax.Gradient"),
        (FromInit(lambda: optax.sgd(1e-3), of="params"), "a lambda cannot be imported; write def make_optimizer()"),
        (FromInit(functools.partial(optax.sgd, 1e-3), of="params"), "a thing without a name cannot be imported"),
        (FromInit(by_value, of="params"), "init asks for values of the params, and types are read before"),
        (FromInit(failing, of="params"), "init raises AttributeError: 'Dense' object has no attribute 'missing'"),
        (FromInit(crossed, of="params"), "which no dims of the params say"),
        (FromInit(by_size, of="params"), "$ is float32[3] for some params and None for others"),
    ],
)
def test_it_is_said_what_is_wrong_and_what_to_write(marker: FromInit, said: str) -> None:
    (problem,) = refusal(marker)
    assert problem.startswith(repr(marker))
    assert said in problem


def test_every_leaf_that_cannot_be_stored_is_named() -> None:
    problems = refusal(FromInit(odd, of="params"))
    assert [problem.partition("): ")[2].partition(" init ")[0] for problem in problems] == ["$.name:", "$.count:"]


def test_a_local_function_is_refused() -> None:
    def local() -> Any:
        return optax.sgd(1e-3)

    assert "a local function cannot be imported" in refusal(FromInit(local, of="params"))[0]


def test_what_is_written_beside_it_is_refused() -> None:
    marker = FromInit(momentum, of="params")
    assert "remove static=True" in refusal(marker, static=True)[0]
    assert "pass cast= to restore" in refusal(marker, cast_from=("float32",))[0]
    with pytest.raises(SchemaError, match=r"Dims\(\.\.\.\) beside FromInit\(momentum, of='params'\)"):
        schema_of(_annotated(Annotated[Any, marker, Dims(...)]))
    with pytest.raises(SchemaError, match="beside FromInit"):
        schema_of(_annotated(Annotated[Any, marker, Keys("a_{i}")]))
    with pytest.raises(SchemaError, match="write it on a field itself"):
        schema_of(_annotated(list[Annotated[Any, marker]]))
    with pytest.raises(SchemaError, match="expected a function that makes the optimizer"):
        FromInit(optax.sgd(1e-3), of="params")
    with pytest.raises(SchemaError, match="expected the name of a field"):
        FromInit(momentum, of="a b")


def _annotated(annotation: Any) -> Any:
    annotations = {"params": Annotated[Dense, Dims(...)], "opt": annotation}
    return state(type("Train", (), {"__module__": __name__, "__annotations__": annotations}))


def test_params_that_are_untied_or_untyped_are_refused() -> None:
    assert (
        "has dims of its own, d_in, d_out, and so would the state" in refusal(FromInit(momentum, of="params"), Dense)[0]
    )
    assert "$.rest of the params is not typed" in refusal(FromInit(momentum, of="params"), Annotated[Net, Dims(...)])[0]


def test_of_leads_into_classes_and_takes_tuples_of_layers() -> None:
    nested = schema_of(declared(FromInit(momentum, of="params.inner"), Annotated[Net, Dims(..., d_out="width")]))
    layers = Annotated[tuple[Dense, ...], Length("n"), Dims("d_in", d_out="2*d_in")]
    listed = schema_of(declared(FromInit(momentum, of="params"), layers))

    assert [ir.describe(one.type) for one in nested[_only(nested)].fields] == [
        f"{__name__}:Dense(d_in=d_in, d_out=width)"
    ]
    (trace,) = listed[_only(listed)].fields
    assert isinstance(trace.type, ir.Sequence)
    assert str(trace.type.length) == "n"
    assert ir.describe(trace.type.item) == f"{__name__}:Dense(d_in=d_in, d_out=2*d_in)"


def _only(schema: Schema) -> str:
    type = opt_type(schema)
    assert isinstance(type, ir.Node)
    return type.cls


def test_layers_that_are_treated_one_by_one_need_a_number_of_layers() -> None:
    marker = FromInit(first_layer, of="params")
    fixed = schema_of(declared(marker, Annotated[tuple[Dense, ...], Length(2), Dims(...)]))
    assert "the state has no one type: " in refusal(marker, Annotated[tuple[Dense, ...], Length("n"), Dims(...)])[0]
    trace = fixed[_only(fixed)].fields[0].type
    assert isinstance(trace, ir.Node)
    assert isinstance(fixed[trace.cls].fields[0].type, ir.Tuple)


def test_a_partial_is_known_by_its_name_in_the_module() -> None:
    cls = declared(FromInit(adam_with_rate, of="params"))
    (_, opt) = schema_of(cls).root_class.fields
    assert opt.init == f"{__name__}:adam_with_rate"


def test_numbers_of_python_are_the_arrays_that_an_update_makes_of_them() -> None:
    schema = schema_of(declared(FromInit(counting, of="params")))
    assert {one.key: ir.describe(one.type) for one in schema[_only(schema)].fields} == {
        "steps": "int32[]",
        "rate": "float32[]",
    }


def test_another_optimizer_is_another_digest_and_another_name_is_not() -> None:
    digests = {
        make: schema_of(declared(FromInit(make, of="params"))).digest
        for make in (momentum, adam_with_rate, plain_momentum)
    }
    assert digests[momentum] == digests[plain_momentum] != digests[adam_with_rate]
    stored = schema_of(declared(FromInit(momentum, of="params"))).as_stored
    assert '"init"' not in stored.to_json()


def plain_momentum() -> Any:
    return optax.trace(0.5)


def test_adafactor_of_another_threshold_is_another_digest() -> None:
    digests = {schema_of(declared(FromInit(make, of="params"))).digest for make in (from_128, from_64)}
    assert len(digests) == 2


def from_128() -> Any:
    return optax.scale_by_factored_rms()


def from_64() -> Any:
    return optax.scale_by_factored_rms(min_dim_size_to_factor=64)
