"""Commands that look at checkpoints: `treaty inspect` and `treaty verify`."""

import gc
import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import click

from treaty.runtime._errors import IncompleteCheckpointError, show_keys
from treaty.runtime.directory import inspect as inspect_directory
from treaty.schema import TreatyError

if TYPE_CHECKING:
    from treaty.runtime.directory import Inspection
    from treaty.runtime.directory._inspect_others import Listing


@click.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def inspect(path: str, as_json: bool) -> None:
    """Show what a checkpoint of any format holds: class, dims, metadata, every leaf. Reads no arrays."""
    gc.disable()  # thousands of new objects, of which all stay: the collector would look at them again and again
    found: Inspection | Listing
    try:
        try:
            found = inspect_directory(path)
        except IncompleteCheckpointError as error:
            found = _other(path, error)
        text = json.dumps(_as_data(found), indent=2) if as_json else "\n".join(_as_text(found))
    except TreatyError as error:
        _fail(error)
    finally:
        gc.enable()
    click.echo(text)


@click.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(path: str, as_json: bool) -> None:
    """Read every byte of a checkpoint and check it. Exit status 1 if something is wrong."""
    from treaty.runtime.directory import verify as verify_directory

    try:
        found = verify_directory(path)
    except TreatyError as error:
        _fail(error)
    if as_json:
        click.echo(json.dumps({"path": found.path, "leaves": found.leaves, "nbytes": found.nbytes}))
    else:
        click.echo(f"{found.path}: {found.leaves} leaves, {_size(found.nbytes)} of arrays, all as they were written")


def _other(path: str, error: TreatyError) -> "Listing":
    """What is there in another format, if there is anything."""
    from treaty.runtime.directory._inspect_others import inspect_other

    try:
        found = inspect_other(path)
    except (TreatyError, OSError) as problem:
        _fail(problem)
    return _fail(error) if found is None else found


def _fail(error: Exception) -> NoReturn:
    for line in str(error).splitlines():
        click.echo(f"error: {line}", err=True)
    sys.exit(1)


def _as_data(found: "Inspection | Listing") -> dict[str, Any]:
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


def _as_text(found: "Inspection | Listing") -> list[str]:
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
    paths = _column([show_keys(leaf.path) for leaf in leaves])
    kinds = _column([_kind(leaf.dtype, leaf.shape) for leaf in leaves])
    sizes = [_size(leaf.nbytes) if leaf.nbytes else "" for leaf in leaves]
    return [
        found.path,
        *(f"{name:<10}{text}" for name, text in head if text),
        f"{'leaves':<10}{len(leaves)}, {_size(found.nbytes)} of arrays",
        "",
        *(f"{path}  {kind}  {size}".rstrip() for path, kind, size in zip(paths, kinds, sizes, strict=True)),
    ]


def _column(cells: list[str]) -> list[str]:
    width = max(map(len, cells), default=0)
    return [cell.ljust(width) for cell in cells]


@cache
def _kind(dtype: str | None, shape: tuple[int, ...]) -> str:
    return "value" if dtype is None else f"{dtype}{list(shape)}"


@cache
def _size(count: int) -> str:
    power = max(0, min(4, (count.bit_length() - 1) // 10))
    unit = ("B", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{count} {unit}" if power == 0 else f"{count / 1024**power:.1f} {unit}"
