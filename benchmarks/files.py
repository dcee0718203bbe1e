"""Files of 1 GiB in 64 kernels and 64 biases, all of them fsynced: beside raw write, safetensors and Flax; and the memory each takes."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import safetensors.numpy
from flax import serialization

from benchmarks import models
from benchmarks.harness import Row, compare, race, warm
from treaty.runtime import restore, save, to_bytes

BESIDE: Final = "beside"
RESULT: Final = "times faster"


def run(quick: bool) -> Iterator[Row]:
    nodes, d, rounds = (4, 8, 2) if quick else (64, 2**11, 5)
    pairs = models.layers(nodes, d)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        yield from _compare(Path(folder), pairs, rounds)
    yield from _memory(nodes, d)


def _compare(folder: Path, pairs: list[tuple[Any, Any]], rounds: int) -> Iterator[Row]:
    ours, theirs = models.host_model(pairs), models.flax_model(pairs)
    flat = {
        f"{i}.{name}": leaf for i, pair in enumerate(pairs) for name, leaf in zip(("kernel", "bias"), pair, strict=True)
    }
    data = to_bytes(ours)
    about = f"{len(flat)} leaves, {len(data) / 2**20:,.0f} MiB"
    warm(3 * len(data))
    writers: dict[str, Callable[[], object]] = {
        "treaty": lambda: save(folder / "treaty.msgpack", ours),
        "raw write": lambda: _write(folder / "raw", data),
        "safetensors": lambda: _synced(folder / "safetensors", lambda path: safetensors.numpy.save_file(flat, path)),
        "flax": lambda: _write(folder / "flax", serialization.to_bytes(theirs)),
    }
    times = race(writers, rounds)
    if (folder / "treaty.msgpack").read_bytes() != (folder / "flax").read_bytes():
        raise AssertionError("the file differs from Flax's")
    for name, target in (("raw write", ">= 0.85x"), ("safetensors", ">= 1x"), ("flax", ">= 5x")):
        yield compare(f"save, {about}: {name}", {"treaty": times["treaty"], name: times[name]}, target)

    readers: dict[str, Callable[[], object]] = {
        "treaty": lambda: restore(folder / "treaty.msgpack", models.HostModel, into="numpy"),
        "treaty, all pages": lambda: _touch(restore(folder / "treaty.msgpack", models.HostModel, into="numpy")),
        "safetensors": lambda: safetensors.numpy.load_file(folder / "safetensors"),
        "safetensors, all pages": lambda: _touch_flat(safetensors.numpy.load_file(folder / "safetensors")),
        "flax": lambda: serialization.from_bytes(theirs, (folder / "flax").read_bytes()),
    }
    times = race(readers, rounds)
    yield compare(
        f"restore into numpy, {about}: safetensors", {k: times[k] for k in ("treaty", "safetensors")}, ">= 1x"
    )
    both = {name: times[f"{name}, all pages"] for name in ("treaty", "safetensors")}
    yield compare(f"restore and look at every page, {about}: safetensors", both, ">= 1x")
    yield compare(f"restore into numpy, {about}: flax", {k: times[k] for k in ("treaty", "flax")})


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        os.fsync(file.fileno())


def _synced(path: Path, write: Callable[[Path], None]) -> None:
    write(path)
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _touch(model: Any) -> float:
    return float(sum(layer.kernel.view("uint8").ravel()[::4096].sum() for layer in model.layers))


def _touch_flat(flat: Any) -> float:
    return float(sum(leaf.view("uint8").ravel()[::4096].sum() for leaf in flat.values()))


_PEAK: Final = """
import sys, tempfile
from pathlib import Path
from benchmarks import models
from benchmarks.harness import peak_of
from flax import serialization
from treaty.runtime import from_bytes, save, to_bytes
what, nodes, d = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
pairs, small = models.layers(nodes, d), models.layers(2, 4)
ours, theirs = models.host_model(pairs), models.flax_model(pairs)
data = b"" if what.startswith("save") else to_bytes(ours)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "x.msgpack"
    save(path, models.host_model(small))  # imports and caches
    from_bytes(models.HostModel, to_bytes(models.host_model(small)), into="numpy")
    serialization.from_bytes(models.flax_model(small), serialization.to_bytes(models.flax_model(small)))
    print(peak_of({
        "save treaty": lambda: save(path, ours),
        "save flax": lambda: path.write_bytes(serialization.to_bytes(theirs)),
        "from_bytes treaty": lambda: from_bytes(models.HostModel, data, into="numpy"),
        "from_bytes flax": lambda: serialization.from_bytes(theirs, data),
    }[what]))
"""


def _memory(nodes: int, d: int) -> Iterator[Row]:
    """Peak memory above what was there, each in a process of its own, as a share of the state."""
    state = nodes * (d * d + d) * 4
    for what, target in (("save", "<= 1%"), ("from_bytes", "-")):
        ours, theirs = (
            int(
                subprocess.run(
                    [sys.executable, "-c", _PEAK, f"{what} {who}", str(nodes), str(d)],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for who in ("treaty", "flax")
        )
        yield Row(
            f"{what}, peak extra memory: flax",
            f"{ours / state:.1%}",
            f"{theirs / state:.1%}",
            "-",
            target,
            {"treaty_bytes": ours, "beside_bytes": theirs},
        )
