"""A process that overwrites checkpoints of every format for ever; all that one holds is its step.

It prints a line once each of them is there, and ends when its standard input does. `python -m tests.attacks.overwriter FOLDER`
"""

import itertools
import select
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from treaty.runtime._convert.convert import convert
from treaty.runtime.formats import msgpack, npz, safetensors
from treaty.runtime.formats.directory import plan as _plan
from treaty.schema import TreatyError

NAMES: Final = ("x.msgpack.gz", "x.safetensors", "shards.safetensors", "either.safetensors", "x.npz", "in_place.npz")
DIRECTORIES: Final = ("treaty", "orbax", "eformer", "any")
_KINDS: Final = ("treaty", "orbax", "eformer")
_BUSY: Final = "another save that is writing to it"


def tree(step: int) -> dict[str, Any]:
    """So many arrays that a save takes several system calls, with shapes that change, too."""
    return {f"layer{i}": np.full(40 + step % 3, step, np.float32) for i in range(6)}


def overwrite(folder: Path, name: str, step: int) -> None:
    path = folder / name
    if name.endswith(".safetensors"):
        limit = {"shards": 200, "either": None if step % 2 else 200}.get(path.stem)
        safetensors.dump(path, tree(step), max_shard_bytes=limit)
    elif name == "in_place.npz":
        np.savez(path, **tree(step))
    elif name == "x.npz":
        npz.write(path, tree(step))
    elif name == "x.msgpack.gz":
        msgpack.write_file(path, tree(step))
    else:
        source = folder / f"{name}.source.msgpack"
        msgpack.write_file(source, tree(step))
        convert(source, path, to_format=name if name in _KINDS else _KINDS[step % 3], replace=True)


def main(folder: Path) -> None:
    vars(_plan).update(SMALL_BYTES=64)  # or all arrays of a directory would be in one file
    for step in itertools.count(1):
        for name in (*NAMES, *DIRECTORIES):
            try:
                overwrite(folder, name, step)
            except TreatyError as error:  # of the other writer
                if _BUSY not in str(error) and "convert" not in str(error):
                    raise
        if step == 1:
            print("ready", flush=True)
        if select.select([sys.stdin], [], [], 0)[0]:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
