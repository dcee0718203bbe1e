"""What a report says, as data: checkpoints are opened by the table of formats, so that all formats are told of alike."""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from attrs import asdict, frozen
from attrs.filters import exclude

from treaty.runtime._checkpoint.verify import verify
from treaty.runtime._display.unseen import without_unseen
from treaty.runtime._errors import InvalidArgumentError, MissingCheckpointError
from treaty.runtime._manager.listing import as_data
from treaty.runtime._manager.overview import Overview, noted, overview
from treaty.runtime._report.leaves import ReportLeaf, leaves_of
from treaty.runtime._report.reading import FAULTS, Findings, Pair, read
from treaty.runtime._report.statistics import number
from treaty.runtime._report.tree import tree_of
from treaty.runtime._restore.source import Source
from treaty.runtime._storage.overtaken import Known
from treaty.runtime._storage.paths import AnyPath, path_or_url
from treaty.runtime._trees import Path as Keys
from treaty.runtime.formats.shared.format import Format
from treaty.runtime.formats.table import looking
from treaty.schema import TreatyError

Data = dict[str, Any]
_MADE_UP: Final = "tree"  # the class of a directory that was written without one


@frozen
class Opened:
    """A checkpoint that is being reported on."""

    source: Source
    format: Format
    leaves: Mapping[Keys, ReportLeaf]
    dims: Mapping[str, int]
    stored: Mapping[Keys, int]  # bytes on the disk, where the format says it


class _FoundDamage(Exception):
    """Raised by a reader that has met damage, so that it begins again if that was a replacement; else this is the result."""

    def __init__(self, data: Data) -> None:
        super().__init__()
        self.data = data


def gather(paths: Sequence[AnyPath], verified: bool, max_bytes: int, progress: bool | None) -> Data:
    """All that is on the page. Of two checkpoints the first is the earlier one."""
    places = [path_or_url(path)[0] for path in paths]
    run = _run_at(places[-1])
    data: Data = {"treaty": version("treaty"), "made": datetime.now(UTC).isoformat(timespec="seconds")}
    data["run"] = None if run is None else _run(run)
    try:
        data |= _checkpoints(places, max_bytes, progress)
    except TreatyError as error:
        if run is None or len(places) > 1:
            raise
        data |= {"checkpoints": [], "problems": [str(error)]}  # what is damaged is no reason not to show the others
    for head in data["checkpoints"]:
        head["verified"] = _verified(head["path"], progress) if verified else {"state": "no"}
        if head["verified"]["state"] == "damaged":
            data["problems"] = _lines([*data["problems"], head["verified"]["text"]])
    return {name: one if name == "tree" else _all_seen(one) for name, one in data.items()}  # steps are as in messages


def _checkpoints(places: Sequence[str], max_bytes: int, progress: bool | None) -> Data:
    """One is opened inside the other, so that each is what it was until both are read."""

    def all_of(rest: Sequence[str], opened: list[Opened], scratch: Path) -> Data:
        if not rest:
            return _compared(opened, max_bytes, progress)

        def use(format: Format, place: str, known: Known) -> Data:
            return all_of(rest[1:], [*opened, _opened(format, place, known, scratch)], scratch)

        return looking(rest[0], use)

    try:
        with tempfile.TemporaryDirectory() as folder:
            return all_of(places, [], Path(folder))
    except _FoundDamage as found:
        return found.data


def _opened(format: Format, place: str, known: Known, scratch: Path) -> Opened:
    source = format.open(place, known)
    source.scratch = scratch
    source.require_files()
    leaves = {leaf.path: leaf for leaf in leaves_of(source.schema, source.settled())}
    if format.inspect is None:
        return Opened(source, format, leaves, {}, {})
    found = format.inspect(place, known)
    stored = {leaf.path: leaf.stored_bytes for leaf in found.leaves}
    return Opened(source, format, leaves, found.dims, stored)


def _compared(opened: list[Opened], max_bytes: int, progress: bool | None) -> Data:
    new, old = opened[-1], opened[0] if len(opened) > 1 else None
    before = {} if old is None else old.leaves
    pairs = [Pair(before.get(path), leaf) for path, leaf in new.leaves.items()]
    pairs += [Pair(leaf, None) for path, leaf in before.items() if path not in new.leaves]
    findings = read(pairs, max_bytes, progress)
    shown = [pair.sides[-1] for pair in pairs]
    problems = _lines(one.error for one in findings)
    data: Data = {
        "checkpoints": [_head(one) for one in opened],
        "leaves": [
            _pair(pair, found, new, is_compared=old is not None) for pair, found in zip(pairs, findings, strict=True)
        ],
        "tree": tree_of([leaf.path for leaf in shown], lambda number: shown[number].form),
        "budget": {
            "max_bytes": max_bytes,
            "all_bytes": sum(pair.nbytes for pair in pairs),
            "read_bytes": sum(pair.nbytes for pair, found in zip(pairs, findings, strict=True) if found.is_read),
        },
        "problems": problems,
    }
    if problems:
        raise _FoundDamage(data)
    return data


