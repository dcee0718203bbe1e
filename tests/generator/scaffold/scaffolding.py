"""What the tests of `treaty scaffold` share: the text for a factory, and whether a state comes back from it."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jax

from tests.runtime.equality import same
from treaty.generator import load
from treaty.generator._scaffold.factory import StateFactory
from treaty.generator._scaffold.sizes import sightings_of
from treaty.generator._scaffold.write import factory_text
from treaty.runtime import from_live, restore, save, to_live

EXPECTED = Path(__file__).parent / "expected"


def scaffolded(target: str, call: Callable[..., Any], dims: dict[str, Any] | None = None) -> tuple[str, list[str]]:
    """The text for a factory, and what was told about it."""
    told: list[str] = []
    factory = StateFactory.of(target, call)
    return factory_text(target, "TrainState", sightings_of(factory, dims or {}, told.append)), told


def made_up_state(call: Callable[..., Any], **sizes: int) -> Any:
    """What a factory returns, with other numbers in its arrays: to make its own, JAX compiles for seconds."""
    return StateFactory.of("state", call).filled(sizes)


def imported(text: str, name: str) -> ModuleType:
    """A schema module with its code, both in memory."""
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, f"<{name}>", "exec"), vars(module))
    load(module.TrainState)
    return module


def assert_comes_back(text: str, name: str, live: Any, folder: Path) -> None:
    """The state goes through the schema to a checkpoint and back, bit for bit, with its own classes."""
    cls = imported(text, name).TrainState
    save(folder / name, from_live(cls, live))
    back = to_live(restore(folder / name, cls), live)
    structures: list[Any] = [jax.tree.structure(tree) for tree in (back, live)]
    assert structures[0] == structures[1]
    same(jax.tree.leaves(back), jax.tree.leaves(live))
