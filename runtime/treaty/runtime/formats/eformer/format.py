"""eformer's layout, as a format."""

import os
from pathlib import Path

from treaty.runtime.formats.eformer.index_name import INDEX
from treaty.runtime.formats.shared.format import Format, Owns, later
from treaty.runtime.formats.shared.zarr_files import of_arrays

_HERE = "treaty.runtime.formats.eformer"


def _is_at(path: str) -> bool:
    return os.path.isfile(os.path.join(path, INDEX))


def _owns(path: Path) -> list[Owns]:
    from treaty.runtime.formats.eformer.store import Store

    index = Store.at(path).read_index()
    assert index is not None
    entries = [*(index.arrays or ()), *(entry for one in index.prefixes.values() for entry in one)]
    return [lambda name: name == INDEX, of_arrays({entry.path for entry in entries})]


FORMAT = Format(
    name="eformer",
    suffixes=(),
    is_at=_is_at,
    look=later(f"{_HERE}.source:known_eformer"),
    open=later(f"{_HERE}.source:EformerSource"),
    write=later(f"{_HERE}.source:write_tree"),
    owns=_owns,
)
