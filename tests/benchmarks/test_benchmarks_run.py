"""The benchmarks run, agree with their peers before they time anything, and report every row. Numbers are not judged."""

import json
import subprocess
import sys
from itertools import count
from pathlib import Path

from benchmarks.__main__ import BENCHMARKS
from benchmarks.harness import Sample, compare, duration, race
from tests.long import IS_LONG

ROOT = Path(__file__).parents[2]
CASES = {
    "state_dict": [
        f"{function}, 20 {leaves} leaves"
        for leaves in ("jax", "numpy")
        for function in ("to_state_dict", "from_state_dict", "from_state_dict into a template")
    ],
    "scaling": [
        f"{function}, {case}"
        for function in ("to_state_dict", "from_state_dict")
        for case in ("20 leaves, per leaf", "40 leaves, per leaf", "a leaf of 40 over the cheapest")
    ],
    "tree_map": [
        f"{function}, {width} leaves a node, per leaf"
        for width in (2, 4, 8, 20)
        for function in ("tree.map", "tree.leaves", "tree.unflatten")
    ],
    "live": [f"{function}, 20 leaves of {tree}" for tree in ("dicts", "nnx") for function in ("from_live", "to_live")],
    "safetensors": [
        *(
            f"{what}, {tensors} tensors, 0 MiB"
            for tensors in (4, 20)
            for what in ("save", "load", "load, all pages", "restore by the class")
        ),
        *(f"{what}, peak extra memory" for what in ("save", "load")),
    ],
    "convert": [
        "msgpack -> safetensors, 0 MiB",
        "safetensors -> msgpack, 0 MiB",
        "safetensors -> npz, 0 MiB",
        "safetensors -> treaty, 0 MiB",
        "treaty -> msgpack, 0 MiB",
        "safetensors -> orbax, 0 MiB",
        "orbax -> safetensors, 0 MiB",
        "between files, peak extra memory",
        "from and to TensorStore, peak extra memory",
        "one array, between files, peak extra memory",
        "one array, from and to TensorStore, peak extra memory",
    ],
    "bytes": [
        *(f"to_bytes, 20 leaves, 0 MiB: {name}" for name in ("flax", "safetensors", "pickle", "np.savez", "join")),
        *(f"from_bytes into numpy, 20 leaves, 0 MiB: {name}" for name in ("flax", "safetensors", "pickle", "np.savez")),
    ],
    "dropin": [
        f"{function}, {tree} leaves, 0 MiB"
        for tree in ("TrainState with adamw, 26", "FrozenDict, 24", "nnx, 24", "large arrays, 4")
        for function in ("to_state_dict", "from_state_dict", "to_bytes", "from_bytes")
    ],
    "files": [
        *(f"save, 8 leaves, 0 MiB: {name}" for name in ("raw write", "safetensors", "flax")),
        "restore into numpy, 8 leaves, 0 MiB: safetensors",
        "restore and look at every page, 8 leaves, 0 MiB: safetensors",
        "restore into numpy, 8 leaves, 0 MiB: flax",
        *(f"{what}, peak extra memory: flax" for what in ("save", "from_bytes")),
    ],
    "directory": [
        *(f"save, 2 arrays, 0 MiB: {name}" for name in ("raw write", "orbax", "jax pytree", "safetensors")),
        *(f"restore into jax, 2 arrays, 0 MiB: {name}" for name in ("raw read", "orbax", "safetensors")),
        *(f"save_async blocks, 2 arrays, 0 MiB: {name}" for name in ("orbax", "memory copy")),
        "save of a manager blocks, 2 arrays, 0 MiB: save_async alone",
        *(f"{what}, 20 small leaves: orbax" for what in ("save", "restore into jax", "files on disk")),
        "treaty inspect, 20 leaves: import jax",
    ],
    "steps": [
        f"{what}, 4 arrays, 4 MiB: {beside}"
        for what in ("one array changed", "nothing changed", "all equal, in other arrays", "all changed")
        for beside in ("orbax", "full", "disk")
    ],
    "sharded": [
        f"{what}, {layout}, 2 arrays, 2 MiB{beside}"
        for layout in ("the same, in rows", "4x2 to 2x4", "rows to columns", "replicated")
        for what, beside in (
            ("save", ""),
            ("save", ": four threads that only write"),
            ("restore", ""),
            ("bytes read over bytes needed", ""),
        )
        if (what, layout) != ("bytes read over bytes needed", "replicated")
    ]
    + [
        f"save, to memory, {layout}, 2 arrays, 2 MiB{beside}"
        for layout in ("the same, in rows", "4x2 to 2x4", "rows to columns", "replicated")
        for beside in ("", ": four threads that only write")
        if Path("/dev/shm").is_dir()
    ],
    "compression": [
        f"{what}, {about}"
        for about in (
            "float32 weights, 2 MiB",
            "bfloat16 weights, 1 MiB",
            "float32 second moments, 2 MiB",
            "int32 tokens, 2 MiB",
            "rows that were never touched, 2 MiB",
        )
        for what in ("save", "restore", "bytes")
    ],
    "evolution": [
        *(f"digests equal, {format}, 20 leaves: without a lock" for format in ("directory", "msgpack", "safetensors")),
        *(
            f"renamed and filled in, {format}, 20 leaves: as it is"
            for format in ("directory", "msgpack", "safetensors")
        ),
        "renamed and filled in, directory of 0 MiB",
        "treaty check, 10 classes, 2 revisions: without a lock",
    ],
    "imports": [
        "from treaty.schema import state, schema_of over import jaxtyping, attrs",
        "from treaty.runtime import save, restore over import jax",
        "treaty --help over python -c pass",
    ],
    "fast_paths": [
        *(f"{what}, 20 leaves" for what in ("alike items, to_bytes", "runs, from_bytes")),
        "maps of arrays like one before, decode, 20 leaves",
        "arrays with a known head, decode, 10 leaves",
        "heads of arrays made once, encode, 20 leaves",
        *(f"instances {how}, 100" for how in ("without __init__", "by columns")),
        *(f"columns, {what}, 40" for what in ("safetensors header", "manifest")),
        "alike arrays to the device, 40 leaves",
        "huge pages, join of 1 MiB",
        "huge pages, 1 new arrays of 1 MiB",
        "the disk begins at once, save of 128 MiB",
    ],
    "transfer": ["20 small leaves, per leaf", "16 8 x 8 kernels with their biases, per leaf"],
}

