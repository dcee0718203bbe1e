"""How states and schemas look: shapes, dtypes and sizes, alike items as one, and no numbers of arrays."""

import re
from html.parser import HTMLParser
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jaxtyping import Float32, Key

from treaty.generator import load
from treaty.schema import Dims, field, schema_of, state
from treaty.schema._showing import size_text, state_html, state_text


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"] | None


@state
class Model:
    layers: Annotated[tuple[Linear, ...], Dims(None)]
    named: Annotated[dict[str, Linear], Dims(None)]
    rng: Key[Array, ""]
    note: str = field(default="", static=True)


@state
class OwnRepr:
    w: Any

    def __repr__(self) -> str:
        return "mine"


@state
class OwnHtml:
    w: Any

    def _repr_html_(self) -> str:
        return "<b>mine</b>"


class Pair(NamedTuple):
    one: Any
    two: Any


@state
class Untyped:
    value: Any


for cls in (Model, OwnRepr, OwnHtml, Untyped):
    load(cls)


def linear(d: int, bias: bool = True) -> Linear:
    return Linear(kernel=jnp.zeros((d, d)), bias=jnp.zeros(d) if bias else None)


def model(note: str = "") -> Model:
    layers = (*(linear(4) for _ in range(48)), linear(5))
    named = {f"layer_{i}": linear(4, bias=False) for i in range(3)}
    return Model(layers=layers, named=named, rng=jax.random.key(0), note=note)


def test_a_small_state_is_one_line() -> None:
    assert repr(linear(4)) == "Linear(kernel=float32[4, 4], bias=float32[4])"


def test_a_large_state_has_a_line_for_each_field_and_alike_layers_as_one() -> None:
    assert repr(model("run")) == (
        "Model(\n"
        "  layers=(\n"
        "    48 x Linear(kernel=float32[4, 4], bias=float32[4]),\n"
        "    Linear(kernel=float32[5, 5], bias=float32[5]),\n"
        "  ),\n"
        "  named={'layer_0' … 'layer_2': 3 x Linear(kernel=float32[4, 4], bias=None)},\n"
        "  rng=key<fry>[],\n"
        "  note='run',\n"
        ")"
    )


def test_what_people_define_themselves_stays() -> None:
    assert repr(OwnRepr(w=1)) == str(OwnRepr(w=1)) == "mine"
    assert repr(Untyped(value=OwnRepr(w=1))) == "Untyped(value=mine)"
    assert OwnHtml(w=1)._repr_html_() == "<b>mine</b>"


def test_states_are_still_compared_and_hashed_by_identity() -> None:
    one, other = linear(2), linear(2)
    assert one != other
    assert len({one, other, one}) == 2


ABSTRACT: Any = jax.ShapeDtypeStruct  # JAX does not annotate it


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((1000, 1000)), "Untyped(value=float64[1000, 1000])"),
        (ABSTRACT((2,), jnp.bfloat16), "Untyped(value=bfloat16[2])"),
        (Pair(1, [jnp.zeros(2)]), "Untyped(value=Pair(one=1, two=[float32[2]]))"),
        ((), "Untyped(value=())"),
        ((1,), "Untyped(value=(1,))"),
        ("a\nb" * 100, f"Untyped(value={repr('a' + chr(10) + 'b' * 1)[:2]}"),
    ],
)
def test_values(value: Any, text: str) -> None:
    shown = repr(Untyped(value=value))
    assert shown.startswith(text)
    assert len(shown) < 110


def test_many_items_are_counted() -> None:
    shown = repr(Untyped(value=list(range(1000))))
    assert shown.count("\n") < 40
    assert "… 976 more" in shown


def test_what_contains_itself_or_cannot_say_what_it_is() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    around: list[Any] = []
    around += [around, around]
    assert len(state_text(around)) < 100
    assert state_text([Odd()]) == "[<Odd: its repr raised RuntimeError>]"


def test_a_traced_state_and_one_of_tree_map() -> None:
    seen: list[str] = []

    @jax.jit
    def look(one: Linear) -> Array:
        seen.append(repr(one))
        return one.kernel

    look(linear(3))
    assert seen == ["Linear(kernel=float32[3, 3], bias=float32[3])"]
    assert repr(jax.tree.map(lambda _: True, linear(3))) == "Linear(kernel=True, bias=True)"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_has_sizes_and_escapes_every_name() -> None:
    shown = Untyped(value={"<script>x</script>": "<img>", "m": model("<b>&")})
    page = state_html(shown)

    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.seen == {"div", "details", "summary", "small"}
    assert "48 x Linear(…) <small>2 arrays, 80 B</small>" in page
    assert "layers=(…) <small>98 arrays, 3.87 KiB</small>" in page
    assert "&lt;script&gt;" in page
    assert page == re.sub(r"0x[0-9a-f]+", "", page)


def test_a_schema_is_a_table_of_its_classes() -> None:
    schema = schema_of(Model)
    assert repr(schema).splitlines() == [
        f"Schema of {__name__}:Model",
        f"  {__name__}:Model",
        f"    layers: tuple[{__name__}:Linear, ...]",
        f"    named: dict[str, {__name__}:Linear]",
        "    rng: key[]",
        "    note: str  (static, default '')",
        f"  {__name__}:Linear[d_in, d_out]",
        "    kernel: float32[d_in, d_out]",
        "    bias: float32[d_out] | None",
    ]
    tags = Tags()
    tags.feed(schema._repr_html_())
    assert tags.open == []
    assert "<td>float32[d_out] | None</td>" in schema._repr_html_()


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1500, "1.46 KiB"),
        (999 * 1024, "999 KiB"),
        (int(999.7 * 1024), "1000 KiB"),
        (1023 * 1024, "1023 KiB"),
        (5000 * 2**40, "5000 TiB"),
    ],
)
def test_a_size_is_never_a_power_of_ten(nbytes: int, shown: str) -> None:
    assert size_text(nbytes) == shown
