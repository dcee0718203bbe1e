"""Train, save in the background every few steps, and go on from the last committed step after a crash.

python -m examples.resume.train runs/a --devices 8 --steps 24
"""

import argparse
import os
from pathlib import Path

from examples.resume.model import RULES, first_state, make_step, mesh_of

from treaty.runtime import CheckpointManager
from treaty.schema.library.transformer import TrainState

EVERY = 4  # steps
KEPT = 2  # checkpoints


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--steps", type=int, default=24)
    arguments = parser.parse_args()
    os.environ["XLA_FLAGS"] = xla_flags(arguments.devices)  # JAX reads them when it is first used
    train(arguments.folder, arguments.devices, arguments.steps)


def xla_flags(devices: int) -> str:
    """So many devices of the CPU, so that this runs anywhere; the rest is so that all runs have the same bits, soon.

    Devices share their threads, and a sum over threads has a part for each: one thread for a product. And little is won
    by optimising what runs for a second.
    """
    flags = ["force_host_platform_device_count", "cpu_multi_thread_eigen", "backend_optimization_level"]
    return " ".join(f"--xla_{flag}={value}" for flag, value in zip(flags, (devices, "false", 0), strict=True))


def train(folder: Path, devices: int, steps: int) -> None:
    mesh = mesh_of(devices)
    step = make_step(mesh)
    with CheckpointManager(folder, TrainState, every=EVERY, keep_last=KEPT) as manager:
        begun = manager.latest_step() is not None
        state = manager.restore(mesh=mesh, rules=RULES) if begun else first_state(mesh)
        print(f"begin at step {state.step}, devices: {devices}", flush=True)
        for number in range(int(state.step) + 1, steps + 1):
            state, loss = step(state)
            print(f"step {number} loss {loss:.4f}", flush=True)
            # The step donates the state, and may: the manager has its own copy when this returns.
            manager.save(number, state, metrics={"loss": loss}, force=number == steps)


if __name__ == "__main__":
    main()
