"""The options of `restore`, checked before anything is read, in one place and in the same words for every format."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from jax.sharding import Mesh

from treaty.runtime._sharding.shardings import Rules, check_placement
from treaty.runtime._state.at import parse_at
from treaty.runtime._state.casts import check_cast
from treaty.runtime._state.registry import Codec
from treaty.runtime._state.state_dict import Into, check_arguments
from treaty.schema import TreatyError

At = str | Sequence[str] | None


def check_options(
    codec: Codec[Any],
    *,
    at: At,
    dims: Mapping[str, int] | None,
    mesh: Mesh | None,
    rules: Rules | None,
    shardings: Any,
    into: Into | None,
    cast: Mapping[str, str] | None,
    max_bytes_in_flight: int | None,
) -> None:
    check_arguments(codec, dims or {}, into)
    check_cast(cast)
    check_placement(mesh, rules, shardings, into)
    parse_paths(at)
    if max_bytes_in_flight is not None and (type(max_bytes_in_flight) is not int or max_bytes_in_flight < 1):
        raise TreatyError(f"expected max_bytes_in_flight of 1 or more, got {max_bytes_in_flight!r}")


def parse_paths(at: At) -> tuple[tuple[str, ...], ...] | None:
    """The keys of each path; None where all is wanted, which is also what the path of the root says."""
    if at is None:
        return None
    if isinstance(at, (str, bytes)) or not isinstance(at, (Sequence, Set)):
        return (parse_at(at),)  # which says what else was expected
    paths = tuple(map(parse_at, at))
    if not paths:
        raise TreatyError("at: expected a path, or a list of them, got an empty list")
    return None if () in paths else paths
