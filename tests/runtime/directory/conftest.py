from pathlib import Path

import pytest

from tests.runtime.directory.states import train
from treaty.runtime.directory import save
from treaty.runtime.formats.directory import plan as _plan


@pytest.fixture
def fine_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of 64 bytes and more are TensorStore arrays, in chunks of at most 256 bytes."""
    monkeypatch.setattr(_plan, "SMALL_BYTES", 64)
    monkeypatch.setattr(_plan, "CHUNK_BYTES", 256)
    monkeypatch.setattr(_plan, "PACK_BYTES", 64)


@pytest.fixture
def checkpoint(tmp_path: Path, fine_layout: None) -> Path:
    """A checkpoint of `train(1)` with many chunks."""
    path = tmp_path / "checkpoint"
    save(path, train(1), metadata={"run": "first", "loss": [1.5, None]})
    return path
