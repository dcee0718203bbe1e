"""The command: runs the named benchmarks (all without a name), prints one table each, never fails on a number."""

import argparse
import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.harness import Benchmark, Row, environment, show

BENCHMARKS: Final[Mapping[str, str]] = {
    "state_dict": "to_state_dict and from_state_dict of 2,000 leaves",
    "scaling": "the same, per leaf, from 100 to 100,000 leaves",
    "tree_map": "jax.tree functions over generated classes",
    "live": "from_live and to_live of 10,000 leaves against jax.tree.flatten",
    "bytes": "to_bytes and from_bytes: 16, 2,000 and 20,000 leaves",
    "dropin": "the drop-in module on trees of Flax: TrainState, FrozenDict, nnx",
    "files": "save and restore of 1 GiB, and the memory they take",
    "safetensors": "safetensors of 1 GiB and of 20,000 tensors, and the memory they take",
    "convert": "treaty convert of 2 GiB between formats, and the memory it takes",
    "directory": "directory checkpoints of 1 GiB and of 10,000 leaves",
    "steps": "steps of 1 GiB of which a part changed, with base=, beside Orbax's CheckpointManager",
    "sharded": "arrays over eight devices, saved and restored in four layouts, beside Orbax",
    "compression": 'compress="zstd" beside uncompressed directories, by what is in the arrays',
    "generate": "treaty generate against mypy --strict, 500 classes",
    "evolution": "what a lock costs a restore, and a long history treaty check",
    "imports": "what importing Treaty adds to importing what it needs",
    "fast_paths": "each shortcut beside the plain way that it replaces",
    "transfer": "from_state_dict of host arrays against jax.device_put alone",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog="\n".join(f"{name:12} {help}" for name, help in BENCHMARKS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="name", help="which to run; all where none is named")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, measures nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers, in seconds, to FILE")
    options = parser.parse_args()
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")

    console = Console(width=None if sys.stdout.isatty() else 120)
    results: dict[str, list[Row]] = {}
    for name in dict.fromkeys(options.names or BENCHMARKS):
        benchmark: Benchmark = importlib.import_module(f"benchmarks.{name}")
        results[name] = list(benchmark.run(options.quick))
        show(console, name, benchmark, results[name], options.quick)
    if options.json is not None:
        report = {
            "environment": environment(),
            "quick": options.quick,
            "benchmarks": {name: [row.as_data() for row in rows] for name, rows in results.items()},
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
