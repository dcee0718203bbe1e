"""What `treaty check` finds: one finding a line, with the rule's name, the place, and how to write it right."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias, get_args

import attrs
from attrs import frozen

from treaty.schema.evolution.lock import Lock
from treaty.schema.evolution.resolution import LoadKind, SilentKind

Rule: TypeAlias = Literal["SILENT", "LOAD", "PROCESS", "DRIFT", "KEYMAP", "FRESH"]
ProcessKind: TypeAlias = Literal[
    "unlocked",
    "differs",
    "gone",
    "migration-unknown",
    "migration-gone",
    "migration-edited",
    "migration-added",
    "lock",
    "stray-lock",
    "rewritten",
]
DriftKind: TypeAlias = Literal["changed", "renamed"]
CheckpointKind: TypeAlias = Literal["checkpoint"]  # of --against
FreshKind: TypeAlias = Literal["missing", "stale", "orphan"]
KeyMapKind: TypeAlias = Literal["field"]
Kind: TypeAlias = SilentKind | LoadKind | CheckpointKind | ProcessKind | DriftKind | KeyMapKind | FreshKind

# What each rule is for, in the order of what they cost who misses one; docs/rules.md has a section for every kind.
RULES: Final[Mapping[Rule, tuple[str, ...]]] = {
    "SILENT": get_args(SilentKind),  # an earlier checkpoint is restored as something else
    "LOAD": (*get_args(LoadKind), *get_args(CheckpointKind)),  # an earlier checkpoint cannot be restored
    "PROCESS": get_args(ProcessKind),  # what is released is locked, and stays as it was
    "DRIFT": get_args(DriftKind),  # the declaration is the same, but a class of another package changed under it
    "KEYMAP": get_args(KeyMapKind),  # a key map leads to what its class does not have
    "FRESH": get_args(FreshKind),  # generated files are what the declarations and the lock make
}


@frozen
class Finding:
    """One thing that is not as it should be. `symbol` is the class, `field` the path in it; "" where it is about a file.

    `revisions` are those that it breaks, or that a migration begins at: what a waiver names. `diff` follows on lines of its own.
    """

    rule: Rule
    kind: Kind
    path: str
    message: str
    fix: str = ""
    line: int = 0
    symbol: str = ""
    field: str = ""
    revisions: tuple[int, ...] = ()
    diff: str = ""
    source: str = ""  # what has these revisions, if not the lock
    digest: str = ""  # of the migration that it is about

    @property
    def waived_as(self) -> str:
        """What a waiver of it keeps: another finding of the rule is not waived with it, nor the next edit of a migration."""
        return ": ".join(filter(None, (self.field, self.message, self.digest)))

    def is_of(self, rule: str, symbol: str, number: int) -> bool:
        """Whether it is one that `--waive RULE:CLASS:N` means."""
        return rule in (self.rule, self.name) and symbol == self.symbol and number in self.revisions

    @property
    def name(self) -> str:
        """`LOAD-removed`: what a waiver and the documentation call it."""
        return f"{self.rule}-{self.kind}"

    @property
    def cls(self) -> str:
        return self.symbol.partition(":")[2]

    @property
    def problem(self) -> str:
        of = f" of {self.source}" if self.source else ""
        breaks = (
            f" (breaks {counted(self.revisions)}{of})" if self.rule in ("SILENT", "LOAD") and self.revisions else ""
        )
        return f"{self.message}{breaks}; {self.fix}" if self.fix else f"{self.message}{breaks}"

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path

    @property
    def subject(self) -> str:
        dot = "." if self.field and not self.field.startswith("[") else ""
        return f"{self.cls}{dot}{self.field}"

    @property
    def text(self) -> str:
        """The line without its place and rule."""
        return f"{self.subject}: {self.problem}" if self.subject else self.problem

    def __str__(self) -> str:
        rule = "" if self.rule == "FRESH" else f"{self.name}: "
        return f"{self.where}: {rule}{self.text}\n{self.diff}".rstrip("\n")


def can_be_waived(name: str) -> bool:
    """Whether there is such a rule, with such a kind if it names one, of which revisions are told."""
    rule, _, kind = name.partition("-")
    kinds = {**RULES, "PROCESS": tuple(one for one in RULES["PROCESS"] if one.startswith("migration-"))}
    return any(rule == one and (not kind or kind in kinds[one]) for one in ("SILENT", "LOAD", "PROCESS"))


def counted(revisions: Iterable[int]) -> str:
    """`revision 1`, `revisions 1, 2`."""
    numbers = [str(number) for number in revisions]
    return f"revision{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def unwaived(findings: Iterable[Finding], locks: Mapping[str, Lock]) -> Iterator[Finding]:
    """Without those that a lock says are meant so, revision by revision."""
    waived = [one for lock in locks.values() for line in lock.lines.values() for one in line.waived]
    for finding in findings:
        meant = {
            one.number
            for one in waived
            if finding.is_of(one.rule, one.symbol, one.number)
            and (not one.findings or finding.waived_as in one.findings)
        }
        left = tuple(number for number in finding.revisions if number not in meant)
        if left or not finding.revisions:
            yield attrs.evolve(finding, revisions=left)
