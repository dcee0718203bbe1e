"""A project for each test: a module that is declared, locked and declared anew, all in this process."""

from collections.abc import Iterator

import pytest

from tests.evolution.project import Project, projects


@pytest.fixture
def project() -> Iterator[Project]:
    with projects() as make:
        yield make()
