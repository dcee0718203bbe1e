"""`resolve` by examples: two declarations of a class `A`, what becomes of each leaf, and what is said where nothing can."""

from collections.abc import Mapping

import pytest

from tests.evolution.project import Project, schema
from treaty.runtime._evolve.histories import history_of
from treaty.schema import resolve, schema_of
from treaty.schema.evolution.gate import breaches
from treaty.schema.evolution.resolution import Keep, Resolution

PERMUTED = (
    "if the axes changed places, write a migration with a layout; "
    "if only names did, take names that were not there before"
)
IN_CLASS = "write a migration of the class that it is in"


def a(*fields: str, above: str = "", reserved: str = "") -> str:
    """The source of a class."""
    body = "".join(f"    {one}\n" for one in fields)
    return f"{above}\n@state{f'(reserved={reserved})' if reserved else ''}\nclass A:\n{body}"


def inside(text: str) -> str:
    """The same class, deep in another."""
    return f"{text}\n@state\nclass Root:\n    parts: dict[str, list[A]]\n    maybe: Annotated[A | None, Dims(None)]\n"


def between(before: str, after: str, cast: Mapping[str, str] | None = None) -> Resolution:
    return resolve(schema(before), schema(after), cast=cast or {})


def leaves(found: Resolution) -> list[str]:
    return [str(one) for one in found.leaves]


def problems(found: Resolution) -> list[tuple[str, str, str]]:
    return [(one.rule, one.kind, str(one)) for one in found.problems]


def conditions(found: Resolution) -> list[tuple[str, str]]:
    return [(one.kind, str(one)) for one in found.conditions]


