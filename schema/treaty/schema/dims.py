"""Dimensions: the strings of shape annotations, parsed, evaluated and printed.

Grammar, one word per axis: `name`, `3`, `4*name`, `a+b`, `(a+1)//2`, and `label=<any of these>`.
jaxtyping's own dim classes are private and drop labels, so the text is parsed here.
"""

import ast
import keyword
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Literal, assert_never

from attrs import frozen

from treaty.schema._errors import SchemaError

Operator = Literal["+", "-", "*", "//"]
_OPERATORS: dict[type[ast.operator], Operator] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//"}
_PRECEDENCE: dict[Operator, int] = {"+": 1, "-": 1, "*": 2, "//": 2}
_HINTS = {
    "*": "a leaf has one rank: name every axis (and write a product without spaces, as 4*d)",
    "#": "a leaf has one shape: broadcasting axes cannot be stored",
    "?": "tree-dependent axes cannot be stored: give the axis a plain name",
    "...": "a leaf has one rank: name every axis",
    "_": "an axis without a name cannot be checked: give it a name",
}


@frozen
class Name:
    name: str

    def __str__(self) -> str:
        return self.name


@frozen
class Int:
    value: int

    def __str__(self) -> str:
        return str(self.value)


@frozen
class Op:
    op: Operator
    left: "Expr"
    right: "Expr"

    def __str__(self) -> str:
        return render(self, str)


Expr = Name | Int | Op


@frozen
class Dim:
    """One axis: its size, and the name it goes by where the size is not a plain name."""

    size: Expr
    label: str | None = None

    @property
    def name(self) -> str | None:
        """The logical axis name: the label, or the size where that is a plain name."""
        if self.label is not None:
            return self.label
        return self.size.name if isinstance(self.size, Name) else None

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it mentions, the label first."""
        return (*(() if self.label is None else (self.label,)), *names(self.size))

    def __str__(self) -> str:
        return f"{self.label}={self.size}" if self.label else str(self.size)


def parse_dims(text: str) -> tuple[Dim, ...]:
    """`"d_in 4*d_in"` -> two Dims. Raises SchemaError with the word that is wrong and how to write it."""
    found = map(parse_dim, text.split())
    return tuple(Dim(one.size, None if one.label is None else spelled(one.label)) for one in found)


def spelled(name: str) -> str:
    """A name as Python spells it: one letter for the ligature of f and i would be two parameters that are one."""
    return unicodedata.normalize("NFKC", name)


def parse_dim(word: str) -> Dim:
    for sign, hint in _HINTS.items():
        if word == sign or (sign not in ("...", "_") and word.startswith(sign)):
            raise SchemaError(f"dim {word!r}: {hint}")
    label, equals, size = word.rpartition("=")
    if not equals:
        return Dim(parse_expr(word))
    if not label.isidentifier():
        raise SchemaError(f"dim {word!r}: expected name=size, as in d_ff=4*d_model")
    return Dim(parse_expr(size), label)


@lru_cache(maxsize=4096)
def parse_expr(text: str) -> Expr:
    """A size: a name, an int, or names and ints with + - * // and parentheses."""
    if keyword.iskeyword(text) and text not in ("True", "False", "None"):
        return Name(text)  # `in` and `lambda` are good axis names, though not Python expressions
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        raise _bad_size(text) from None
    return _convert(tree, text)


def names(expr: Expr) -> Iterator[str]:
    """The names in an expression, left to right."""
    if isinstance(expr, Name):
        yield expr.name
    elif isinstance(expr, Op):
        yield from names(expr.left)
        yield from names(expr.right)
    elif not isinstance(expr, Int):
        assert_never(expr)


def evaluate(expr: Expr, env: Mapping[str, int | None]) -> int | None:
    """The size, or None while a name in it has no value (or divides by zero)."""
    if isinstance(expr, Int):
        return expr.value
    if isinstance(expr, Name):
        return env.get(expr.name)
    if not isinstance(expr, Op):
        assert_never(expr)
    left, right = evaluate(expr.left, env), evaluate(expr.right, env)
    if left is None or right is None:
        return None
    match expr.op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "//":
            return left // right if right else None
        case _:
            assert_never(expr.op)


def substituted(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """The expression with names replaced by expressions."""
    if isinstance(expr, Name):
        return values.get(expr.name, expr)
    if isinstance(expr, Int):
        return expr
    if isinstance(expr, Op):
        return Op(expr.op, substituted(expr.left, values), substituted(expr.right, values))
    assert_never(expr)


def linear(expr: Expr) -> tuple[str, int, int] | None:
    """`(name, a, b)` where the expression is a*name + b with a > 0: then the name follows from the size."""
    if isinstance(expr, Name):
        return expr.name, 1, 0
    if isinstance(expr, Int):
        return None
    if not isinstance(expr, Op):
        assert_never(expr)
    if isinstance(expr.right, Int):
        inner, k = linear(expr.left), expr.right.value
    elif isinstance(expr.left, Int) and expr.op in ("+", "*"):  # both sides may change places
        inner, k = linear(expr.right), expr.left.value
    else:
        return None
    if inner is None:
        return None
    name, a, b = inner
    match expr.op:
        case "+":
            return name, a, b + k
        case "-":
            return name, a, b - k
        case "*":
            return (name, a * k, b * k) if k > 0 else None
        case "//":
            return None
        case _:
            assert_never(expr.op)


def definition_order(defined: Mapping[str, Expr]) -> list[str]:
    """Names that labels define (`d_ff=4*d_model`), each after those it uses."""
    ordered: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in defined and name not in ordered:
            for used in names(defined[name]):
                visit(used)
            ordered[name] = None

    for name in defined:
        visit(name)
    return list(ordered)


def render(expr: Expr, name: Callable[[str], str], above: int = 0) -> str:
    """The expression as Python source (and as canonical text), with as few parentheses as it needs."""
    if isinstance(expr, Int):
        return str(expr.value)
    if isinstance(expr, Name):
        return name(expr.name)
    if not isinstance(expr, Op):
        assert_never(expr)
    rank = _PRECEDENCE[expr.op]
    text = f"{render(expr.left, name, rank)} {expr.op} {render(expr.right, name, rank + 1)}"
    if name is str:
        text = text.replace(" ", "")
    return f"({text})" if rank < above else text


def _convert(tree: ast.expr, text: str) -> Expr:
    if isinstance(tree, ast.Name):
        return Name(tree.id)
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return Int(tree.value)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        op = Op(_OPERATORS[type(tree.op)], _convert(tree.left, text), _convert(tree.right, text))
        if op.op == "//" and op.right == Int(0):
            raise SchemaError(f"dim {text!r}: division by zero; write another divisor")
        return _fold(op)
    raise _bad_size(text)


def _fold(op: Op) -> Expr:
    value = evaluate(op, {})
    if value is None:
        return op
    if value < 0:
        raise SchemaError(f"dim {str(op)!r}: a size cannot be negative")
    return Int(value)


def _bad_size(text: str) -> SchemaError:
    return SchemaError(f"dim {text!r}: expected a name, an int, or an expression of them with + - * // and parentheses")
