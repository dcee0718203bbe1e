"""Processes that fail, differ, come late or hold what process 0 has not: a checkpoint is of one step, or there is none."""

from pathlib import Path

from tests.multihost.processes import run_processes

SCRIPT = Path(__file__).with_name("agreement_script.py")


def test_three_processes_that_do_not_agree(tmp_path: Path) -> None:
    run_processes(SCRIPT, str(tmp_path), count=3)
