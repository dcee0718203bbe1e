"""Defaults that fill in for what earlier checkpoints have not: of every type that a field can have."""

import math
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.tree_util import Partial

from tests.evolution.project import Project
from tests.evolution.states import write
from treaty.runtime import InvalidArgumentError, StateMismatchError, plan, restore, save

FORMATS = ["directory", "x.msgpack", "x.npz"]
BEFORE = "@state\nclass A:\n    x: int\n"
KINDS = """
import optax
from typing import TypedDict


class Sizes(TypedDict):
    width: int
    rate: float


class Level(enum.Enum):
    name = 1
    other = 2


def scale(x, by):
    return x * by


@state
class M(Generic[P]):
    mu: P
    n: int


@state
class B:
    w: Float32[Array, "k"]


@state
class Spread:
    blocks: Annotated[list[B], Dims(None), Keys("block_{i}")]


@state
class A:
    x: int
    sizes: Sizes = field(factory=lambda: {"width": 3, "rate": 0.5})
    trace: Annotated[optax.TraceState, Fields(trace=Float32[np.ndarray, "n"])] = field(
        factory=lambda: optax.TraceState(trace=np.ones(2, np.float32))
    )
    one: Annotated[M[B], Dims(None)] = field(factory=lambda: M(mu=B(w=jnp.ones(2)), n=1))
    two: Annotated[M[Level], Dims(None)] = field(factory=lambda: M(mu=Level.other, n=2))
    call: Annotated[Partial, Fields(func=scale, keywords={"by": float})] = field(factory=lambda: Partial(scale, by=2.0))
    level: Level = Level.name
    levels: tuple[Level, ...] = (Level.name, Level.other)
    spread: Spread = field(factory=lambda: Spread(blocks=[B(w=jnp.ones(1)), B(w=jnp.zeros(2))]))
    key: Key[Array, ""] = field(factory=lambda: jax.random.key(3))
"""


@pytest.mark.parametrize("name", FORMATS)
def test_a_default_of_every_type_is_filled_in(project: Project, tmp_path: Path, name: str) -> None:
    project.release(BEFORE)
    path = write(tmp_path, project["A"](x=1), [name])[name]
    project.release("from treaty.schema import Keys\n" + KINDS)
    assert plan(path, project["A"]).ok
    found = restore(path, project["A"], into="numpy")
    level = project["Level"]
    assert found.sizes == {"width": 3, "rate": 0.5}
    np.testing.assert_array_equal(found.trace.trace, np.ones(2))
    np.testing.assert_array_equal(found.one.mu.w, np.ones(2))
    assert (found.two.mu, found.level, found.levels) == (level.other, level["name"], (level["name"], level.other))
    assert (type(found.call), found.call.keywords) == (Partial, {"by": 2.0})
    assert [len(one.w) for one in found.spread.blocks] == [1, 2]
    assert (jax.random.key_data(found.key) == jax.random.key_data(jax.random.key(3))).all()


@pytest.mark.parametrize("name", FORMATS)
def test_a_default_of_every_type_is_left_out_on_the_way_back(project: Project, tmp_path: Path, name: str) -> None:
    project.release(BEFORE)
    path = write(tmp_path, project["A"](x=1), [name])[name]
    project.release("from treaty.schema import Keys\n" + KINDS)
    save(tmp_path / "back", restore(path, project["A"]), revision=1)
    assert restore(tmp_path / "back", project["A"]).x == 1


@pytest.mark.parametrize(
    ("type", "default"),
    [
        ("float", "float('inf')"),
        ("float", "float('-inf')"),
        ("float", "float('nan')"),
        ("complex", "complex('nan+1j')"),
        ("complex", "complex('-inf')"),
        ("float | None", "float('inf')"),
    ],
)
@pytest.mark.parametrize("name", FORMATS)
def test_a_past_default_of_no_finite_number_is_filled_in(
    project: Project, tmp_path: Path, name: str, type: str, default: str
) -> None:
    project.release(BEFORE)
    path = write(tmp_path, project["A"](x=1), [name])[name]
    project.release(f"{BEFORE}    y: {type} = {default}\n")
    step = "migration(A, 2, moves=[Rule('y', 'z')])\n"
    project.release(f"{BEFORE}    z: {type}\n{step}")
    found, expected = restore(path, project["A"], revision=1).z, eval(default)
    assert repr(found) == repr(expected) or (math.isnan(found) and math.isnan(expected))


@pytest.mark.parametrize("name", FORMATS)
def test_a_default_is_converted_as_the_class_converts_it(project: Project, tmp_path: Path, name: str) -> None:
    project.release(BEFORE)
    path = write(tmp_path, project["A"](x=1), [name])[name]
    fields = (
        "    y: int = attrs.field(default='3', converter=int)\n    z: str = attrs.field(factory=int, converter=str)\n"
    )
    project.release(f"import attrs\n{BEFORE}{fields}")
    assert project["A"](x=1).y == 3
    found = restore(path, project["A"])
    assert (found.y, found.z) == (3, "0")


def test_a_default_that_takes_the_instance_is_told(project: Project, tmp_path: Path) -> None:
    project.release(BEFORE)
    path = write(tmp_path, project["A"](x=1), ["directory"])["directory"]
    text = "import attrs\n" + BEFORE
    project.release(text + "    y: int = field(default=attrs.Factory(lambda self: self.x, takes_self=True))\n")
    with pytest.raises(InvalidArgumentError) as caught:
        restore(path, project["A"])
    assert str(caught.value) == (
        f"expected a default that needs nothing else, got one that takes the instance at y of {project.name}:A; "
        f"write a migration that gives the value"
    )


def test_a_default_of_another_class_than_declared_is_told_where_it_is(project: Project, tmp_path: Path) -> None:
    project.release(BEFORE)
    path = write(tmp_path, project["A"](x=1), ["directory"])["directory"]
    text = "made = 1\n@state\nclass B:\n    n: int\n" + BEFORE + "    y: B = field(factory=lambda: made and B(n=1))\n"
    project.release(text)
    project.module.made = 0  # type: ignore[attr-defined]
    with pytest.raises(StateMismatchError, match=r"expected B as a dict, got int at \$.y"):
        restore(path, project["A"])
