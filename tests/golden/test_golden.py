"""Checkpoints that were committed when they were written: each is read for ever. See README.md."""

import importlib
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.golden import write
from tests.runtime.equality import same
from treaty.cli import main
from treaty.runtime import leaves, restore, serialization, to_state_dict, verify
from treaty.runtime._convert.convert import convert
from treaty.runtime._trees import flatten
from treaty.runtime.formats.table import format_at

HERE = Path(__file__).parent
GENERATIONS = sorted(path for path in HERE.iterdir() if (path / "about.json").is_file())
# Without a clock, a random name or another library's compression in them.
SAME_BYTES = (
    *(f"{state}.{suffix}" for state in ("run", "trained", "evolved") for suffix in ("msgpack", "safetensors", "npz")),
    "live.msgpack",
    "live-parts.msgpack",
)


class Golden(NamedTuple):
    folder: Path
    name: str
    schema: str
    state: str

    def expected(self) -> Any:
        return getattr(importlib.import_module(f"tests.golden.state_{self.schema}"), self.state)()

    @property
    def kind(self) -> str:
        kinds = {"live": "live", "leaves": "live", "evolved": "evolved"}
        return next((kind for start, kind in kinds.items() if self.name.startswith(start)), "class")

    def at(self, scratch: Path) -> Path:
        """Where the checkpoint is: the committed file, or the unpacked directory."""
        if not self.name.endswith(".zip"):
            return Path(shutil.copy(self.folder / self.name, scratch))
        path = scratch / self.name.removesuffix(".zip")
        with zipfile.ZipFile(self.folder / self.name) as packed:
            packed.extractall(path)
        return path


def golden() -> Iterator[Golden]:
    for folder in GENERATIONS:
        about = json.loads((folder / "about.json").read_text())
        for name, state in about["checkpoints"].items():
            yield Golden(folder, name, about["schema"], state)


def params(*kinds: str) -> pytest.MarkDecorator:
    """`class`: those of a class as it is, `evolved`: as it was, `live`: of the drop-in modules, which have none."""
    chosen = [one for one in golden() if one.kind in kinds]
    return pytest.mark.parametrize("one", chosen, ids=lambda one: f"{one.folder.name}-{one.name}")


@params("class", "evolved")
def test_it_is_restored_bit_for_bit(one: Golden, tmp_path: Path) -> None:
    expected = one.expected()
    path = one.at(tmp_path)
    same(restore(path, type(expected)), expected)
    host = restore(path, type(expected), into="numpy")
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(host) if not _is_key(leaf))
    same(to_state_dict(host), to_state_dict(expected))


@params("class")
def test_it_is_inspected_verified_and_converted(
    one: Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = one.expected()
    path = one.at(tmp_path)
    format = format_at(str(path)).name
    main(["inspect", "--json", str(path)], standalone_mode=False)
    listed = {tuple(leaf["path"]): leaf for leaf in json.loads(capsys.readouterr().out)["leaves"]}
    for keys, leaf in flatten(to_state_dict(expected)):
        if isinstance(leaf, (np.ndarray, jax.Array)):
            assert (listed[keys]["dtype"], listed[keys]["shape"]) == (str(leaf.dtype), list(leaf.shape)), keys
        assert keys in listed
    assert verify(path).leaves == len(listed)
    other = tmp_path / ("other.safetensors" if format == "treaty" else "other")
    convert(path, other, cls=type(expected), progress=False)
    same(restore(other, type(expected)), expected)


@params("evolved")
def test_it_is_verified_and_converted_as_it_is(one: Golden, tmp_path: Path) -> None:
    path = one.at(tmp_path)
    assert verify(path).leaves == 4
    other = tmp_path / ("other.safetensors" if path.is_dir() else "other")
    convert(path, other, progress=False)
    same(restore(other, type(one.expected())), one.expected())


@params("live")
def test_the_drop_in_modules_read_it(one: Golden, tmp_path: Path) -> None:
    expected = one.expected()
    path = one.at(tmp_path)
    if one.name.startswith("leaves"):
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("all",))
        tree = jax.tree.map(lambda leaf: leaf, to_state_dict(expected.params))  # keys in the order of pytrees
        same(leaves.tree_deserialize_leaves(path, mesh, prefix="params"), tree)
        same(restore(path, type(expected.params), at="params"), expected.params)
        return
    same(serialization.load_from_file(expected, path), expected)
    content = path.read_bytes()
    if path.suffix == ".msgpack":
        same(serialization.from_bytes(expected, content), expected)
        same(serialization.msgpack_restore(content), serialization.to_state_dict(expected))


@pytest.mark.parametrize("name", SAME_BYTES)
def test_the_writers_still_write_the_newest_generation_byte_for_byte(name: str, tmp_path: Path) -> None:
    newest = next(one for one in reversed([*golden()]) if one.name == name)
    act, _ = write.GOLDEN[name]
    act(tmp_path / name, newest.expected())
    assert (tmp_path / name).read_bytes() == (newest.folder / name).read_bytes()


@pytest.mark.parametrize(
    ("name", "revisions"),
    [
        ("trained", {"treaty.schema.library.transformer:TrainState": 1, "treaty.schema.library.optax:AdamW": 1}),
        ("evolved", {"evolved_v2:Evolved": 1, "evolved_v2:Attention": 1}),
    ],
)
def test_what_the_second_generation_says_of_revisions_is_there(name: str, revisions: dict[str, int]) -> None:
    """So that it is known to be read."""
    with zipfile.ZipFile(HERE / "0002" / f"{name}.zip") as packed:
        more = json.loads(packed.read("treaty.json"))["more"]
    file = (HERE / "0002" / f"{name}.safetensors").read_bytes()
    metadata = json.loads(file[8 : 8 + int.from_bytes(file[:8], "little")])["__metadata__"]
    assert more["revisions"].items() >= revisions.items()
    assert json.loads(metadata["treaty.schema"])["revisions"].items() >= revisions.items()


def test_all_that_is_written_is_replayed() -> None:
    assert {one.name for one in golden()} == set(write.GOLDEN)
    files = {path.name for folder in GENERATIONS for path in folder.iterdir()}
    assert files == {"about.json", *write.GOLDEN}


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
