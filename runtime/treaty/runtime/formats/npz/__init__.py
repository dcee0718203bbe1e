"""Files of np.savez, read and written without pickles."""

from typing import TYPE_CHECKING, Final

from treaty.schema._lazy_names import lazy_names

_HOMES: Final = {
    "instances": ("read_tree", "restore", "write"),
}

if TYPE_CHECKING:
    from treaty.runtime.formats.npz.instances import read_tree as read_tree
    from treaty.runtime.formats.npz.instances import restore as restore
    from treaty.runtime.formats.npz.instances import write as write
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