FINE = {
    "the same": (a("w: int"), a("w: int"), ["$.w: as-is"]),
    "another order": (a("w: int", "v: str"), a("v: str", "w: int"), ["$.v: as-is", "$.w: as-is"]),
    "an attribute with the key of before": (a("w: int"), a('v: int = field(key="w")'), ["$.w: as-is"]),
    "an alias": (a("w: int"), a('v: int = field(aliases=("w",))'), ["$.v: renamed from $.w"]),
    "the second alias": (a("w: int"), a('v: int = field(aliases=("u", "w"))'), ["$.v: renamed from $.w"]),
    "a default": (a("w: int"), a("w: int", "v: float = 0.5"), ["$.w: as-is", "$.v: defaulted (0.5)"]),
    "a default that a checkpoint has": (a("w: int"), a("w: int = 3"), ["$.w: as-is"]),
    "a wider dtype": (
        a('w: Float16[Array, "n"]'),
        a('w: Float32[Array, "n"]'),
        ["$.w: widened (float16 to float32)"],
    ),
    "a wider number": (a("w: int"), a("w: complex"), ["$.w: widened (int to complex)"]),
    "cast_from": (
        a('w: Float32[Array, "n"]'),
        a('w: BFloat16[Array, "n"] = field(cast_from=("float32",))'),
        ["$.w: cast (float32 to bfloat16)"],
    ),
    "an alias and a wider dtype": (
        a('w: Float16[Array, "n"]'),
        a('v: Float32[Array, "n"] = field(aliases=("w",))'),
        ["$.v: widened from $.w (float16 to float32)"],
    ),
    "required, then optional": (a("w: int"), a("w: int | None"), ["$.w: as-is"]),
    "None, then optional": (a("w: None"), a("w: int | None"), ["$.w: as-is"]),
    "optional and wider": (a("w: int | None"), a("w: float | None"), ["$.w: widened (int to float)"]),
    "a name for a size": (a('w: Float32[Array, "4"]'), a('w: Float32[Array, "n"]'), ["$.w: as-is"]),
    "dims renamed": (a('w: Float32[Array, "n m"]'), a('w: Float32[Array, "k l"]'), ["$.w: as-is"]),
    "a tie removed": (a('w: Float32[Array, "n n"]'), a('w: Float32[Array, "n m"]'), ["$.w: as-is"]),
    "a label": (a('w: Float32[Array, "n 2*n"]'), a('w: Float32[Array, "n h=2*n"]'), ["$.w: as-is"]),
    "a sum as a product": (a('w: Float32[Array, "n n+n"]'), a('w: Float32[Array, "n 2*n"]'), ["$.w: as-is"]),
    "a list as a tuple": (a("w: list[int]"), a("w: tuple[int, ...]"), ["$.w[*]: as-is"]),
    "a tuple as a list": (a("w: tuple[int, int]"), a("w: list[int]"), ["$.w[*]: as-is"]),
    "a list without its length": (
        a('w: Annotated[list[int], Length("n")]'),
        a("w: list[int]"),
        ["$.w[*]: as-is"],
    ),
    "numbers as text": (a("w: dict[int, int]"), a("w: dict[str, int]"), ["$.w[*]: as-is"]),
    "wider in a dict": (a("w: dict[str, int]"), a("w: dict[str, float]"), ["$.w[*]: widened (int to float)"]),
    "any key": (
        a('w: Annotated[Array, ArraySpec("key<rbg>")]'),
        a('w: Key[Array, ""]'),
        ["$.w: as-is"],
    ),
    "a member more": (
        a("w: E", above="class E(enum.Enum):\n    A = 1"),
        a("w: E", above="class E(enum.Enum):\n    B = 1\n    A = 2"),
        ["$.w: as-is"],
    ),
    "unchecked now": (a("w: list[int]"), a("w: Any"), ["$.w: as-is"]),
    "a NamedTuple in another order": (
        a("w: N", above="class N(NamedTuple):\n    x: int\n    y: int"),
        a("w: N", above="class N(NamedTuple):\n    y: int\n    x: int"),
        ["$.w.y: as-is", "$.w.x: as-is"],
    ),
    "static": (a("w: int"), a("w: int = field(static=True)"), ["$.w: as-is"]),
    "host arrays": (a('w: Float32[Array, "n"]'), a('w: Float32[np.ndarray, "n"]'), ["$.w: as-is"]),
    "a class under another name": (
        a("w: B", above="@state\nclass B:\n    x: int"),
        a("w: C", above="@state\nclass C:\n    x: int"),
        ["$.w.x: as-is"],
    ),
    "a TypedDict of what was a class": (
        a("w: B", above="@state\nclass B:\n    x: int"),
        a("w: B", above="from typing import TypedDict\nclass B(TypedDict):\n    x: int"),
        ["$.w.x: as-is"],
    ),
    "a Partial with another argument type": (
        a("w: Annotated[Partial, Fields(func=jnp.add, args=(int,), keywords={})]"),
        a("w: Annotated[Partial, Fields(func=jnp.add, args=(float,), keywords={})]"),
        ["$.w.args[0]: widened (int to float)", "$.w.keywords: as-is"],
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), FINE.values(), ids=FINE)
def test_what_is_fine(before: str, after: str, expected: list[str]) -> None:
    found = between(before, after)
    assert (problems(found), conditions(found)) == ([], [])
    assert leaves(found) == expected


@pytest.mark.parametrize(("before", "after", "expected"), FINE.values(), ids=FINE)
def test_what_is_fine_is_so_deep_inside(before: str, after: str, expected: list[str]) -> None:
    found = between(inside(before), inside(after))
    assert (problems(found), conditions(found)) == ([], [])
    below = [one.replace("$", "$.parts[*][*]") for one in expected]
    assert leaves(found) == below + [one.replace("$", "$.maybe") for one in expected]


