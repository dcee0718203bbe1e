"""What is known of each step: from its manifest, and from nothing else."""

import errno
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError, MissingCheckpointError, StorageError
from treaty.runtime._manager.retention import NONE, Candidate, Order, Rules, present, ranked, reasons
from treaty.runtime._manager.steps import Steps
from treaty.runtime.formats.directory.manifest import parse_contents, step_of
from treaty.runtime.formats.directory.steps import StepName
from treaty.runtime.formats.shared.json_values import as_float

_TEXTS: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # which JSON has no words for
_DAMAGED: Final = "damaged, and left for you to look at"
_UNREAD: Final = "cannot be read, and left as it is"
_BY_HAND: Final = "not saved by a manager"


@frozen
class StepNote:
    """What a manifest says of its step."""

    nbytes: int | None
    time: float | None  # when its save began, in seconds of the clock on the wall
    metrics: Mapping[str, float]
    protected: str = ""  # why it is not for a manager to delete, if it is not
    left: str = ""  # why no rule is asked of it: it stands in nobody's way, and is nobody's newest


@frozen
class StepVerdict:
    """A committed step, and whether it stays. `time` is of the machine that saved it, and decides nothing."""

    step: int
    path: str
    nbytes: int | None
    time: float | None
    metrics: Mapping[str, float]
    kept: bool
    why: str

    def __str__(self) -> str:
        said = " ".join(f"{name}={value:g}" for name, value in self.metrics.items())
        return f"step {self.step}{said and f' ({said})'}: {'kept' if self.kept else 'goes'}, {self.why}"


class Listing:
    """Reads manifests once each: a manifest is replaced by another one, and never changed."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._known: dict[StepName, tuple[object, StepNote]] = {}

    def committed(self) -> Iterator[StepName]:
        """From the newest on. Looked at one by one, so that who wants the newest need not wait for all."""
        return (name for name in self._steps.names() if self._steps.is_committed(name))

    def name_of(self, step: int) -> StepName:
        """Of several with a number, before and after a rollback, the newest."""
        found = next((name for name in self.committed() if name.step == step), None)
        if found is None:
            raise no_step(self._steps.where, step)
        return found

    def note(self, name: StepName) -> StepNote | None:
        """None where it is not committed any more."""
        try:
            mark = self._steps.mark(name)
            known = self._known.get(name)
            if mark is not None and known is not None and known[0] == mark:
                return known[1]
            content = self._steps.manifest(name)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return StepNote(None, None, {}, left=_DAMAGED)  # of the disk itself; the others can do without it
        if content is None:
            self._known.pop(name, None)
            return None
        found = _read(content, self._steps.path_of(name))
        self._known[name] = mark, found
        return found

    def metrics(self, step: int) -> dict[str, float]:
        name = self.name_of(step)
        note = self.note(name)
        if note is None:
            raise no_step(self._steps.where, step)
        if note.left:
            raise CorruptCheckpointError(
                f"expected the metrics of step {step}, got a damaged manifest at {self._steps.path_of(name)}"
            )
        return dict(note.metrics)

    def best(self, metric: str, order: Order) -> int | None:
        notes = [(name, note) for name in self.committed() if (note := self.note(name)) is not None]
        steps = present([Candidate(name, note.metrics) for name, note in notes])
        return next((one.name.step for one in ranked(steps, metric, order)), None)

    def verdicts(self, rules: Rules) -> list[tuple[StepName, StepVerdict]]:
        """All committed steps, the oldest first."""
        notes = {name: note for name in self._steps.names() if (note := self._note_or_why(name)) is not None}
        self._known = {name: known for name, known in list(self._known.items()) if name in notes}
        pins = self._steps.pins()
        whole = [
            Candidate(name, note.metrics, name in pins, note.protected or self._steps.protected(name))
            for name, note in notes.items()
            if not note.left
        ]
        why = {name: ", ".join(said) for name, said in reasons(whole, rules).items()}
        return [
            (name, _verdict(name, self._steps.path_of(name), note, note.left or why[name]))
            for name, note in sorted(notes.items())
        ]

    def _note_or_why(self, name: StepName) -> StepNote | None:
        """One that cannot be read keeps no other from being deleted."""
        try:
            return self.note(name)
        except (CorruptCheckpointError, StorageError):
            return StepNote(None, None, {}, left=_UNREAD)


def no_step(where: str, step: int) -> MissingCheckpointError:
    return MissingCheckpointError(f"expected step {step}, got none that was committed in {where}")


def metrics_of(given: Mapping[str, Any] | None) -> dict[str, float]:
    """Metrics as numbers; arrays of one element are taken as well."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"expected metrics by name, got {type(given).__name__}")
    return {_name(name): _number(name, value) for name, value in given.items()}


def as_data(metrics: Mapping[str, float]) -> dict[str, float | str]:
    return {name: value if math.isfinite(value) else str(value) for name, value in metrics.items()}


def _read(content: bytes, where: str) -> StepNote:
    said = step_of(content)
    if said is None:
        return StepNote(None, None, {}, left=_DAMAGED)
    metrics = said.get("metrics")
    numbers = {
        name: _TEXTS[value] if isinstance(value, str) and value in _TEXTS else value
        for name, value in (metrics.items() if isinstance(metrics, dict) else ())
    }
    kept = {name: number for name, value in numbers.items() if (number := as_float(value)) is not None}
    if not said:
        return StepNote(_nbytes(content, where), None, {}, _BY_HAND)
    nbytes, time = said.get("nbytes"), said.get("time")
    return StepNote(nbytes if type(nbytes) is int else None, time if type(time) is float else None, kept)


def _nbytes(content: bytes, where: str) -> int | None:
    try:
        return sum(leaf.nbytes for leaf in parse_contents(content, where).leaves)
    except CorruptCheckpointError:
        return None


def _verdict(name: StepName, path: str, note: StepNote, why: str) -> StepVerdict:
    return StepVerdict(name.step, path, note.nbytes, note.time, note.metrics, bool(why), why or NONE)


def _name(name: object) -> str:
    if type(name) is not str:
        raise InvalidArgumentError(f"expected metrics by name, got the name {name!r}")
    return name


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"expected a number for the metric {name!r}, got {type(value).__name__}: {error}"
        ) from None
