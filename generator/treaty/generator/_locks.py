"""Where the lock of a module lies, and what is read from there."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from treaty.generator._modules import Module
from treaty.generator._project import Project
from treaty.schema import TreatyError
from treaty.schema._classes import relative
from treaty.schema.evolution.lock import Lock
from treaty.schema.evolution.lock_json import is_lock


def code_path(module: Module, project: Project) -> Path:
    return project.output_root(module.name, module.file) / module.output


def lock_path(module: Module, project: Project) -> Path:
    return code_path(module, project).with_suffix(".lock")


def history_path(module: Module, project: Project) -> Path:
    return history_of(code_path(module, project))


def history_of(code: Path) -> Path:
    return code.with_name(f"{code.stem}_history.py")


def read_lock(path: Path) -> Lock | None:
    """The lock of a file; None where there is none."""
    if not path.exists():
        return None
    return Lock.parse(path.read_text(encoding="utf-8", errors="replace"), relative(path))


def lock_of(module: Module, project: Project) -> Lock | None:
    """The lock of a module. One that is lost is an error: without it, generated code would forget every revision."""
    found = read_lock(lock_path(module, project))
    if found is None and (lost := lost_lock(module, project)):
        raise TreatyError(lost)
    return found


def lost_lock(module: Module, project: Project) -> str:
    """What to say where a history was generated from a lock that is not there; "" where nothing is wrong."""
    lock, history = lock_path(module, project), history_path(module, project)
    if lock.exists() or not history.exists():
        return ""
    name = relative(lock)
    return (
        f"{name}: expected the lock that {relative(history)} was generated from, got no such file; "
        f"restore it (git checkout -- {name}), or delete the history as well to forget every revision"
    )


def stray_locks(modules: Iterable[Module], project: Project) -> Iterator[tuple[Path, Lock]]:
    """Locks that lie beside those of the modules and belong to none that is there: their module was renamed or removed."""
    own = {lock_path(module, project): module.name for module in modules}
    for path in sorted(path for folder in {path.parent for path in own} for path in folder.glob("*.lock")):
        if path not in own and is_lock(path.read_text(encoding="utf-8", errors="replace")):
            lock = read_lock(path)
            if lock is not None and (lock.module in own.values() or not project.has(lock.module, path)):
                yield path, lock
