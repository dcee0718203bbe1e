"""One name from two places, tied to nothing: refused, with both ways to write it; `Dims(None)` says that it is meant."""

from collections.abc import Callable
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import pytest
from jax import Array
from jaxtyping import Float32, Int32

from treaty.schema import Dims, Fields, Length, SchemaError, ir, schema_of, state

P = TypeVar("P")


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Adam(Generic[P]):
    count: Int32[Array, ""]
    mu: P
    nu: P


class Trace(NamedTuple):
    trace: Any


def problems(cls: Any) -> list[str]:
    """Without the file and the function that the class is in."""
    with pytest.raises(SchemaError) as caught:
        schema_of(cls)
    return [
        text.partition(": ")[2].replace(f"{cls.__qualname__.rpartition('.')[0]}.", "") for text in caught.value.problems
    ]


def ties(cls: Any) -> dict[str, tuple[tuple[str, str], ...]]:
    fields = schema_of(cls).root_class.fields
    return {
        field.name: tuple((name, str(size)) for node in ir.nodes(field.type) for name, size in node.ties)
        for field in fields
    }


def test_two_fields_that_bring_a_name_have_to_say_whose_it_is() -> None:
    @state
    class Train:
        params: Linear
        opt: Adam[Linear]

    assert problems(Train) == [
        "Train.opt: dims d_in, d_out: params has them too, untied; to share them, "
        "write params: Annotated[Linear, Dims(...)] and opt: Annotated[Adam[Linear], Dims(...)]; "
        "to keep its own, opt: Annotated[Adam[Linear], Dims(None)]"
    ]


def test_what_the_error_says_is_accepted() -> None:
    @state
    class Shared:
        params: Annotated[Linear, Dims(...)]
        opt: Annotated[Adam[Linear], Dims(...)]

    @state
    class Own:
        params: Linear
        opt: Annotated[Adam[Linear], Dims(None)]

    assert schema_of(Shared).root_class.dims == ("d_in", "d_out")
    assert schema_of(Own).root_class.dims == ()
    assert ties(Own) == {"params": (), "opt": ()}


def test_a_name_of_the_class_itself_and_of_a_field() -> None:
    @state
    class Tree:
        value: Float32[Array, "d"]
        children: "list[Tree]"

    assert problems(Tree) == [
        "Tree.children: dim d: Tree has it too, untied; to share it, write children: Annotated[list[Tree], Dims(...)]; "
        "to keep its own, children: Annotated[list[Tree], Dims(None)]"
    ]


def test_ties_that_are_there_stay_in_what_the_error_says() -> None:
    @state
    class Heads:
        value: Annotated[Linear, Dims(d_in="d_model")]
        policy: Annotated[Linear, Dims(d_in="d_model")]

    assert problems(Heads) == [
        "Heads.policy: dim d_out: value has it too, untied; to share it, "
        'write value: Annotated[Linear, Dims("d_out", d_in="d_model")] and '
        'policy: Annotated[Linear, Dims("d_out", d_in="d_model")]; '
        'to keep its own, policy: Annotated[Linear, Dims(None, d_in="d_model")]'
    ]


def test_one_dim_can_be_its_own_and_the_rest_shared() -> None:
    @state
    class Heads:
        value: Annotated[Linear, Dims(..., d_out=None)]
        policy: Annotated[Linear, Dims(d_in="d_in", d_out=None)]
        both: Annotated[tuple[Linear, ...], Length(2), Dims(None, d_in="d_in")]

    assert ties(Heads) == dict.fromkeys(("value", "policy", "both"), (("d_in", "d_in"),))
    assert schema_of(Heads).root_class.dims == ("d_in",)


def test_items_of_a_tuple_are_places_of_their_own_and_those_of_a_list_are_not() -> None:
    @state
    class Pair:
        pair: tuple[Linear, Linear]

    @state
    class Many:
        many: list[Linear]
        more: Annotated[tuple[Linear, Linear], Dims(None)]

    assert problems(Pair) == [
        "Pair.pair: dims d_in, d_out: pair[0] has them too, untied; to share them, "
        "write pair[0]: Annotated[Linear, Dims(...)] and pair[1]: Annotated[Linear, Dims(...)]; "
        "to keep its own, pair[1]: Annotated[Linear, Dims(None)]"
    ]
    assert ties(Many) == {"many": (), "more": ()}


