"""Files of np.savez, read and written without pickles."""

from typing import TYPE_CHECKING, Final

from treaty.runtime._storage.overtaken import known_file
from treaty.runtime.formats.shared.format import Format, later
from treaty.schema._lazy_names import lazy_names

_HOMES: Final = {
    "instances": ("read_tree", "restore", "write"),
}

FORMAT = Format(
    name="npz",
    suffixes=(".npz",),
    is_at=later(f"{__name__}.recognise:is_at"),
    look=known_file,
    open=later(f"{__name__}.source:NpzSource"),
    write=later(f"{__name__}.source:write_tree"),
)

if TYPE_CHECKING:
    from treaty.runtime.formats.npz.instances import read_tree as read_tree
    from treaty.runtime.formats.npz.instances import restore as restore
    from treaty.runtime.formats.npz.instances import write as write
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
