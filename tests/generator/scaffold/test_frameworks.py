"""A realistic model of each framework: what is written is what a person would have written, and brings the state back.

The files of `expected` are written anew with TREATY_WRITE_EXPECTED=1; review the difference.
"""

import importlib
import os
from pathlib import Path

import pytest

from tests.generator.scaffold.models import optimizers
from tests.generator.scaffold.scaffolding import EXPECTED, assert_comes_back, made_up_state, scaffolded

MODELS = ["plain", "haiku_like", "linen_transformer", "linen_resnet", "nnx_net", "equinox_model"]
REVIEWED = ["adamw_with_mask", "adafactor", "multi_steps", "multi_transform", "inject_hyperparams", "schedule_free"]


def compare(name: str, text: str) -> None:
    path = EXPECTED / f"{name}.py"
    if os.environ.get("TREATY_WRITE_EXPECTED"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_written_as_a_person_would(name: str, tmp_path: Path) -> None:
    make_state = importlib.import_module(f"tests.generator.scaffold.models.{name}").make_state
    text, told = scaffolded(f"{name}:make_state", make_state)
    compare(name, text)
    assert told == []
    assert_comes_back(text, f"scaffolded_{name}", made_up_state(make_state), tmp_path)


@pytest.mark.parametrize("name", optimizers.OPTIMIZERS)
def test_every_state_of_optax_comes_back(name: str, tmp_path: Path) -> None:
    make_state = optimizers.factory(name)
    text, told = scaffolded(f"{name}:make_state", make_state)
    if name in REVIEWED:
        compare(f"optimizer_{name}", text)
    assert told == []
    assert_comes_back(text, f"scaffolded_{name}", made_up_state(make_state), tmp_path)