WRONG = {
    "removed": (
        a("w: int", "v: str"),
        a("w: int"),
        [("LOAD", "removed", "expected no such key in A, got str at $.v; write @state(reserved=('v',)) to drop it")],
    ),
    "added": (
        a("w: int"),
        a("w: int", "v: str"),
        [
            (
                "LOAD",
                "added",
                "expected str, got nothing at $.v; write field(default=...) or field(factory=...), which fills it in "
                "for earlier checkpoints",
            )
        ],
    ),
    "renamed": (
        a("w: int"),
        a("v: int"),
        [
            (
                "LOAD",
                "renamed",
                "expected to know what became of 'w', got a new field 'v' of the same type at $.w; if that is it, write "
                "v = field(aliases=('w',)); if not, write @state(reserved=('w',)), and a default for v",
            )
        ],
    ),
    "renamed, with a default": (
        a("w: int"),
        a("v: int = 0"),
        [
            (
                "LOAD",
                "renamed",
                "expected to know what became of 'w', got a new field 'v' of the same type at $.w; if that is it, write "
                "v = field(aliases=('w',)); if not, write @state(reserved=('w',))",
            )
        ],
    ),
    "two renamed": (
        a("w: int", "x: str"),
        a("y: str", "z: int"),
        [
            (
                "LOAD",
                "renamed",
                "expected to know what became of 'w', got a new field 'z' of the same type at $.w; if that is it, write "
                "z = field(aliases=('w',)); if not, write @state(reserved=('w',)), and a default for z",
            ),
            (
                "LOAD",
                "renamed",
                "expected to know what became of 'x', got a new field 'y' of the same type at $.x; if that is it, write "
                "y = field(aliases=('x',)); if not, write @state(reserved=('x',)), and a default for y",
            ),
        ],
    ),
    "rank": (
        a('w: Float32[Array, "n"]'),
        a('w: Float32[Array, "n m"]'),
        [
            (
                "LOAD",
                "rank",
                "expected float32[n, m], got float32[n] at $.w; write a migration, with a layout in a Rule or as a function",
            )
        ],
    ),
    "a narrower dtype": (
        a('w: Float32[Array, "n"]'),
        a('w: Float16[Array, "n"]'),
        [
            (
                "LOAD",
                "dtype",
                "expected float16[n], got float32[n] at $.w; write field(cast_from=('float32',)), "
                "or pass cast={'float32': 'float16'}",
            )
        ],
    ),
    "a fixed size": (
        a('w: Float32[Array, "4"]'),
        a('w: Float32[Array, "5"]'),
        [("LOAD", "size", "expected a size of 5, got 4 at $.w; write a name for the axis, or a migration")],
    ),
    "dims permuted": (
        a('w: Float32[Array, "n m"]'),
        a('w: Float32[Array, "m n"]'),
        [
            (
                "SILENT",
                "dims-permuted",
                f"expected m on the axis that it was on, got it where n was at $.w; {PERMUTED}",
            ),
            (
                "SILENT",
                "dims-permuted",
                f"expected n on the axis that it was on, got it where m was at $.w; {PERMUTED}",
            ),
        ],
    ),
    "dims permuted in one of two arrays": (
        a('v: Float32[Array, "n m"]', 'w: Float32[Array, "n m"]'),
        a('v: Float32[Array, "n m"]', 'w: Float32[Array, "m n"]'),
        [
            (
                "SILENT",
                "dims-permuted",
                f"expected n on the axis that it was on, got it where m was at $.w; {PERMUTED}",
            ),
            (
                "SILENT",
                "dims-permuted",
                f"expected m on the axis that it was on, got it where n was at $.w; {PERMUTED}",
            ),
        ],
    ),
    "names that moved on": (
        a('w: Float32[Array, "n m"]'),
        a('w: Float32[Array, "m k"]'),
        [
            (
                "SILENT",
                "dims-permuted",
                f"expected m on the axis that it was on, got it where n was at $.w; {PERMUTED}",
            )
        ],
    ),
    "a type": (
        a("w: int"),
        a("w: str"),
        [("LOAD", "type", "expected str, got int at $.w; write a migration, a function that converts it")],
    ),
    "a number as an array": (
        a("w: int"),
        a('w: Int32[Array, ""]'),
        [("LOAD", "type", "expected int32[], got int at $.w; write a migration, a function that converts it")],
    ),
    "a number that is narrower": (
        a("w: float"),
        a("w: int"),
        [("LOAD", "type", "expected int, got float at $.w; write a migration, a function that converts it")],
    ),
    "a container": (
        a("w: list[int]"),
        a("w: dict[str, int]"),
        [
            (
                "LOAD",
                "container",
                "expected dict[str, int], got list[int] at $.w; write a migration, a function that rebuilds it",
            )
        ],
    ),
    "items of a tuple": (
        a("w: tuple[int, int]"),
        a("w: tuple[int, int, int]"),
        [("LOAD", "tuple", "expected 3 items, got 2 at $.w; write a migration that says which of them are which")],
    ),
    "one item of a tuple": (
        a("w: tuple[int, str]"),
        a("w: list[int]"),
        [("LOAD", "type", "expected int, got str at $.w[1]; write a migration, a function that converts it")],
    ),
    "the shape of a key": (
        a('w: Key[Array, ""]'),
        a('w: Key[Array, "n"]'),
        [("LOAD", "rank", "expected key[n], got key[] at $.w; write a migration")],
    ),
    "another generator": (
        a('w: Annotated[Array, ArraySpec("key<rbg>")]'),
        a('w: Annotated[Array, ArraySpec("key<unsafe_rbg>")]'),
        [
            (
                "SILENT",
                "prng",
                "expected key<unsafe_rbg>[], got key<rbg>[] at $.w; other numbers would follow: "
                "write a migration that makes a new key",
            )
        ],
    ),
    "another function of a Partial": (
        a("w: Annotated[Partial, Fields(func=f, args=(int,), keywords={})]", above="def f(x): ..."),
        a("w: Annotated[Partial, Fields(func=g, args=(int,), keywords={})]", above="def g(x): ..."),
        [("SILENT", "function", "expected m:g, got m:f at $.w; write a migration")],
    ),
    "another NamedTuple of the same fields": (
        a("w: N", above="class N(NamedTuple):\n    x: int"),
        a("w: M", above="class M(NamedTuple):\n    x: int"),
        [
            (
                "SILENT",
                "class",
                "expected m:M, got m:N at $.w; if it is the same under another name, say so: "
                f"treaty lock --moved m:N=m:M; if not, {IN_CLASS}",
            )
        ],
    ),
    "a field of a NamedTuple": (
        a("w: N", above="class N(NamedTuple):\n    x: int"),
        a("w: N", above="class N(NamedTuple):\n    y: int"),
        [
            (
                "LOAD",
                "renamed",
                f"expected to know what became of 'x', got a new field 'y' of the same type at $.w.x; {IN_CLASS}",
            )
        ],
    ),
    "a field more in a NamedTuple": (
        a("w: N", above="class N(NamedTuple):\n    x: int"),
        a("w: N", above="class N(NamedTuple):\n    x: int\n    y: str"),
        [("LOAD", "added", f"expected str, got nothing at $.w.y; {IN_CLASS}")],
    ),
    "optional, then None": (
        a("w: int | None"),
        a("w: None"),
        [("LOAD", "type", "expected none, got int at $.w; write a migration, a function that converts it")],
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), WRONG.values(), ids=WRONG)
def test_what_stands_in_the_way(before: str, after: str, expected: list[tuple[str, str, str]]) -> None:
    found = between(before, after)
    assert not found.ok
    assert problems(found) == expected


