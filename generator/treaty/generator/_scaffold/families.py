"""Keys that are numbered names, `block_0`, `block_1`, …: candidates for one field."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from attrs import frozen

from treaty.generator._scaffold.reading import natural
from treaty.schema._key_texts import is_key_text, key_text
from treaty.schema.outline import Outline, OutlineLeaf

_LAST_NUMBER: Final = re.compile(r"(.*?)(0|[1-9][0-9]*)([^0-9]*)", re.ASCII | re.DOTALL)


@frozen
class Family:
    """The keys of one pattern, or those of a list where there is none, which count from `start`."""

    pattern: str | None
    start: int = 0

    @classmethod
    def of_numbers(cls, trees: Sequence[Mapping[str, Any]]) -> Self | None:
        return cls(None) if all(trees) else None

    def keys(self, tree: Mapping[str, Any]) -> list[str]:
        if self.pattern is None:
            return list(tree)
        items = key_text(self.pattern).gathered(dict.fromkeys(tree))
        return [key_text(self.pattern).key(str(number)) for number in sorted(map(int, items))]

    def is_worth_it(self, items: Sequence[Outline]) -> bool:
        """Whether one field reads better than several, where their number is fixed."""
        few = 3 if self.start or isinstance(items[0], OutlineLeaf) else 2
        return len(items) >= (few if self.pattern is not None else 2)


@frozen
class FamilyKeys:
    """Keys in the order of fields, and the families of those that have one."""

    order: tuple[str, ...]
    families: Mapping[str, Family]


def families(trees: Sequence[Mapping[str, Any]], is_sorted: bool) -> FamilyKeys:
    """The families of all sightings of a node. Members must be counted without gaps in each of them."""
    keys = list(dict.fromkeys(key for tree in trees for key in tree))
    patterns: dict[str, str] = {}
    for key in keys:
        found = _LAST_NUMBER.fullmatch(key)
        if found is not None and (found[1] or found[3]) and is_key_text(f"{found[1]}{{i}}{found[3]}"):
            patterns[key] = f"{found[1]}{{i}}{found[3]}"
    starts = {pattern: _start(pattern, trees) for pattern in dict.fromkeys(patterns.values())}
    counted = {pattern: Family(pattern, start) for pattern, start in starts.items() if start is not None}
    by_key = {key: counted[pattern] for key, pattern in patterns.items() if pattern in counted}
    return FamilyKeys(tuple(sorted(keys, key=natural) if is_sorted else keys), by_key)


def _start(pattern: str, trees: Sequence[Mapping[str, Any]]) -> int | None:
    """Where a family begins to count; None where it is none."""
    rows = [sorted(map(int, key_text(pattern).gathered(dict.fromkeys(tree)))) for tree in trees]
    if not all(rows) or max(map(len, rows)) < 2:
        return None
    start = rows[0][0]
    return start if start >= 0 and all(row == list(range(start, start + len(row))) for row in rows) else None
