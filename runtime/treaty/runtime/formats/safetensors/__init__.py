"""safetensors, as the library and Hugging Face's loaders read and write it: one file, or shards and an index."""

from typing import TYPE_CHECKING, Final

from treaty.schema._lazy_names import lazy_names

_HOMES: Final = {
    "instances": ("load", "restore", "save"),
    "source": ("dump",),
}

if TYPE_CHECKING:
    from treaty.runtime.formats.safetensors.instances import load as load
    from treaty.runtime.formats.safetensors.instances import restore as restore
    from treaty.runtime.formats.safetensors.instances import save as save
    from treaty.runtime.formats.safetensors.source import dump as dump
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
