"""The examples of docs/rules.md: what was released, a change that breaks it with the line that `treaty check` prints, and the change written right.

A block of `py`, which no other test runs, has sections that begin with a comment: `# revision 1`, `# revision 2`, … are released in turn, `# bad` and `# good`
are declared after them. Another `# revision 1` begins anew. The block of text after it is what the gate says of `# bad`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs
from attrs import frozen

from tests.evolution.project import Project
from treaty.generator._findings import RULES, Finding
from treaty.generator._gate import Gate
from treaty.generator._process import check_migrations
from treaty.schema.evolution.lock import Lock

PAGE: Final = Path(__file__).parent.parent.parent / "docs" / "rules.md"
_EXAMPLE: Final = re.compile(
    r"^### `([A-Z]+-[a-z-]+)`\n\n```py\n(.*?)^```\n\n```text\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL
)
_SECTION: Final = re.compile(r"^# (revision \d+|bad|good)\n", flags=re.MULTILINE)
# What is no matter of two declarations: a restore or `--against` finds it, and their tests show it.
NOT_OF_DECLARATIONS: Final = {"LOAD-revision", "LOAD-newer", "LOAD-checkpoint"}


@frozen
class Example:
    name: str
    sections: tuple[tuple[str, str], ...]
    expected: str

    def run(self) -> tuple[str, list[Finding]]:
        """What the gate says of the bad declaration, as the page writes it, and of the good one."""
        bad, good = "", None
        project = Project()
        for title, text in self.sections:
            if title == "revision 1":
                project.locked = Lock(project.name)
            if title.startswith("revision"):
                project.release(text)
            elif title == "bad":
                lines = (f"{one.name}: {one.text}\n" for one in _findings(project.declare(text)))
                bad = "".join(lines).replace(project.name, "state")
            else:
                good = _findings(project.declare(text))
        assert good is not None, f"{self.name} has no good example"
        return bad, good


def examples(page: str) -> Iterator[Example]:
    for name, code, expected in _EXAMPLE.findall(page):
        _, *parts = _SECTION.split(code)
        yield Example(name, tuple(zip(parts[::2], parts[1::2], strict=True)), expected)


def shown_kinds() -> set[str]:
    """Those that a change of declarations has, and that have an example each."""
    names = {f"{rule}-{kind}" for rule in ("SILENT", "LOAD") for kind in RULES[rule]}
    return names - NOT_OF_DECLARATIONS


def _findings(project: Project) -> list[Finding]:
    module = attrs.evolve(project._read(), file="state.py")
    locks = {module.name: project.locked}
    return [*Gate([module], locks).findings(), *check_migrations([module], locks)]