def test_what_is_inside_fields_is_in_the_class_that_has_the_field() -> None:
    @state
    class Train:
        params: Linear
        opt: Annotated[Trace, Fields(trace=Linear)]

    @state
    class Told:
        params: Linear
        opt: Annotated[Trace, Fields(trace=Annotated[Linear, Dims(None)])]

    (problem,) = problems(Train)
    assert problem.startswith("Train.opt: dims d_in, d_out: params has them too, untied; ")
    assert problem.endswith("to keep its own, opt.trace: Annotated[Linear, Dims(None)]")
    assert schema_of(Told).root_class.dims == ()


def test_what_is_loose_further_down_is_told_where_it_can_be_tied() -> None:
    @state
    class Params:
        layer: Linear

    @state
    class Train:
        params: Params
        opt: Adam[Params]

    assert problems(Train) == [
        "Params.layer: dims d_in, d_out: Train has them in params and in opt, untied; to tie them there, "
        "write layer: Annotated[Linear, Dims(...)]; to keep its own, layer: Annotated[Linear, Dims(None)]"
    ]


def test_a_name_of_its_own_further_down_is_settled() -> None:
    @state
    class Params:
        layer: Annotated[Linear, Dims(None)]

    @state
    class Train:
        params: Params
        opt: Adam[Params]

    @state
    class Kept:
        params: Annotated[Adam[Linear], Dims(None)]
        trace: Annotated[Trace, Fields(trace=Linear)]

    assert schema_of(Train).root_class.dims == schema_of(Kept).root_class.dims == ()


def test_a_dim_that_follows_from_others_needs_no_word() -> None:
    @state
    class Gated:
        up: Float32[Array, "d_model d_ff=4*d_model"]
        rgb: Float32[Array, "rgb=3"]

    @state
    class Both:
        one: Annotated[Gated, Dims("d_model")]
        other: Annotated[Gated, Dims("d_model")]

    assert schema_of(Both).root_class.dims == ("d_model",)


def test_the_nearer_word_wins() -> None:
    @state
    class Kept:
        items: Annotated[tuple[Annotated[Linear, Dims(None)], ...], Dims(...)]
        other: Adam[Annotated[Linear, Dims(None)]]
        shared: Annotated[list[Annotated[Linear, Dims(...)]], Dims(None)]

    assert ties(Kept) == {"items": (), "other": (), "shared": (("d_in", "d_in"), ("d_out", "d_out"))}


def test_an_argument_with_dims_of_its_own_is_another_class() -> None:
    @state
    class Both:
        shared: Adam[Linear]
        own: Adam[Annotated[Linear, Dims(None)]]

    schema = schema_of(Both)
    one, other = (schema[node.cls] for field in schema.root_class.fields for node in ir.nodes(field.type))
    assert (one.dims, other.dims) == (("d_in", "d_out"), ())


def test_a_digest_says_what_is_stored_and_so_not_that_a_dim_is_its_own() -> None:
    @state
    class Silent:
        a: Linear

    @state
    class Told:
        a: Annotated[Linear, Dims(None)]

    assert schema_of(Silent).digest == schema_of(Told).digest


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Dims(..., None),
            "Dims(..., None): write ... to share the dims that are not named, or None to share none",
        ),
        (lambda: schema_of(_wrong(Dims(d=None))), "Dims(d=...): tests.schema.test_loose_dims:Linear has no dim 'd'; "),
    ],
)
def test_mistakes(make: Callable[[], object], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        make()
    assert message in str(caught.value)


def _wrong(dims: Dims) -> Any:
    annotation: Any = Annotated
    return state(type("Wrong", (), {"__annotations__": {"x": annotation[Linear, dims]}, "__module__": __name__}))


def test_it_reads_as_it_is_written() -> None:
    assert repr(Dims(None, d_in="d")) == "Dims(None, d_in='d')"
    assert repr(Dims("d", d_out=None)) == "Dims(d='d', d_out=None)"
