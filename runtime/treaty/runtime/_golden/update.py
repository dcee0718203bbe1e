"""`treaty golden` of one module, without its words: what is there is replayed, and what is new is added."""

import importlib
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from attrs import define, field, frozen

from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._evolve.histories import history_of
from treaty.runtime._golden.index import Golden, read_indexes
from treaty.runtime._golden.replay import present_revision, replay, required_lock, symbol_of, unlocked
from treaty.runtime._golden.test_file import is_ours, test_name, test_text
from treaty.runtime._golden.write import missing_formats, write_index, write_missing
from treaty.runtime._state.registry import codec_of_class
from treaty.runtime._storage.files import write_pieces
from treaty.schema import TreatyError
from treaty.schema.evolution.history import Revision
from treaty.schema.evolution.lock import Line


@define
class GoldenOutcome:
    """What was done for one class, by revision. `missing` is what is to be added, where nothing may be written."""

    name: str
    added: list[int] = field(factory=list)
    replayed: list[int] = field(factory=list)
    without: dict[str, str] = field(factory=dict)  # format -> why it cannot hold the class
    missing: list[str] = field(factory=list)
    wrong: list[str] = field(factory=list)


@frozen
class _Existing:
    """A class as it is now."""

    cls: Any
    line: Line
    revision: int


@define
class Update:
    """The golden checkpoints of a module below a folder, and their test. With `only_replays` nothing is written."""

    module: str
    folder: Path
    only_replays: bool = False
    generic: list[str] = field(factory=list)  # classes that are in checkpoints only as parts of others
    written: list[Path] = field(factory=list)
    stale: list[Path] = field(factory=list)  # what would be written

    def run(self) -> list[GoldenOutcome]:
        module = importlib.import_module(self.module)
        lock = required_lock(self.module)
        there: dict[str | None, list[Golden]] = {}
        for golden in read_indexes(self.checkpoints):
            there.setdefault(symbol_of(golden, lock), []).append(golden)
        classes = {symbol: _declared(module, symbol) for symbol in lock.lines}
        outcomes = []
        for symbol, line in lock.lines.items():
            history = history_of(symbol)
            assert history is not None  # it is a line of the lock
            name = symbol.partition(":")[2]
            if history.is_generic:
                self.generic.append(name)
                continue
            codec = codec_of_class(classes[symbol])
            number = present_revision(codec)
            if number is None:
                outcomes.append(GoldenOutcome(name, wrong=[unlocked(codec)]))
                continue
            present = _Existing(codec.cls, line, number)
            outcomes.append(self._class(present, history.revisions, there.get(symbol, [])))
        self._write_test([outcome.name for outcome in outcomes])
        return outcomes

    @property
    def checkpoints(self) -> Path:
        return self.folder / f"golden-{self.module}"

    def _class(self, present: _Existing, revisions: tuple[Revision, ...], there: list[Golden]) -> GoldenOutcome:
        outcome = GoldenOutcome(present.line.symbol.partition(":")[2])
        for revision in revisions:
            if revision.number in present.line.orphaned:
                continue
            chain = present.line[revision.number].chain
            golden = next((one for one in there if one.chain == chain), None)
            try:
                self._revision(present, revision, golden, outcome)
            except TreatyError as error:
                outcome.wrong += [f"{outcome.name}-{revision.number}: {line}" for line in str(error).splitlines()]
        return outcome

    def _revision(self, present: _Existing, revision: Revision, golden: Golden | None, outcome: GoldenOutcome) -> None:
        number, symbol = revision.number, present.line.symbol
        if golden is None:
            golden = self._new(present.line, number)
        else:
            is_recorded = present.revision in golden.restored
            golden, wrong = replay(golden, present.cls, symbol, present.revision)
            outcome.wrong += wrong
            if wrong:
                return
            outcome.replayed.append(number)
            if not is_recorded and self.only_replays:
                outcome.missing.append(f"what revision {number} is as revision {present.revision}")
            elif not is_recorded:
                write_index(golden)
        formats = missing_formats(golden)
        if formats and self.only_replays:
            outcome.missing.append(f"revision {number} as {', '.join(formats)}")
        elif formats:
            golden, wrong = write_missing(golden, revision, present.cls, symbol, present.revision)
            outcome.wrong += wrong
            if not wrong:
                outcome.added.append(number)
                outcome.without |= {name: golden.without[name] for name in formats if name in golden.without}

    def _new(self, line: Line, number: int) -> Golden:
        """A folder of its own: another class may have had the name before."""
        entry = line[number]
        stem = f"{entry.symbol.partition(':')[2]}-{number}"
        names = [stem, *(f"{stem}-{again}" for again in range(2, 100))]
        folder = next(self.checkpoints / name for name in names if not (self.checkpoints / name).exists())
        return Golden(folder, entry.symbol, number, entry.digest, entry.chain)

    def _write_test(self, classes: list[str]) -> None:
        path = self.folder / test_name(self.module)
        text = test_text(self.module, classes)
        there = path.read_text(encoding="utf-8") if path.exists() else None
        if there == text or not self.checkpoints.exists():
            return
        if self.only_replays:
            self.stale.append(path)
            return
        if there is not None and not is_ours(there):
            raise InvalidArgumentError(f"expected a test that treaty golden wrote, got another at {path}; move it")
        write_pieces(path, [text.encode()])
        self.written.append(path)


def _declared(module: ModuleType, symbol: str) -> Any:
    name = symbol.partition(":")[2]
    try:
        return attrgetter(name)(module)
    except AttributeError:
        raise InvalidArgumentError(
            f"{name}: expected a declaration of what is locked, got none in {module.__name__}; "
            f"run: treaty lock {module.__name__}, which asks what became of it"
        ) from None
