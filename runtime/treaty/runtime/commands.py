"""Commands that look at checkpoints: `treaty inspect` and `treaty verify`."""

import json
import sys
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
    found: Inspection | Listing
    try:
        found = inspect_directory(path)
    except IncompleteCheckpointError as error:
        found = _other(path, error)
    except TreatyError as error:
        _fail(error)
    if as_json:
        click.echo(json.dumps(_as_data(found), indent=2))
    else:
        click.echo("\n".join(_as_text(found)))


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
    rows = [
        (show_keys(leaf.path), "value" if leaf.dtype is None else f"{leaf.dtype}{list(leaf.shape)}", leaf.nbytes)
        for leaf in found.leaves
    ]
    paths = max((len(path) for path, _, _ in rows), default=0)
    kinds = max((len(kind) for _, kind, _ in rows), default=0)
    return [
        found.path,
        *(f"{name:<10}{text}" for name, text in head if text),
        f"{'leaves':<10}{len(rows)}, {_size(found.nbytes)} of arrays",
        "",
        *(f"{path:<{paths}}  {kind:<{kinds}}  {_size(size) if size else ''}".rstrip() for path, kind, size in rows),
    ]


def _size(count: int) -> str:
    power = max(0, min(4, (count.bit_length() - 1) // 10))
    unit = ("B", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{count} {unit}" if power == 0 else f"{count / 1024**power:.1f} {unit}"
