"""Random trees through the real Orbax and back: what it writes is read here, what is written here it restores."""

import tempfile
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import orbax.checkpoint.experimental.v1 as ocp_v1
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compat.test_orbax import assert_same, plain
from treaty.runtime.formats import orbax
from treaty.schema import TreatyError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

DTYPES = ["float32", "bfloat16", "int8", "uint16", "bool", "complex64", "float8_e4m3fn", "int4"]
KEYS = st.text("ab0-_ é", min_size=1, max_size=4)


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    shape = draw(st.lists(st.integers(1, 3), max_size=3))  # Orbax refuses empty arrays
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2
    dtype = draw(st.sampled_from(DTYPES))
    return jnp.asarray(values, dtype) if draw(st.booleans()) else np.asarray(values, jnp.dtype(dtype))


LEAVES = (
    arrays()
    | st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**31 - 1)
    | st.floats(allow_nan=False, width=32)
    | st.text("xyz", max_size=3)
)


def nodes(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(children, max_size=2)
    return st.dictionaries(KEYS, children, max_size=3) | lists | lists.map(tuple)


TREES = st.dictionaries(KEYS, st.recursive(LEAVES, nodes, max_leaves=5), min_size=1, max_size=3)


def test_a_tree_without_arrays_is_one(tmp_path: Path) -> None:
    value: dict[str, Any] = {"none": None, "name": "x", "empty": {}}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(tmp_path / "saved", args=ocp.args.PyTreeSave(value))
    orbax.write(tmp_path / "written", value)
    assert orbax.read_tree(tmp_path / "saved") == orbax.read_tree(tmp_path / "written") == value


@settings(max_examples=20)
@given(TREES, st.booleans(), st.booleans())
def test_what_orbax_writes_is_read(value: dict[str, Any], ocdbt: bool, zarr3: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt, use_zarr3=zarr3)) as checkpointer:
            checkpointer.save(path, args=ocp.args.PyTreeSave(value))
        assert_same(orbax.read_tree(path), plain(value))


@settings(max_examples=20)
@given(TREES)
def test_what_is_written_here_orbax_restores(value: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "written"
        orbax.write(path, value)
        assert_same(orbax.read_tree(path), plain(value))
        assert_same(plain(ocp.PyTreeCheckpointer().restore(path)), plain(value))


def test_checkpointables_of_v1_are_items(tmp_path: Path) -> None:
    ocp_v1.save_checkpointables(tmp_path / "saved", {"state": {"w": np.ones(2)}, "ema": {"w": np.zeros(2)}})
    with pytest.raises(TreatyError, match="expected one item, got ema, state in"):
        orbax.read_tree(tmp_path / "saved")
    assert_same(orbax.read_tree(tmp_path / "saved" / "ema"), {"w": np.zeros(2)})
