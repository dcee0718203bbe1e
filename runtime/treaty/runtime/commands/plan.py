"""`treaty plan`: what would become of a checkpoint, before it is restored."""

import re
import sys
from typing import TYPE_CHECKING, Final

import click

from treaty.runtime._display.folding import each, folded
from treaty.runtime.commands.arguments import CHECKPOINT, as_options, cast_of, named, size_of
from treaty.runtime.commands.output import FOUND, IMPOSSIBLE, reporting, say
from treaty.runtime.commands.tables import ends, table

if TYPE_CHECKING:
    from treaty.runtime._restore.preflight import Plan

_NUMBER: Final = re.compile(r"[0-9]+")


@click.command()
@click.argument("path", type=CHECKPOINT)
@click.argument("cls", metavar="PKG.MODULE:CLASS")
@click.option("--at", default=None, help="The subtree of the checkpoint that the class describes, such as params.")
@click.option(
    "--dim", "dims", multiple=True, metavar="NAME=SIZE", help="The size of a dim. Can be given more than once."
)
@click.option(
    "--cast",
    "casts",
    multiple=True,
    metavar="STORED=WANTED",
    help="A dtype that may become another: float32=bfloat16. Can be given more than once.",
)
@click.option("--revision", type=click.IntRange(min=1), default=None, help="The revision that the checkpoint is of.")
@click.option("--all", "show_all", is_flag=True, help="Show every leaf, and not alike ones in one line.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every leaf.")
@reporting(damaged=IMPOSSIBLE, in_words=as_options)
def plan(
    path: str,
    cls: str,
    at: str | None,
    dims: tuple[str, ...],
    casts: tuple[str, ...],
    revision: int | None,
    show_all: bool,
    as_json: bool,
) -> None:
    """Show what restoring the checkpoint PATH as a class would do with every leaf. Reads no arrays.

    Exit code 0 if it can be restored, 1 if not, 2 if the checkpoint or the class cannot be read, 3 if the checkpoint is not there.
    """
    from treaty.runtime import plan as make_plan

    found = make_plan(
        path,
        named(cls, "CLASS"),
        at=at,
        dims=dict(map(size_of, dims)) or None,
        cast=dict(map(cast_of, casts)) or None,
        revision=revision,
    )
    say(found.to_json() if as_json else as_options(_as_text(found, show_all)))
    sys.exit(0 if found.ok else FOUND)


def _as_text(found: "Plan", show_all: bool) -> str:
    from treaty.runtime._restore.preflight import plan_lines, source_shown

    sources = [source_shown(one) for one in found.leaves]
    forms = [
        f"{one.verb} {one.type} {_NUMBER.sub('', source)}" for one, source in zip(found.leaves, sources, strict=True)
    ]
    paths = [one.path for one in found.leaves]
    rows = []
    for row in each(paths) if show_all else folded(paths, forms.__getitem__):
        one = found.leaves[row.leaves[0]]
        rows.append((row.path, one.verb, ends(sources[row.leaves[0]], sources[row.leaves[-1]]), one.type))
    return "\n".join(plan_lines(found, table(rows, soft=(2,), indent="  ") if rows else ()))