@pytest.mark.parametrize(("before", "after", "expected"), WRONG.values(), ids=WRONG)
def test_what_stands_in_the_way_does_so_deep_inside(
    before: str, after: str, expected: list[tuple[str, str, str]]
) -> None:
    found = between(inside(before), inside(after))
    places = ("$.parts[*][*]", "$.maybe")
    assert problems(found) == [
        (rule, kind, text.replace("$", place, 1)) for place in places for rule, kind, text in expected
    ]


OPEN = {
    "optional, then required": (
        a("w: int | None"),
        a("w: int"),
        [
            (
                "required",
                "expected int, got None, where that was stored at $.w; "
                "write X | None, or a migration that says what stands for None",
            )
        ],
    ),
    "a size that is fixed now": (
        a('w: Float32[Array, "n"]'),
        a('w: Float32[Array, "4"]'),
        [("size", "expected a size of 4, got n at $.w")],
    ),
    "a tie in an array": (
        a('w: Float32[Array, "n m"]'),
        a('w: Float32[Array, "n n"]'),
        [("tie", "expected one size for n, got n and m, which may differ at $.w; give the axis a name of its own")],
    ),
    "a tie between arrays": (
        a('w: Float32[Array, "n m"]', 'v: Float32[Array, "n"]'),
        a('w: Float32[Array, "n m"]', 'v: Float32[Array, "m"]'),
        [("tie", "expected one size for m, got m and n, which may differ at $.v; give the axis a name of its own")],
    ),
    "a tie between arrays, in another order": (
        a('w: Float32[Array, "n m"]', 'v: Float32[Array, "n"]'),
        a('v: Float32[Array, "m"]', 'w: Float32[Array, "n m"]'),
        [("tie", "expected one size for m, got m and n, which may differ at $.v; give the axis a name of its own")],
    ),
    "a tie of classes": (
        a("x: B", above='@state\nclass B:\n    w: Float32[Array, "n m"]'),
        a("x: Annotated[B, Dims(n='k', m='k')]", above='@state\nclass B:\n    w: Float32[Array, "n m"]'),
        [("tie", "expected one size for k, got x.m and x.n, which may differ at $.x; give the axis a name of its own")],
    ),
    "a label with another size": (
        a('w: Float32[Array, "n h=2*n"]', 'v: Float32[Array, "h"]'),
        a('w: Float32[Array, "n h=3*n"]', 'v: Float32[Array, "h"]'),
        [("size", "expected a size of 3*n, got 2*n at $.w")],
    ),
    "a length that is the size of an array": (
        a("w: list[int]", 'v: Float32[Array, "n"]'),
        a('w: Annotated[list[int], Length("n")]', 'v: Float32[Array, "n"]'),
        [
            (
                "tie",
                "expected one size for n, got n and w.length, which may differ at $.w; give the axis a name of its own",
            )
        ],
    ),
    "as many items as a tuple has": (
        a("w: list[int]"),
        a("w: tuple[int, int]"),
        [("size", "expected a size of 2, got w.length at $.w")],
    ),
    "text as numbers": (
        a("w: dict[str, int]"),
        a("w: dict[int, int]"),
        [
            (
                "keys",
                "expected numbers as keys, got text, where that was stored at $.w; write a function that makes them numbers",
            )
        ],
    ),
    "a member that is gone": (
        a("w: E", above="class E(enum.Enum):\n    A = 1\n    B = 2"),
        a("w: E", above="class E(enum.Enum):\n    A = 1"),
        [("enum", "expected one of A, got B, where that was stored at $.w; keep the member, or write a migration")],
    ),
    "one generator of any": (
        a('w: Key[Array, ""]'),
        a('w: Annotated[Array, ArraySpec("key<rbg>")]'),
        [
            (
                "prng",
                "expected key<rbg>[], got a key of another implementation, where stored at $.w; "
                "keep the declaration, or write a migration that makes a new key",
            )
        ],
    ),
    "unchecked before": (
        a("w: Any"),
        a("w: int"),
        [
            (
                "untyped",
                "expected int, got what was stored unchecked at $.w; keep Any, or write a function that converts it",
            )
        ],
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), OPEN.values(), ids=OPEN)
def test_what_depends_on_what_is_stored(before: str, after: str, expected: list[tuple[str, str]]) -> None:
    found = between(before, after)
    assert found.ok
    assert conditions(found) == expected


