"""`treaty generate` of a 500-class module, against mypy --strict over what it wrote."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.harness import Row, Sample, compare

BESIDE: Final = "mypy --strict"
RESULT: Final = "mypy / treaty"

_HEADER: Final = """
from typing import Annotated

from jax import Array
from jaxtyping import BFloat16, Float32, Int32, Key

from treaty.schema import Dims, Length, field, state
"""
# One of five kinds in turn; each uses classes of the round it stands in.
_KINDS: Final = (
    """
@state
class Linear{i}:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"] | None
""",
    """
@state
class Block{i}:
    up: Annotated[Linear{i}, Dims(d_in="d_model", d_out="4*d_model")]
    down: Annotated[Linear{i}, Dims(d_in="4*d_model", d_out="d_model")]
    scale: Float32[Array, "d_model"]
""",
    """
@state
class Tower{i}:
    embed: BFloat16[Array, "vocab d_model"]
    blocks: Annotated[tuple[Block{i}, ...], Length("n_layers"), Dims("d_model")]
""",
    """
@state
class Head{i}:
    norm: Float32[Array, "d_model"]
    out: Annotated[Linear{i}, Dims(d_in="d_model", d_out="vocab")] | None
    range: tuple[Float32[Array, "vocab"], int]
""",
    """
@state
class Train{i}:
    step: Int32[Array, ""]
    tower: Annotated[Tower{i}, Dims(...)]
    heads: dict[str, Annotated[Head{i}, Dims(...)]]
    rng: Key[Array, ""]
    lr: float = field(default=1e-3)
    note: str = field(static=True, default="")
""",
)


def module_text(classes: int) -> str:
    """A schema module of that many classes: linears, ties, tuples with Length, optionals, dicts, keys, scalars."""
    kinds = len(_KINDS)
    return _HEADER + "\n".join("\n" + _KINDS[number % kinds].format(i=number // kinds) for number in range(classes))


def run(quick: bool) -> Iterator[Row]:
    classes, rounds = (5, 1) if quick else (500, 5)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "big.py").write_text(module_text(classes))
        cached = root / "cold"
        if not quick:
            cached = root / "cached"
            (root / "small.py").write_text(module_text(5))
            _generate(root, "small")
            _mypy(root, "small", cached, quick)

        generating: list[float] = []
        cold: list[float] = []
        warm: list[float] = []
        errors = ""
        for _ in range(rounds):
            generating.append(_generate(root, "big"))
            seconds, errors = _mypy(root, "big", root / "cold", quick)
            cold.append(seconds)
            shutil.copytree(cached, root / "warm")
            warm.append(_mypy(root, "big", root / "warm", quick)[0])
            shutil.rmtree(root / "cold")
            shutil.rmtree(root / "warm")
        lines = len((root / "big_treaty.py").read_text().splitlines())
    about = f"{classes:,} classes, {lines:,} generated lines"
    found = f"; mypy: {errors}" if errors else ""
    ours = Sample.of(generating)
    yield compare(f"{about}, mypy's cache cold{found}", {"treaty": ours, "mypy": Sample.of(cold)}, "> 1x")
    yield compare(f"{about}, jax in mypy's cache{found}", {"treaty": ours, "mypy": Sample.of(warm)})


def _generate(root: Path, module: str) -> float:
    """Seconds of the whole command, writing the file anew; no bytecode is kept, as after an edit of the module."""
    (root / f"{module}_treaty.py").unlink(missing_ok=True)
    command = [str(Path(sys.executable).with_name("treaty")), "generate", module]
    start = time.perf_counter()
    subprocess.run(
        command, cwd=root, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, check=True, capture_output=True
    )
    return time.perf_counter() - start


def _mypy(root: Path, module: str, cache: Path, quick: bool) -> tuple[float, str]:
    """Seconds, and the summary line where mypy has anything to say. `quick` leaves JAX's own sources unread."""
    skip = ["--follow-imports=skip"] if quick else []
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", *skip]
    start = time.perf_counter()
    done = subprocess.run([*command, f"{module}_treaty.py"], cwd=root, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1) or done.stderr:  # it ends with 1 also where it crashes
        raise RuntimeError(f"mypy did not run: {done.stdout}{done.stderr}")
    return seconds, done.stdout.strip().splitlines()[-1] if done.returncode else ""
