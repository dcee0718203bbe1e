"""The one checksum of the format: XXH3, 64 bits, as 16 hexadecimal digits."""

import re
from collections.abc import Buffer
from typing import Final

import xxhash

_DIGITS: Final = re.compile(r"[0-9a-f]{16}\Z")


def checksum(data: Buffer) -> str:
    return xxhash.xxh3_64_hexdigest(data)


def is_checksum(value: object) -> bool:
    return type(value) is str and _DIGITS.match(value) is not None