def test_a_reserved_key_is_dropped() -> None:
    found = between(a("w: int", "v: list[int]"), a("w: int", reserved='("v", "u")'))
    assert found.ok
    assert found.dropped == (("v",),)
    assert found.summary() == "1 dropped"


def test_what_is_dropped_deep_inside_is_named_there() -> None:
    found = between(inside(a("w: int", "v: int")), inside(a("w: int", reserved='("v",)')))
    assert found.dropped == (("parts", "*", "*", "v"), ("maybe", "v"))


def test_equal_schemas_are_kept_as_they_are() -> None:
    found = between(inside(a("w: int")), inside(a("w: int")))
    assert found.is_as_is
    assert found.plan == Keep()
    assert found.summary() == "all as it is"


def test_the_caller_may_ask_for_a_cast() -> None:
    before, after = a('w: Float32[Array, "n"]'), a('w: Float16[Array, "n"]')
    found = between(before, after, cast={"float32": "float16"})
    assert leaves(found) == ["$.w: cast (float32 to float16)"]
    assert not between(before, after, cast={"float32": "bfloat16"}).ok


def test_cast_from_is_of_one_field() -> None:
    before = a('w: Float32[Array, "n"]', 'v: Float32[Array, "n"]')
    after = a('w: Float16[Array, "n"] = field(cast_from=("float32",))', 'v: Float16[Array, "n"]')
    assert [one.path for one in between(before, after).problems] == [("v",)]


