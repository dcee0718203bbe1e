"""Cost per leaf as trees grow: flat means that nothing in either direction looks at the whole for each part."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from flax import serialization

from benchmarks import models
from benchmarks.harness import Row, compare, race
from treaty.runtime import from_state_dict, to_state_dict

BESIDE: Final = "flax"
RESULT: Final = "times faster"


def run(quick: bool) -> Iterator[Row]:
    sizes = [20, 40] if quick else [100, 1_000, 10_000, 100_000]
    pairs = models.device_leaves(sizes[-1] // 2)
    for direction, contenders in (("to_state_dict", _writing), ("from_state_dict", _reading)):
        per_leaf: dict[str, list[float]] = {"treaty": [], "flax": []}
        for leaves in sizes:
            rounds = 2 if quick else max(6, min(60, 400_000 // leaves))
            times = race(contenders(pairs[: leaves // 2]), rounds)
            for name, sample in times.items():
                per_leaf[name].append(sample.best / leaves)
            yield compare(f"{direction}, {leaves:,} leaves, per leaf", times, per=leaves)
        yield _growth(direction, sizes, per_leaf)


def _writing(pairs: list[tuple[Any, Any]]) -> dict[str, Callable[[], object]]:
    ours, theirs = models.device_model(pairs), models.flax_model(pairs)
    models.check_same_state(to_state_dict(ours), serialization.to_state_dict(theirs))
    return {"treaty": lambda: to_state_dict(ours), "flax": lambda: serialization.to_state_dict(theirs)}


def _reading(pairs: list[tuple[Any, Any]]) -> dict[str, Callable[[], object]]:
    theirs = models.flax_model(pairs)
    state = serialization.to_state_dict(theirs)
    return {
        "treaty": lambda: from_state_dict(models.Model, state),
        "flax": lambda: serialization.from_state_dict(theirs, state),
    }


def _growth(direction: str, sizes: list[int], per_leaf: dict[str, list[float]]) -> Row:
    """How much dearer a leaf of the largest tree is than one of the cheapest tree."""
    ours, theirs = (per_leaf[name][-1] / min(per_leaf[name]) for name in ("treaty", "flax"))
    case = f"{direction}, a leaf of {sizes[-1]:,} over the cheapest"
    return Row(case, f"{ours:.2f}x", f"{theirs:.2f}x", "-", "flat", {"treaty_growth": ours, "beside_growth": theirs})
