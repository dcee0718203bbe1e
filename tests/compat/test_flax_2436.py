"""flax#2436: a checkpoint of Dense(10) is loaded into a Dense(20) without a word. With the calls of the README it is an error."""

import ast
import logging
import re
from pathlib import Path
from typing import Any

import flax.linen as nn
import flax.serialization
import jax
import jax.numpy as jnp
import pytest
from jax import Array
from jaxtyping import Float32

from treaty.generator import load
from treaty.runtime import StateMismatchError, from_live, restore, save
from treaty.schema import state

README = Path(__file__).parents[2] / "README.md"
SAID = [
    "expected float32[d_in=4, d_out=20], got float32[4, 10] at $.kernel",
    "expected float32[d_out=20], got float32[10] at $.bias",
]


@state
class Dense:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


load(Dense)


def dense(features: int) -> Any:
    """The parameters of a Dense layer, as Flax makes them."""
    return nn.Dense(features).init(jax.random.key(0), jnp.ones((1, 4)))["params"]


@pytest.fixture(params=["flax", "x.msgpack", "x.safetensors", "x.npz", "x"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A Dense(10), saved by Flax itself or by Treaty in each format."""
    if request.param == "flax":
        path = tmp_path / "flax.msgpack"
        path.write_bytes(flax.serialization.to_bytes(dense(10)))
        return path
    path = tmp_path / str(request.param)
    save(path, from_live(Dense, dense(10)))
    return path


def test_flax_takes_it_without_a_word() -> None:
    data = flax.serialization.to_bytes(dense(10))
    loaded = flax.serialization.from_bytes(dense(20), data)
    assert loaded["kernel"].shape == (4, 10)


def test_with_dims_it_is_an_error(checkpoint: Path) -> None:
    assert restore(checkpoint, Dense, dims={"d_in": 4, "d_out": 10}).kernel.shape == (4, 10)
    with pytest.raises(StateMismatchError) as caught:
        restore(checkpoint, Dense, dims={"d_in": 4, "d_out": 20})
    assert str(caught.value).splitlines()[:2] == SAID


def test_with_a_template_it_is_an_error(checkpoint: Path) -> None:
    assert restore(checkpoint, from_live(Dense, dense(10))).kernel.shape == (4, 10)
    with pytest.raises(StateMismatchError) as caught:
        restore(checkpoint, from_live(Dense, dense(20)))
    said = str(caught.value)
    assert "got float32[4, 10]" in said
    assert "at $.kernel" in said


def test_with_neither_the_log_tells_what_was_taken(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "treaty")
    assert restore(checkpoint, Dense).kernel.shape == (4, 10)
    (line,) = caplog.messages
    assert line.endswith(", dims read from the data: d_in=4, d_out=10")
    caplog.clear()
    restore(checkpoint, Dense, dims={"d_out": 10})
    restore(checkpoint, from_live(Dense, dense(10)))
    assert "dims read" not in caplog.text


def test_the_readme_makes_these_calls() -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", README.read_text(), flags=re.MULTILINE | re.DOTALL))
    calls = [ast.unparse(node) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    assert [call for call in calls if call.startswith("restore(")] == [
        "restore('train.msgpack', TrainState, dims=sizes)"
    ]
