"""`check`: what is wrong with the generated files and the locks of modules, the gravest first."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Set
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
    process = check_process(gate, breaking, project)
    files = list(_files(modules, locks, {finding.path for finding in unreadable}, project))
    is_fresh = not files and not unreadable
    elsewhere = [one for target in against for one in check_against(target, gate, project, is_fresh=is_fresh)]
    return [*unreadable, *breaking, *elsewhere, *process, *_maps(modules), *files]


def _maps(modules: Iterable[Module]) -> Iterator[Finding]:
    """Key maps that say of which class they are, and lead to other fields than it has."""
    for module in modules:
        for name, problems in module.keymaps.items():
            for problem in problems:
                yield Finding(
                    "KEYMAP", "field", relative(Path(module.file)), f"{name}: {problem}", line=module.line(f":{name}")
                )


def _files(
    modules: Iterable[Module], locks: Mapping[str, Lock], unreadable: Set[str], project: Project
) -> Iterator[Finding]:
    """Generated files that are not what declarations and locks make, as far as these can be read."""
    outputs: dict[Path, str] = {}
    for module in modules:
        outputs |= dict.fromkeys((code_path(module, project), history_path(module, project)), module.name)
        if relative(lock_path(module, project)) not in unreadable:
            yield from _stale(module, project, locks.get(module.name))
    for path, problem in orphans(outputs, project):
        yield Finding("FRESH", "orphan", relative(path), problem)


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
