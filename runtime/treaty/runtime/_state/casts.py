"""Which stored dtypes may stand for which declared ones: a closed table that keeps every value, or what the caller asks for."""

from collections.abc import Mapping
from typing import Final

from treaty.schema import TreatyError
from treaty.schema.dtypes import BY_NAME

WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "bfloat16": ("float32", "float64"),
    "float16": ("float32", "float64"),
    "float32": ("float64",),
    "complex64": ("complex128",),
    "int8": ("int16", "int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64",),
    "uint8": ("uint16", "uint32", "uint64"),
    "uint16": ("uint32", "uint64"),
    "uint32": ("uint64",),
}


def check_cast(cast: Mapping[str, str] | None) -> None:
    for name in [*(cast or {}), *(cast or {}).values()]:
        if name not in BY_NAME:
            raise TreatyError(f"cast={dict(cast or {})}: expected names of dtypes, got {name!r}")


def may_cast(stored: str, declared: str, cast: Mapping[str, str] | None) -> bool:
    return declared in WIDER.get(stored, ()) or (cast or {}).get(stored) == declared
