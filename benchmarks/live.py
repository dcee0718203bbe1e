"""from_live and to_live against jax.tree.flatten of the same tree, for a tree that was met before."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import jax
import jax.numpy as jnp
from attrs import frozen
from flax import nnx
from jax import Array
from jaxtyping import Float32

from benchmarks.harness import Row, Sample, duration, race
from treaty.generator import load
from treaty.runtime import from_live, to_live
from treaty.schema import Dims, state

BESIDE: Final = "jax.tree.flatten"
RESULT: Final = "times its time"


@state
class Layer:
    a: Float32[Array, "n"]
    b: Float32[Array, "n"]
    c: Float32[Array, "n"]
    d: Float32[Array, "n"]


@state
class Layers:
    layers: Annotated[tuple[Layer, ...], Dims(...)]


class Module(nnx.Module):
    def __init__(self, arrays: Iterator[Array]) -> None:
        self.a, self.b, self.c, self.d = (nnx.Param(next(arrays)) for _ in range(4))


class Modules(nnx.Module):
    def __init__(self, arrays: Iterator[Array], count: int) -> None:
        self.layers = nnx.List([Module(arrays) for _ in range(count)])


@frozen
class Case:
    name: str
    tree: Any


def run(quick: bool) -> Iterator[Row]:
    load(Layers)
    leaves, rounds = (20, 2) if quick else (10_000, 30)
    arrays = iter([jnp.full(2, index, jnp.float32) for index in range(2 * leaves)])
    dicts = {"layers": {str(i): {key: next(arrays) for key in "abcd"} for i in range(leaves // 4)}}
    for case in (Case("dicts", dicts), Case("nnx", Modules(arrays, leaves // 4))):
        yield from _compare(case, leaves, rounds)


def _compare(case: Case, count: int, rounds: int) -> Iterator[Row]:
    tree = case.tree
    obj = from_live(Layers, tree)
    if any(
        one is not other for one, other in zip(jax.tree.leaves(tree), jax.tree.leaves(to_live(obj, tree)), strict=True)
    ):
        raise AssertionError("other leaves came back")
    times = race(
        {
            "from_live": lambda: from_live(Layers, tree),
            "to_live": lambda: to_live(obj, tree),
            "flatten": lambda: jax.tree.flatten(tree),
        },
        rounds,
    )
    for function in ("from_live", "to_live"):
        yield _row(f"{function}, {count} leaves of {case.name}", times[function], times["flatten"])


def _row(case: str, ours: Sample, flatten: Sample) -> Row:
    ratio = ours.best / flatten.best
    numbers = {"treaty": ours.best, "beside": flatten.best, "ratio": ratio}
    return Row(case, duration(ours.best), duration(flatten.best), f"{ratio:.1f}x", "< 5x", numbers)
