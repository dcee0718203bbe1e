"""The PROCESS rules of `treaty check`: what is released is locked, and what is locked stays as it was."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from treaty.generator._findings import PROCESS, Finding
from treaty.generator._locks import lock_path, lost_lock, read_lock, stray_locks
from treaty.generator._modules import Module
from treaty.generator._project import Project
from treaty.generator._revisions import Next, next_revisions
from treaty.schema import NewerFormatError, SchemaError
from treaty.schema._classes import relative
from treaty.schema.evolution.lock import Line, Lock


def check_process(modules: Iterable[Module], project: Project) -> list[Finding]:
    """All findings; those of a lock that cannot be read, or of a module that is gone, name no class."""
    modules = list(modules)
    locks, findings = read_locks(modules, project)
    asked = next_revisions(modules, locks)
    for module in modules:
        if module.name in locks:
            found = [*_declarations(module, locks[module.name], asked), *check_migrations(module, locks[module.name])]
            findings += unwaived(found, module, locks[module.name])
    return [*findings, *_strays(modules, project)]


def read_locks(modules: Iterable[Module], project: Project) -> tuple[dict[str, Lock], list[Finding]]:
    """The locks by module, and what is wrong with those that are lost or cannot be read."""
    locks: dict[str, Lock] = {}
    findings: list[Finding] = []
    for module in modules:
        path = lock_path(module, project)
        try:
            lock = read_lock(path)
        except NewerFormatError:
            raise  # nothing is wrong with it
        except SchemaError as error:
            findings.append(_of_file(path, str(error)))
            continue
        if lock is not None:
            locks[module.name] = lock
        elif lost := lost_lock(module, project):
            findings.append(_of_file(path, lost))
    return locks, findings


def check_migrations(module: Module, lock: Lock) -> Iterator[Finding]:
    """Released migrations stay as they were, and one begins at a revision that there is."""
    for symbol in module.declared:
        line = lock.lines.get(symbol, Line(symbol))
        steps = module.steps.get(symbol, {})
        for number in sorted({*steps, *range(1, line.last)}):
            message, fix = _migration(line, number, steps)
            if message:
                yield _of_class(module, symbol, message, fix, number)


def _migration(line: Line, number: int, steps: Mapping[int, object]) -> tuple[str, str]:
    """What is wrong with the step that begins at a revision, and what to do; ("", "") if nothing."""
    name = line.symbol.partition(":")[2]
    step = steps.get(number)
    waive = f"if it does the same as before: treaty lock --waive PROCESS:{name}:{number} --why '...'"
    if number > line.last:
        known = f"the last is {line.last}" if line.last else "none is locked"
        fix = f"write migration({name}, {line.last})" if line.last else "run treaty lock first"
        return f"a migration begins at revision {number}, which never was: {known}", fix
    released = line[number + 1].migration if number < line.last else None
    if released is not None and step is None:
        return (
            f"the migration from revision {number} is gone, which revision {number + 1} was locked with",
            "restore it: checkpoints of that time need it",
        )
    if released is not None and released.digest != getattr(step, "digest", ""):
        return (
            f"the migration from revision {number} was edited after revision {number + 1} was locked with it",
            f"undo that and write migration({name}, {line.last}) for what is new, or {waive}",
        )
    if released is None and step is not None and number < line.last and number not in line.orphaned:
        return (
            f"a migration from revision {number} was added after revision {number + 1} was locked without one",
            f"write migration({name}, {line.last}) for what is new, or "
            f"say that it is meant: treaty lock --waive PROCESS:{name}:{number} --why '...'",
        )
    return "", ""


def unwaived(findings: Iterable[Finding], module: Module, lock: Lock) -> list[Finding]:
    """Without those that the lock says are meant so."""
    waived = {(one.rule, symbol, one.number) for symbol, line in lock.lines.items() for one in line.waived}
    return [one for one in findings if (one.rule, f"{module.name}:{one.cls}", one.revision) not in waived]


def _declarations(module: Module, lock: Lock, asked: Mapping[str, Next]) -> Iterator[Finding]:
    """Every class is locked as it is declared, and every class that is locked is declared."""
    run = f"run: treaty lock {module.name} -m '...'"
    for symbol in module.declared:
        if symbol in asked:
            yield _of_class(module, symbol, _difference(asked[symbol]), run)
    for symbol in lock.lines:
        if symbol not in module.declared:
            yield _of_class(
                module, symbol, "is locked, and not declared any more", f"{run}, which asks what became of it"
            )


def _difference(asked: Next) -> str:
    if asked.number == 1:
        return "is not locked yet"
    return f"its declaration differs from revision {asked.number - 1} ({'; '.join(asked.changes)})"


def _strays(modules: list[Module], project: Project) -> Iterator[Finding]:
    for path, lock in stray_locks(modules, project):
        yield Finding(
            PROCESS,
            relative(path),
            f"the lock of {lock.module}, which is not there any more",
            f"if it was renamed, run: treaty lock --moved {lock.module}={modules[0].name}; if it is gone, delete the lock",
        )


def _of_class(module: Module, symbol: str, message: str, fix: str, revision: int | None = None) -> Finding:
    name = symbol.partition(":")[2]
    return Finding(PROCESS, relative(module.file), message, fix, module.lines.get(name, 0), name, revision=revision)


def _of_file(path: Path, message: str) -> Finding:
    name = relative(path)
    return Finding(PROCESS, name, message.removeprefix(f"{name}: "))