def _head(opened: Opened) -> Data:
    source, schema = opened.source, opened.source.schema
    is_known = schema is not None and schema.root != _MADE_UP
    saved_as, note = noted(source.where) or (None, None)
    step = opened.leaves.get(("step",))
    return {
        "path": source.where,
        "format": opened.format.name,
        "class": schema.root_class.symbol if schema is not None and is_known else None,
        "digest": schema.digest if schema is not None and is_known else source.digest,
        "revision": source.revisions.get(schema.root_class.symbol) if schema is not None else None,
        "step": _whole(step) if saved_as is None else number(saved_as),
        "time": None if note is None else _moment(note.time),
        "metrics": {} if note is None else as_data(note.metrics),
        "metadata": json.dumps(dict(source.metadata), indent=2, default=str) if source.metadata else None,
        "dims": dict(opened.dims),
        "leaves": len(opened.leaves),
        "nbytes": sum(leaf.nbytes for leaf in opened.leaves.values()),
        "stored_bytes": sum(opened.stored.values()) if opened.stored else None,
    }


def _whole(leaf: ReportLeaf | None) -> Any:
    """The number of a step, where a checkpoint has a field of that name."""
    if leaf is None or leaf.shape or "int" not in str(leaf.dtype or type(leaf.value).__name__):
        return None
    with suppress(TreatyError):
        return number(int(leaf.value.__array__()) if leaf.is_array else leaf.value)
    return None


def _lines(texts: Iterable[str]) -> list[str]:
    """Each once: what is wrong with a file is said of every leaf in it."""
    return list(dict.fromkeys(line for text in texts for line in text.splitlines()))


def _pair(pair: Pair, found: Findings, new: Opened, is_compared: bool) -> Data:
    shown = pair.sides[-1]
    data = {
        **_leaf(shown),
        "role": shown.role,
        "stored": new.stored.get(shown.path),
        "read": found.is_read,
        "error": found.error,
        "stats": None if found.after is None else found.after.as_data(),
    }
    if is_compared:
        data["was"] = None if pair.before is None else _leaf(pair.before)
        data["was_stats"] = None if found.before is None else found.before.as_data()
        data["change"] = {"what": found.what} | ({} if found.change is None else found.change.as_data())
    return data


def _leaf(leaf: ReportLeaf) -> Data:
    return {
        "kind": leaf.kind,
        "dtype": leaf.dtype,
        "shape": leaf.shape,
        "dims": leaf.dims,
        "declared": leaf.declared,
        "nbytes": leaf.nbytes,
        "type": type(leaf.value).__name__ if leaf.kind == "value" else None,
        "value": leaf.shown,
    }


def _verified(path: str, progress: bool | None) -> Data:
    try:
        found = verify(path, progress=progress)
    except FAULTS as error:
        return {"state": "damaged", "text": str(error)}
    return {"state": "checked" if found.is_checked else "readable"}


def _run_at(path: str) -> Overview | None:
    if os.path.isfile(path):
        return None
    try:
        return overview(path)
    except (MissingCheckpointError, InvalidArgumentError):  # one checkpoint, or what the table of formats will say
        return None


def _run(run: Overview) -> Data:
    steps = [
        asdict(one, filter=exclude("path"))
        | {"name": one.path.rpartition("/")[2], "time": _moment(one.time), "metrics": as_data(one.metrics)}
        for one in run.steps
    ]
    return {"where": run.where, "rules": run.rules.as_data(), "steps": steps}


def _all_seen(value: Any) -> Any:
    """Data whose texts, names among them, may be anybody's."""
    if isinstance(value, str):
        return without_unseen(value)
    if isinstance(value, dict):
        return {without_unseen(name): _all_seen(one) for name, one in value.items()}
    return [_all_seen(one) for one in value] if isinstance(value, (list, tuple)) else value


def _moment(seconds: float | None) -> str | None:
    """A clock may have said anything."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return None
