"""`treaty plan`: what would become of a checkpoint, before it is restored."""

import sys

import click

from treaty.runtime.commands.arguments import named, size_of
from treaty.runtime.commands.output import reporting, say


@click.command()
@click.argument("path")
@click.argument("cls", metavar="PKG.MODULE:CLASS")
@click.option("--at", default=None, help="The subtree of the checkpoint that the class describes, such as params.")
@click.option(
    "--dim", "dims", multiple=True, metavar="NAME=SIZE", help="The size of a dim. Can be given more than once."
)
@click.option("--revision", type=click.IntRange(min=1), default=None, help="The revision that the checkpoint is of.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reporting(2)
def plan(path: str, cls: str, at: str | None, dims: tuple[str, ...], revision: int | None, as_json: bool) -> None:
    """Show what restoring the checkpoint PATH as a class would do with every leaf. Reads no arrays.

    Exit status 0 if it can be restored, 1 if not, 2 if the checkpoint or the class cannot be read.
    """
    from treaty.runtime import plan as make_plan

    found = make_plan(path, named(cls, "CLASS"), at=at, dims=dict(map(size_of, dims)) or None, revision=revision)
    say(found.to_json() if as_json else str(found))
    sys.exit(0 if found.ok else 1)
