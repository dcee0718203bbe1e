"""Commands on one checkpoint: `treaty inspect`, `treaty verify` and `treaty remove`."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from treaty.runtime import Inspection
from treaty.runtime import inspect as inspect_checkpoint
from treaty.runtime._checkpoint.inspect import inspect_step
from treaty.runtime._display.folding import Path
from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._process.collector import collector_paused
from treaty.runtime.commands.arguments import CHECKPOINT, complete_step
from treaty.runtime.commands.contents import as_data, as_text
from treaty.runtime.commands.output import FOUND, NOT_THERE, exit_code, hint, reporting, say, size_shown, tell
from treaty.runtime.formats.shared.outcomes import ListedLeaf
from treaty.schema import TreatyError


@click.command()
@click.argument("path", type=CHECKPOINT)
@click.option("--at", default=None, metavar="PART", help="Only this part, by its path: params.layers[0], or $.step.")
@click.option("--depth", type=click.IntRange(min=0), default=None, help="Sum up what is so many levels down.")
@click.option(
    "--step",
    type=click.IntRange(min=0),
    default=None,
    shell_complete=complete_step,
    help="Which step of a run's directory; by default the newest.",
)
@click.option("--all", "show_all", is_flag=True, help="Show every leaf, and not alike ones in one line.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every leaf.")
@reporting()
def inspect(path: str, at: str | None, depth: int | None, step: int | None, show_all: bool, as_json: bool) -> None:
    """Show what a checkpoint of any format holds: format, class, dims, metadata, leaves, values. Reads no arrays.

    PATH may be a directory of steps, of Treaty's manager or of Orbax's: then it is the newest one, which is named.
    Layers that are alike are one line, as in $.layers[0..47].kernel.
    """
    if show_all and depth is not None:
        raise click.UsageError("--depth sums up what --all shows: give one of them")
    with collector_paused():
        found = inspect_checkpoint(path) if step is None else inspect_step(path, step)
        root, leaves = _part(found, at)
        values, damage = _values(found)
        if as_json:
            say(json.dumps(as_data(found, values, leaves, root), indent=2))
        else:
            say("\n".join(as_text(found, values, leaves, root, depth, show_all)))
    if damage is not None:
        raise damage


def _values(found: Inspection) -> tuple[Mapping[Path, Any], CorruptCheckpointError | None]:
    """Where they are damaged, all else can be looked at."""
    try:
        return found.values, None
    except CorruptCheckpointError as error:
        return {}, error


def _part(found: Inspection, at: str | None) -> tuple[Path, list[tuple[Path, ListedLeaf]]]:
    """The keys of the part that is wanted, and its leaves by their paths below it."""
    leaves = [(leaf.path, leaf) for leaf in found.leaves]
    if at is None:
        return (), leaves
    from treaty.runtime._restore.select import parse_path, select

    try:
        root = parse_path(at)
    except TreatyError as error:
        raise click.BadParameter(str(error).partition(": ")[2], param_hint="--at") from error
    return root, select(leaves, at, found.path)


@click.command()
@click.argument("path", type=CHECKPOINT)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--quiet", is_flag=True, help="No progress bar, no summary.")
@reporting()
def verify(path: str, as_json: bool, quiet: bool) -> None:
    """Read every byte of a checkpoint and check it.

    PATH may be a directory of steps: then it is the newest one, which is named. Exit code 1 if something is damaged.
    """
    from treaty.runtime import verify as verify_checkpoint

    found = verify_checkpoint(path, progress=False if quiet else None)
    if as_json:
        said = {"path": found.path, "leaves": found.leaves, "nbytes": found.nbytes, "is_checked": found.is_checked}
        say(json.dumps(said))
    elif not quiet:
        how = "all as they were written" if found.is_checked else "all can be read"  # of no checksum, no more is known
        say(f"{found.path}: {found.leaves} leaves, {size_shown(found.nbytes)} of arrays, {how}")


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=CHECKPOINT)
@reporting()
def remove(paths: tuple[str, ...]) -> None:
    """Delete checkpoints of any format. What is not a checkpoint, or holds other files, is refused: exit code 1."""
    from treaty.runtime import remove as remove_checkpoint

    codes = set()
    for path in paths:
        try:
            remove_checkpoint(path)
        except (TreatyError, OSError) as error:
            codes.add(NOT_THERE if exit_code(error) == NOT_THERE else FOUND)
            tell(error)
            hint(error, [path])
        else:
            say(f"removed {path}")
    sys.exit(min(codes, default=0))
