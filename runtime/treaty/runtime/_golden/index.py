"""`index.json` of a golden revision: which checkpoints lie beside it, and what each revision since restores them as.

    {"treaty": "golden", "version": 1, "class": "state:Linear", "revision": 1,
     "schema": "sha256:…", "chain": "sha256:…",
     "checkpoints": {"treaty": "treaty", "msgpack": "checkpoint.msgpack", …}, "without": {"orbax": why},
     "restored": {"1": {"$.kernel": "float32[2, 3] 9f86d081884c7d65"}, "2": …}}

It is only ever added to. A revision is known by its `chain` in the lock, whatever its class is called today.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
from attrs import frozen

from treaty.runtime.formats.table import FORMATS
from treaty.schema import NewerFormatError, TreatyError

NAME: Final = "index.json"
_VERSION: Final = 1


@frozen
class Golden:
    """A folder with the checkpoints of one revision of a class."""

    folder: Path
    symbol: str  # of the class when the revision was locked
    revision: int
    digest: str  # of its schema
    chain: str
    checkpoints: Mapping[str, str] = attrs.field(factory=dict)  # format -> name of the file or directory
    without: Mapping[str, str] = attrs.field(factory=dict)  # format -> why it cannot hold the state
    restored: Mapping[int, Mapping[str, str]] = attrs.field(factory=dict)  # by the revision that the class was of then

    def text(self) -> str:
        data = {
            "treaty": "golden",
            "version": _VERSION,
            "class": self.symbol,
            "revision": self.revision,
            "schema": self.digest,
            "chain": self.chain,
            "checkpoints": self.checkpoints,
            "without": self.without,
            "restored": {str(number): leaves for number, leaves in sorted(self.restored.items())},
        }
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def read_index(folder: Path) -> Golden:
    """The index of one folder, checked."""
    file = folder / NAME
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["treaty"] != "golden":
            raise ValueError("no index of golden checkpoints")
        if data["version"] > _VERSION:
            raise NewerFormatError(str(file), f"version {data['version']}")
        return _golden(folder, data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TreatyError(
            f"{file}: expected the index of golden checkpoints, got {type(error).__name__}: {error}; "
            f"restore it (git checkout -- {file})"
        ) from error


def read_indexes(folder: Path) -> list[Golden]:
    """Of all revisions in the folder of a module; one without an index was never finished, and is none."""
    if not folder.is_dir():
        return []
    return [read_index(one) for one in sorted(folder.iterdir()) if (one / NAME).is_file()]


def _golden(folder: Path, data: Any) -> Golden:
    texts = [data[name] for name in ("class", "schema", "chain")]
    names = [*data["checkpoints"].items(), *data["without"].items()]
    leaves = [leaf for one in data["restored"].values() for leaf in one.items()]
    if type(data["revision"]) is not int or not all(
        isinstance(text, str) for text in (*texts, *sum(names, ()), *sum(leaves, ()))
    ):
        raise TypeError("a number or text is missing")
    if any(Path(name).name != name for name in data["checkpoints"].values()):
        raise ValueError("a checkpoint lies elsewhere")
    if unknown := sorted(set(data["checkpoints"]) - set(FORMATS)):
        raise ValueError(f"{unknown[0]} is no format")
    restored = {int(number): one for number, one in data["restored"].items()}
    symbol, digest, chain = texts
    return Golden(folder, symbol, data["revision"], digest, chain, data["checkpoints"], data["without"], restored)
