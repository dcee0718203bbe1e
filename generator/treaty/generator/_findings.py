"""What `treaty check` finds: one finding a line, with the rule's name, the place, and how to write it right."""

from attrs import frozen

FRESH = "FRESH"  # generated files are what the declarations and the lock make
PROCESS = "PROCESS"  # what was released is locked, and stays as it was


@frozen
class Finding:
    """One thing that is not as it should be. `cls` and `field` are names in the module; `field` is "" for a whole class.

    `revision` is the one that breaks, and what a waiver names. `diff` follows on lines of its own.
    """

    rule: str
    path: str
    message: str
    fix: str = ""
    line: int = 0
    cls: str = ""
    field: str = ""
    revision: int | None = None
    diff: str = ""

    @property
    def problem(self) -> str:
        return f"{self.message}; {self.fix}" if self.fix else self.message

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path

    @property
    def subject(self) -> str:
        return ".".join(filter(None, (self.cls, self.field)))

    def __str__(self) -> str:
        rule = "" if self.rule == FRESH else f"{self.rule}: "
        subject = f"{self.subject}: " if self.subject else ""
        return f"{self.where}: {rule}{subject}{self.problem}\n{self.diff}".rstrip("\n")
