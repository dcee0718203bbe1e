"""How eformer's layout is recognised, and which files are its own."""

import os
from pathlib import Path

from treaty.runtime.formats.eformer import INDEX
from treaty.runtime.formats.shared.format import Owns
from treaty.runtime.formats.shared.zarr_files import of_arrays


def is_at(path: str) -> bool:
    return os.path.isfile(os.path.join(path, INDEX))


def owns(path: Path) -> list[Owns]:
    from treaty.runtime.formats.eformer.store import Store

    index = Store.at(path).require_index()
    entries = [*(index.arrays or ()), *(entry for one in index.prefixes.values() for entry in one)]
    return [lambda name: name == INDEX, of_arrays({entry.path for entry in entries})]
