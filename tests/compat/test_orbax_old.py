"""Checkpoints that old releases of Orbax wrote, committed with the script that made them."""

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array
from jaxtyping import BFloat16, Float32, Int64

from tests.compat.test_orbax import assert_same
from treaty.generator import load
from treaty.runtime import CorruptCheckpointError, IncompleteCheckpointError, restore
from treaty.runtime.formats import msgpack, orbax
from treaty.schema import Dims, Fields, TreatyError, state

PACKED = Path(__file__).parent / "fixtures" / "orbax" / "old.zip"
with zipfile.ZipFile(PACKED) as packed:
    SAVED = sorted({"/".join(name.split("/")[:2]) for name in packed.namelist()})
WHOLE = [name for name in SAVED if not name.endswith(("manager", "standard"))]


def unpack(folder: Path) -> Path:
    """The releases' folders; one file for all of them is easier to keep than their hundred."""
    with zipfile.ZipFile(PACKED) as packed:
        packed.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("orbax"))


@state
class Params:
    w: Float32[Array, "d_in d_out"]
    b: BFloat16[Array, "d_out"]


@state
class Weights:
    w: Float32[Array, "d_in d_out"]


@state
class Train:
    params: Annotated[Params, Dims("d_in", "d_out")]
    opt: tuple[Annotated[optax.TraceState, Fields(trace=Annotated[Weights, Dims("d_in", "d_out")])], optax.EmptyState]
    list: tuple[Int64[np.ndarray, "k"], Float32[Array, "m"]]
    none: Float32[Array, "d_in"] | None
    step: int
    rate: float


load(Train)

TREE: dict[str, Any] = {
    "list": {"0": np.arange(3), "1": np.zeros(2, np.float32)},
    "none": None,
    "opt": {"0": {"trace": {"w": np.ones((2, 3), np.float32)}}, "1": None},
    "params": {"b": np.full(3, 0.5, jnp.bfloat16), "w": np.arange(6, dtype=np.float32).reshape(2, 3)},
    "rate": 0.5,
    "step": 7,
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_class_is_restored_from_every_old_layout(old: Path, name: str) -> None:
    train = restore(old / name, Train)
    assert (train.step, train.rate, train.none) == (7, 0.5, None)
    assert isinstance(train.opt[0], optax.TraceState)
    assert train.opt[1] == optax.EmptyState()
    assert train.params.b.dtype == jnp.bfloat16
    assert_same({"list": {"0": train.list[0], "1": np.asarray(train.list[1])}}, {"list": TREE["list"]})
    assert np.array_equal(restore(old / name, Params, at="params", into="numpy").w, TREE["params"]["w"])


@pytest.mark.parametrize("name", WHOLE)
def test_the_tree_is_read_without_a_class(old: Path, name: str) -> None:
    found = orbax.read_tree(old / name)
    if name == "0.2.7/files":  # where arrays alone say what they are
        found |= {key: found[key].read().item() for key in ("step", "rate")}
    assert_same(found, TREE)


def test_zeros_that_were_left_out_are_zeros(old: Path) -> None:
    """Where they were the fill value of zarr 3, which zarr 2 of Orbax has not."""
    assert not [*(old / "0.6.4/zarr3/list.1").glob("c/*")]
    assert_same(orbax.read_tree(old / "0.6.4/zarr3")["list"]["1"], TREE["list"]["1"])


def test_the_standard_checkpointer_of_then_is_read(old: Path) -> None:
    assert np.array_equal(restore(old / "0.5.23/standard", Params, at="params").w, TREE["params"]["w"])


@pytest.mark.parametrize("release", ["0.2.7", "0.4.8", "0.6.4"])
def test_the_last_step_of_an_old_manager_is_taken_and_json_items_are_none(old: Path, release: str) -> None:
    @state
    class Step:
        step: int

    load(Step)
    assert restore(old / release / "manager", Step).step == 10
    assert restore(old / release / "manager" / "9" / "state", Step).step == 9
    with pytest.raises(TreatyError, match="got 9, 10 in"):
        orbax.read_tree(old / release / "manager", step=8)


def _placeholder(path: Path) -> None:
    tree = msgpack.read_file(path / "checkpoint")
    tree["params"]["w"] = "PLACEHOLDER://../../etc"
    msgpack.write_file(path / "checkpoint", tree)


DAMAGE: dict[str, tuple[str, Callable[[Path], object], type[Exception], str]] = {
    "chunk gone": ("files", lambda p: (p / "params.w/0.0").unlink(), IncompleteCheckpointError, r"\$\.params\.w"),
    "array gone": ("files", lambda p: shutil.rmtree(p / "params.w"), IncompleteCheckpointError, r"\$\.params\.w"),
    "climbs out": ("files", _placeholder, CorruptCheckpointError, r"expected an array of its own.*\$\.params\.w"),
    "cut": (
        "aggregated",
        lambda p: (p / "checkpoint").write_bytes((p / "checkpoint").read_bytes()[:90]),
        CorruptCheckpointError,
        "expected",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named(old: Path, damage: str, tmp_path: Path) -> None:
    name, act, error, message = DAMAGE[damage]
    path = Path(shutil.copytree(old / "0.2.7" / name, tmp_path / "saved"))
    act(path)
    with pytest.raises(error, match=message):
        restore(path, Train)


def test_a_leaf_that_is_gone_from_the_shared_file_is_named(old: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(old / "0.4.8" / "mixed", tmp_path / "saved"))
    msgpack.write_file(path / "checkpoint", {"step": 7})
    with pytest.raises(IncompleteCheckpointError, match=r"expected a leaf, got nothing at \$\..* in .*checkpoint"):
        restore(path, Train)


def test_a_file_of_that_name_alone_makes_no_checkpoint_of_orbax(tmp_path: Path) -> None:
    """TensorFlow writes a text under the same name."""
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"')
    with pytest.raises(IncompleteCheckpointError, match="nothing was saved there"):
        restore(tmp_path, Train)
