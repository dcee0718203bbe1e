"""The PROCESS rules of `treaty check`: what is released is locked, and what is locked stays as it was."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import attrs

from treaty.generator._drift import Drift, can_have_drifted, drifts, told_below
from treaty.generator._findings import Finding, ProcessKind, unwaived
from treaty.generator._gate import Gate
from treaty.generator._locks import lock_path, lost_lock, read_lock, stray_locks
from treaty.generator._modules import Module, is_own
from treaty.generator._project import Project
from treaty.generator._revisions import Next, next_revisions
from treaty.generator._whereabouts import whereabouts
from treaty.schema import NewerFormatError, SchemaError, ir
from treaty.schema._classes import relative
from treaty.schema.evolution.lock import Line, Lock
from treaty.schema.evolution.migrations import Step
from treaty.schema.evolution.resolution import show


def check_process(gate: Gate, breaking: Iterable[Finding], project: Project) -> list[Finding]:
    """The findings of modules with a lock. `breaking` are those of the gate, which a DRIFT is told with."""
    asked = next_revisions(gate.modules, gate.locks)
    drifted = _drifted(gate, asked, project)
    broken = {finding.symbol for finding in breaking}
    findings: list[Finding] = []
    for module in gate.modules:
        if module.name in gate.locks:
            for symbol, found in drifted.items():
                if symbol in module.declared and not told_below(symbol, drifted):
                    findings += (_drift(gate, module, symbol, one, symbol in broken) for one in found)
            rest = {symbol: one for symbol, one in asked.items() if symbol not in drifted}
            findings += _declarations(module, gate.locks[module.name], rest)
    findings += unwaived(check_migrations(gate.modules, gate.locks), gate.locks)
    return [*findings, *_strays(list(gate.modules), project)]


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


def check_migrations(modules: Iterable[Module], locks: Mapping[str, Lock]) -> Iterator[Finding]:
    """Released migrations stay as they were, as long as a revision needs them, and one begins at a revision that there is."""
    needed: dict[str, set[int]] = {}
    for lock in locks.values():
        for symbol, number in lock.needed:
            needed.setdefault(symbol, set()).add(number)
    for module in modules:
        for symbol in module.declared if module.name in locks else ():
            line = locks[module.name].lines.get(symbol, Line(symbol))
            steps = module.steps.get(symbol, {})
            for number in sorted({*steps, *range(1, line.last)}):
                is_needed = min(needed.get(symbol, ()), default=number + 1) <= number
                found = _migration(line, number, steps) if is_needed or number >= line.last else None
                if found is not None:
                    digest = steps[number].digest if number in steps else ""
                    yield attrs.evolve(_of_class(module, symbol, *found, number), digest=digest)


def _migration(line: Line, number: int, steps: Mapping[int, Step]) -> tuple[ProcessKind, str, str] | None:
    """What is wrong with the step that begins at a revision, and what to do."""
    name = line.symbol.partition(":")[2]
    step = steps.get(number)
    if number > line.last:
        known = f"the last is {line.last}" if line.last else "none is locked"
        fix = f"write migration({name}, {line.last})" if line.last else "run treaty lock first"
        return "migration-unknown", f"a migration begins at revision {number}, which never was: {known}", fix
    if number == line.last:
        return None
    released = line[number + 1].migration
    if released is not None and step is None:
        return (
            "migration-gone",
            f"the migration from revision {number} is gone, which revision {number + 1} was locked with",
            "restore it: checkpoints of that time need it; or give up every revision that does, with --orphan",
        )
    if released is not None and step is not None and released.digest != step.digest:
        return (
            "migration-edited",
            f"the migration from revision {number} was edited after revision {number + 1} was locked with it",
            f"undo that and write migration({name}, {line.last}) for what is new, or if it does the same as before: "
            f"treaty lock --waive PROCESS-migration-edited:{name}:{number} --why '...'",
        )
    if released is None and step is not None and number not in line.orphaned:
        return (
            "migration-added",
            f"a migration from revision {number} was added after revision {number + 1} was locked without one",
            f"write migration({name}, {line.last}) for what is new, or "
            f"say that it is meant: treaty lock --waive PROCESS-migration-added:{name}:{number} --why '...'",
        )
    return None


def _declarations(module: Module, lock: Lock, asked: Mapping[str, Next]) -> Iterator[Finding]:
    """Every class is locked as it is declared, and every class that is locked is declared."""
    run = f"run: treaty lock {module.name} -m '...'"
    for symbol in module.declared:
        if symbol in asked:
            kind: ProcessKind = "unlocked" if asked[symbol].number == 1 else "differs"
            yield _of_class(module, symbol, kind, _difference(asked[symbol]), run)
    for symbol in lock.lines:
        if symbol not in module.declared:
            what = f"{run}, which asks what became of it"
            yield _of_class(module, symbol, "gone", "is locked, and not declared any more", what)


def _difference(asked: Next) -> str:
    if asked.number == 1:
        return "is not locked yet"
    return f"its declaration differs from revision {asked.number - 1} ({'; '.join(asked.changes)})"


def _strays(modules: list[Module], project: Project) -> Iterator[Finding]:
    for path, lock in stray_locks(modules, project):
        yield Finding(
            "PROCESS",
            "stray-lock",
            relative(path),
            f"the lock of {lock.module}, which is not there any more",
            f"if it was renamed, run: treaty lock --moved {lock.module}={modules[0].name}; if it is gone, delete the lock",
        )


def _drifted(gate: Gate, asked: Mapping[str, Next], project: Project) -> dict[str, list[Drift]]:
    """What other packages changed, by the classes of ours that need a new revision for nothing else."""
    named = {module.name for module in gate.modules}

    @cache
    def is_ours(module: str) -> bool:
        return module in named or module.startswith(ir.VARIABLE) or is_own(module, project)

    where: Callable[[str], str] = cache(lambda symbol: whereabouts([symbol], project)[symbol])
    found: dict[str, list[Drift]] = {}
    for symbol, one in asked.items():
        history = gate.history(symbol)
        if can_have_drifted(one) and history is not None:
            found[symbol] = drifts(history[history.last].schema, one.schema, is_ours, where)
    return {symbol: one for symbol, one in found.items() if one}


def _drift(gate: Gate, module: Module, symbol: str, drift: Drift, is_broken: bool) -> Finding:
    run = f"treaty lock {module.name} -m '...'"
    if drift.kind == "renamed":
        same = f"treaty lock {module.name} --moved {drift.was}={drift.now}"
        fix = f"if it is the same under another name, run: {same}; if not, write a migration, then run: {run}"
    elif is_broken:
        fix = f"earlier checkpoints need help, as the SILENT and LOAD findings say, or the package as it was; then run: {run}"
    else:
        fix = f"earlier checkpoints resolve; run: {run}"
    line = module.line(symbol, gate.attribute(symbol, drift.path))
    field = show(drift.path).removeprefix("$").removeprefix(".")
    return Finding("DRIFT", drift.kind, relative(module.file), drift.message, fix, line, symbol, field)


def _of_class(
    module: Module, symbol: str, kind: ProcessKind, message: str, fix: str, revision: int | None = None
) -> Finding:
    revisions = () if revision is None else (revision,)
    line = module.line(symbol)
    return Finding("PROCESS", kind, relative(module.file), message, fix, line, symbol, revisions=revisions)


def _of_file(path: Path, message: str) -> Finding:
    name = relative(path)
    return Finding("PROCESS", "lock", name, message.removeprefix(f"{name}: "))
