"""A new format is one package and one line: everything that Treaty does with checkpoints it then does with those too."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest
from click.testing import CliRunner

from tests.report.pages import data_of
from tests.runtime import toy_format
from tests.runtime.equality import same
from tests.runtime.restore_options import (
    RIGHT,
    Check,
    Train,
    a_narrow_dtype_is_widened_unasked,
    a_wide_dtype_is_narrowed_only_when_asked,
    narrow,
    train,
)
from tests.runtime.test_every_option import WRONG, is_refused, wide
from treaty.cli import main
from treaty.runtime import (
    CorruptCheckpointError,
    MissingCheckpointError,
    TreatyError,
    inspect,
    remove,
    report,
    restore,
    save,
    verify,
)
from treaty.runtime.formats.table import FORMATS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, toy_format.FORMAT.name, toy_format.FORMAT)  # the one line


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(tmp_path / "x.toy", train())
    return tmp_path / "x.toy"


def treaty(*arguments: object, status: int = 0) -> str:
    """What the command line says, or else what is wrong."""
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == status, done.output
    return done.output


def test_it_is_saved_and_restored(path: Path) -> None:
    assert path.read_bytes().startswith(b'{"leaves"')
    same(restore(path, Train), train())
    save(path, train(vocab=16))
    same(restore(path, Train), train(vocab=16))


@pytest.mark.parametrize("check", RIGHT, ids=lambda check: check.__name__)
def test_a_right_option(check: Check, path: Path) -> None:
    check(path)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_option_is_refused_as_by_every_format(wrong: str, path: Path) -> None:
    is_refused(path, wrong)


def test_dtypes_are_widened_and_not_narrowed(tmp_path: Path) -> None:
    save(tmp_path / "narrow.toy", narrow())
    a_narrow_dtype_is_widened_unasked(tmp_path / "narrow.toy")
    save(tmp_path / "wide.toy", wide())
    a_wide_dtype_is_narrowed_only_when_asked(tmp_path / "wide.toy")


def test_options_of_save_for_which_it_has_no_room_are_refused(tmp_path: Path) -> None:
    for option in (
        {"metadata": {"a": "b"}},
        {"max_shard_bytes": 9},
        {"timeout": 9.0},
        {"base": "x"},
        {"compress": "zstd"},
    ):
        with pytest.raises(TreatyError, match=rf"expected .* for {next(iter(option))}, got '.*x\.toy'"):
            save(tmp_path / "x.toy", train(), **option)
    assert not (tmp_path / "x.toy").exists()


def test_it_is_inspected(path: Path) -> None:
    found = inspect(path)
    assert (found.format, found.path, len(found.leaves)) == ("toy", str(path), 11)
    assert [leaf.shape for leaf in found.leaves if leaf.path == ("params", "embed")] == [(8, 4)]
    assert "$.params.blocks[0..2].down  float32[16, 4]" in treaty("inspect", path)
    assert json.loads(treaty("inspect", path, "--json"))["format"] == "toy"


def test_it_is_reported_on(path: Path) -> None:
    assert data_of(report(path))["checkpoints"][0]["format"] == "toy"
    assert treaty("report", path, "-o", path.with_suffix(".html")) == f"wrote {path.with_suffix('.html')}\n"


def test_it_is_verified(path: Path) -> None:
    assert verify(path).leaves == 11
    assert "11 leaves" in treaty("verify", path)
    path.write_text(path.read_text().replace('[8, 4], "', '[8, 4], "AAAA'))
    with pytest.raises(CorruptCheckpointError, match=r"expected bfloat16\[8, 4\], got 67 bytes"):
        verify(path)
    assert "got 67 bytes" in treaty("verify", path, status=1)


@pytest.mark.parametrize("other", ["y.msgpack", "y.safetensors", "y.npz", "orbax", "eformer", "treaty", "z.toy"])
def test_it_is_converted_to_and_from_every_format(other: str, path: Path) -> None:
    there, back = path.with_name(other), path.with_name("back.toy")
    options = [] if "." in other else ["--to", other]
    schema = ["--schema", "tests.runtime.restore_options:Train"]
    treaty("convert", path, there, *options, *schema)
    treaty("convert", there, back, *schema)
    same(restore(there, Train), train())
    same(restore(back, Train), train())
    assert treaty("diff", path, back) == "equal\n"
    assert treaty("diff", path, there) == "equal\n"
    assert "expected a free place" in treaty("convert", there, back, status=2)
    save(path, train(vocab=16))
    treaty("convert", path, back, "--force", "--to", "toy", "--from", "toy")
    same(restore(back, Train), train(vocab=16))
    assert re.search(
        r"\$\.params\.embed +shape +bfloat16\[16, 4\] +bfloat16\[8, 4\]", treaty("diff", back, there, status=1)
    )


def test_it_is_removed(path: Path) -> None:
    remove(path)
    assert list(path.parent.iterdir()) == []
    with pytest.raises(MissingCheckpointError, match="expected a checkpoint, got nothing at"):
        remove(path)
    save(path, train())
    assert treaty("remove", path) == f"removed {path}\n"
    assert list(path.parent.iterdir()) == []


def test_nothing_and_damage_are_told(tmp_path: Path) -> None:
    with pytest.raises(MissingCheckpointError, match=r"expected a file, got nothing at '.*x\.toy'"):
        restore(tmp_path / "x.toy", Train)
    (tmp_path / "x.toy").write_text("no JSON")
    for read in (lambda path: restore(path, Train), inspect, verify, report):
        with pytest.raises(CorruptCheckpointError, match=r"expected .*x\.toy"):
            read(tmp_path / "x.toy")


def is_the_new_one(path: Path) -> bool:
    same(restore(path, Train), train(vocab=16))
    return True


READERS: dict[str, Callable[[Path], bool]] = {
    "restore": is_the_new_one,
    "verify": lambda path: verify(path).nbytes == nbytes_of(train(vocab=16)),
    "inspect": lambda path: inspect(path).nbytes == nbytes_of(train(vocab=16)),
    "diff": lambda path: treaty("diff", path, path.with_name("new.toy")) == "equal\n",
    "report": lambda path: data_of(report(path))["budget"]["read_bytes"] == nbytes_of(train(vocab=16)),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("fails", [False, True], ids=["read to the end", "failed"])
def test_who_is_overtaken_begins_again(reader: str, fails: bool, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is overwritten in place once it was opened: what was read of the old one is not given to anybody."""
    save(path.with_name("new.toy"), train(vocab=16))
    opened: list[str] = []

    def overtaken(place: str, known: Any) -> Any:
        found = toy_format.FORMAT.open(place, known)
        opened.append(place)
        if len(opened) == 1:
            path.write_bytes(path.with_name("new.toy").read_bytes())
            if fails:
                raise CorruptCheckpointError("expected one file, got some of another")
        return found

    monkeypatch.setitem(FORMATS, "toy", toy_format.FORMAT._replace(open=overtaken))
    assert READERS[reader](path)
    assert opened.count(str(path)) == 2


def nbytes_of(state: Train) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(state) if hasattr(leaf, "nbytes"))


def test_it_lies_on_a_disk_only() -> None:
    with pytest.raises(TreatyError, match="expected a path on this machine, got a URL of s3"):
        save("s3://bucket/x.toy", train())
    with pytest.raises(TreatyError, match="expected a path on this machine, got a URL of s3"):
        restore("s3://bucket/x.toy", Train)


def test_it_is_named_where_formats_are_listed(path: Path) -> None:
    with pytest.raises(TreatyError, match=r"\.toy or a directory, got '.*x\.pkl'"):
        save(path.with_name("x.pkl"), train())
    assert "expected a format of treaty, safetensors, eformer, orbax, npz, msgpack, toy, got 'toi'" in treaty(
        "convert", path, path.with_name("y"), "--to", "toi", status=2
    )
    assert "toy (.toy)" in treaty("convert", "--help")
    (path.parent / "text").write_text("no checkpoint")
    assert "msgpack, toy, got something else" in treaty("inspect", path.parent / "text", status=1)
