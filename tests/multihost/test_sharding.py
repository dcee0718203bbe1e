"""The collective functions of treaty.runtime.sharding between two real processes."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tests.multihost.processes import run_processes


def test_sharding_functions_between_two_processes(tmp_path: Path) -> None:
    save_file({"w": np.arange(16, dtype=np.float32).reshape(8, 2)}, tmp_path / "model.safetensors")
    run_processes(Path(__file__).parent / "sharding_script.py", str(tmp_path / "model.safetensors"))