def test_a_missing_leaf_is_told_as_missing() -> None:
    assert leaves(between(a("w: int"), a("w: int", "v: str"))) == ["$.w: as-is", "$.v: missing"]


TREE = '@state\nclass A:\n    w: Float32[Array, "n m"]\n    left: "Annotated[A | None, Dims(None)]" = None\n    kids: "Annotated[tuple[A, ...], Dims(None)]" = ()\n'


def test_a_class_in_itself_is_resolved_once() -> None:
    found = between(TREE, TREE.replace('w: Float32[Array, "n m"]', 'v: Float32[Array, "n m"] = field(aliases=("w",))'))
    assert leaves(found) == ["$.v: renamed from $.w"]
    assert found.ok


def test_a_class_in_itself_that_did_not_change_is_kept() -> None:
    found = between(TREE, TREE.replace("n m", "k l"))
    assert found.is_as_is


def test_dims_permuted_in_a_class_in_itself() -> None:
    found = between(TREE, TREE.replace("n m", "m n"))
    assert {one.kind for one in found.problems} == {"dims-permuted"}
    assert found.plan == Keep()  # so that formats without a schema know that both look alike


def test_classes_in_each_other() -> None:
    both = '@state\nclass B:\n    x: int\n    a: "A | None"\n@state\nclass A:\n    b: B | None\n'
    assert between(both, both.replace("x: int", "x: int = 0")).is_as_is
    renamed = both.replace("    x: int", '    y: int = field(aliases=("x",))')
    assert leaves(between(both, renamed)) == ["$.b.y: renamed from $.b.x"]


def test_a_generic_class_is_resolved_with_its_arguments() -> None:
    moments = "@state\nclass M(Generic[P]):\n    {}: P\n"
    linear = "@state\nclass L:\n    {}: int\n"
    root = "@state\nclass A:\n    m: M[L]\n    n: M[M[L]]\n"
    before = linear.format("w") + moments.format("mu") + root
    after = linear.replace("{}: int", 'v: int = field(aliases=("w",))') + moments.format("mu") + root
    assert leaves(between(before, after)) == [
        "$.m.mu.v: renamed from $.m.mu.w",
        "$.n.mu.mu.v: renamed from $.n.mu.mu.w",
    ]
    after = linear.format("w") + moments.replace("{}: P", 'nu: P = field(aliases=("mu",))') + root
    assert leaves(between(before, after)) == [
        "$.m.nu.w: renamed from $.m.mu.w",
        "$.n.nu.nu.w: renamed from $.n.mu.mu.w",
    ]


def test_another_argument_of_a_generic_class() -> None:
    classes = (
        "@state\nclass M(Generic[P]):\n    mu: P\n"
        "@state\nclass B:\n    x: int\n"
        "@state\nclass C:\n    x: int\n    y: int = 0\n"
    )
    found = between(classes + a("m: M[B]"), classes + a("m: M[C]"))
    assert leaves(found) == ["$.m.mu.x: as-is", "$.m.mu.y: defaulted (0)"]


def test_a_default_that_is_made() -> None:
    found = between(a("w: int"), a("w: int", "v: list[int] = field(factory=list)"))
    assert leaves(found) == ["$.w: as-is", "$.v[*]: defaulted (factory:builtins:list)"]


def test_a_new_class_is_filled_in_leaf_by_leaf() -> None:
    above = "@state\nclass B:\n    x: int\n    y: int\ndef make():\n    return B(x=1, y=2)"
    found = between(a("w: int"), a("w: int", "b: B = field(factory=make)", above=above))
    assert leaves(found) == [
        "$.w: as-is",
        "$.b.x: defaulted (factory:m:make)",
        "$.b.y: defaulted (factory:m:make)",
    ]


