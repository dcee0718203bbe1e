"""eformer's layout in object stores."""

import traceback
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from tests.clouds.conftest import SECRETS, Cloud
from tests.clouds.test_faults import FORBIDDEN
from tests.runtime.directory.states import bits
from treaty.runtime import CorruptCheckpointError
from treaty.runtime.leaves import tree_deserialize_leaves, tree_serialize_leaves
from treaty.schema import TreatyError


@pytest.fixture
def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:2]), ("x",))


def tree(seed: int) -> dict[str, Any]:
    return {"a": {"w": jnp.arange(8.0) + seed}, "host": np.arange(seed, dtype=np.int32), "step": jnp.int32(seed)}


def test_trees_are_saved_replaced_and_loaded(cloud: Cloud, mesh: Mesh) -> None:
    tree_serialize_leaves(cloud.url, tree(3), prefix="model")
    tree_serialize_leaves(cloud.url, tree(4), prefix="model")
    tree_serialize_leaves(cloud.url, tree(5), prefix="ema")
    assert bits(tree_deserialize_leaves(cloud.url, mesh, prefix="model")) == bits(tree(4))
    assert bits(tree_deserialize_leaves(cloud.url, mesh, prefix="ema")) == bits(tree(5))


def test_a_missing_object_is_an_error(cloud: Cloud, mesh: Mesh) -> None:
    tree_serialize_leaves(cloud.url, tree(3), prefix="model")
    cloud.write("model/a/w/0", None)
    with pytest.raises(CorruptCheckpointError, match="model/a/w"):
        tree_deserialize_leaves(cloud.url, mesh, prefix="model")


@pytest.mark.parametrize("pattern", [r".*/host/0", r".*/a/w/0", r".*index"])
def test_credentials_are_not_told_by_a_save(pattern: str, cloud: Cloud) -> None:
    cloud.faults.on(f"(PUT|POST) {pattern}", FORBIDDEN)
    with pytest.raises(TreatyError, match=r"cannot write .*: .*PERMISSION_DENIED") as raised:
        tree_serialize_leaves(cloud.url, tree(3), prefix="model")
    told = "".join(traceback.format_exception(raised.value))
    assert [secret for secret in SECRETS.values() if secret in told] == []


@pytest.mark.parametrize("pattern", ["GET .*index", "GET .*zarray"])
def test_credentials_are_not_told_by_a_load(pattern: str, cloud: Cloud, mesh: Mesh) -> None:
    tree_serialize_leaves(cloud.url, tree(3), prefix="model")
    cloud.faults.on(pattern, FORBIDDEN)
    with pytest.raises(TreatyError, match="PERMISSION_DENIED") as raised:
        tree_deserialize_leaves(cloud.url, mesh, prefix="model")
    told = "".join(traceback.format_exception(raised.value))
    assert [secret for secret in SECRETS.values() if secret in told] == []
