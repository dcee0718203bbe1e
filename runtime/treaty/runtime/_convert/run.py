"""From a run that another library's manager saved to a directory of steps, with which CheckpointManager goes on.

Each step is converted as every checkpoint is: compared with its source, and then there at once. The newest comes first, so
that whoever takes over what a killed conversion left goes on from it; what is there already is not written again.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import define, field

from treaty.runtime._convert.convert import Mapped, OfRun, PathLike, convert
from treaty.runtime._convert.destination import check_apart, destination_at
from treaty.runtime._errors import (
    ConversionError,
    CorruptCheckpointError,
    IncompleteCheckpointError,
    InvalidArgumentError,
)
from treaty.runtime._manager.listing import as_data
from treaty.runtime._manager.local import LocalSteps
from treaty.runtime._process.uninterrupted import go_on, uninterrupted
from treaty.runtime._storage.directories import make_directory
from treaty.runtime._storage.paths import local_path
from treaty.runtime.formats.directory.manifest import step_of
from treaty.runtime.formats.directory.steps import LARGEST, StepName
from treaty.runtime.formats.shared.format import StoredRun, StoredStep
from treaty.runtime.formats.table import DEFAULT, FORMATS, looking

_FROM: Final = "from"  # in the note of a step: the format of the run that it was converted from
_DAMAGED: Final = (CorruptCheckpointError, IncompleteCheckpointError)


@define
class ConvertedRun:
    """What was done, and what was not."""

    source: str
    written: list[int] = field(factory=list)
    there: list[int] = field(factory=list)  # from an earlier conversion of the run
    nbytes: int = 0  # of the arrays of steps that were written
    left_out: dict[str, str] = field(factory=dict)  # what else the source has, and why it is left there


@uninterrupted
def convert_run(
    source: PathLike,
    destination: PathLike,
    *,
    items: Sequence[str] = (),
    cls: Any = None,
    mapped: Mapped | None = None,
    sizes: Mapping[str, int] | None = None,
    from_format: str | None = None,
    progress: bool | None = False,
) -> ConvertedRun:
    """Write every committed step of the run at `source` into the directory of steps at `destination`.

    Where a step has several trees `items` says which to take; of several that it names, each is a field. All else is as
    for `convert`. A damaged step is an error when all others are there.
    """
    name, run = looking(local_path(source), lambda format, path, _: (format.name, _run(format.name, path)), from_format)
    place = destination_at(destination)
    check_apart(destination_at(source), place)
    taken = {step.number: _taken(step, items) for step in run.steps}
    done, damaged = ConvertedRun(name, left_out={**run.left_out, **_left_out(run, taken)}), dict(run.damaged)
    with _writing_to(str(place)) as steps:
        notes = {one: _note(steps, one) for one in steps.names() if steps.is_committed(one)}
        _require_same_run(notes, run, name, steps)
        base: str | None = None
        for number, step in enumerate(run.steps, 1):
            go_on()
            note = notes.get(StepName(0, step.number))
            path = steps.path_of(StepName(0, step.number))
            if note is not None and note.get("time") == step.time and _is_whole(path):
                done.there.append(step.number)
            else:
                title = f"step {step.number} ({number} of {len(run.steps)})"
                of_run = OfRun(title, _noted(step, name), step.metadata, base, taken[step.number])
                try:
                    written = convert(
                        step.path,
                        path,
                        cls=cls,
                        mapped=mapped,
                        sizes=sizes,
                        from_format=name,
                        to_format=DEFAULT,
                        replace=note is not None,
                        progress=progress,
                        of_run=of_run,
                    )
                except _DAMAGED as error:
                    damaged[step.number] = str(error)
                    continue
                done.written.append(step.number)
                done.nbytes += written.nbytes
            base = path
    if damaged:
        told = [f"step {number} of {source} is damaged, and not converted: {why}" for number, why in damaged.items()]
        raise ConversionError(
            [
                *told,
                f"all others are there: {len(done.written) + len(done.there)} of {len(run.steps) + len(run.damaged)}",
            ]
        )
    return done


def _run(name: str, path: str) -> StoredRun:
    found = FORMATS[name].run
    if found is None:
        raise InvalidArgumentError(
            f"expected the directory of another library's manager, got a checkpoint of {name} at {path}; without --all-steps it is converted"
        )
    run = found(path)
    for step in run.steps:
        if step.number > LARGEST:
            raise InvalidArgumentError(f"expected steps up to {LARGEST}, got {step.number} at {step.path}")
    return run


@contextmanager
def _writing_to(place: str) -> Iterator[LocalSteps]:
    """The directory, whose one writer is this conversion."""
    steps = LocalSteps(place)
    steps.check_place()
    make_directory(Path(place))
    steps.take()
    try:
        yield steps
    finally:
        steps.give_back()


def _note(steps: LocalSteps, name: StepName) -> Mapping[str, Any] | None:
    content = steps.manifest(name)
    return None if content is None else step_of(content)


def _noted(step: StoredStep, name: str) -> dict[str, Any]:
    """As a manager notes its own steps, so that its rules keep them or not."""
    return {"step": step.number, "time": step.time, "metrics": as_data(step.metrics), _FROM: name}


def _require_same_run(
    notes: Mapping[StepName, Mapping[str, Any] | None], run: StoredRun, name: str, steps: LocalSteps
) -> None:
    """Nothing is there but what an earlier conversion of this run wrote: a step of another would come between."""
    ours = {StepName(0, step.number): step for step in run.steps}
    for one, note in notes.items():
        path = steps.path_of(one)
        if note is None:
            raise InvalidArgumentError(f"expected converted steps, got a damaged one at {path}; remove it")
        if note.get(_FROM) != name:
            raise InvalidArgumentError(
                f"expected a new directory, or one of converted steps, got step {one}, saved by other means, at {path}"
            )
        expected = _noted(ours[one], name) if one in ours else {}
        if {key for key, value in expected.items() if note.get(key) != value} - _uncertain(ours.get(one)):
            raise InvalidArgumentError(f"expected step {one} of this run, got that of another at {path}")


def _uncertain(step: StoredStep | None) -> set[str]:
    """What a run that was copied says otherwise: where Orbax did not note the time of a step, it is that of its folder.

    A step with another time may be of another run with the same metrics: it is written again.
    """
    return {"time"} if step is not None and os.stat(step.path).st_mtime == step.time else set()


def _is_whole(path: str) -> bool:
    """Its manifest committed it. That somebody has taken files away since is seen by their names and lengths."""
    look = FORMATS[DEFAULT].inspect
    assert look is not None
    try:
        looking(path, lambda _, place, known: look(place, known), DEFAULT)
    except _DAMAGED:
        return False
    return True


def _taken(step: StoredStep, items: Sequence[str]) -> tuple[str, ...]:
    """The trees to convert."""
    if not items and len(step.items) > 1:
        raise InvalidArgumentError(
            f"expected items to take, got none, of {', '.join(step.items)} in {step.path}: name one, or several, each of which is a field (--item)"
        )
    for one in items:
        if one not in step.items:
            known = ", ".join(step.items) or "no items"
            raise InvalidArgumentError(f"expected an item of {step.path} ({known}), got {one!r}")
    return tuple(items) or step.items


def _left_out(run: StoredRun, taken: Mapping[int, Sequence[str]]) -> dict[str, str]:
    trees = Counter(one for step in run.steps for one in step.items if one not in taken[step.number])
    others = Counter(one for step in run.steps for one in step.others)
    said = [(trees, "another item was asked for"), (others, "it is no tree")]
    return {f"{one} of {count} steps": why for counted, why in said for one, count in counted.items()}
