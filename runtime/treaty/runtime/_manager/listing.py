"""What is known of each step: from its manifest, and from nothing else."""

import errno
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from attrs import frozen

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError
from treaty.runtime._manager.retention import NONE, Candidate, Rules, reasons
from treaty.runtime.formats.directory.manifest import parse_contents, step_of
from treaty.runtime.formats.directory.steps import StepName
from treaty.runtime.formats.shared.json_values import as_float

_TEXTS: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # which JSON has no words for
_DAMAGED: Final = "damaged, and left for you to look at"
_BY_HAND: Final = "not saved by a manager"


class Steps(Protocol):
    """Where steps lie: a directory of this machine, or a prefix of an object store."""

    where: str

    def check_place(self) -> None:
        """That this is, or may become, a directory of steps."""

    def take(self) -> None:
        """Become the one that writes, and remove what dead ones have left."""

    def check(self) -> None:
        """That this still is the one that writes."""

    def give_back(self) -> None: ...

    def begin(self, name: StepName) -> None:
        """Called before a step is written."""

    def names(self) -> list[StepName]:
        """Of all steps, the newest first, committed or not."""

    def path_of(self, name: StepName) -> str: ...
    def is_committed(self, name: StepName) -> bool: ...
    def manifest(self, name: StepName) -> bytes | None: ...

    def mark(self, name: StepName) -> object:
        """What a manifest is known by without reading it; None where it has to be read."""

    def protected(self, name: StepName) -> str: ...
    def pins(self) -> set[StepName]: ...
    def pin(self, name: StepName) -> None: ...
    def unpin(self, name: StepName) -> None: ...
    def write_rules(self, data: Any) -> None: ...
    def rules(self) -> Any: ...

    def remove(self, name: StepName) -> None:
        """What fails is on the log: the others shall go all the same, or the disk would be full some day."""

    def clean(self, is_written: Callable[[StepName], bool]) -> None:
        """Delete what killed saves and removals have left; not what is being written, which is asked step by step."""


@frozen
class StepNote:
    """What a manifest says of its step."""

    nbytes: int | None
    time: float | None  # when its save began, in seconds of the clock on the wall
    metrics: Mapping[str, float]
    protected: str = ""  # why it is not for a manager to delete, if it is not


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
    """Reads manifests once each: a manifest is replaced by another file, and never changed."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._known: dict[StepName, tuple[object, StepNote]] = {}

    def committed(self) -> Iterator[StepName]:
        """From the newest on. Looked at one by one, so that who wants the newest need not wait for all."""
        return (name for name in self._steps.names() if self._steps.is_committed(name))

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
            return StepNote(None, None, {}, _DAMAGED)  # of the disk itself; the others can do without it
        if content is None:
            self._known.pop(name, None)
            return None
        found = _read(content, self._steps.path_of(name))
        self._known[name] = mark, found
        return found

    def verdicts(self, rules: Rules) -> list[tuple[StepName, StepVerdict]]:
        """All committed steps, the oldest first."""
        notes = {name: note for name in list(self.committed()) if (note := self.note(name)) is not None}
        self._known = {name: known for name, known in list(self._known.items()) if name in notes}
        pins = self._steps.pins()
        whole = [
            Candidate(name, note.metrics, name in pins, note.protected or self._steps.protected(name))
            for name, note in notes.items()
            if note.protected != _DAMAGED  # it stands in nobody's way, and is nobody's newest
        ]
        why = {name: ", ".join(said) for name, said in reasons(whole, rules).items()}
        return [
            (name, _verdict(name, self._steps.path_of(name), note, why.get(name, _DAMAGED)))
            for name, note in sorted(notes.items())
        ]


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
        return StepNote(None, None, {}, _DAMAGED)
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
