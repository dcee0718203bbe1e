"""What generation 0002 adds: classes that are locked. Committed files are of these classes: never edit them."""

from functools import cache
from typing import Annotated, Final

from tests.evolution.project import Project
from treaty.generator import load
from treaty.schema import Dims, state
from treaty.schema.library.optax import AdamState, EmptyState, LionState, ScheduleState, TraceState
from treaty.schema.library.transformer import Params, TrainState


@state
class Trained:
    """A run of the bundled transformer, and more of optax's states: classes that our own locks know."""

    run: Annotated[TrainState, Dims(None)]
    other: Annotated[tuple[EmptyState, AdamState[Params], LionState[Params], TraceState[Params]], Dims(...)]
    schedule: ScheduleState


load(Trained)

# The life of a class: what is saved is of its second revision, and written as its first.
FIRST: Final = """
@state
class Attention:
    qkv: Float32[Array, "3*d d"]
    scale: BFloat16[Array, "d"]

@state
class Evolved:
    step: Int32[Array, ""]
    attention: Annotated[Attention, Dims(...)]
    old: int
"""
SECOND: Final = """
@state
class Attention:
    query: Float32[Array, "d d"]
    key: Float32[Array, "d d"]
    value: Float32[Array, "d d"]
    gain: BFloat16[Array, "d"] = field(aliases=("scale",))

migration(Attention, 1, moves=[Rule("qkv", ("query", "key", "value"), axis=0)])

@state
class Evolved:
    count: Int32[Array, ""] = field(aliases=("step",))
    attention: Annotated[Attention, Dims(...)]
    old: int
    note: str = "none"
"""


@cache
def evolved_project() -> Project:
    return Project("evolved_v2").release(FIRST).release(SECOND)
