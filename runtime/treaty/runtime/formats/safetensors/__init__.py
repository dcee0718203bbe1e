"""safetensors, as the library and Hugging Face's loaders read and write it: one file, or shards and an index."""

from typing import TYPE_CHECKING, Final

from treaty.runtime.formats.shared.format import Format, later
from treaty.schema._lazy_names import lazy_names

_HOMES: Final = {
    "instances": ("load", "restore", "save"),
    "source": ("dump",),
}

FORMAT = Format(
    name="safetensors",
    suffixes=(".safetensors",),
    is_at=later(f"{__name__}.recognise:is_at"),
    look=later(f"{__name__}.recognise:look"),
    open=later(f"{__name__}.source:SafetensorsSource"),
    write=later(f"{__name__}.source:write_tree"),
    takes=frozenset({"max_shard_bytes", "metadata"}),
    text_metadata=True,
    keeps_schema=True,
    members=later(f"{__name__}.recognise:members"),
    replaces=later(f"{__name__}.members:replaced_by"),
    owns=later(f"{__name__}.recognise:owns"),
    remove=later(f"{__name__}.members:remove"),
    hint=later(f"{__name__}.members:hint"),
    move=later(f"{__name__}.members:move"),
)

if TYPE_CHECKING:
    from treaty.runtime.formats.safetensors.instances import load as load
    from treaty.runtime.formats.safetensors.instances import restore as restore
    from treaty.runtime.formats.safetensors.instances import save as save
    from treaty.runtime.formats.safetensors.source import dump as dump
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
