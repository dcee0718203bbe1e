"""Tests that need more than the lowest versions that Treaty allows, and why: with lower ones they skip."""

from importlib.metadata import version
from typing import Final, NamedTuple

import pytest
from packaging.version import Version


class Need(NamedTuple):
    package: str
    version: str
    why: str
    tests: tuple[str, ...]  # how their ids begin


NEEDS: Final = (
    Need(
        "tensorstore",
        "0.1.86",
        "the words are its own",
        (
            "tests/clouds/test_faults.py::test_a_server_that_dies_while_arrays_are_written[s3",
            "tests/clouds/test_faults.py::test_a_server_that_dies_before_the_commit[s3]",
            "tests/clouds/test_faults.py::test_a_bucket_that_is_not_there[s3]",
            "tests/test_docs.py::test_the_python_of_a_page_runs[clouds.md]",
        ),
    ),
    Need("mypy", "2.4", "the words are its own", ("tests/typing/test_typing.py",)),
    Need(
        "mypy",
        "2.4",
        "it narrows unions in unions",
        ("tests/schema/test_exhaustive.py", "tests/project/test_contributing.py::test_the_recipe_for_a_leaf_kind"),
    ),
    Need("numpy", "2.4", "its stubs tell more of shapes", ("tests/typing/test_checkers.py",)),
)


def skip_where_too_old(items: list[pytest.Item]) -> None:
    for need in NEEDS:
        found = version(need.package)
        if Version(found) >= Version(need.version):
            continue
        reason = f"needs {need.package} {need.version}, got {found}: {need.why}"
        for item in items:
            if item.nodeid.startswith(need.tests):
                item.add_marker(pytest.mark.skip(reason=reason))
