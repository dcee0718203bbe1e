"""A directory of steps, each a checkpoint of its own: how steps are named, and which of them are committed.

Nothing but the commit of a step, its manifest, makes it one. Steps are ordered by their names: first by how often
the run was rolled back before, then by number. So what was saved last is the newest, whatever clocks say.
"""

import os
import re
import stat
from typing import Final, NamedTuple

from treaty.runtime._errors import InvalidArgumentError, MissingCheckpointError, show_steps, storing
from treaty.runtime._storage.paths import path_or_url
from treaty.runtime.formats.directory.manifest import NAME
from treaty.runtime.formats.directory.places import place_of

HOME: Final = ".treaty"  # in a directory of steps, what is of all of them
NOTED: Final = f"{HOME}/steps/"  # of an object store: the names of steps that were begun
LARGEST: Final = 10**18 - 1

_NAME: Final = re.compile(r"(0|[1-9][0-9]{0,17})(?:-r([1-9][0-9]{0,8}))?", re.ASCII)


class StepName(NamedTuple):
    """`600`, or `600-r2` after the second rollback. The larger one is the newer one."""

    rollbacks: int
    step: int

    def __str__(self) -> str:
        return f"{self.step}-r{self.rollbacks}" if self.rollbacks else str(self.step)


def step_name(text: str) -> StepName | None:
    """A name as it is written; other spellings of a number are somebody else's."""
    found = _NAME.fullmatch(text)
    return None if found is None else StepName(int(found[2] or 0), int(found[1]))


def names_at(path: str) -> list[StepName]:
    """The names in a directory that are those of steps, the newest first; whether they are committed is another question."""
    if path_or_url(path)[1]:
        from treaty.runtime.formats.directory.remote import Remote

        texts = [key.removeprefix(NOTED) for key in Remote(path).keys(NOTED)]
    else:
        with storing("read", path):
            try:
                texts = os.listdir(path)
            except (FileNotFoundError, NotADirectoryError):
                return []
    return sorted((name for name in map(step_name, texts) if name is not None), reverse=True)


def path_of(path: str, name: StepName) -> str:
    return f"{path.rstrip('/')}/{name}" if path_or_url(path)[1] else os.path.join(path, str(name))


def is_committed(path: str, name: StepName) -> bool:
    """Whether there is a manifest, which is put in place whole. What is in it, its reader finds out."""
    place = path_of(path, name)
    return place_of(place).manifest() is not None if path_or_url(path)[1] else _is_file(os.path.join(place, NAME))


def newest_step(path: str) -> str | None:
    """The path of the newest committed step of a directory of steps."""
    found = next((name for name in names_at(path) if is_committed(path, name)), None)
    return None if found is None else path_of(path, found)


def step_path(path: str, step: int) -> str:
    """Where a committed step is; of several with its number, before and after a rollback, the newest."""
    names = names_at(path)
    found = next((name for name in names if name.step == step and is_committed(path, name)), None)
    if found is not None:
        return path_of(path, found)
    steps = {name.step for name in names if name.step != step and is_committed(path, name)}
    if not steps and place_of(path).manifest() is not None:
        raise InvalidArgumentError(f"expected a directory of steps, got one checkpoint at {path}")
    raise MissingCheckpointError(f"expected step {step}, got {show_steps(step, steps)} in {path}")


def _is_file(path: str) -> bool:
    """One of which the system does not tell, too: its reader says why. It must not seem that there never was one."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
