"""Orbax checkpoints, read and written without Orbax: every layout of its releases in, OCDBT with zarr3 out."""

from typing import TYPE_CHECKING, Final

from treaty.schema._lazy_names import lazy_names

_HOMES: Final = {
    "instances": ("read_tree", "restore", "write"),
}

if TYPE_CHECKING:
    from treaty.runtime.formats.orbax.instances import read_tree as read_tree
    from treaty.runtime.formats.orbax.instances import restore as restore
    from treaty.runtime.formats.orbax.instances import write as write
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
