"""Tests that take long and whose subject a shorter one has, too: `make test` leaves them to `make test-long`."""

import os
from typing import Final

import pytest

IS_LONG: Final = os.environ.get("LONG") == "1"
REASON: Final = "takes long: make test-long"
# How their ids begin. The other build backend, or another test of the same file, shows the same in the suite.
LONG: Final = (
    "tests/project/test_build.py::test_a_wheel_has_fresh_code_and_works_where_it_is_installed[setuptools]",
    "tests/project/test_build.py::test_a_lock_is_in_sdist_and_wheel_and_its_history_is_made_from_it[setuptools]",
    "tests/project/test_build.py::test_an_editable_install_writes_into_the_tree[setuptools]",
    "tests/runtime/test_golden_command.py::test_what_is_not_locked_is_not_replayed",
    "tests/test_docs.py::test_a_tutorial_does_what_it_says[golden.md]",
)


def skip_what_takes_long(items: list[pytest.Item]) -> None:
    for item in items:
        if not IS_LONG and item.nodeid.startswith(LONG):
            item.add_marker(pytest.mark.skip(reason=REASON))
