"""`treaty.runtime.leaves` in several real processes: each writes its own shards, the first writes the index."""

from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh

from tests.multihost.processes import run_processes
from treaty.runtime.leaves import tree_deserialize_leaves

SCRIPT = Path(__file__).with_name("leaves_script.py")


def test_two_processes_save_and_restore_and_one_restores_after_them(tmp_path: Path) -> None:
    run_processes(SCRIPT, str(tmp_path), "8")
    run_processes(SCRIPT, str(tmp_path), "4")  # again, over the first, with other shapes
    got = tree_deserialize_leaves(tmp_path, Mesh(np.array(jax.devices()[:3]), ("x",)), prefix="model")
    whole = np.arange(12, dtype=np.float32).reshape(4, 3)
    for name in ("w", "everywhere", "host"):
        np.testing.assert_array_equal(got[name], whole)
    assert got["step"] == 4
    assert len(list((tmp_path / "model" / "w").glob("[0-9]*"))) == 4
    assert tree_deserialize_leaves(tmp_path, None, prefix="optimizer")["lr"] == 0.1
