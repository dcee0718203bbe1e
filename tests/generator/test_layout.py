"""Templates show the code that they emit; what Python computes is expressions, laid out in the lines of the templates."""

from pathlib import Path

import jinja2
import pytest

import treaty.generator
from treaty.generator import render
from treaty.generator._layout import WIDTH, Call, Comprehension, Text, joined

TEMPLATES = sorted(Path(treaty.generator.__file__).parent.glob("templates/*.j2"))
SHORT = Call("put", (Text('state["kernel"]'), Text("_float32")))
LONG = Call("put", tuple(Text(name * 20) for name in "abcd"))


def laid_out(source: str, **values: object) -> str:
    return render._laid_out(render._templates().from_string(source), **values)


def test_an_expression_stays_on_its_line_where_it_fits() -> None:
    assert laid_out("    kernel={{ value }},\n", value=SHORT) == '    kernel=put(state["kernel"], _float32),\n'


def test_an_expression_that_makes_its_line_too_long_is_broken_at_its_brackets() -> None:
    arguments = "".join(f"        {name * 20},\n" for name in "abcd")
    assert laid_out("    kernel={{ value }},\n", value=LONG) == f"    kernel=put(\n{arguments}    ),\n"


def test_the_whole_line_counts() -> None:
    fits = "x" * (WIDTH - len(f" = {SHORT}  # y"))
    assert laid_out("{{ name }} = {{ value }}  # y\n", name=fits, value=SHORT) == f"{fits} = {SHORT}  # y\n"
    assert laid_out("{{ name }} = {{ value }}  # y\n", name=f"{fits}x", value=SHORT).count("\n") == 4


def test_expressions_are_laid_out_in_loops_and_macros_too() -> None:
    source = "{% macro one(x) %}f({{ x }}){% endmacro %}{% for x in many %}\n{{ one(x) }}\n{% endfor %}"
    many = [SHORT, Comprehension(Text("x"), "x", Text("items"))]
    assert laid_out(source, many=many) == f"f({SHORT})\nf([x for x in items])\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(\n    a: int,\n    b: int,\n) -> int:\n", "def f(a: int, b: int) -> int:\n"),
        ("def f(\n) -> int:\n", "def f() -> int:\n"),
        ("    return f(\n        a,\n        {},\n    )\n", "    return f(a, {})\n"),
        (f"def f(\n    {'a' * 80},\n) -> int:\n", f"def f(\n    {'a' * 80},\n) -> int:\n"),
        (f"def {'f' * 80}(\n):\n", f"def {'f' * 80}():\n"),
    ],
)
def test_brackets_are_joined_where_one_line_holds_them(text: str, expected: str) -> None:
    assert joined(text) == expected


def test_a_name_that_a_template_misspells_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="is undefined"):
        laid_out("{{ recrod }}\n", record=1)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_are_short_and_print_no_lines_that_were_made_elsewhere(path: Path) -> None:
    text = path.read_text()
    assert 30 <= len(text.splitlines()) <= 250
    assert {line for line in text.splitlines() if "for line in" in line} <= {
        "{% for line in imports %}",
        "{% for line in plan.schema_lines %}",
    }
