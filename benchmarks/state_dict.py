"""State dicts of 2,000 leaves in 1,000 nodes: Treaty with every shape and dtype checked, Flax with none."""

from collections.abc import Iterator
from typing import Any, Final

from flax import serialization

from benchmarks import models
from benchmarks.harness import Row, compare, race
from treaty.runtime import from_state_dict, to_state_dict

BESIDE: Final = "flax"
RESULT: Final = "times faster"


def run(quick: bool) -> Iterator[Row]:
    nodes, rounds = (10, 2) if quick else (1_000, 60)
    device, host = models.device_leaves(nodes), models.host_leaves(nodes)
    yield from _compare("jax", models.device_model(device), models.flax_model(device), nodes, rounds)
    yield from _compare("numpy", models.host_model(host), models.flax_model(host), nodes, rounds)


def _compare(leaves: str, ours: Any, theirs: Any, nodes: int, rounds: int) -> Iterator[Row]:
    cls = type(ours)
    state = to_state_dict(ours)
    models.check_same_state(state, serialization.to_state_dict(theirs))
    models.check_same_state(to_state_dict(from_state_dict(cls, state)), state)
    models.check_same_state(serialization.to_state_dict(serialization.from_state_dict(theirs, state)), state)
    about = f"{2 * nodes:,} {leaves} leaves"

    writing = race({"treaty": lambda: to_state_dict(ours), "flax": lambda: serialization.to_state_dict(theirs)}, rounds)
    yield compare(f"to_state_dict, {about}", writing, ">= 5x")

    reading = race(
        {
            "treaty": lambda: from_state_dict(cls, state),
            "flax": lambda: serialization.from_state_dict(theirs, state),
            "template": lambda: from_state_dict(ours, state),
        },
        rounds,
    )
    template = reading.pop("template")
    yield compare(f"from_state_dict, {about}", reading, ">= 4x")
    yield compare(f"from_state_dict into a template, {about}", {"treaty": template, "flax": reading["flax"]})
