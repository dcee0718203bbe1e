"""What is asked of one format is answered as of any other, and what `restore` takes `convert` takes too."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import serialization
from jax import Array
from jaxtyping import Float32

from tests.runtime.test_files import Model, model
from tests.runtime.test_paths import WRITERS
from treaty.generator import load
from treaty.runtime import TreatyError, restore
from treaty.runtime._convert.convert import Mapped, convert
from treaty.schema import state
from treaty.schema.keymap import KeyMap, Rule

WRONG: list[tuple[str, Any, str]] = [
    ("max_bytes_in_flight", 0, "expected max_bytes_in_flight of 1 or more, got 0"),
    ("max_bytes_in_flight", -1, "expected max_bytes_in_flight of 1 or more, got -1"),
    ("max_bytes_in_flight", "1", "expected max_bytes_in_flight of 1 or more, got '1'"),
    ("max_bytes_in_flight", 1.5, "expected max_bytes_in_flight of 1 or more, got 1.5"),
    ("max_bytes_in_flight", True, "expected max_bytes_in_flight of 1 or more, got True"),
    ("at", 5, "at: expected a path as a str, or a list of them, got 5"),
    ("at", b"layers", "at: expected a path as a str, or a list of them, got b'layers'"),
    ("at", [5], "at: expected a path as a str, or a list of them, got 5"),
    ("at", {"layers": 1}, "at: expected a path as a str, or a list of them, got {'layers': 1}"),
    ("at", [], "at: expected a path, or a list of them, got an empty list"),
    ("at", "a..b", "at='a..b': expected a path like params or blocks[3].up or table['a.b']"),
    ("at", ["a..b"], "at='a..b': expected a path like params or blocks[3].up or table['a.b']"),
    ("into", "torch", "into='torch': expected \"numpy\" or None"),
    ("cast", {"float32": "fp7"}, "cast={'float32': 'fp7'}: expected names of dtypes, got 'fp7'"),
    ("dims", {"z": 3}, "tests.runtime.test_files:Model has no dim 'z'; its dims: none"),
    ("mesh", "mesh", "mesh: expected a jax.sharding.Mesh, got str"),
    ("rules", {"a": "b"}, "rules= needs mesh=, whose axes they name"),
]
RIGHT: list[tuple[str, Any]] = [
    ("max_bytes_in_flight", 1),
    ("max_bytes_in_flight", 2**80),
    ("at", ""),
    ("at", "$"),
    ("at", [""]),
    ("at", ["$", "layers"]),
    ("at", ["layers"]),
    ("at", ("layers", "layers")),
    ("at", ["layers[1]", "layers", "layers[0].kernel"]),
    ("at", {"layers[0]", "layers[1]"}),
    ("into", None),
    ("progress", False),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("saved")
    for suffix, write in WRITERS.items():
        write(folder / f"x{suffix}", model(1, layers=2, size=3))
    return {suffix: folder / f"x{suffix}" for suffix in WRITERS}


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize(("name", "value", "message"), WRONG)
def test_a_wrong_option_is_refused_in_the_same_words(
    suffix: str, name: str, value: Any, message: str, saved: dict[str, Path]
) -> None:
    with pytest.raises(TreatyError) as told:
        restore(saved[suffix], Model, **{name: value})
    assert str(told.value) == message


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize(("name", "value"), RIGHT)
def test_a_right_option_gives_the_same(suffix: str, name: str, value: Any, saved: dict[str, Path]) -> None:
    options: dict[str, Any] = {"into": "numpy", name: value}
    expected = model(1, layers=2, size=3)
    for one, other in zip(restore(saved[suffix], Model, **options).layers, expected.layers, strict=True):
        assert np.array_equal(one.kernel, other.kernel)


@state
class Tuned:
    w: Float32[Array, "d"]
    empty: optax.EmptyState


load(Tuned)


@pytest.mark.parametrize("suffix", [".msgpack", ".npz"])
def test_a_conversion_takes_what_a_restore_takes(suffix: str, tmp_path: Path) -> None:
    """An empty state that another writer stored as None."""
    keymap = KeyMap([Rule("weight", "w"), Rule("nothing", "empty")])
    source = tmp_path / "x.msgpack"
    source.write_bytes(serialization.msgpack_serialize({"weight": np.ones(3, np.float32), "nothing": None}))
    assert restore(source, Tuned, keymap=keymap).empty == optax.EmptyState()
    convert(source, tmp_path / f"y{suffix}", cls=Tuned, mapped=Mapped(keymap))
    back = restore(tmp_path / f"y{suffix}", Tuned)
    assert (back.w.tolist(), back.empty) == ([1, 1, 1], optax.EmptyState())
    assert isinstance(back.w, jnp.ndarray)
