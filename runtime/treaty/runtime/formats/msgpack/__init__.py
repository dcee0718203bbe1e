"""MessagePack, byte for byte as Flax writes it."""

from typing import TYPE_CHECKING, Final

from treaty.runtime._storage.overtaken import known_file
from treaty.runtime.formats.shared.format import Format, later
from treaty.schema._lazy_names import lazy_names

_HOMES: Final = {
    "files": ("pack", "read_file", "unpack", "write_file"),
}

FORMAT = Format(
    name="msgpack",
    suffixes=(".msgpack", ".msgpack.gz", ".msgpack.zst"),
    is_at=later(f"{__name__}.recognise:is_at"),
    look=known_file,
    open=later(f"{__name__}.source:MessagePackSource"),
    write=later(f"{__name__}.source:write_tree"),
    write_instance=later(f"{__name__}.instances:save_file"),
)

if TYPE_CHECKING:
    from treaty.runtime.formats.msgpack.files import pack as pack
    from treaty.runtime.formats.msgpack.files import read_file as read_file
    from treaty.runtime.formats.msgpack.files import unpack as unpack
    from treaty.runtime.formats.msgpack.files import write_file as write_file
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
