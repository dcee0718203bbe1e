"""The findings of `treaty check` as people, programs and GitHub read them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from treaty.generator._findings import Finding

Report = Callable[[Sequence[Finding], Sequence[str]], Iterator[str]]  # of findings, and errors, as lines


def as_text(findings: Sequence[Finding], errors: Sequence[str]) -> Iterator[str]:
    """One line a finding, and below those of stale files what differs; at the end, since diffs are long, how many there are.

    Errors go to standard error, whatever the format.
    """
    yield from map(str, findings)
    if any(finding.diff for finding in findings) and len(findings) > 1:
        names = [finding.name for finding in findings]
        counts = (f"{names.count(name)} {name}" for name in dict.fromkeys(names))
        yield f"{len(findings)} findings: {', '.join(counts)}"


def as_json(findings: Sequence[Finding], errors: Sequence[str]) -> Iterator[str]:
    """One object, whatever was found."""
    data = {"ok": not findings and not errors, "findings": [_data(one) for one in findings], "errors": list(errors)}
    yield json.dumps(data, indent=2, ensure_ascii=False)


def as_github(findings: Sequence[Finding], errors: Sequence[str]) -> Iterator[str]:
    """Workflow commands, which GitHub shows beside the lines of a pull request; diffs below, folded."""
    for one in findings:
        place = {"file": one.path, **({"line": str(one.line)} if one.line else {}), "title": one.name}
        yield _annotation(place, one.text)
    for error in errors:
        yield _annotation({"title": "treaty check"}, error)
    for one in findings:
        if one.diff:
            yield f"::group::{_escaped(one.path)}"
            yield one.diff.rstrip("\n")
            yield "::endgroup::"


FORMATS: Final[Mapping[str, Report]] = {"text": as_text, "json": as_json, "github": as_github}


def _data(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "kind": finding.kind,
        "file": finding.path,
        "line": finding.line or None,
        "class": finding.symbol or None,
        "field": finding.field or None,
        "message": finding.message,
        "fix": finding.fix,
        "revisions": list(finding.revisions),
        "source": finding.source or None,
        "diff": finding.diff,
    }


def _annotation(properties: Mapping[str, str], message: str) -> str:
    said = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items())
    return f"::error {said}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """As GitHub reads it: what ends a message or a property is written by its number."""
    for character in "%\r\n" + more:  # the percent sign first, which the others are written with
        text = text.replace(character, f"%{ord(character):02X}")
    return text
