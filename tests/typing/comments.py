"""What the comments of a fixture ask for, and how it is compared with what a type checker reports."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

OTHERS: Final = ("pyright", "ty", "pyrefly")  # than mypy
Report = tuple[str, str]  # where and what


def wanted(path: Path, mode: str) -> Iterator[Report]:
    """What the comments of a fixture ask for."""
    name = f"{path.parent.name}/{path.stem}"
    above: list[str] = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if error := re.fullmatch(r" *# (E|P|mypy|plugin): (.*  \[[a-z-]+\])", line):
            above += [error[2]] if error[1] in ("E", "mypy") or mode == "plugin" else []
        elif stale := re.fullmatch(r"# stale: (.*)  # E: (.*)", line):
            yield f"{name}_treaty.py: {stale[1]}", stale[2]
        else:
            yield from ((f"{name}.py:{number}", text) for text in above)
            above.clear()
            if revealed := re.fullmatch(
                r" *reveal_type\(.*\)  # (.*?)((?:; (?:others|pyright|ty|pyrefly): .*?)*)", line
            ):
                others = dict(one.split(": ", 1) for one in revealed[2].split("; ")[1:])
                text = others.get(mode) or (mode in OTHERS and others.get("others")) or revealed[1]
                yield f"{name}.py:{number}", f"reveals {text}"


def short(revealed: str) -> str:
    """A type without module names, a TypedDict by its name alone."""
    while revealed != (revealed := re.sub(r"TypedDict\(([\w.]+), \{[^{}]*\}\)", r"\1", revealed)):
        pass
    return re.sub(r"(?:\w+\.)+(\w)", r"\1", revealed)


def compare(found: Iterable[Report], wanted: Iterable[Report]) -> None:
    """Fail with what was not wanted and what is missing; the words wanted may be a part of the message."""
    missing, unexpected = list(wanted), []
    for where, text in found:
        for one in missing:
            part, _, code = one[1].rpartition("  ")
            if one[0] == where and part in text and text.endswith(code):
                missing.remove(one)
                break
        else:
            unexpected.append(f"unexpected at {where}: {text}")
    if missing or unexpected:
        pytest.fail(
            "\n".join([*unexpected, *(f"missing at {where}: {text}" for where, text in missing)]), pytrace=False
        )
