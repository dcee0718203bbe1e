"""What `treaty inspect` shows of a checkpoint: its head, and its leaves as a table or as data."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from treaty.runtime import Inspection
from treaty.runtime._display.folding import Path, Row, each, folded
from treaty.runtime.commands.output import size_shown
from treaty.runtime.commands.tables import ends, fit_line, table
from treaty.runtime.formats.shared.outcomes import ListedLeaf

MOST_ROWS: Final = 1000  # where not all are asked for
_MOST_TEXT: Final = 200  # letters of a value that are shown
_MOST_BITS: Final = 256  # of a number that is shown in digits
_UNKNOWN: Final = object()


def as_data(
    found: Inspection, values: Mapping[Path, Any], leaves: Sequence[tuple[Path, ListedLeaf]], root: Path
) -> dict[str, Any]:
    """For programs. Values are there as far as JSON has them and they are short."""
    listed = []
    for below, leaf in leaves:
        path = (*root, *below)
        one = {"path": list(path), "dtype": leaf.dtype, "shape": list(leaf.shape), "nbytes": leaf.nbytes}
        listed.append(one | _value_as_data(values.get(path, _UNKNOWN)))
    return {
        "path": found.path,
        "step": found.step,
        "format": found.format,
        "class": found.class_id,
        "digest": found.digest,
        "dims": dict(found.dims),
        "metadata": dict(found.metadata),
        "nbytes": sum(leaf.nbytes for _, leaf in leaves),
        "leaves": listed,
    }


def as_text(
    found: Inspection,
    values: Mapping[Path, Any],
    leaves: Sequence[tuple[Path, ListedLeaf]],
    root: Path,
    depth: int | None,
    show_all: bool,
) -> list[str]:
    """For people: alike leaves are one row each, unless all are asked for."""
    paths = [path for path, _ in leaves]
    kinds = [_kind(leaf, values.get((*root, *path), _UNKNOWN)) for path, leaf in leaves]
    sizes = [leaf.nbytes for _, leaf in leaves]
    rows = each(paths, root) if show_all else folded(paths, kinds.__getitem__, depth, root)
    shown = rows if show_all else rows[:MOST_ROWS]
    lines = table([_row(row, paths, kinds, sizes, values, root) for row in shown], soft=(2,)) if shown else []
    if len(rows) > len(shown):
        lines.append(f"… and {len(rows) - len(shown)} rows more; --depth 2 sums them, --all shows every leaf")
    return [*_head(found, [leaf for _, leaf in leaves], sum(sizes)), "", *lines]


def _head(found: Inspection, leaves: Sequence[ListedLeaf], nbytes: int) -> list[str]:
    stored = ""
    if any(getattr(leaf, "codec", None) for leaf in leaves):  # of Treaty's directories
        stored = f", stored in {size_shown(sum(getattr(leaf, 'stored_bytes', 0) for leaf in leaves))}"
    lines = [
        ("step", "" if found.step is None else str(found.step)),
        ("format", found.format),
        ("class", found.class_id),
        ("digest", found.digest),
        ("dims", "  ".join(f"{name}={size}" for name, size in found.dims.items())),
        ("metadata", json.dumps(dict(found.metadata)) if found.metadata else ""),
        ("leaves", f"{len(leaves)}, {size_shown(nbytes)} of arrays{stored}"),
    ]
    return [found.path, *(fit_line(f"{name:<10}{text}") for name, text in lines if text)]


def _row(
    row: Row, paths: list[Path], kinds: list[str], sizes: list[int], values: Mapping[Path, Any], root: Path
) -> tuple[str, str, str, str]:
    first = row.leaves[0]
    nbytes = sum(sizes[number] for number in row.leaves)
    if row.is_sum:
        count = len(row.leaves)
        return row.path, f"{count} {'leaf' if count == 1 else 'leaves'}", size_shown(nbytes) if nbytes else "", ""
    shown = ends(*(_value(values.get((*root, *paths[number]), _UNKNOWN)) for number in (first, row.leaves[-1])))
    size = shown or (size_shown(nbytes) if nbytes else "")
    return row.path, kinds[first], size, f"{len(row.leaves)} alike" if len(row.leaves) > 1 else ""


def _kind(leaf: ListedLeaf, value: Any) -> str:
    if leaf.dtype is not None:
        return _array(leaf.dtype, leaf.shape)
    if value is _UNKNOWN:
        return "value"
    return _type_name(value)


def _type_name(value: Any) -> str:
    return "empty" if value == {} else "None" if value is None else type(value).__name__


@cache
def _array(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}{list(shape)}"


def _value(value: Any) -> str:
    """A value in short, on one line."""
    if value is _UNKNOWN or value is None or value == {}:
        return ""
    if type(value) is int and value.bit_length() > _MOST_BITS:
        return f"{'-' if value < 0 else ''}0x{abs(value) >> (value.bit_length() - _MOST_BITS):x}…, of {value.bit_length()} bits"
    if isinstance(value, (str, bytes)):
        return f"{value[:_MOST_TEXT]!r}{f'…, of {len(value)}' if len(value) > _MOST_TEXT else ''}"
    return repr(value) if isinstance(value, (bool, int, float, complex)) else ""


def _value_as_data(value: Any) -> dict[str, Any]:
    if value is _UNKNOWN:
        return {}
    kind = _type_name(value)
    is_json = (
        value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))
    )
    is_short = value is None or not _value(value).partition("…")[1]
    return {"type": kind, "value": value} if is_json and is_short else {"type": kind}
