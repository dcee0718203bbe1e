"""`plan`: the preflight of a restore, whatever lies at a path."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from treaty.runtime._restore.options import Options
from treaty.runtime._restore.preflight import Plan
from treaty.runtime._restore.preflight import plan as preflight
from treaty.runtime._storage.paths import AnyPath
from treaty.runtime.formats.table import reading


def plan(
    path: AnyPath,
    cls: Any,
    *,
    at: str | Sequence[str] | None = None,
    dims: Mapping[str, int] | None = None,
    cast: Mapping[str, str] | None = None,
    revision: int | None = None,
) -> Plan:
    """What `restore(path, cls)` would do with every leaf, before an array is read.

    `plan.ok` says whether it would succeed, `plan.leaves` what each leaf is made of, `plan.problems` what stands in the way;
    printed, it is a table. Options are those of `restore`.
    """
    options = Options(at=at, dims=dims, cast=cast, revision=revision)
    found = reading(path, lambda source: preflight(source, cls, options))
    return evolve(found, where=os.fsdecode(path))
