"""Where in an Orbax directory the item is: the item itself, a step of items, or a manager's directory of steps."""

import json
import os
import re
from pathlib import Path
from typing import Any, Final

from treaty.runtime._errors import (
    CorruptCheckpointError,
    IncompleteCheckpointError,
    InvalidArgumentError,
    MissingCheckpointError,
    show_steps,
    storing,
)
from treaty.runtime.formats.orbax.aggregate import AGGREGATE, is_aggregate
from treaty.schema import TreatyError

METADATA: Final = "_METADATA"
OCDBT: Final = "manifest.ocdbt"
STEP_METADATA: Final = "_CHECKPOINT_METADATA"
COMMITTED: Final = "commit_success.txt"
STRINGS: Final = "_strings.json"
ARRAY_METADATA: Final = "array_metadatas"
TEMPORARY: Final = ".orbax-checkpoint-tmp"
_STEP: Final = re.compile(r"(?:.*_)?([0-9]+)")  # 7, 00000007, step_7


def looks_like_orbax(path: Path) -> bool:
    """An item, a step of items, or a directory of steps; also one that was never finished, so that this is said."""
    if not path.is_dir():
        return False
    signs = [f"{above}{name}" for above in ("", "*/", "*/*/") for name in (METADATA, STEP_METADATA)]
    found = any(any(path.glob(sign)) for sign in [*signs, f"*{TEMPORARY}*"]) or TEMPORARY in path.name
    return found or any(is_aggregate(file) for above in ("", "*/", "*/*/") for file in path.glob(above + AGGREGATE))


def find_item(path: Path, step: int | None = None, item: str | None = None) -> Path:
    """The directory that holds `_METADATA` or, of old, `checkpoint`, once all above it is known to be committed."""
    if not path.is_dir():
        raise MissingCheckpointError(f"expected an Orbax checkpoint, got no directory at {path}")
    _require_committed(path)
    if is_item(path):
        if step is not None or item is not None:
            raise TreatyError(f"{path} is one item; pass the directory above it to choose a step or an item")
        return path
    items = items_in(path)
    steps = {} if items else steps_in(path)
    if steps:
        path = _choose_step(path, steps, step)
        _require_committed(path)
        items = items_in(path)
    elif step is not None:
        raise TreatyError(f"{path} holds no steps, so that step={step} cannot be chosen")
    found = _choose_item(path, items, item)
    _require_committed(found)  # where one is a step itself
    return found


def step_path(path: str, step: int) -> str:
    """Where a step of a directory of steps is."""
    steps = {} if is_item(Path(path)) or items_in(Path(path)) else steps_in(Path(path))
    if not steps:
        raise InvalidArgumentError(f"expected a directory of steps, got a directory without steps at {path}")
    return str(_choose_step(Path(path), steps, step))


def step_of(path: Path, item: Path) -> int | None:
    """The step that was taken, where `find_item` took one: the item lies in it, or is one itself."""
    if (path / STEP_METADATA).exists():  # then it is one step of items, whatever those are called
        return None
    step = next((one for one in (item, item.parent) if one.parent == path), path)
    match = _STEP.fullmatch(step.name) if step != path else None
    return None if match is None else int(match[1])


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object."""
    data = any_json(path)
    if not isinstance(data, dict):
        raise CorruptCheckpointError(f"expected a JSON object, got {type(data).__name__} in {path}")
    return data


def any_json(path: Path) -> Any:
    """A file of no bytes is what a power cut leaves of one that was never fsynced."""
    try:
        with storing("read", path):
            return json.loads(path.read_bytes())
    except (FileNotFoundError, IsADirectoryError):
        raise IncompleteCheckpointError(f"expected the file {path}, got nothing") from None
    except (ValueError, RecursionError) as error:
        raise CorruptCheckpointError(f"expected JSON, got {error} in {path}") from None


def _require_committed(path: Path) -> None:
    if not _is_committed(path):
        raise IncompleteCheckpointError(f"expected a committed checkpoint, got one whose save did not end: {path}")


def _is_committed(path: Path) -> bool:
    """By rename, or, where a store cannot rename, by the marker; the time of the commit is written with either."""
    if any(TEMPORARY in name for name in Path(os.path.realpath(path)).parts[-3:]):
        return False
    if (path / COMMITTED).exists() or not (path / STEP_METADATA).exists():
        return True
    return read_json(path / STEP_METADATA).get("commit_timestamp_nsecs", 0) is not None


def items_in(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir() if TEMPORARY not in one.name and is_item(one))


def is_item(path: Path) -> bool:
    return (path / METADATA).is_file() or is_aggregate(path / AGGREGATE)


def steps_in(path: Path) -> dict[int, list[Path]]:
    steps: dict[int, list[Path]] = {}
    for one in path.iterdir():
        match = _STEP.fullmatch(one.name)
        if match and one.is_dir() and _may_be_committed(one):
            steps.setdefault(int(match[1]), []).append(one)
    return steps


def _may_be_committed(path: Path) -> bool:
    """Of a step that is damaged it is not known; whoever chooses it is told, and the others are there."""
    try:
        return _is_committed(path)
    except CorruptCheckpointError:
        return True


def _choose_step(path: Path, steps: dict[int, list[Path]], step: int | None) -> Path:
    if step is not None and step not in steps:
        raise MissingCheckpointError(f"expected step {step}, got {show_steps(step, steps)} in {path}")
    found = steps[max(steps) if step is None else step]
    if len(found) > 1:
        raise TreatyError(f"{path} has {' and '.join(sorted(one.name for one in found))}; pass the one you mean")
    return found[0]


def _choose_item(path: Path, items: list[str], item: str | None) -> Path:
    if item is None and len(items) == 1:
        return path / items[0]
    if item in items:
        return path / item
    if items:
        wanted = "one item" if item is None else f"the item {item!r}"
        raise TreatyError(f"expected {wanted}, got {', '.join(items)} in {path}; give the path of one")
    raise MissingCheckpointError(f"expected an Orbax checkpoint, got no {METADATA} in {path} or its items")
