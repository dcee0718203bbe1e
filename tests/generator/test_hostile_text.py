"""Text of a user that enters generated code is data there, whatever it says: nothing of it runs, nothing is lost."""

import enum
from typing import Annotated, Any, NamedTuple

import jax.numpy as jnp
import pytest
from hypothesis import assume, example, given, reject, settings
from hypothesis import strategies as st
from jax import Array
from jax.tree_util import Partial
from jaxtyping import Float32

from treaty.generator import load
from treaty.runtime import abstract, from_state_dict, to_state_dict
from treaty.schema import ArraySpec, Dims, Fields, SchemaError, field, schema_of, state

ATTACKS = (
    '"""\nraise SystemExit("run")\n"""',
    '"); raise SystemExit("run") #',
    "'); raise SystemExit('run') #",
    "\\",
    '\\"""\\',
    "\n",
    "\r\x00\x1b\u2028\u202e\ud800",
    "a b",
    "a.b",
    "class",
    "name",
    "__class__",
    "_private",
    "mro",
    "{{ 7*7 }}",
    "{x}%s",
    "ﬁeld",
    "field",
    "K",  # the sign of Kelvin, which Python spells K
    "",
)
TEXTS = st.sampled_from(ATTACKS) | st.text(max_size=8)


def make(name: str, annotations: dict[str, Any], **values: Any) -> Any:
    body = {"__annotations__": annotations, "__module__": __name__, "__qualname__": name, **values}
    return state(type(name, (), body))


def call(*_: Any, **__: Any) -> None: ...


class Pair(NamedTuple):
    one: Any
    two: Any


PARTIAL: Any = Partial
ANNOTATED: Any = Annotated
ENUM: Any = enum.Enum


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=6, unique=True))
@example(list(ATTACKS))
def test_keys_and_keywords_and_defaults(texts: list[str]) -> None:
    keyed = make(
        "Keyed",
        {f"f{i}": str for i in range(len(texts))},
        **{f"f{i}": field(key=text, default=text) for i, text in enumerate(texts)},
    )
    keywords = ANNOTATED[Partial, Fields(func=call, args=(keyed,), keywords=dict.fromkeys(texts, int))]
    outer = make("Outer", {"k": keyed, "p": keywords, "f": ANNOTATED[Pair, Fields(one=keywords, two=int)]})
    load(outer)
    value = keyed(**{f"f{i}": text for i, text in enumerate(texts)})
    partial = PARTIAL(call, value, **dict.fromkeys(texts, 1))
    saved = to_state_dict(outer(k=value, p=partial, f=Pair(partial, 2)))
    assert saved["k"] == dict(zip(texts, texts, strict=True))
    restored = from_state_dict(outer, saved)
    assert restored.p.keywords == dict.fromkeys(texts, 1)
    assert to_state_dict(abstract(outer).k) == saved["k"]


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=6, unique=True))
@example([text for text in ATTACKS if text not in ("", "mro", "__class__")])
def test_members_of_enums(texts: list[str]) -> None:
    try:
        members = ENUM("Members", {text: i for i, text in enumerate(texts)}, module=__name__)
    except (ValueError, TypeError, IndexError):
        reject()  # no name for a member, says enum
    assume(members.__members__)
    fields = {f"f{i}": members for i in range(len(members.__members__))}
    defaults = {f"f{i}": field(default=member) for i, member in enumerate(members.__members__.values())}
    cls = make("OfMembers", fields, **defaults)
    load(cls)
    value = abstract(cls)
    assert [getattr(value, name) for name in fields] == list(members.__members__.values())
    assert list(to_state_dict(value).values()) == [one.name for one in members.__members__.values()]
    assert from_state_dict(cls, to_state_dict(value)).f0 is value.f0


@pytest.mark.parametrize("text", ATTACKS)
def test_texts_as_dims(text: str) -> None:
    """A dim is a name, an int or an expression; whatever else a text says, it is refused before code is made."""
    for dims in (text, f"{text}=3", f"2*{text}"):
        try:
            cls = make("OfDims", {"x": ANNOTATED[Array, ArraySpec("float32", dims)]})
            schema = schema_of(cls)
        except SchemaError:
            continue
        load(cls)
        defined = dict(schema.root_class.definitions)
        value = abstract(cls, **{dim: 3 for dim in schema.root_class.dims if dim not in defined})
        assert from_state_dict(cls, to_state_dict(value)).x.shape == value.x.shape


def test_a_dim_is_spelled_as_python_spells_it() -> None:
    child = make("Child", {"x": Float32[Array, "ﬁ ﬀ=3"]})
    cls = make("Parent", {"c": ANNOTATED[child, Dims("ﬁ")], "y": Float32[Array, "fi"]})
    load(cls)
    assert schema_of(child).root_class.dims == ("fi", "ff")
    assert abstract(cls, fi=2).c.x.shape == (2, 3)
    with pytest.raises(ValueError, match="fi=3"):
        from_state_dict(cls, {"c": {"x": jnp.ones((2, 3))}, "y": jnp.ones(3)})


def test_a_field_that_python_spells_otherwise_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"'ﬁ' is 'fi' to Python; name it so, and keep the key with field\(key='ﬁ'\)"):
        schema_of(make("Spelled", {"ﬁ": int}))


PROJECT = """\
import enum
import typing
from jax import Array
from jax.tree_util import Partial
from jaxtyping import Float32
from treaty.schema import Fields, field, state

def call(*args: object, **keywords: object) -> None: ...

TEXTS = {texts!r}
Members = enum.Enum("Members", {{text: number for number, text in enumerate(TEXTS) if text not in ("", "mro")}})  # type: ignore[misc]
Keys = typing.TypedDict("Keys", {keys})

@state
class Hostile:
    m: Members = list(Members)[0]
    k: Keys
    p: typing.Annotated[Partial, Fields(func=call, keywords={{text: Float32[Array, "d"] for text in TEXTS}})]
    _: typing.ClassVar[int] = 3
{fields}
"""


def module_full_of_it() -> str:
    """A schema module; tests/generator/test_any_name.py generates and runs it, and mypy reads it, with others."""
    fields = "".join(f"    f{i}: str = field(key={text!r}, default={text!r})\n" for i, text in enumerate(ATTACKS))
    keys = "{" + ", ".join(f"{text!r}: int" for text in ATTACKS) + "}"
    return PROJECT.format(texts=ATTACKS, keys=keys, fields=fields)
