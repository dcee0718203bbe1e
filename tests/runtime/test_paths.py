"""Paths of every kind with every format: each is used as it stands, or refused before anything is written."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command_runner import command_runner
from tests.runtime.test_files import Model, model
from treaty.runtime import (
    IncompleteCheckpointError,
    MissingCheckpointError,
    TreatyError,
    inspect,
    restore,
    save,
    save_async,
    to_state_dict,
    verify,
)
from treaty.runtime._convert.convert import convert
from treaty.runtime.commands.conversion import diff
from treaty.runtime.formats import npz, orbax, safetensors
from treaty.runtime.formats.table import format_to_write
from treaty.runtime.leaves import tree_deserialize_leaves, tree_serialize_leaves

Write = Callable[[Any, Model], object]
FILES: dict[str, Write] = {".msgpack": save, ".msgpack.gz": save, ".safetensors": save, ".npz": npz.write}
WRITERS: dict[str, Write] = {
    **FILES,
    "": save,
    ".orbax": orbax.write,
    ".eformer": lambda path, state: tree_serialize_leaves(path, to_state_dict(state)),
}
by_tensorstore = ["", ".orbax", ".eformer"]
ODD = [
    "a b",
    "a%20b",
    "a?b",
    "a#b",
    "a@b",
    "a\nb",
    "a.",
    "~",
    "é",
    "a:b",
    "-a",
    "*",
    "'\"",
    "a\tb",
    "x" * 200,
    "$HOME",
    "s3:",
]


def small() -> Model:
    return model(1, layers=1, size=3)


def is_back(path: Any) -> bool:
    return np.array_equal(restore(path, Model, into="numpy").layers[0].kernel, small().layers[0].kernel)


@pytest.mark.parametrize("suffix", WRITERS)
def test_odd_names_are_names(suffix: str, tmp_path: Path) -> None:
    for name in ODD:
        WRITERS[suffix](tmp_path / f"{name}{suffix}", small())
        assert is_back(tmp_path / f"{name}{suffix}")
        assert is_back(f"{tmp_path}/./{name}{suffix}")
    assert sorted(os.listdir(tmp_path)) == sorted(f"{name}{suffix}" for name in ODD)


@pytest.mark.parametrize("suffix", WRITERS)
def test_paths_that_go_up_or_through_links(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to("deep/er")
    monkeypatch.chdir(tmp_path / "deep")
    WRITERS[suffix](f"../link/../x{suffix}", small())
    assert is_back(tmp_path / "deep" / f"x{suffix}")
    for path in (f"../deep/x{suffix}", f"x{suffix}", f"er/../x{suffix}", f"../link/../x{suffix}"):
        assert is_back(path)
        assert is_back(Path(path))
        assert is_back(os.fsencode(path))


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\\b"], ids=["no UTF-8", "backslash"])
def test_what_tensorstore_would_misread_is_written_elsewhere_or_refused(
    name: bytes, suffix: str, tmp_path: Path
) -> None:
    path = os.path.join(os.fsencode(tmp_path), name + suffix.encode())
    if suffix in by_tensorstore:
        with pytest.raises(TreatyError, match=r"expected a path (without a backslash, which|in UTF-8, as) TensorStore"):
            WRITERS[suffix](path, small())
        assert os.listdir(tmp_path) == []
    else:
        WRITERS[suffix](path, small())
        assert is_back(path)
        assert os.listdir(os.fsencode(tmp_path)) == [name + suffix.encode()]


@pytest.mark.parametrize("suffix", by_tensorstore)
def test_a_directory_in_one_with_a_backslash_is_refused_for_writing(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a\\b").mkdir()
    monkeypatch.chdir(tmp_path / "a\\b")
    with pytest.raises(TreatyError, match="backslash"):
        WRITERS[suffix]("x", small())
    assert [*tmp_path.iterdir(), *Path().iterdir()] == [tmp_path / "a\\b"]


@pytest.mark.parametrize("name", ["s3://bucket/x", "S3://bucket/x", "gs://bucket/x", "s3:/bucket/x", "GS:/bucket/x"])
@pytest.mark.parametrize("suffix", [".msgpack", ".msgpack.zst", ".safetensors", ".npz"])
def test_a_url_of_a_file_is_refused_everywhere(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = name + suffix
    save("here.msgpack", small())
    attempts: list[Callable[[], object]] = [
        lambda: save(url, small()),
        lambda: save_async(url, small()),
        lambda: restore(url, Model),
        lambda: npz.write(url, small()),
        lambda: npz.restore(url, Model),
        lambda: orbax.write(url, small()),
        lambda: orbax.restore(url, Model),
        lambda: safetensors.save(url, small()),
        lambda: safetensors.restore(url, Model),
        lambda: inspect(url),
        lambda: convert("here.msgpack", url),
        lambda: convert(url, "there.msgpack"),
        lambda: save(Path(url), small()),
        lambda: restore(Path(url), Model),
    ]
    for attempt in attempts:
        with pytest.raises(TreatyError, match=r"^expected (a path on this machine|a URL as a str|a directory|\.msg)"):
            attempt()
    done = command_runner().invoke(diff, [url, "here.msgpack"])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert os.listdir() == ["here.msgpack"]


@pytest.mark.parametrize("suffix", [".msgpack", ".safetensors", ".npz", ""])
def test_a_file_url_is_the_path_that_it_means(suffix: str, tmp_path: Path) -> None:
    WRITERS[suffix](f"file://{tmp_path}/a%20b{suffix}", small())
    assert is_back(f"FILE://{tmp_path}/a%20b{suffix}")
    assert os.listdir(tmp_path) == [f"a b{suffix}"]


def test_secrets_in_a_url_are_not_repeated() -> None:
    with pytest.raises(TreatyError) as told:
        save("s3://key:hidden@bucket/x.msgpack", small())
    assert "hidden" not in str(told.value)


@pytest.mark.parametrize(
    "look",
    [inspect, verify, lambda path: restore(path, Model), lambda path: convert(path, path.parent.parent / "copy")],
)
@pytest.mark.parametrize(
    "name", ["x.msgpack", "x.safetensors", "x.safetensors.index.json", "x.npz", "x", "empty", "no/x"]
)
def test_what_is_missing_is_missing_in_one_way(name: str, look: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingCheckpointError, match=re.escape(str(tmp_path))) as told:
        look(tmp_path / name)
    assert isinstance(told.value, IncompleteCheckpointError)
    assert isinstance(told.value, FileNotFoundError)
    assert told.value.errno == 2
    assert not str(told.value).startswith("[Errno")


@pytest.mark.parametrize(
    "look",
    [npz.read_tree, safetensors.load, orbax.read_tree, lambda path: tree_deserialize_leaves(path, None)],
    ids=["npz", "safetensors", "orbax", "eformer"],
)
def test_each_reader_says_likewise_that_nothing_is_there(look: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(MissingCheckpointError, match=re.escape(str(tmp_path))):
        look(tmp_path / "x")


WRITING: dict[str, Callable[[str], object]] = {
    "save": lambda path: save(path, small()),
    "save_async": lambda path: save_async(path, small()).result(),
    "convert": lambda path: convert("here.msgpack", path),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save("here.msgpack", small())
    return tmp_path


@pytest.mark.parametrize("write", WRITING)
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("x.unknown", "; a directory of that name is written 'x.unknown/'"),
        ("run.final", "; a directory of that name is written 'run.final/'"),
        ("x.orbax", "; a directory of that name is written 'x.orbax/'"),
        ("x.msgpck", "; did you mean .msgpack?"),
        ("x.MSGPACK", "; did you mean .msgpack?"),
        ("x.safetensors2", "; did you mean .safetensors?"),
        ("x.npy", "; did you mean .npz?"),
        ("x.pt", ""),
        ("x.ckpt", ""),
        ("x.h5/", ""),
        ("x.onnx/", ""),
        ("s3://bucket/x.pkl", ""),
    ],
)
def test_a_suffix_that_no_format_has_is_refused_and_never_made_a_directory(
    write: str, name: str, advice: str, here: Path
) -> None:
    with pytest.raises(TreatyError) as told:
        WRITING[write](name)
    if not (write == "convert" and "://" in name):
        assert str(told.value).startswith("expected .safetensors, ")
        assert str(told.value).endswith(f" or a directory, got {name!r}{advice}")
    assert os.listdir(here) == ["here.msgpack"]


@pytest.mark.parametrize("write", WRITING)
@pytest.mark.parametrize(
    "name",
    [
        "run.v2",
        "step_1.5",
        "exp-2024.01",
        "a.",
        ".hidden",
        ".1.removed",
        "run.step100",
        "a.b c",
        "x.final/",
        "lr.3e-4",
        "a.日本",
    ],
)
def test_a_dot_in_the_name_of_a_directory_is_no_suffix(write: str, name: str, here: Path) -> None:
    WRITING[write](name)
    assert is_back(here / name)
    assert (here / name / "treaty.json").is_file()


@pytest.mark.parametrize("write", WRITING)
def test_a_directory_that_is_there_is_meant_whatever_its_name(write: str, here: Path) -> None:
    (here / "run.final").mkdir()
    if write == "convert":
        save("run.final", small())
        convert("here.msgpack", "run.final", replace=True)
    else:
        WRITING[write]("run.final")
    assert is_back("run.final")


def test_the_name_of_a_bucket_is_no_files() -> None:
    assert [format_to_write(url).name for url in ("gs://my.bucket", "s3://my.bucket/run")] == ["treaty", "treaty"]
