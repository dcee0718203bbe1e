"""The process that imports a user's modules is a fork here; tests of builds, hooks and docs have real ones."""

import subprocess
from types import SimpleNamespace

import pytest

from tests import forked
from treaty.generator import _project


@pytest.fixture(autouse=True)
def forked_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    fork = SimpleNamespace(run=forked.run_like_subprocess, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(_project, "subprocess", fork)
