"""`check`: what is wrong with the generated files and the locks of modules, the gravest first."""

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path

from treaty.generator._against import check_against
from treaty.generator._findings import Finding
from treaty.generator._gate import Gate
from treaty.generator._generate import orphans, outputs_of
from treaty.generator._locks import code_path, history_path, lock_path
from treaty.generator._modules import Module, read_modules
from treaty.generator._process import check_process, read_locks
from treaty.generator._project import Project
from treaty.schema._classes import relative
from treaty.schema.evolution.lock import Lock


def check(module: str, project: Project | None = None) -> list[Finding]:
    """What is wrong with the generated files and the lock of a module. Empty if nothing."""
    project = project or Project.find()
    return check_modules(read_modules([module], project), project)


def check_modules(modules: Iterable[Module], project: Project, against: Iterable[str] = ()) -> list[Finding]:
    """What breaks earlier checkpoints, what is not locked, and at last the files that are not as they should be.

    `against` are commits, locks and checkpoints, beside what the locks of the modules say.
    """
    modules = list(modules)
    locks, unreadable = read_locks(modules, project)
    gate = Gate(modules, locks)
    breaking = gate.findings()
    elsewhere = (finding for target in against for finding in check_against(target, gate, project))
    findings = [*unreadable, *breaking, *elsewhere, *check_process(gate, breaking, project)]
    outputs: dict[Path, str] = {}
    for module in modules:
        outputs |= dict.fromkeys((code_path(module, project), history_path(module, project)), module.name)
        if relative(lock_path(module, project)) not in {finding.path for finding in unreadable}:
            findings += _stale(module, project, locks.get(module.name))
    lost = [Finding("FRESH", "orphan", relative(path), problem) for path, problem in orphans(outputs, project)]
    return [*findings, *lost]


def _stale(module: Module, project: Project, lock: Lock | None) -> Iterator[Finding]:
    run = f"run: treaty generate {module.name}"
    for output in outputs_of(module, project, lock):
        if not output.path.exists():
            yield Finding("FRESH", "missing", relative(output.path), "missing", run)
        elif (found := output.path.read_text(encoding="utf-8", errors="replace")) != output.text:
            diff = difflib.unified_diff(
                found.splitlines(keepends=True), output.text.splitlines(keepends=True), "on disk", "generated"
            )
            yield Finding("FRESH", "stale", relative(output.path), "stale or edited", run, diff="".join(diff))
