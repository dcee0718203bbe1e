"""It makes no difference whether Flax is imported before us, after us, or not at all."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PREPARE = """
import sys
import jax.numpy as jnp
import numpy as np
from tests.generator.cases.train_state import expected, schema
from treaty.runtime import serialization

class Box:
    def __init__(self, value):
        self.value = value

serialization.register_serialization_state(
    Box, lambda box: {"v": serialization.to_state_dict(box.value)},
    lambda box, state: Box(serialization.from_state_dict(box.value, state["v"], name="v")),
)
tree = {"box": Box([schema.Linear(kernel=jnp.ones((2, 3)), bias=jnp.zeros(3))]), "k": np.zeros(2)}
"""
ALONE = """
assert "flax" not in sys.modules
data = serialization.to_bytes(tree)
restored = serialization.from_bytes(tree, data)
assert type(restored["box"].value[0]) is schema.Linear
try:
    serialization.from_state_dict(tree, {"box": {"v": {}}, "k": np.zeros(2)})
except ValueError as error:
    assert str(error).endswith("at path ./box/v"), error
else:
    raise AssertionError("no error")
"""
TOGETHER = """
import flax.core
assert flax.serialization.__spec__.loader is flax.serialization.__loader__
assert type(flax.serialization.__loader__).__module__ == "_frozen_importlib_external"
assert flax.serialization.to_bytes(tree) == serialization.to_bytes(tree)
frozen = flax.core.freeze(tree)
assert serialization.to_bytes(frozen) == flax.serialization.to_bytes(frozen)
restored = flax.serialization.from_bytes(frozen, serialization.to_bytes(frozen))
assert type(restored["box"].value[0]) is schema.Linear
import importlib
importlib.reload(flax.serialization)
assert flax.serialization.to_bytes(tree) == serialization.to_bytes(tree)
"""


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "code",
    [PREPARE + ALONE, PREPARE + ALONE + TOGETHER, "import flax.serialization\n" + PREPARE + TOGETHER],
    ids=["no flax", "flax after treaty", "flax before treaty"],
)
def test_either_order(code: str) -> None:
    run(code)
