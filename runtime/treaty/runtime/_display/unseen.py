"""Text from anybody's checkpoint as text that is all seen."""

import re
from typing import Final

# What would move the cursor, or turn around what stands beside it, instead of being seen.
_UNSEEN: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def without_unseen(text: str) -> str:
    """With escapes for what is not seen; lines stay lines."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # which JSON has, too
