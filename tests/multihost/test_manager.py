"""A manager of several real processes: process 0 decides, all save the same steps and restore the same one."""

from pathlib import Path

from tests.faults.states import Run
from tests.multihost.processes import run_processes
from treaty.runtime import CheckpointManager

SCRIPT = Path(__file__).with_name("manager_script.py")


def test_two_processes_with_one_manager(tmp_path: Path) -> None:
    run_processes(SCRIPT, str(tmp_path))
    assert CheckpointManager(tmp_path / "b", Run, read_only=True).all_steps() == [2, 4]
