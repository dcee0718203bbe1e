"""Commands between checkpoints: `treaty convert` and `treaty diff`."""

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treaty.runtime._display.folding import each, folded
from treaty.runtime._storage.paths import local_path
from treaty.runtime.commands.arguments import CHECKPOINT, PATH, complete_format, named, size_of
from treaty.runtime.commands.output import FOUND, IMPOSSIBLE, escaped, reporting, say, size_shown
from treaty.runtime.commands.tables import ends, table
from treaty.runtime.formats.table import DEFAULT, FORMATS
from treaty.schema import TreatyError
from treaty.schema.keymap import KeyMap

if TYPE_CHECKING:
    from treaty.runtime._convert.compare import Difference
    from treaty.runtime._convert.run import ConvertedRun


class _Convert(click.Command):
    """Its help names the formats that there are."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        known = [f"{one.name} ({', '.join(one.suffixes)})" if one.suffixes else one.name for one in FORMATS.values()]
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"Formats: {', '.join(known)}.")


@click.command(cls=_Convert)
@click.argument("source", metavar="SRC", type=CHECKPOINT)
@click.argument("destination", metavar="DST", type=PATH)
@click.option("--schema", metavar="PKG:CLASS", help="Check the tree against a class before anything is written.")
@click.option("--map", "keymap", type=PATH, metavar="FILE", help="A key map: .json, .toml, or PKG.MODULE:NAME.")
@click.option("--reverse", is_flag=True, help="Apply the map from fields to stored names.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="A dim of the class, or a size for the map.")
@click.option(
    "--from",
    "from_format",
    metavar="FORMAT",
    shell_complete=complete_format,
    help="What SRC is, where that cannot be seen.",
)
@click.option(
    "--to",
    "to_format",
    metavar="FORMAT",
    shell_complete=complete_format,
    help="What DST shall be, where its suffix does not say it.",
)
@click.option("--max-shard-bytes", type=click.IntRange(min=1), help="Split safetensors into files of so many bytes.")
@click.option("--force", is_flag=True, help="Replace DST if it is there.")
@click.option(
    "--all-steps",
    is_flag=True,
    help="Of the directory of Orbax's CheckpointManager take every step, not only the newest; DST is a directory of steps for Treaty's.",
)
@click.option(
    "--item",
    "items",
    multiple=True,
    metavar="NAME",
    help="With --all-steps: which tree of each step; several are fields.",
)
@click.option("--quiet", is_flag=True, help="No progress bar, no summary.")
@reporting()
def convert(
    source: str,
    destination: str,
    schema: str | None,
    keymap: str | None,
    reverse: bool,
    dims: tuple[str, ...],
    from_format: str | None,
    to_format: str | None,
    max_shard_bytes: int | None,
    force: bool,
    all_steps: bool,
    items: tuple[str, ...],
    quiet: bool,
) -> None:
    """Write the checkpoint SRC to DST in the format that DST's suffix or --to says.

    Every leaf of the result is compared with the source before DST is there. Of a directory of steps the newest is
    taken, or, with --all-steps, each that DST does not have yet. Exit code 1 if SRC is damaged, or does not fit --schema or --map.
    """
    from treaty.runtime._convert.convert import Mapped
    from treaty.runtime._convert.convert import convert as run
    from treaty.runtime._convert.run import convert_run

    if reverse and keymap is None:
        raise TreatyError("--reverse needs --map, whose direction it turns")
    if items and not all_steps:
        raise TreatyError("--item needs --all-steps; of one step give the path of the item, like RUN/100/NAME")
    cls = None if schema is None else named(schema, "--schema")
    mapped = None if keymap is None else Mapped(_read_map(keymap), reverse)
    sizes = dict(map(size_of, dims))
    progress = False if quiet else None
    if all_steps:
        _require_no_other({"--to": to_format, "--max-shard-bytes": max_shard_bytes, "--force": force or None})
        steps = convert_run(
            source,
            destination,
            items=items,
            cls=cls,
            mapped=mapped,
            sizes=sizes,
            from_format=from_format,
            progress=progress,
        )
        if not quiet:
            say("\n".join(_as_lines(steps)))
        return
    done = run(
        source,
        destination,
        cls=cls,
        mapped=mapped,
        sizes=sizes,
        from_format=from_format,
        to_format=to_format,
        max_shard_bytes=max_shard_bytes,
        replace=force,
        progress=progress,
    )
    if not quiet:
        leaves = "1 leaf" if done.leaves == 1 else f"{done.leaves} leaves"
        is_all = os.path.normpath(done.where) == os.path.normpath(source)
        source = done.source if is_all else f"{done.source} ({done.where})"
        say(f"{source} -> {done.destination}: {leaves}, {size_shown(done.nbytes)} of arrays, all compared")


def _require_no_other(options: Mapping[str, object]) -> None:
    for name, given in options.items():
        if given is not None and (name, given) != ("--to", DEFAULT):
            raise TreatyError(f"{name} is for one checkpoint; with --all-steps DST is a directory of Treaty's steps")


def _as_lines(done: "ConvertedRun") -> Iterator[str]:
    def of(steps: list[int]) -> str:
        shown = f"{min(steps)} to {max(steps)}" if len(steps) > 1 else f"{steps[0]}"
        return f"{'step' if len(steps) == 1 else f'{len(steps)} steps,'} {shown}"

    if done.written:
        yield f"{done.source} -> {DEFAULT}: {of(done.written)}, {size_shown(done.nbytes)} of arrays, all compared"
    if done.there:
        yield f"there already: {of(done.there)}"
    yield from (f"left out: {escaped(name)}: {why}" for name, why in sorted(done.left_out.items()))


def _finite(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise click.BadParameter(f"expected a finite number, got {value}")
    return value


@click.command()
@click.argument("left", metavar="A", type=CHECKPOINT)
@click.argument("right", metavar="B", type=CHECKPOINT)
@click.option(
    "--rtol", type=click.FloatRange(min=0), default=0.0, callback=_finite, help="Allowed difference, relative to B."
)
@click.option("--atol", type=click.FloatRange(min=0), default=0.0, callback=_finite, help="Allowed difference.")
@click.option("--all", "show_all", is_flag=True, help="Show every leaf, and not alike ones in one line.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with every leaf.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
@reporting(damaged=IMPOSSIBLE)
def diff(left: str, right: str, rtol: float, atol: float, show_all: bool, as_json: bool, quiet: bool) -> None:
    """Compare two checkpoints of any formats: structure, shapes, dtypes, values.

    Leaves that differ alike are one line, with all their elements and the largest distance. Exit code 0 if they are equal, 1 if they
    differ, 2 if one cannot be read, 3 if one is not there.
    """
    from treaty.runtime._convert.diff import diff as run

    found = run(Path(local_path(left)), Path(local_path(right)), rtol, atol, progress=False if quiet else None)
    if as_json:
        say(json.dumps({"equal": not found, "differences": list(map(_as_data, found))}, indent=2))
    else:
        say("\n".join(_as_text(found, show_all)) if found else "equal")
    sys.exit(FOUND if found else 0)


def _as_data(one: "Difference") -> dict[str, Any]:
    data: dict[str, Any] = {"path": list(one.path), "what": one.what, "a": one.left, "b": one.right}
    if one.what in ("dtype", "values"):
        data |= {"count": one.count, "max_abs": _number(one.max_abs), "max_rel": _number(one.max_rel)}
    return data


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"  # JSON has no word for it


def _as_text(found: "list[Difference]", show_all: bool) -> list[str]:
    paths = [one.path for one in found]
    forms = [f"{one.what} {_type_in(one.left)} {_type_in(one.right)}" for one in found]
    rows: list[tuple[str, ...]] = [("leaf", "what", "A", "B", "elements", "max abs", "max rel")]
    for row in each(paths) if show_all else folded(paths, forms.__getitem__):
        ones = [found[number] for number in row.leaves]
        first = ones[0]
        largest = max(one.max_abs for one in ones), max(one.max_rel for one in ones)
        numbers = (str(sum(one.count for one in ones)), *(f"{one:.3g}" for one in largest))
        values = numbers if first.what in ("dtype", "values") else ("", "", "")
        left, right = ends(first.left or "-", ones[-1].left or "-"), ends(first.right or "-", ones[-1].right or "-")
        rows.append((row.path, first.what, left, right, *values))
    return table(rows, soft=(2, 3))


def _type_in(described: str | None) -> str | None:
    """`float` of `float 0.1`, and all of `float32[4, 8]`."""
    return described if described is None or described.endswith("]") else described.partition(" ")[0]


def _read_map(where: str) -> KeyMap:
    if where.endswith((".json", ".toml")):
        try:
            text = Path(where).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise TreatyError(f"--map: expected a file, got nothing at {where}") from None
        except UnicodeDecodeError as error:
            raise TreatyError(f"--map: expected text in UTF-8, got {error} in {where}") from error
        return KeyMap.from_json(text) if where.endswith(".json") else KeyMap.from_toml(text)
    found = named(where, "--map")
    if not isinstance(found, KeyMap):
        raise TreatyError(f"--map: expected a KeyMap, got {type(found).__name__} at {where}")
    return found
