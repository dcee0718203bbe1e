"""JSON that other programs wrote: one object, no key twice, no numbers that JSON does not have."""

import json
from collections import Counter
from typing import Any

from treaty.runtime._errors import CorruptCheckpointError


def parse_json(text: bytes, what: str) -> dict[str, Any]:
    """A JSON object in which no object has a key twice."""
    if text[:1] != b"{":
        raise CorruptCheckpointError(f"expected {what} that begins with '{{', got {text[:1]!r}")
    try:
        found: dict[str, Any] = json.loads(text.decode(), object_pairs_hook=unique, parse_constant=no_constant)
    except CorruptCheckpointError:
        raise
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, no UTF-8, or a number without end
        raise CorruptCheckpointError(f"expected {what} in JSON, got {error}") from None
    return found


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise CorruptCheckpointError(f"expected each name once, got {twice!r} again")
    return found


def no_constant(name: str) -> object:
    raise CorruptCheckpointError(f"expected JSON, got {name}")