# With a history.

OPTIMIZERS = "@state\nclass Adam:\n    mu: int\n@state\nclass Belief:\n    mu: int\n"


def test_two_classes_that_are_both_there_are_two_things(project: Project) -> None:
    """Nothing but the name tells the states of two optimizers apart."""
    project.release(OPTIMIZERS + a("opt: Adam"))
    before = schema_of(project["A"])
    project.declare(OPTIMIZERS + a("opt: Belief"))
    found = resolve(before, schema_of(project["A"]), history_of)
    name = project.name
    assert problems(found) == [
        (
            "SILENT",
            "class",
            f"expected {name}:Belief, got {name}:Adam at $.opt; if it is the same under another name, say so: "
            f"treaty lock --moved {name}:Adam={name}:Belief; if not, write a migration of the class that it is in",
        )
    ]
    assert project.history("A").present(schema_of(project["A"])) == 2
    (breach,) = breaches({f"{name}:A": schema_of(project["A"])}, history_of)
    assert breach.name == "SILENT-class"


def test_a_class_that_moved_is_the_same(project: Project) -> None:
    project.release(OPTIMIZERS + a("opt: Adam"))
    before = schema_of(project["A"])
    project.move({"Adam": "Momentum"})
    project.declare(OPTIMIZERS.replace("Adam", "Momentum") + a("opt: Momentum"))
    found = resolve(before, schema_of(project["A"]), history_of)
    assert found.is_as_is
    assert (found.revision, found.present) == (1, 1)


def test_functions_that_moved_are_the_same(project: Project) -> None:
    text = """
    def square(x): ...
    def ones(): return [1.0]

    @state
    class A:
        loss: Annotated[Partial, Fields(func=square, args=(int,), keywords={})]
    """
    scaled = f"{text}    scale: list[float] = field(factory=ones)\n"
    project.release(text)
    before = schema_of(project["A"])
    project.release(scaled)
    project.move({"square": "power", "ones": "begin"})
    project.declare(scaled.replace("square", "power").replace("ones", "begin"))
    found = resolve(before, schema_of(project["A"]), history_of)
    assert problems(found) == []
    assert breaches({f"{project.name}:A": schema_of(project["A"])}, history_of) == []


def test_a_migration_of_a_class_applies_wherever_it_stands(project: Project) -> None:
    linear = '@state\nclass L:\n    kernel: Float32[Array, "n m"]\n'
    root = "@state\nclass A:\n    up: L\n    more: Annotated[list[L], Dims(None)]\n"
    project.release(linear + root)
    before = schema_of(project["A"])
    turned = linear.replace("n m", "m n") + 'migration(L, 1, moves=[Rule("kernel", "kernel", "n m -> m n")])\n'
    project.declare(turned + root)
    found = resolve(before, schema_of(project["A"]), history_of)
    assert found.ok
    assert leaves(found) == [
        "$.up.kernel: moved (migration(L, 1))",
        "$.more[*].kernel: moved (migration(L, 1))",
    ]


CAST = 'BFloat16[Array, "d"] = field(cast_from=("float32",))'


def test_a_leaf_that_is_moved_and_then_cast_is_told_as_both(project: Project) -> None:
    step = 'migration(A, 1, moves=[Rule("w", "later")])\n'
    project.release(a('w: Float32[Array, "d"]'))
    before = schema_of(project["A"])
    project.release(a('later: Float32[Array, "d"]') + step)
    project.declare(a(f"later: {CAST}") + step)
    (told,) = leaves(resolve(before, schema_of(project["A"]), history_of))
    assert told == "$.later: moved from $.w (migration(A, 1), float32 to bfloat16)"


def test_a_leaf_of_a_class_that_is_moved_and_that_casts_it_is_told_as_both(project: Project) -> None:
    linear = "@state\nclass L:\n    w: {}\n"
    project.release(linear.format('Float32[Array, "d"]') + a("old: list[Annotated[L, Dims(...)]]"))
    before = schema_of(project["A"])
    step = 'migration(A, 1, moves=[Rule("old", "new")])\n'
    project.declare(linear.format(CAST) + a("new: list[Annotated[L, Dims(...)]]") + step)
    (told,) = leaves(resolve(before, schema_of(project["A"]), history_of))
    assert told == "$.new[*].w: moved from $.old[*].w (migration(A, 1), float32 to bfloat16)"


