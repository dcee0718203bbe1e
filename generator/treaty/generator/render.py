"""Plan -> text. The body is rendered first, so that the header imports just what the body uses."""

import ast
from functools import cache

import jinja2

from treaty.generator._names import literal
from treaty.generator.plan import ModulePlan
from treaty.schema import SchemaError


def render(plan: ModulePlan) -> str:
    """The text of a generated module. It parses, or the generator has a bug that must not reach a file."""
    templates = _templates()
    record = templates.get_template("record.py.j2")
    body = "".join(record.render(record=one) for one in plan.records)
    module = templates.get_template("module.py.j2")
    text = module.render(plan=plan, body=body, imports=_imports(plan, body), literal=literal)
    try:
        ast.parse(text)
    except SyntaxError as error:
        line = text.splitlines()[(error.lineno or 1) - 1]
        raise SchemaError(f"{plan.source}: the generated text is not Python at {line!r}: {error.msg}") from error
    return text


def _imports(plan: ModulePlan, body: str) -> list[str]:
    """Third-party imports first, as one sorted block: what a formatter of imports would leave alone."""
    lines = {f"import {module} as {alias}" for module, alias in plan.imports}
    if "_jax." in body:
        lines.add("import jax as _jax")
    if "_ml_dtypes." in body or any("_ml_dtypes" in dtype for _, dtype in plan.dtypes):
        lines.add("import ml_dtypes as _ml_dtypes")
    if "_np." in body or plan.dtypes:
        lines.add("import numpy as _np")
    return [*sorted(lines), "from treaty.runtime import codec as _codec"]


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("treaty.generator"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["zip"] = zip
    return environment
