"""eformer's layout: an array of zarr a leaf, and an index."""

from typing import Final

from treaty.runtime.formats.shared.format import Format, later

INDEX: Final = "tensorstore_index.json"

FORMAT = Format(
    name="eformer",
    suffixes=(),
    is_at=later(f"{__name__}.recognise:is_at"),
    look=later(f"{__name__}.source:known_eformer"),
    open=later(f"{__name__}.source:EformerSource"),
    write=later(f"{__name__}.source:write_tree"),
    owns=later(f"{__name__}.recognise:owns"),
)
