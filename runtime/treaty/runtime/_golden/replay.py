"""What the test that `treaty golden` writes calls: which checkpoints there are, and what is restored other than it was."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from treaty.runtime._checkpoint.restore import restore
from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._evolve.histories import history_of, lock_of
from treaty.runtime._golden.checksums import checksums
from treaty.runtime._golden.index import Golden, read_indexes
from treaty.runtime._state.registry import Codec, codec_of_class
from treaty.runtime._state.state_dict import to_state_dict
from treaty.runtime.formats.table import FORMATS
from treaty.schema import TreatyError
from treaty.schema.evolution.lock import Lock, Moved, Orphaned, Revised


@frozen
class Checkpoint:
    """One golden checkpoint, and the class that it is restored as."""

    path: Path
    cls: str  # what the class is called today
    asked: int | None  # the revision to ask for; None where the checkpoint says which it is of
    golden: Golden

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"


def checkpoints(folder: Path, module: str) -> list[Checkpoint]:
    """The golden checkpoints of a module, without those of revisions that the lock gives up."""
    lock = required_lock(module)
    found = []
    for golden in read_indexes(folder):
        symbol = symbol_of(golden, lock)
        if symbol is not None and golden.revision not in lock.lines[symbol].orphaned:
            found += [checkpoint(golden, name, symbol) for name in golden.checkpoints]
    return found


def checkpoint(golden: Golden, format: str, symbol: str) -> Checkpoint:
    asked = None if FORMATS[format].keeps_schema else golden.revision
    return Checkpoint(golden.folder / golden.checkpoints[format], symbol.partition(":")[2], asked, golden)


def differences(one: Checkpoint, restored: object, cls: Any = None) -> list[str]:
    """What a checkpoint restores as that the index says otherwise: a line for each leaf, none if all is as it was."""
    codec = codec_of_class(type(restored) if cls is None else cls)
    module = codec.schema.root_class.module
    present = present_revision(codec)
    if present is None:
        return [unlocked(codec)]
    known = one.golden.restored.get(present)
    if known is None:
        return [f"{one}: nobody knows yet what it is as revision {present} of {one.cls}; run: treaty golden {module}"]
    return [f"{one}: {line}" for line in compare(known, checksums(to_state_dict(restored)))]


def compare(expected: Mapping[str, str], got: Mapping[str, str]) -> list[str]:
    paths = dict.fromkeys((*expected, *got))
    return [
        f"expected {expected.get(path, 'nothing')}, got {got.get(path, 'nothing')} at {path}"
        for path in paths
        if expected.get(path) != got.get(path)
    ]


def replay(golden: Golden, cls: Any, symbol: str, present: int) -> tuple[Golden, list[str]]:
    """Returns the index with the result added, or the differences: from the recorded result, or between formats."""
    known = golden.restored.get(present)
    wrong: list[str] = []
    for format in golden.checkpoints:
        one = checkpoint(golden, format, symbol)
        try:
            found = checksums(to_state_dict(restore(one.path, cls, into="numpy", revision=one.asked, progress=False)))
        except Exception as error:  # the class may have a validator, which may raise anything
            said = str(error) if isinstance(error, TreatyError) else f"{type(error).__name__}: {error}"
            wrong += [f"{one}: {line}" for line in said.splitlines()]
            continue
        known = found if known is None else known
        wrong += [f"{one}: {line}" for line in compare(known, found)]
    if wrong or known is None:
        return golden, wrong
    return evolve(golden, restored={**golden.restored, present: known}), []


def present_revision(codec: Codec[Any]) -> int | None:
    """The revision that a class is of, or None where its declaration is not locked."""
    history = history_of(codec.schema.root_class.symbol)
    if history is None:
        return None
    number = history.present(codec.schema)
    return number if number <= history.last else None


def unlocked(codec: Codec[Any]) -> str:
    cls = codec.schema.root_class
    return (
        f"{cls.qualname}: expected a declaration that is locked, got one that is not; "
        f"run: treaty lock {cls.module}, then: treaty golden {cls.module}"
    )


def required_lock(module: str) -> Lock:
    lock = lock_of(module)
    if lock is None:
        raise InvalidArgumentError(f"expected locked classes, got none in {module}; run: treaty lock {module}")
    return lock


def symbol_of(golden: Golden, lock: Lock) -> str | None:
    """What the class of golden checkpoints is called today; None where the lock gives it up."""
    for symbol, line in lock.lines.items():
        if any(entry.chain == golden.chain for _, entry in line.revisions):
            return symbol
    if _is_given_up(golden, lock):
        return None
    raise InvalidArgumentError(
        f"{golden.folder}: expected a revision that {lock.module} has locked, got revision {golden.revision} of "
        f"{golden.symbol}, which its lock does not have; delete the folder if it was never released"
    )


def _is_given_up(golden: Golden, lock: Lock) -> bool:
    name = None
    for entry in lock.log:
        if isinstance(entry, Revised) and entry.chain == golden.chain:
            name = entry.symbol
        elif isinstance(entry, Moved) and name is not None:
            name = entry.names.get(name, name)
        elif isinstance(entry, Orphaned) and entry.number is None and entry.symbol == name:
            return True
    return False