SLOW = ("convert", "directory", "evolution", "scaling", "sharded")  # seconds, which `make test-long` takes


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_quick_run_reports_every_row_of_every_benchmark(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    names = [name for name in BENCHMARKS if IS_LONG or name not in SLOW]

    done = run("--quick", "--json", str(report), *names)

    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    cases = {name: [row["case"] for row in rows] for name, rows in found["benchmarks"].items()}
    generated = cases.pop("generate")
    assert cases == {name: CASES[name] for name in names if name != "generate"}
    assert [case.partition(" ")[0] for case in generated] == ["5", "5"]
    assert [row["target"] for row in found["benchmarks"]["generate"]] == ["> 1x", "-"]
    assert found["quick"] is True
    assert {"python", "jax", "flax", "treaty"} <= found["environment"].keys()
    for name in names:
        assert f"{name} (--quick" in done.stdout


def test_named_benchmarks_run_alone() -> None:
    done = run("--quick", "transfer")

    assert done.returncode == 0, done.stderr
    assert "transfer" in done.stdout
    assert "state_dict" not in done.stdout


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    done = run("speed")

    assert done.returncode == 2
    assert f"no benchmark 'speed'; there are {', '.join(BENCHMARKS)}" in done.stderr


def test_contenders_take_turns_and_who_goes_first_changes() -> None:
    calls: list[str] = []

    race({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=4, at_least=0.0)

    assert "".join(calls[-8:]) == "abba" * 2


def test_the_best_round_counts() -> None:
    numbers = count()

    times = race({"treaty": lambda: next(numbers), "flax": lambda: next(numbers)}, rounds=3, at_least=0.0)

    assert set(times) == {"treaty", "flax"}
    assert all(0 < sample.best <= sample.median for sample in times.values())


def test_ratio_is_of_the_best_rounds() -> None:
    times = {"treaty": Sample.of([2.0, 1.0, 3.0]), "flax": Sample.of([6.0, 5.0, 9.0])}

    row = compare("case", times, ">= 4x", per=10)

    assert (row.treaty, row.beside, row.result, row.target) == ("100 ms", "500 ms", "5.00x", ">= 4x")
    assert row.numbers["treaty_median"] == 0.2


def test_durations_have_three_digits_and_a_unit() -> None:
    assert [duration(seconds) for seconds in (1.5, 0.0123, 4.56e-6, 7.89e-8)] == [
        "1.5 s",
        "12.3 ms",
        "4.56 µs",
        "78.9 ns",
    ]
