"""Schemas as people read them: each class with its dims and its fields."""

import html
from collections.abc import Iterator

from treaty.schema import ir


def schema_text(schema: ir.Schema) -> str:
    """The `__repr__` of a schema."""
    return "\n".join(_lines(schema))


def schema_html(schema: ir.Schema) -> str:
    """What notebooks show of it."""
    rows = "".join(_rows(schema))
    return f'<table style="font-family: monospace; text-align: left"><caption>{html.escape(_title(schema))}</caption>{rows}</table>'


def _title(schema: ir.Schema) -> str:
    return f"Schema of {schema.root}"


def _lines(schema: ir.Schema) -> Iterator[str]:
    yield _title(schema)
    for cls in schema.classes:
        yield f"  {_heading(cls)}"
        for field in cls.fields:
            yield f"    {field.name}: {_type(field)}"


def _rows(schema: ir.Schema) -> Iterator[str]:
    for cls in schema.classes:
        yield f'<tr><th colspan="2">{html.escape(_heading(cls))}</th></tr>'
        for field in cls.fields:
            yield f"<tr><td>{html.escape(field.name)}</td><td>{html.escape(_type(field))}</td></tr>"


def _heading(cls: ir.Class) -> str:
    return f"{cls.id}[{', '.join(cls.dims)}]" if cls.dims else cls.id


def _type(field: ir.Field) -> str:
    notes = [
        *([f"key {field.key!r}"] if field.key != field.name else []),
        *(["static"] if field.static else []),
        *([f"default {field.default}"] if field.default is not None else []),
    ]
    return ir.describe(field.type) + (f"  ({', '.join(notes)})" if notes else "")
