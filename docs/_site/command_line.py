"""The commands of `treaty`, as `--help` tells of them."""

import importlib
import inspect
import re
from collections.abc import Iterator

import click


def markdown(_: str) -> str:
    from treaty.cli import COMMANDS

    return "\n\n".join(_command(name, home) for name, (home, _) in COMMANDS.items())


def _command(name: str, home: str) -> str:
    module, _, function = home.partition(":")
    command: click.Command = getattr(importlib.import_module(module), function)
    context = click.Context(command, info_name=f"treaty {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    told = inspect.cleandoc(command.help or "").replace("\b\n", "")
    parts = [f"## `treaty {name}`", f"```text\ntreaty {name} {usage}\n```", _plain(told)]
    rows = [*_options(command, context)]
    if rows:
        parts.append("\n".join(["| option | |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for option in command.get_params(context):
        record = option.get_help_record(context) if isinstance(option, click.Option) else None
        if record is not None and option.name != "help":
            spelled, told = (text.replace("|", "\\|") for text in record)
            yield f"| `{spelled}` | {_plain(told)} |"


def _plain(told: str) -> str:
    """Help is text for a terminal: what Markdown would take for marks of its own is marked, but in code."""
    pieces = told.split("`")
    pieces[::2] = [re.sub(r"([_*<\[])", r"\\\1", piece) for piece in pieces[::2]]
    return "`".join(pieces)
