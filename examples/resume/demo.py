"""A run that is killed again and again, each time on fewer or more devices, ends like the one that nothing happened to.

python -m examples.resume.demo [seed]
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
from rich.console import Console

from treaty.runtime import CheckpointManager
from treaty.schema.library.transformer import TrainState

STEPS = 24
KILLED_ON = (4, 2, 1)  # devices of the runs that are killed
LAST_ON = 8
console = Console(highlight=False)


def main() -> None:
    choice = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    with tempfile.TemporaryDirectory() as name:
        calm, rough = Path(name) / "calm", Path(name) / "rough"
        console.rule(f"Devices: {LAST_ON}, undisturbed, in the background")
        undisturbed = start(calm, LAST_ON, stdout=subprocess.DEVNULL)
        for devices in KILLED_ON:
            console.rule(f"Devices: {devices}, until it is killed")
            run_and_kill(rough, devices, choice)
            show(rough)
        console.rule(f"Devices: {LAST_ON}, to the end")
        with start(rough, LAST_ON) as process:
            follow(process, STEPS)
        if process.returncode or undisturbed.wait():
            sys.exit("a run failed")
        console.rule("The two states, bit for bit")
        compare(calm, rough)


def start(folder: Path, devices: int, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "examples.resume.train", str(folder), f"--devices={devices}", f"--steps={STEPS}"]
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], env=env, stdout=stdout, text=True)


def run_and_kill(folder: Path, devices: int, choice: random.Random) -> None:
    """Some steps on, at some moment of a step or of a save."""
    with start(folder, devices) as process:
        begun = follow(process, 0)
        last = follow(process, begun + choice.randint(5, 8))
        time.sleep(choice.uniform(0, 0.2))
        process.kill()
    console.print(f"[red]SIGKILL[/red] after step {last}")


def follow(process: subprocess.Popen[str], until: int) -> int:
    """Show what a run prints, up to a step; return the step."""
    assert process.stdout is not None
    step = 0
    for line in process.stdout:
        console.print(line.rstrip())
        step = int(line.replace(",", "").split()[3 if line.startswith("begin") else 1])
        if step >= until:
            break
    return step


def show(folder: Path) -> None:
    """What is committed; a save that was killed left something that is no step."""
    steps = manager_of(folder).all_steps()
    for path in sorted(folder.glob("[0-9]*"), key=lambda path: int(path.name)):
        console.print(f"  {path.name}: {'committed' if int(path.name) in steps else 'not finished, no checkpoint'}")


def compare(one: Path, other: Path) -> None:
    same = [a.tobytes() == b.tobytes() for a, b in zip(arrays(one), arrays(other), strict=True)]
    steps = [manager_of(folder).latest_step() for folder in (one, other)]
    console.print(f"step {steps[0]} and step {steps[1]}: {sum(same)} of {len(same)} arrays have the same bits")
    if not all(same) or steps[0] != steps[1]:
        sys.exit("the runs ended differently")


def arrays(folder: Path) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """All of a state: parameters, optimizer, step, and the words of the PRNG key."""
    state = manager_of(folder).restore(into="numpy")
    keys = [jax.random.key_data(state.rng)]
    return [np.asarray(leaf) for leaf in [*jax.tree.leaves((state.step, state.params, state.opt)), *keys]]


def manager_of(folder: Path) -> CheckpointManager[TrainState]:
    return CheckpointManager(folder, TrainState, read_only=True)


if __name__ == "__main__":
    main()
