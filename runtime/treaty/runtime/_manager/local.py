"""A directory of steps in a file system."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from treaty.runtime._checkpoint.remove import delete_aside, name_before, set_aside
from treaty.runtime._errors import InvalidArgumentError, MissingCheckpointError, storing
from treaty.runtime._manager.lock import DirectoryLock
from treaty.runtime._manager.steps import Steps
from treaty.runtime._process.watching import log
from treaty.runtime._storage.directories import make_directory, sync_directory
from treaty.runtime._storage.files import write_pieces
from treaty.runtime._storage.overtaken import mark
from treaty.runtime._storage.paths import exists
from treaty.runtime._storage.workspace import locked_directory
from treaty.runtime.formats.directory.manifest import DATA, NAME
from treaty.runtime.formats.directory.places import is_abandoned, place_of
from treaty.runtime.formats.directory.steps import HOME, StepName, is_committed, step_name
from treaty.runtime.formats.table import FORMATS
from treaty.schema import TreatyError

_PINS: Final = "pins"
_RULES: Final = "rules.json"


class LocalSteps(Steps):
    """What a manager does with a local directory."""

    def __init__(self, path: str) -> None:
        super().__init__(
            path.rstrip("/") or path, os.path.realpath(path)
        )  # once and for all: a link may be turned meanwhile

    def check_place(self) -> None:
        if os.path.isfile(os.path.join(self.path, NAME)):
            raise InvalidArgumentError(f"expected a directory of steps, got one checkpoint at {self.where}")
        is_new = not os.path.isdir(os.path.join(self.path, HOME))
        if is_new and os.path.isdir(self.path) and FORMATS["orbax"].is_at(self.path):
            raise InvalidArgumentError(
                f"expected a directory of steps, got one of Orbax at {self.where}; convert it, and take that: treaty convert {self.where} NEW --all-steps"
            )

    def _locked(self) -> DirectoryLock:
        return DirectoryLock(Path(self.path), self.where)

    def is_committed(self, name: StepName) -> bool:
        return is_committed(self.path, name)

    def manifest(self, name: StepName) -> bytes | None:
        return place_of(self.path_of(name)).manifest()

    def mark(self, name: StepName) -> object:
        place = os.path.join(self.path_of(name), NAME)
        with storing("read", place):
            return mark(place)

    def protected(self, name: StepName) -> str:
        return "a link" if os.path.islink(self.path_of(name)) else ""

    def pins(self) -> set[StepName]:
        with storing("read", self.where), suppress(FileNotFoundError):
            return {name for name in map(step_name, os.listdir(self._pin())) if name is not None}
        return set()

    def pin(self, name: StepName) -> None:
        """While its lock is held, nobody takes it away."""
        with storing("write", self.where), locked_directory(Path(self.path_of(name))):
            if not self.is_committed(name):
                raise MissingCheckpointError(f"expected step {name} to be there, got none in {self.where}")
            make_directory(Path(self._pin()))
            with open(self._pin(name), "ab"):
                pass
            sync_directory(Path(self._pin()))

    def unpin(self, name: StepName) -> None:
        with storing("write", self.where), suppress(FileNotFoundError):
            os.unlink(self._pin(name))

    def write_rules(self, data: Any) -> None:
        path = Path(self.path, HOME, _RULES)
        content = json.dumps(data).encode()
        with suppress(OSError):
            if path.read_bytes() == content:
                return
        write_pieces(path, [content])

    def rules(self) -> Any:
        with storing("read", self.where), suppress(FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
            return json.loads(Path(self.path, HOME, _RULES).read_bytes())
        return None

    def remove(self, name: StepName) -> None:
        """Take the name of a step, and then delete it; unless it was pinned meanwhile."""
        place = Path(self.path_of(name))
        try:
            with storing("remove", str(place)):
                aside = set_aside(place, str(place), lambda: not exists(self._pin(name)))
                if aside is not None:
                    delete_aside(aside)
                    log.info("step %s of %s is deleted", name, self.where)
                    self.unpin(name)
        except TreatyError as error:
            log.warning("step %s of %s is not deleted: %s", name, self.where, error)

    def clean(self, is_written: Callable[[StepName], bool]) -> None:
        """Delete what killed saves and removals have left; not what is being written."""
        for name in list(self._remains(is_written)):
            place = Path(self.path, name)
            try:
                with storing("remove", str(place)):
                    _clear(place)
            except FileNotFoundError:
                continue  # it is gone, which was wanted
            except TreatyError as error:  # somebody saves there, it holds what is not ours, or the disk does not do it
                log.warning("%s is left as it is: %s", place, error)

    def _remains(self, is_written: Callable[[StepName], bool]) -> Iterator[str]:
        with storing("read", self.where), os.scandir(self.path) as entries:
            for entry in entries:
                before, name = name_before(entry.name), step_name(entry.name)
                if not entry.is_dir(follow_symlinks=False):
                    continue
                is_aside = before is not None and step_name(before) is not None
                if is_aside or (name is not None and not is_written(name) and self._is_left(name)):
                    yield entry.name

    def _is_left(self, name: StepName) -> bool:
        return not self.is_committed(name) and is_abandoned(Path(self.path_of(name)))

    def _pin(self, name: StepName | None = None) -> str:
        return os.path.join(self.path, HOME, _PINS, *(() if name is None else (str(name),)))


def _clear(place: Path) -> None:
    """Delete what a removal or a save has left, if it still is nobody's."""
    if name_before(place.name) is not None:
        delete_aside(place)
    elif any(map(DATA.match, os.listdir(place))):
        aside = set_aside(place, str(place), lambda: is_abandoned(place))
        if aside is not None:
            delete_aside(aside)
    else:
        with locked_directory(place):
            if is_abandoned(place):
                for name in os.listdir(place):
                    (place / name).unlink()
                place.rmdir()
