"""An array with shards in another process cannot go into one file, and the error says so; one that is whole in each can."""

from pathlib import Path

from tests.multihost.processes import run_processes


def test_two_processes() -> None:
    run_processes(Path(__file__).with_name("unaddressable_script.py"))
