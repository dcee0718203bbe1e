"""`treaty report`, as a user runs it: what it writes, what it refuses, and how it ends."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.report.pages import data_of
from tests.runtime.directory.states import linear
from treaty.runtime.commands.report import report
from treaty.runtime.directory import save


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    save(tmp_path / "a", linear(20, 30))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def treaty_report(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(report, list(arguments), catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def test_it_writes_a_page_and_says_where(folder: Path) -> None:
    assert treaty_report("a") == "wrote report.html\n"
    assert treaty_report("a", "a", "-o", "two.html", "--quiet") == ""
    assert len(data_of((folder / "two.html").read_text())["checkpoints"]) == 2


def test_a_report_is_replaced_and_no_other_file(folder: Path) -> None:
    treaty_report("a")
    treaty_report("a")
    (folder / "thesis.html").write_text("<!doctype html>\nyears of work")
    refused = "error: expected a report, or nothing, at {}, got something else; --force replaces it\n"
    assert treaty_report("a", "-o", "thesis.html", code=2) == refused.format("thesis.html")
    assert treaty_report("a", "-o", "a", code=2) == refused.format("a")
    treaty_report("a", "-o", "thesis.html", "--force")
    assert data_of((folder / "thesis.html").read_text())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none"], "error: expected a checkpoint, got nothing at none"),
        (["a", "none"], "error: expected a checkpoint, got nothing at none"),
        (["a", "--max-bytes", "much"], "error: --max-bytes: expected a size like 500MiB, got 'much'"),
        (["a", "-o", "no/where.html"], "error: cannot write no/where.html: No such file or directory"),
        (["report.txt"], "error: expected a checkpoint of "),
    ],
    ids=str,
)
def test_what_it_cannot_do_is_one_line(arguments: list[str], said: str, folder: Path) -> None:
    (folder / "report.txt").write_text("no checkpoint")
    done = treaty_report(*arguments, code=3 if "none" in arguments else 2)
    assert done.startswith(said)
    assert done.count("\n") == 1
    assert not (folder / "report.html").exists()


def test_damage_is_on_the_page_and_in_the_exit_status(folder: Path) -> None:
    (pack,) = (folder / "a").rglob("*.msgpack")
    content = pack.read_bytes()
    pack.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    said = treaty_report("a", "--verify", code=1)
    assert "expected checksum" in said
    data = data_of((folder / "report.html").read_text())
    assert data["checkpoints"][0]["verified"]["state"] == "damaged"
    assert all(leaf["error"] for leaf in data["leaves"])


def test_a_size_is_a_number_and_a_unit(folder: Path) -> None:
    for text, expected in (("0", 0), ("12", 12), ("2KiB", 2048), ("3m", 3 << 20), ("1 GiB", 1 << 30)):
        treaty_report("a", "--max-bytes", text)
        assert data_of((folder / "report.html").read_text())["budget"]["max_bytes"] == expected
