"""Dimension strings: what parses, what is refused with which words, and that printing parses back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treaty.schema import SchemaError
from treaty.schema.dims import (
    Dim,
    Expr,
    Int,
    Name,
    Op,
    definition_order,
    evaluate,
    linear,
    names,
    parse_dim,
    parse_dims,
    parse_expr,
    render,
)


def test_each_word_is_one_axis() -> None:
    assert parse_dims("d_in 3 4*d_in") == (
        Dim(Name("d_in")),
        Dim(Int(3)),
        Dim(Op("*", Int(4), Name("d_in"))),
    )
    assert parse_dims("") == ()


def test_a_label_names_an_axis_whose_size_is_something_else() -> None:
    dim = parse_dim("d_ff=4*d_model")
    assert (dim.label, str(dim.size), dim.name) == ("d_ff", "4*d_model", "d_ff")
    assert parse_dim("heads=8") == Dim(Int(8), "heads")
    assert str(parse_dim("heads=8")) == "heads=8"


def test_the_axis_name_is_the_label_or_the_plain_name() -> None:
    assert [dim.name for dim in parse_dims("d 4*d 3 n=3")] == ["d", None, None, "n"]


def test_python_keywords_are_good_names() -> None:
    assert parse_dims("in lambda") == (Dim(Name("in")), Dim(Name("lambda")))


def test_constants_are_folded() -> None:
    assert parse_expr("2*3+1") == Int(7)
    assert str(parse_expr("2*d+(3-1)")) == "2*d+2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("*b", "dim '*b': a leaf has one rank: name every axis (and write a product without spaces, as 4*d)"),
        ("...", "dim '...': a leaf has one rank: name every axis"),
        ("_", "dim '_': an axis without a name cannot be checked: give it a name"),
        ("#d", "dim '#d': a leaf has one shape: broadcasting axes cannot be stored"),
        ("?d", "dim '?d': tree-dependent axes cannot be stored: give the axis a plain name"),
        ("d?", "dim 'd?': expected a name, an int, or an expression of them with + - * // and parentheses"),
        (
            "d_in,d_out",
            "dim 'd_in,d_out': expected a name, an int, or an expression of them with + - * // and parentheses",
        ),
        ("d/2", "dim 'd/2': expected a name, an int, or an expression of them with + - * // and parentheses"),
        ("f(x)", "dim 'f(x)': expected a name, an int, or an expression of them with + - * // and parentheses"),
        ("2.5", "dim '2.5': expected a name, an int, or an expression of them with + - * // and parentheses"),
        ("True", "dim 'True': expected a name, an int, or an expression of them with + - * // and parentheses"),
        ("d//0", "dim 'd//0': division by zero; write another divisor"),
        ("1-3", "dim '1-3': a size cannot be negative"),
        ("4x=3", "dim '4x=3': expected name=size, as in d_ff=4*d_model"),
        ("a=b=3", "dim 'a=b=3': expected name=size, as in d_ff=4*d_model"),
        ("a\0", "dim 'a\\x00': expected a name, an int, or an expression of them with + - * // and parentheses"),
    ],
)
def test_refused_words(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_dims(text)
    assert str(caught.value) == message


def test_evaluation_knows_only_what_its_names_know() -> None:
    assert evaluate(parse_expr("4*d+e"), {"d": 2, "e": 1}) == 9
    assert evaluate(parse_expr("4*d+e"), {"d": 2}) is None
    assert evaluate(parse_expr("a//b"), {"a": 4, "b": 0}) is None
    assert evaluate(parse_expr("a-b"), {"a": 4, "b": 1}) == 3


@pytest.mark.parametrize(
    ("text", "solved"),
    [
        ("d", ("d", 1, 0)),
        ("4*d", ("d", 4, 0)),
        ("d*4", ("d", 4, 0)),
        ("2*d+1", ("d", 2, 1)),
        ("1+2*d", ("d", 2, 1)),
        ("2*(d-1)", ("d", 2, -2)),
        ("3", None),
        ("a*b", None),
        ("a+b", None),
        ("d//2", None),
        ("0*d", None),
        ("5-d", None),
    ],
)
def test_linear_sizes_can_be_solved_for_their_name(text: str, solved: tuple[str, int, int] | None) -> None:
    assert linear(parse_expr(text)) == solved


def test_definitions_come_after_what_they_use() -> None:
    defined = {"b": parse_expr("2*a"), "a": parse_expr("3*n"), "c": parse_expr("a+b")}
    assert definition_order(defined) == ["a", "b", "c"]


exprs = st.recursive(
    st.one_of(st.sampled_from(["a", "b", "in"]).map(Name), st.integers(1, 9).map(Int)),
    lambda inner: st.builds(Op, st.sampled_from(["+", "-", "*", "//"]), inner, inner),
    max_leaves=8,
)


@given(exprs, st.integers(1, 7), st.integers(1, 7))
def test_canonical_text_means_the_same(expr: Expr, a: int, b: int) -> None:
    text = str(expr)
    if "in" in text:  # a keyword is a name only when it stands alone
        return
    try:
        parsed = parse_expr(text)
    except SchemaError:  # folding found a negative or a division by zero
        return
    env = {"a": a, "b": b}
    assert evaluate(parsed, env) == evaluate(expr, env)
    assert parse_expr(str(parsed)) == parsed
    value = evaluate(parsed, env)
    if value is not None:
        assert eval(render(parsed, lambda name: f"{name}"), dict(env)) == value


@given(st.text(max_size=12))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        dims = parse_dims(text)
    except SchemaError:
        return
    assert parse_dims(" ".join(map(str, dims))) == dims
    assert all(name.isidentifier() for dim in dims for name in names(dim.size))
