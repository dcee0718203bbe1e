"""The parts of a page are files: all are used, and all are in the wheel."""

import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tests.architecture.packages import ROOT
from treaty.runtime._report import html_page

FOLDER = ROOT / "runtime" / "treaty" / "runtime" / "_report" / "page"


def test_every_part_is_in_every_page() -> None:
    page = html_page.page({})
    for part in FOLDER.iterdir():
        first = next(line for line in part.read_text().splitlines() if "$" not in line)
        assert first in page, part


def test_a_wheel_has_every_part(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    with zipfile.ZipFile(wheel) as archive:
        held = {Path(name).name for name in archive.namelist() if "/_report/page/" in name}
    assert held == {part.name for part in FOLDER.iterdir()}
