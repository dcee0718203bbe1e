"""`treaty check --against`: what was released elsewhere, in another commit, another lock or a checkpoint, is not lost here."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from treaty.generator._findings import Finding
from treaty.generator._gate import Gate
from treaty.generator._locks import lock_path
from treaty.generator._plans import Plans, plans
from treaty.generator._project import Project
from treaty.schema import TreatyError
from treaty.schema._classes import relative
from treaty.schema.evolution.gate import breaches_of
from treaty.schema.evolution.lock import Line, Lock, Orphaned, Revised
from treaty.schema.evolution.lock_json import is_lock

_SHOWN = 10  # problems of one checkpoint


def check_against(target: str, gate: Gate, project: Project, *, is_fresh: bool = True) -> list[Finding]:
    """What is there as a path is a lock, if its name ends so, or a checkpoint; all else is a commit of git.

    Restoring takes generated code that `is_fresh`.
    """
    if "://" in target or os.path.lexists(target):
        if target.endswith(".lock") and os.path.isfile(target):
            lock = Lock.parse(Path(target).read_text(encoding="utf-8", errors="replace"), target)
            return list(_Comparison(gate, project, target).lock(lock, must_be_ours=True))
        if not is_fresh:
            return [Finding("FRESH", "stale", target, "not compared: that takes fresh code", "run: treaty generate")]
        return list(_checkpoint(target, gate, project))
    comparison = _Comparison(gate, project, target)
    return [finding for lock in locks_at(target, project) for finding in comparison.lock(lock)]


def locks_at(ref: str, project: Project) -> Iterator[Lock]:
    """The locks of a project as a commit of git has them. Nothing is checked out."""
    commit = _git(project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if commit is None:
        raise TreatyError(
            f"--against {ref}: expected a lock or a checkpoint that is there, or a commit that git knows in "
            f"{relative(project.root)}, got neither; a branch of a server must be fetched first"
        )
    # Names are relative to the project, which need not be at the top of its repository.
    names = _git(project, "ls-tree", "-r", "-z", "--name-only", commit.strip()) or ""
    for name in names.split("\0"):
        if name.endswith(".lock"):
            text = _git(project, "show", f"{commit.strip()}:./{name}") or ""
            if is_lock(text) or text.startswith("<<<<<<<"):
                yield Lock.parse(text, f"{ref}:{name}")


@frozen
class _Comparison:
    """What a lock of another time or place has, beside what is here. `source` is what the user calls it."""

    gate: Gate
    project: Project
    source: str

    def lock(self, then: Lock, *, must_be_ours: bool = False) -> Iterator[Finding]:
        files = {module.name: relative(lock_path(module, self.project)) for module in self.gate.modules}
        is_checked = then.module in files or any(self._lines(symbol) for symbol in then.lines)
        # A module that is there and was not named is not asked about; one that is gone is missed.
        if not is_checked and (must_be_ours or self.project.has(then.module, self.project.root)):
            if must_be_ours:
                raise TreatyError(
                    f"--against {self.source}: expected a lock of {', '.join(files)}, got {then.module}'s"
                )
            return
        yield from self._unresolved(then)
        for symbol, line in then.lines.items():
            found = self._now(symbol, line)
            if found is None and self._is_gone(symbol):
                continue
            file = files.get(symbol.partition(":")[0] if found is None else found.symbol.partition(":")[0])
            yield from self._history(file or next(iter(files.values())), symbol, line, found)

    def _history(self, file: str, symbol: str, then: Line, now: Line | None) -> Iterator[Finding]:
        """Every revision is still there, as it was; the first that is not is told."""
        fix = f"history is only added to: bring the branch up to date with {self.source}, or restore the file from there, then run treaty lock"
        if now is None:
            message = f"{symbol} is locked in {self.source}, and not here"
            yield Finding("PROCESS", "rewritten", file, message, fix)
            return
        for number in range(1, then.last + 1):
            if number > now.last:
                message = f"revision {number} of {self.source} is not here"
            elif not _is_same(then[number], now[number], is_moved=_home(symbol) != _home(now.symbol)):
                message = f"revision {number} is not the one of {self.source}"
            else:
                continue
            yield Finding("PROCESS", "rewritten", file, message, fix, symbol=now.symbol)
            return

    def _unresolved(self, then: Lock) -> Iterator[Finding]:
        """What the gate does not see, since the lock here does not have it: each such revision, resolved."""
        writers = []
        for symbol, line in then.lines.items():
            now = self._now(symbol, line) or Line(symbol)
            known = {entry.digest for _, entry in now.revisions}
            for place, entry in line.revisions:
                is_given_up = {entry.number} & {*line.orphaned, *now.orphaned}
                if now.symbol in self.gate.declared and entry.digest not in known and not is_given_up:
                    writers.append((now.symbol, entry.number, then.schema(place, entry)))
        for breach in breaches_of(self.gate.declared, writers, self.gate.history):
            yield self.gate.finding(breach, self.source)

    def _now(self, symbol: str, then: Line) -> Line | None:
        """The class here: by its name or one that it had, and of two that swapped theirs the one with the same beginning."""
        found = self._lines(symbol)
        alike = [line for line in found if _is_same(then[1], line[1], is_moved=True)]
        return next(iter([*alike, *found]), None)

    def _lines(self, symbol: str) -> list[Line]:
        lines = [line for lock in self.gate.locks.values() for line in lock.lines.values()]
        return [line for line in lines if symbol in (line.symbol, *line.former)]

    def _is_gone(self, symbol: str) -> bool:
        entries = (entry for lock in self.gate.locks.values() for entry in lock.log)
        return any(isinstance(one, Orphaned) and one.number is None and one.symbol == symbol for one in entries)


def _is_same(then: Revised, now: Revised, *, is_moved: bool) -> bool:
    """What a class brought to the lock of another module says the same, but is chained to other entries."""
    return (then.digest, then.migration) == (now.digest, now.migration) and (is_moved or then.chain == now.chain)


def _home(symbol: str) -> str:
    return symbol.partition(":")[0]


def _checkpoint(target: str, gate: Gate, project: Project) -> Iterator[Finding]:
    """What a restore of the checkpoint would say, as the class that it was written by, or as any that it fits."""
    generic = {symbol for symbol, schema in gate.declared.items() if schema.root_class.args}
    former = {name: line.symbol for lock in gate.locks.values() for line in lock.lines.values() for name in line.former}
    found = plans(target, [symbol for symbol in gate.declared if symbol not in generic], former, project)
    if found.cls and found.cls not in found.problems:
        raise TreatyError(
            f"--against {target}: expected a checkpoint of a class of {', '.join(one.name for one in gate.modules)}, got {found.cls}; "
            f"if that is one with type arguments, ask: treaty plan {target} PKG.MODULE:NAME"
        )
    if found.problems and all(found.problems.values()):
        yield from _misfits(target, gate, found)


def _misfits(target: str, gate: Gate, found: Plans) -> Iterator[Finding]:
    symbol = found.cls or min(found.problems, key=lambda one: len(found.problems[one]))
    nearest = "" if found.cls else ", which fits no class, as the one that it is nearest to"
    module = next(one for one in gate.modules if symbol in one.declared)
    problems = found.problems[symbol]
    where = relative(module.file), module.line(symbol)
    for problem in problems[:_SHOWN]:
        message = f"{target}{nearest}: {problem}"
        yield Finding("LOAD", "checkpoint", where[0], message, line=where[1], symbol=symbol)
    if len(problems) > _SHOWN:
        message = f"{target}: {len(problems) - _SHOWN} problems more"
        fix = f"for all, run: treaty plan {target} {symbol}"
        yield Finding("LOAD", "checkpoint", where[0], message, fix, where[1], symbol)


def _git(project: Project, *arguments: str) -> str | None:
    """What git prints, run in the project; None where it fails or is not installed."""
    command: Sequence[str] = ["git", *arguments]
    try:
        done = subprocess.run(command, cwd=project.root, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
