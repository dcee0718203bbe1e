"""The steps of a CheckpointManager's directory, each with what Orbax keeps beside its trees: metrics and metadata, as JSON."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from treaty.runtime._errors import (
    CorruptCheckpointError,
    IncompleteCheckpointError,
    MissingCheckpointError,
    storing,
)
from treaty.runtime._storage.paths import local_path
from treaty.runtime._trees import MAX_DEPTH
from treaty.runtime.formats.orbax.find import (
    COMMITTED,
    STEP_METADATA,
    TEMPORARY,
    any_json,
    is_item,
    items_in,
    read_json,
    steps_in,
)
from treaty.runtime.formats.shared.format import StoredRun, StoredStep
from treaty.runtime.formats.shared.json_values import as_float
from treaty.schema import TreatyError

_METRICS: Final = "metrics"  # the item, and the file in it
_JSON: Final = "metadata"  # the file of every other item of JSON
_NANOSECONDS: Final = 1e9
_ROOT: Final = "metadata/_ROOT_METADATA"


def stored_run(path: str) -> StoredRun:
    """Every committed step, the newest first. Of two directories with one number neither is meant more than the other."""
    folder = Path(local_path(path))
    with storing("read", path):
        if is_item(folder) or items_in(folder):
            raise MissingCheckpointError(
                f"expected the directory of an Orbax CheckpointManager, got one step at {path}"
            )
        found = steps_in(folder)
        committed = {one.name for several in found.values() for one in several}
        steps, damaged, left_out = [], {}, dict(_unfinished(folder, committed))
        for number, several in sorted(found.items(), reverse=True):
            if len(several) > 1:
                names = " and ".join(sorted(one.name for one in several))
                raise TreatyError(f"expected one directory for step {number}, got {names} in {path}; move one away")
            try:
                steps.append(_step(number, several[0]))
            except MissingCheckpointError as error:
                left_out[several[0].name] = str(error)
            except (CorruptCheckpointError, IncompleteCheckpointError) as error:
                damaged[number] = str(error)
        if not found:
            raise MissingCheckpointError(f"expected committed steps of Orbax, got none in {path}")
        if (folder / _ROOT).is_file() and read_json(folder / _ROOT).get("custom_metadata"):
            left_out[_ROOT] = "it is of no step"
    return StoredRun(steps, left_out, damaged)


def _unfinished(folder: Path, committed: set[str]) -> Iterator[tuple[str, str]]:
    for one in sorted(folder.iterdir()):
        is_step = TEMPORARY in one.name or (one / STEP_METADATA).exists()
        if is_step and one.is_dir() and one.name not in committed:
            yield one.name, "its save did not end"


def _step(number: int, folder: Path) -> StoredStep:
    items = () if is_item(folder) else tuple(items_in(folder))
    if not items and not is_item(folder):
        raise MissingCheckpointError("there is no tree in it")
    said = _said(folder).get("custom_metadata") or {}
    if not isinstance(said, dict):
        raise CorruptCheckpointError(
            f"expected a JSON object for custom_metadata, got {type(said).__name__} in {folder / STEP_METADATA}"
        )
    metadata = _finite(said, folder)
    metrics: dict[str, float] = {}
    others = []
    for one in sorted(folder.iterdir()):
        if one.name in (*items, STEP_METADATA, COMMITTED) or not one.is_dir() or is_item(folder):
            continue
        if one.name == _METRICS and (one / _METRICS).is_file():
            metrics, rest = _numbers(read_json(one / _METRICS))
            found = _finite(rest, one)
        elif (one / _JSON).is_file():
            found = _finite(any_json(one / _JSON), one)
        else:
            others.append(one.name)
            continue
        if found:
            metadata = {**metadata, _free_name(one.name, metadata): found}
    return StoredStep(number, str(folder), items, metrics, metadata, _began(folder), tuple(others))


def _said(folder: Path) -> dict[str, Any]:
    return read_json(folder / STEP_METADATA) if (folder / STEP_METADATA).is_file() else {}


def _began(folder: Path) -> float:
    """When its save began, in seconds; older Orbax did not say it."""
    began = _said(folder).get("init_timestamp_nsecs")
    seconds = as_float(began) if type(began) is int else None
    return folder.stat().st_mtime if seconds is None else seconds / _NANOSECONDS


def _numbers(metrics: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, Any]]:
    """Numbers by name, and all else that somebody kept there."""
    numbers = {name: number for name, one in metrics.items() if (number := as_float(one)) is not None}
    return numbers, {name: one for name, one in metrics.items() if name not in numbers}


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    return name if name not in taken else _free_name(f"{name} (item)", taken)


def _finite(value: Any, where: Path, levels: int = MAX_DEPTH) -> Any:
    """NaN and infinity, for which JSON has no words and Python's has, as text."""
    if isinstance(value, (dict, list)) and not levels:
        raise CorruptCheckpointError(f"expected JSON of at most {MAX_DEPTH} levels, got more in {where}")
    if isinstance(value, dict):
        return {name: _finite(one, where, levels - 1) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one, where, levels - 1) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
