"""What lies in a directory of steps, for people and programs that have no manager of it."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from treaty.runtime._errors import InvalidArgumentError, MissingCheckpointError
from treaty.runtime._manager.listing import Listing, StepVerdict
from treaty.runtime._manager.places import steps_at
from treaty.runtime._manager.retention import Rules, rules_of
from treaty.runtime._storage.paths import AnyPath
from treaty.runtime.formats.directory.steps import step_name


class Overview(NamedTuple):
    """The committed steps, and what the rules of the last manager say of each."""

    where: str
    rules: Rules
    steps: list[StepVerdict]


class Noted(NamedTuple):
    """What a manager noted of a step."""

    step: int
    time: float | None
    metrics: Mapping[str, float]


def noted(path: str) -> Noted | None:
    """Of one step, by its path; None of what is no step of a manager."""
    parent, _, last = path.rstrip("/").rpartition("/")
    name = step_name(last)
    if name is None:
        return None
    note = Listing(steps_at(parent or os.curdir)).note(name)
    return None if note is None or note.time is None else Noted(name.step, note.time, note.metrics)


def overview(directory: AnyPath) -> Overview:
    steps = steps_at(directory)
    steps.check_place()
    rules = _last_rules(steps.rules())
    verdicts = [verdict for _, verdict in Listing(steps).verdicts(rules)]
    if not verdicts and steps.rules() is None:
        raise MissingCheckpointError(f"expected a directory of steps, got none at {steps.where}")
    return Overview(steps.where, rules, verdicts)


def _last_rules(said: object) -> Rules:
    """Those of a later version of Treaty, which this one does not understand, are none."""
    if not isinstance(said, dict):
        return Rules()
    try:
        return rules_of(said.get("keep_last"), said.get("keep_every"), said.get("keep_best"))
    except InvalidArgumentError:
        return Rules()
