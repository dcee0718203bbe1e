"""Commands between checkpoints: `treaty convert` and `treaty diff`."""

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treaty.runtime._errors import show_keys
from treaty.runtime._storage.paths import local_path
from treaty.runtime.commands.arguments import named, size_of
from treaty.runtime.commands.output import reporting, say
from treaty.runtime.formats.table import FORMATS
from treaty.schema import TreatyError
from treaty.schema.keymap import KeyMap

if TYPE_CHECKING:
    from treaty.runtime._convert.compare import Difference


class _Convert(click.Command):
    """Its help names the formats that there are."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        known = [f"{one.name} ({', '.join(one.suffixes)})" if one.suffixes else one.name for one in FORMATS.values()]
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"Formats: {', '.join(known)}.")


@click.command(cls=_Convert)
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@click.option("--schema", metavar="PKG:CLASS", help="Check the tree against a class before anything is written.")
@click.option("--map", "keymap", metavar="FILE", help="A key map: .json, .toml, or PKG.MODULE:NAME.")
@click.option("--reverse", is_flag=True, help="Apply the map from fields to stored names.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="A dim of the class, or a size for the map.")
@click.option("--from", "from_format", metavar="FORMAT", help="What SRC is, where that cannot be seen.")
@click.option("--to", "to_format", metavar="FORMAT", help="What DST shall be, where its suffix does not say it.")
@click.option("--max-shard-bytes", type=click.IntRange(min=1), help="Split safetensors into files of so many bytes.")
@click.option("--force", is_flag=True, help="Replace DST if it is there.")
@click.option("--quiet", is_flag=True, help="No progress bar, no summary.")
@reporting(2)
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
    quiet: bool,
) -> None:
    """Write the checkpoint SRC to DST in the format that DST's suffix or --to says.

    Every leaf of the result is compared with the source before DST is there.
    """
    from treaty.runtime._convert.convert import Mapped
    from treaty.runtime._convert.convert import convert as run

    if reverse and keymap is None:
        raise TreatyError("--reverse needs --map, whose direction it turns")
    done = run(
        source,
        destination,
        cls=None if schema is None else named(schema, "--schema"),
        mapped=None if keymap is None else Mapped(_read_map(keymap), reverse),
        sizes=dict(map(size_of, dims)),
        from_format=from_format,
        to_format=to_format,
        max_shard_bytes=max_shard_bytes,
        replace=force,
        progress=False if quiet else None,
    )
    if not quiet:
        leaves = "1 leaf" if done.leaves == 1 else f"{done.leaves} leaves"
        say(f"{done.source} -> {done.destination}: {leaves}, {done.nbytes} bytes of arrays, all compared")


@click.command()
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@click.option("--rtol", type=click.FloatRange(min=0), default=0.0, help="Allowed difference, relative to B.")
@click.option("--atol", type=click.FloatRange(min=0), default=0.0, help="Allowed difference.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reporting(2)
def diff(left: str, right: str, rtol: float, atol: float, as_json: bool) -> None:
    """Compare two checkpoints of any formats: structure, shapes, dtypes, values.

    Exit status 0 if they are equal, 1 if they differ, 2 if one cannot be read.
    """
    from treaty.runtime._convert.diff import diff as run

    found = run(Path(local_path(left)), Path(local_path(right)), rtol, atol)
    if as_json:
        say(json.dumps({"equal": not found, "differences": list(map(_as_data, found))}, indent=2))
    else:
        say("\n".join(_as_text(found)) if found else "equal")
    sys.exit(1 if found else 0)


def _as_data(one: "Difference") -> dict[str, Any]:
    data: dict[str, Any] = {"path": list(one.path), "what": one.what, "a": one.left, "b": one.right}
    if one.what in ("dtype", "values"):
        data |= {"count": one.count, "max_abs": _number(one.max_abs), "max_rel": _number(one.max_rel)}
    return data


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"  # JSON has no word for it


def _as_text(found: "list[Difference]") -> list[str]:
    rows = [("leaf", "what", "A", "B", "elements", "max abs", "max rel")]
    for one in found:
        numbers = (str(one.count), f"{one.max_abs:.3g}", f"{one.max_rel:.3g}")
        values = numbers if one.what in ("dtype", "values") else ("", "", "")
        rows.append((show_keys(one.path), one.what, one.left or "-", one.right or "-", *values))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _read_map(where: str) -> KeyMap:
    if where.endswith((".json", ".toml")):
        try:
            text = Path(where).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise TreatyError(f"--map: expected text in UTF-8, got {error} in {where}") from error
        return KeyMap.from_json(text) if where.endswith(".json") else KeyMap.from_toml(text)
    found = named(where, "--map")
    if not isinstance(found, KeyMap):
        raise TreatyError(f"--map: expected a KeyMap, got {type(found).__name__} at {where}")
    return found
