"""What lies in a directory of steps, for people and programs that have no manager of it."""

import os
from typing import NamedTuple

from treaty.runtime._errors import InvalidArgumentError, MissingCheckpointError
from treaty.runtime._manager.listing import Listing, StepNote, StepVerdict
from treaty.runtime._manager.open_steps import steps_at
from treaty.runtime._manager.retention import Rules, rules_of
from treaty.runtime._storage.paths import AnyPath
from treaty.runtime.formats.directory.steps import step_name


class Overview(NamedTuple):
    """The committed steps, and what the rules of the last manager say of each."""

    where: str
    rules: Rules
    steps: list[StepVerdict]


def noted(path: str) -> tuple[int, StepNote] | None:
    """What a manager noted of one step, by its path; None of what is no step of a manager."""
    parent, slash, last = path.rstrip("/").rpartition("/")
    name = step_name(last)
    note = None if name is None else Listing(steps_at(parent or slash or os.curdir)).note(name)
    return None if name is None or note is None or note.time is None else (name.step, note)


def overview(directory: AnyPath) -> Overview:
    steps = steps_at(directory)
    steps.check_place()
    said = steps.rules()
    rules = _last_rules(said)
    verdicts = [verdict for _, verdict in Listing(steps).verdicts(rules)]
    if not verdicts and said is None:
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
