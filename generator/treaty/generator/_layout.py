"""Expressions laid out so that a formatter of any line length leaves them alone.

A line of up to 79 columns is never split; a bracket with a trailing comma is never joined. Everything is one of both.
"""

from collections.abc import Iterator

from attrs import frozen

WIDTH = 79


@frozen
class Text:
    text: str

    def __str__(self) -> str:
        return self.text


@frozen
class Call:
    """`head(args)`; a tuple has an empty head, a dict braces and entries."""

    head: str
    args: "tuple[Expression, ...]"
    brackets: str = "()"

    def __str__(self) -> str:
        comma = "," if not self.head and self.brackets == "()" and len(self.args) == 1 else ""
        return f"{self.head}{self.brackets[0]}{', '.join(map(str, self.args))}{comma}{self.brackets[1]}"


@frozen
class Keyword:
    name: str
    value: "Expression"

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@frozen
class Comprehension:
    """`[item for x in items]`, or with braces and a key, over `items.items()`."""

    item: "Expression"
    names: str
    items: "Expression"
    brackets: str = "[]"
    key: str = ""

    @property
    def method(self) -> str:
        return ".items()" if self.key else ""

    def __str__(self) -> str:
        inner = f"{self.key}{self.item} for {self.names} in {self.items}{self.method}"
        return f"{self.brackets[0]}{inner}{self.brackets[1]}"


@frozen
class OrNone:
    """`None if at is None else value`."""

    at: str
    value: "Expression"

    def __str__(self) -> str:
        return f"None if {self.at} is None else {self.value}"


Expression = Text | Call | Keyword | Comprehension | OrNone


def joined(text: str) -> str:
    """A bracket that is written with one item a line, as one line if that fits or if nothing is in it."""
    first, *items, last = text.splitlines()
    flat = first + " ".join(item.strip() for item in items).removesuffix(",") + last.strip()
    return f"{flat}\n" if len(flat) <= WIDTH or not items else text


def lay_out(before: str, expression: Expression, after: str, indent: int) -> list[str]:
    """The lines of `before expression after` at an indent."""
    flat = f"{' ' * indent}{before}{expression}{after}"
    if len(flat) <= WIDTH or isinstance(expression, Text):
        return [flat]
    return list(_explode(before, expression, after, indent))


def _explode(before: str, expression: Expression, after: str, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(expression, Keyword):
        yield from _explode(f"{before}{expression.name}=", expression.value, after, indent)
    elif isinstance(expression, Call) and expression.args:
        yield f"{pad}{before}{expression.head}{expression.brackets[0]}"
        alone = not expression.head and len(expression.args) == 1  # a comma does not keep a tuple of one open
        for arg in expression.args:
            yield from (_explode if alone else lay_out)("", arg, ",", indent + 4)
        yield f"{pad}{expression.brackets[1]}{after}"
    elif isinstance(expression, Comprehension):
        yield f"{pad}{before}{expression.brackets[0]}"
        # The item is exploded whatever its length: only a trailing comma in it keeps this form.
        yield from _explode(expression.key, expression.item, "", indent + 4)
        yield from lay_out(f"for {expression.names} in ", expression.items, expression.method, indent + 4)
        yield f"{pad}{expression.brackets[1]}{after}"
    elif isinstance(expression, OrNone):
        yield f"{pad}{before}None"
        yield f"{pad}if {expression.at} is None"
        yield from _explode("else ", expression.value, after, indent)
    else:
        yield f"{pad}{before}{expression}{after}"
