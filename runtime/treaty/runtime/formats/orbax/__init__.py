"""Orbax checkpoints, read and written without Orbax: every layout of its releases in, OCDBT with zarr3 out."""

from typing import TYPE_CHECKING, Final

from treaty.runtime.formats.shared.format import Format, later
from treaty.schema._lazy_names import lazy_names

_HOMES: Final = {
    "instances": ("read_tree", "restore", "write"),
}

FORMAT = Format(
    name="orbax",
    suffixes=(),
    is_at=later(f"{__name__}.recognise:is_at"),
    look=later(f"{__name__}.source:known_orbax"),
    open=later(f"{__name__}.source:OrbaxSource"),
    write=later(f"{__name__}.source:write_tree"),
    owns=later(f"{__name__}.recognise:owns"),
    step_path=later(f"{__name__}.find:step_path"),
    run=later(f"{__name__}.steps:stored_run"),
)

if TYPE_CHECKING:
    from treaty.runtime.formats.orbax.instances import read_tree as read_tree
    from treaty.runtime.formats.orbax.instances import restore as restore
    from treaty.runtime.formats.orbax.instances import write as write
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
