"""Whether all that a manifest names is there in full length, and nothing else. Reads no file."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from treaty.runtime._errors import CorruptCheckpointError, show_keys
from treaty.runtime.formats.directory.layout import chunk_starts, metadata_files
from treaty.runtime.formats.directory.manifest import File, Leaf
from treaty.runtime.formats.directory.places import Place

_SHOWN: Final = 20
_ABSENT: Final = -1  # in place of a size; None is one that the store does not tell


def require_files(
    place: Place, data: str, files: Sequence[File], leaves: tuple[Leaf, ...], wanted: Collection[int] | None = None
) -> None:
    """Of all leaves, or of those that are wanted, by number."""
    wanted = range(len(leaves)) if wanted is None else wanted
    problems = _problems(place.sizes(data), files, leaves, wanted)
    if problems:
        raise corrupt(place, problems)


def corrupt(place: Place, problems: Sequence[str]) -> CorruptCheckpointError:
    more = [f"… and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    return CorruptCheckpointError("\n".join([f"{place.where} is damaged:", *problems[:_SHOWN], *more]))


def _problems(
    sizes: Mapping[str, int | None], files: Sequence[File], leaves: tuple[Leaf, ...], wanted: Collection[int]
) -> list[str]:
    needed = {leaves[number].file for number in wanted}
    found = dict(sizes)
    problems = []
    for index, file in enumerate(files):
        size = found.pop(file.name, _ABSENT)
        if index in needed and size not in (None, file.size):
            problems.append(_wrong_size(file.name, file.size, size))
    for name, content in metadata_files(leaves):
        size = found.pop(name, _ABSENT)
        if size not in (None, len(content)):
            problems.append(_wrong_size(name, len(content), size))
    for number, leaf in enumerate(leaves):
        if leaf.is_chunked:
            for _, chunk, _, expected in chunk_starts(leaf):
                name = f"{number}/{chunk}"
                size = found.pop(name, _ABSENT)
                if number in wanted and size not in (None, expected):
                    problems.append(f"{_wrong_size(name, expected, size)} at {show_keys(leaf.path)}")
    return problems + [f"expected no other files, got {name}{_owner(name, leaves)}" for name in sorted(found)]


def _owner(name: str, leaves: Sequence[Leaf]) -> str:
    number = name.partition("/")[0]
    return f" at {show_keys(leaves[int(number)].path)}" if number.isdecimal() and int(number) < len(leaves) else ""


def _wrong_size(name: str, expected: int, got: int | None) -> str:
    return f"expected {expected} bytes, got {'nothing' if got == _ABSENT else got} in {name}"
