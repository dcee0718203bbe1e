"""Commands on one checkpoint: `treaty inspect`, `treaty verify` and `treaty remove`."""

import gc
import json
import sys
from functools import cache
from typing import Any

import click

from treaty.runtime import Inspection
from treaty.runtime import inspect as inspect_checkpoint
from treaty.runtime._errors import show_keys
from treaty.runtime.commands.output import column, reporting, say, size_shown, tell
from treaty.schema import TreatyError


@click.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reporting(1)
def inspect(path: str, as_json: bool) -> None:
    """Show what a checkpoint of any format holds: class, dims, metadata, every leaf. Reads no arrays."""
    gc.disable()  # thousands of new objects, of which all stay: the collector would look at them again and again
    try:
        found = inspect_checkpoint(path)
        text = json.dumps(_as_data(found), indent=2) if as_json else "\n".join(_as_text(found))
    finally:
        gc.enable()
    say(text)


@click.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reporting(1)
def verify(path: str, as_json: bool) -> None:
    """Read every byte of a checkpoint and check it. Exit status 1 if something is wrong."""
    from treaty.runtime import verify as verify_checkpoint

    found = verify_checkpoint(path)
    if as_json:
        said = {"path": found.path, "leaves": found.leaves, "nbytes": found.nbytes, "is_checked": found.is_checked}
        say(json.dumps(said))
    else:
        how = "all as they were written" if found.is_checked else "all can be read"  # of no checksum, no more is known
        say(f"{found.path}: {found.leaves} leaves, {size_shown(found.nbytes)} of arrays, {how}")


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@reporting(1)
def remove(paths: tuple[str, ...]) -> None:
    """Delete checkpoints of any format. what is not a checkpoint, or holds other files, is refused: exit status 1."""
    from treaty.runtime import remove as remove_checkpoint

    failed = False
    for path in paths:
        try:
            remove_checkpoint(path)
        except (TreatyError, OSError) as error:
            failed = True
            tell(error)
        else:
            say(f"removed {path}")
    sys.exit(1 if failed else 0)


def _as_data(found: Inspection) -> dict[str, Any]:
    return {
        "path": found.path,
        "format": found.format,
        "class": found.class_id,
        "digest": found.digest,
        "dims": dict(found.dims),
        "metadata": dict(found.metadata),
        "nbytes": found.nbytes,
        "leaves": [
            {"path": list(leaf.path), "dtype": leaf.dtype, "shape": list(leaf.shape), "nbytes": leaf.nbytes}
            for leaf in found.leaves
        ],
    }


def _as_text(found: Inspection) -> list[str]:
    dims = "  ".join(f"{name}={size}" for name, size in found.dims.items())
    metadata = json.dumps(dict(found.metadata)) if found.metadata else ""
    format = "" if found.format == "treaty" else found.format  # its own is known by all that follows
    head = [
        ("format", format),
        ("class", found.class_id),
        ("digest", found.digest),
        ("dims", dims),
        ("metadata", metadata),
    ]
    leaves = found.leaves
    stored_bytes = sum(getattr(leaf, "stored_bytes", leaf.nbytes) for leaf in leaves)  # known of Treaty's directories
    stored = "" if stored_bytes == found.nbytes else f", stored in {size_shown(stored_bytes)}"
    paths = column([show_keys(leaf.path) for leaf in leaves])
    kinds = column([_kind(leaf.dtype, leaf.shape) for leaf in leaves])
    sizes = [size_shown(leaf.nbytes) if leaf.nbytes else "" for leaf in leaves]
    return [
        found.path,
        *(f"{name:<10}{text}" for name, text in head if text),
        f"{'leaves':<10}{len(leaves)}, {size_shown(found.nbytes)} of arrays{stored}",
        "",
        *(f"{path}  {kind}  {size}".rstrip() for path, kind, size in zip(paths, kinds, sizes, strict=True)),
    ]


@cache
def _kind(dtype: str | None, shape: tuple[int, ...]) -> str:
    return "value" if dtype is None else f"{dtype}{list(shape)}"