def test_a_tie_on_a_class_that_migrated_is_a_condition(project: Project) -> None:
    linear = '@state\nclass L:\n    kernel: Float32[Array, "n m"]\n'
    turned = linear.replace("n m", "m n") + 'migration(L, 1, moves=[Rule("kernel", "kernel", "n m -> m n")])\n'
    project.release(linear + a('up: Annotated[L, Dims(n="k", m="l")]'))
    before = schema_of(project["A"])
    project.declare(turned + a('up: Annotated[L, Dims(n="x", m="y")]'))
    assert conditions(resolve(before, schema_of(project["A"]), history_of)) == []
    project.declare(turned + a('up: Annotated[L, Dims(n="k", m="k")]'))
    assert [kind for kind, _ in conditions(resolve(before, schema_of(project["A"]), history_of))] == ["tie"]


def test_the_revisions_that_a_checkpoint_says_count(project: Project) -> None:
    """Of a change of meaning only, no digest tells."""
    project.release(a("w: int"))
    before = schema_of(project["A"])
    project.release(a("w: int") + "@migration(A, 1)\ndef doubled(old):\n    return {'w': 2 * old['w']}\n")
    present, symbol = schema_of(project["A"]), f"{project.name}:A"
    assert leaves(resolve(before, present, history_of, revisions={symbol: 1})) == [
        "$.w: migrated from $ (migration(A, 1))"
    ]
    assert resolve(before, present, history_of, revisions={symbol: 2}).is_as_is
    assert problems(resolve(before, present, history_of)) == [
        (
            "LOAD",
            "revision",
            "expected to know the revision of A, got what may be of 1 or 2 at $; pass revision=2 (or the other)",
        )
    ]
    newer = resolve(before, present, history_of, revisions={symbol: 3})
    assert problems(newer) == [
        (
            "LOAD",
            "newer",
            "expected a revision of A that this code knows, up to 2, got revision 3, of newer code at $; "
            "update the code, or restore with a class that declares what the checkpoint has",
        )
    ]


def test_a_newer_class_deep_inside_is_found_though_nothing_else_differs(project: Project) -> None:
    text = inside(a("w: int"))
    project.release(text)
    root = schema_of(project["Root"])
    found = resolve(root, root, history_of, revisions={f"{project.name}:Root": 1, f"{project.name}:A": 2})
    assert [(one.kind, one.path) for one in found.problems] == [("newer", ("parts", "*", "*")), ("newer", ("maybe",))]


def test_a_generic_class_that_has_another_number_of_arguments(project: Project) -> None:
    project.release("@state\nclass M(Generic[P]):\n    mu: P\n" + a("m: M[int]"))
    before = schema_of(project["A"])
    more = 'Q = TypeVar("Q")\n@state\nclass M(Generic[P, Q]):\n    mu: P\n    nu: Q | None = None\n' + a(
        "m: M[int, str]"
    )
    project.declare(more)
    assert leaves(resolve(before, schema_of(project["A"]), history_of)) == ["$.m.mu: as-is", "$.m.nu: defaulted (None)"]
    project.declare(more + 'migration(M, 1, moves=[Rule("mu", "mu")])\n')
    assert not resolve(before, schema_of(project["A"]), history_of).problems


def test_a_new_size_of_two_that_were_tied_is_one(project: Project) -> None:
    linear = '@state\nclass L:\n    k: Float32[Array, "{}"]\n'
    root = "@state\nclass A:\n    mu: Annotated[L, Dims(...)]\n    nu: Annotated[L, Dims(...)]\n"
    project.release(linear.format("a b") + root)
    before = schema_of(project["A"])
    step = "migration(L, 1, moves=[Rule('k', 'k', 'a b -> (a b)')])\n"
    project.declare(linear.format("n") + step + root)
    assert conditions(resolve(before, schema_of(project["A"]), history_of)) == []
