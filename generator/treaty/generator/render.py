"""Plan -> text. The body is rendered first, so that the header imports just what the body uses."""

from functools import cache
from typing import Any, Final

import jinja2
from jinja2.runtime import Context

from treaty.generator._layout import Expression, Text, joined, lay_out
from treaty.generator._names import literal
from treaty.generator.plan import ModulePlan
from treaty.schema import SchemaError

_REPORT: Final = "this is a mistake of Treaty, not yours: please report it with the schema"
_MARK: Final = "\0"  # in no text of a user: literals and JSON escape it


def render(plan: ModulePlan) -> str:
    """The text of a generated module. It parses, or the generator has a bug that must not reach a file."""
    body = "".join(laid_out("record.py.j2", record=one) for one in plan.records)
    code = body + "".join(str(type) for _, type in plan.types)
    text = laid_out("module.py.j2", plan=plan, body=body, imports=_imports(plan, code))
    return checked(text, plan.source)


def checked(text: str, source: str) -> str:
    """A generated text that is Python; `source` is the module that it was made from."""
    try:
        compile(text, "<generated>", "exec", dont_inherit=True)  # in less time than ast.parse takes
    except SyntaxError as error:
        line = text.splitlines()[(error.lineno or 1) - 1]
        raise SchemaError(f"{source}: the generated text is not Python at {line!r}: {error.msg}; {_REPORT}") from error
    return text


def _imports(plan: ModulePlan, code: str) -> list[str]:
    """Third-party imports first, as one sorted block: what a formatter of imports would leave alone."""
    lines = {f"import {module} as {alias}" for module, alias in plan.imports}
    if "_jax." in code:
        lines.add("import jax as _jax")
    if "_ml_dtypes." in code or any("_ml_dtypes" in dtype for _, dtype in plan.dtypes):
        lines.add("import ml_dtypes as _ml_dtypes")
    if "_np." in code or plan.dtypes:
        lines.add("import numpy as _np")
    return [*sorted(lines), "from treaty.runtime import codec as _codec"]


def laid_out(template: str, **values: object) -> str:
    """The output of one of our templates, by its name."""
    return _laid_out(_templates().get_template(template), **values)


def _laid_out(template: jinja2.Template, **values: object) -> str:
    """A template's output. An expression in it is a mark until its line is whole, and then laid out in that line."""
    held: list[Expression] = []
    lines = template.render(held=held, **values).split("\n")
    for number, line in enumerate(lines):
        if _MARK in line:
            before, index, after = line.split(_MARK)
            indent = len(before) - len(before.lstrip())
            lines[number] = "\n".join(lay_out(before.lstrip(), held[int(index)], after, indent))
    return "\n".join(lines)


@jinja2.pass_context
def _hold(context: Context, value: Any) -> Any:
    """What a template prints: an expression that can be broken is held back, all else is as it is."""
    if isinstance(value, (str, Text)) or not isinstance(value, Expression):
        return value
    held: list[Expression] = context["held"]
    held.append(value)
    return f"{_MARK}{len(held) - 1}{_MARK}"


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("treaty.generator"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        finalize=_hold,
    )
    environment.filters |= {"joined": joined, "literal": literal}
    return environment
