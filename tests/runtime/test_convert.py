"""Conversion between all formats: nothing is lost, nothing half-written, little memory; and the command."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
import safetensors.numpy
from click.testing import CliRunner
from flax import serialization

from treaty.cli import main
from treaty.runtime import (
    ConversionError,
    CorruptCheckpointError,
    KeyMapError,
    StateMismatchError,
    leaves,
    restore,
    save,
)
from treaty.runtime._convert.compare import compare
from treaty.runtime._convert.convert import Mapped, check_equal, convert
from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._lazy import in_parts
from treaty.runtime.formats import msgpack
from treaty.runtime.formats import safetensors as format
from treaty.runtime.formats import table as formats
from treaty.schema import TreatyError
from treaty.schema.keymap import KeyMap, Rule
from treaty.schema.library.llama import LLAMA
from treaty.schema.library.optax import AdamW, ScheduleState, from_optax
from treaty.schema.library.transformer import Attention, Block, Mlp, Norm, Params, TrainState

FIXTURES = Path(__file__).parents[1] / "compat" / "fixtures"
NAMES = {
    "msgpack": "x.msgpack",
    "msgpack.gz": "x.msgpack.gz",
    "msgpack.zst": "x.msgpack.zst",
    "safetensors": "x.safetensors",
    "sharded": "x.safetensors",
    "npz": "x.npz",
    "orbax": "x",
    "eformer": "x",
    "treaty": "x",
}


def tree_of_all_kinds() -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {
        "kernel": random.standard_normal((3, 4), dtype=np.float32),
        "layers": {"0": np.arange(5, dtype=ml_dtypes.bfloat16), "1": np.ones((2, 2), ml_dtypes.float8_e4m3fn)},
        "ints": {"wide": np.array([2**62, -1]), "narrow": np.array([1, 2], np.uint8)},
        "mask": np.array([True, False]),
        "wave": np.array([1 + 2j], np.complex64),
        "nan": np.array([np.nan, -0.0, np.inf], np.float16),
        "none at all": np.zeros((0, 3), np.float32),
        "count": np.array(7, np.int32),
        "step": 3,
        "lr": 0.1,
        "done": True,
        "note": "Größe",
    }


def make(kind: str, folder: Path, source: Path) -> Path:
    path = folder / NAMES[kind]
    to = kind if kind in ("orbax", "eformer", "treaty") else None
    convert(source, path, to_format=to, max_shard_bytes=30 if kind == "sharded" else None)
    return path


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same tree in every format."""
    first = tmp_path_factory.mktemp("first") / "x.msgpack"
    msgpack.write_file(first, tree_of_all_kinds())
    return {kind: make(kind, tmp_path_factory.mktemp(kind), first) for kind in NAMES}


@pytest.mark.parametrize("to", NAMES)
@pytest.mark.parametrize("kind", NAMES)
def test_every_pair_of_formats(kind: str, to: str, sources: dict[str, Path], tmp_path: Path) -> None:
    path = make(to, tmp_path, sources[kind])

    found = formats.reading(path, lambda source: source.settled())

    assert compare(tree_of_all_kinds(), found) == []
    check_equal(tree_of_all_kinds(), found)
    assert [entry for entry in os.listdir(tmp_path) if entry.endswith(".tmp")] == []


def test_formats_are_recognised_by_what_they_are(sources: dict[str, Path], tmp_path: Path) -> None:
    expected = {**{kind: kind for kind in NAMES}, "msgpack.gz": "msgpack", "msgpack.zst": "msgpack"}
    for kind, path in sources.items():
        nameless = tmp_path / kind.replace(".", "")
        if path.is_file():
            nameless.symlink_to(path)
        assert (
            formats.format_at(str(nameless if path.is_file() and not kind.startswith("msgpack.") else path)).name
            == {
                **expected,
                "sharded": "safetensors",
            }[kind]
        )


def test_a_folder_of_shards_is_a_source(sources: dict[str, Path], tmp_path: Path) -> None:
    convert(sources["sharded"].parent, tmp_path / "y.msgpack")

    assert compare(msgpack.read_file(tmp_path / "y.msgpack"), tree_of_all_kinds()) == []


def test_bytes_are_those_of_flax(sources: dict[str, Path], tmp_path: Path) -> None:
    convert(sources["msgpack"], tmp_path / "y.msgpack")

    assert (tmp_path / "y.msgpack").read_bytes() == serialization.msgpack_serialize(tree_of_all_kinds(), in_place=True)


def test_metadata_goes_along(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"a": np.ones(2)}, tmp_path / "a.safetensors", metadata={"format": "pt", "who": "me"})

    convert(tmp_path / "a.safetensors", tmp_path / "b.safetensors")

    with safetensors.safe_open(tmp_path / "b.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt", "who": "me"}


def test_sequences_become_dicts_with_numbers(tmp_path: Path) -> None:
    msgpack.write_file(tmp_path / "a.msgpack", {"layers": [np.ones(2), {"b": [1]}]})

    convert(tmp_path / "a.msgpack", tmp_path / "b.safetensors")

    tree, _ = format.load(tmp_path / "b.safetensors")
    assert tree["layers"]["1"] == {"b": {"0": 1}}


def params(layers: int = 2, d_model: int = 8) -> Params:
    random = np.random.default_rng(0)

    def weight(*shape: int) -> jax.Array:
        return jnp.asarray(random.standard_normal(shape, dtype=np.float32))

    def block() -> Block:
        return Block(
            attention_norm=Norm(scale=weight(d_model)),
            attention=Attention(
                query=weight(d_model, 4, 2),
                key=weight(d_model, 2, 2),
                value=weight(d_model, 2, 2),
                out=weight(4, 2, d_model),
            ),
            mlp_norm=Norm(scale=weight(d_model)),
            mlp=Mlp(gate=weight(d_model, 16), up=weight(d_model, 16), down=weight(16, d_model)),
        )

    return Params(
        embedding=weight(11, d_model),
        blocks=tuple(block() for _ in range(layers)),
        final_norm=Norm(scale=weight(d_model)),
    )


def train_state() -> TrainState:
    own = params()
    opt = optax.adamw(optax.constant_schedule(1e-3)).init(jax.tree.map(lambda leaf: leaf, own))
    return TrainState(
        step=jnp.int32(5), params=own, opt=from_optax(opt, AdamW[Params, ScheduleState]), rng=jax.random.key(1)
    )


@pytest.mark.parametrize("to", ["x.safetensors", "x.npz", "x.orbax", "x.treaty", "x.eformer"])
def test_a_train_state_with_its_class_goes_through_every_format(to: str, tmp_path: Path) -> None:
    save(tmp_path / "a.msgpack", train_state())
    directory = to.split(".")[1] if to in ("x.orbax", "x.eformer", "x.treaty") else None
    if to == "x.eformer":
        with pytest.raises(TreatyError, match="got None or an empty node at"):  # AdamW's EmptyState
            convert(tmp_path / "a.msgpack", tmp_path / to, cls=TrainState, to_format=directory)
        return

    convert(tmp_path / "a.msgpack", tmp_path / to, cls=TrainState, to_format=directory)
    convert(tmp_path / to, tmp_path / "b.msgpack", cls=TrainState)

    assert compare(msgpack.read_file(tmp_path / "a.msgpack"), msgpack.read_file(tmp_path / "b.msgpack")) == []
    assert int(restore(tmp_path / "b.msgpack", TrainState).step) == 5


@pytest.mark.parametrize("cls", [Params, None])
def test_a_directory_restores_whether_or_not_its_schema_was_known(cls: Any, tmp_path: Path) -> None:
    save(tmp_path / "a.msgpack", params())

    done = convert(tmp_path / "a.msgpack", tmp_path / "directory", cls=cls)

    assert done.destination == "treaty"
    restored = restore(tmp_path / "directory", Params)
    np.testing.assert_array_equal(restored.blocks[1].mlp.up, params().blocks[1].mlp.up)


def test_orbax_reads_what_was_converted(sources: dict[str, Path]) -> None:
    tree = {key: leaf for key, leaf in tree_of_all_kinds().items() if isinstance(leaf, np.ndarray)}

    found = ocp.StandardCheckpointer().restore(sources["orbax"].resolve())

    for key, leaf in tree.items():
        assert np.asarray(found[key]).tobytes() == leaf.tobytes(), key


def test_eformers_own_files_are_a_source_and_its_loader_reads_the_result(tmp_path: Path) -> None:
    convert(FIXTURES / "eformer" / "current", tmp_path / "a.safetensors")
    convert(tmp_path / "a.safetensors", tmp_path / "back", to_format="eformer")

    ours = leaves.tree_deserialize_leaves(tmp_path / "back", None)
    theirs = leaves.tree_deserialize_leaves(FIXTURES / "eformer" / "current", None, prefix="model")
    assert jax.tree.map(np.array_equal, ours["model"], theirs) == jax.tree.map(lambda _: True, theirs)


def test_the_class_is_checked_before_anything_is_written(tmp_path: Path) -> None:
    save(tmp_path / "a.msgpack", params())
    tree = msgpack.read_file(tmp_path / "a.msgpack")
    tree["blocks"]["1"]["mlp"]["up"] = np.ones((8, 17), np.float32)
    del tree["final_norm"]
    msgpack.write_file(tmp_path / "wrong.msgpack", tree)

    with pytest.raises(StateMismatchError) as caught:
        convert(tmp_path / "wrong.msgpack", tmp_path / "b.safetensors", cls=Params)

    assert len(caught.value.mismatches) == 2
    assert sorted(os.listdir(tmp_path)) == ["a.msgpack", "wrong.msgpack"]


def test_a_key_map_goes_both_ways(tmp_path: Path) -> None:
    save(tmp_path / "a.msgpack", params())

    convert(tmp_path / "a.msgpack", tmp_path / "hf.safetensors", cls=Params, mapped=Mapped(LLAMA, reverse=True))
    convert(tmp_path / "hf.safetensors", tmp_path / "b.msgpack", cls=Params, mapped=Mapped(LLAMA), sizes={"d_head": 2})

    assert "model.layers.1.mlp.up_proj.weight" in safetensors.numpy.load_file(tmp_path / "hf.safetensors")
    assert (tmp_path / "b.msgpack").read_bytes() == (tmp_path / "a.msgpack").read_bytes()


def test_a_map_that_drops_or_doubles_a_leaf_writes_nothing(tmp_path: Path) -> None:
    msgpack.write_file(tmp_path / "a.msgpack", {"a": np.ones(2), "b": np.ones(2), "c": np.ones(2)})
    keymap = KeyMap([Rule("a", "x"), Rule("b", "y")])

    with pytest.raises(KeyMapError, match="expected one rule, got none for 'c'"):
        convert(tmp_path / "a.msgpack", tmp_path / "b.safetensors", mapped=Mapped(keymap))
    assert os.listdir(tmp_path) == ["a.msgpack"]


def test_what_is_there_is_replaced_only_when_that_is_said(sources: dict[str, Path], tmp_path: Path) -> None:
    place = tmp_path / "x.safetensors"
    convert(sources["npz"], place, max_shard_bytes=30)

    with pytest.raises(InvalidArgumentError, match="expected a free place"):
        convert(sources["npz"], place)
    convert(sources["npz"], place, replace=True)
    assert os.listdir(tmp_path) == ["x.safetensors"]

    convert(sources["npz"], tmp_path / "dir", to_format="orbax")
    convert(sources["npz"], tmp_path / "dir", to_format="eformer", replace=True)
    assert formats.format_at(str(tmp_path / "dir")).name == "eformer"


def damaged(sources: dict[str, Path], folder: Path) -> Path:
    """A checkpoint whose damage shows only when its last array is read."""
    convert(sources["npz"], folder / "damaged", to_format="eformer")
    (folder / "damaged" / "nan" / "0").unlink()
    return folder / "damaged"


@pytest.mark.parametrize("to", NAMES)
def test_a_failed_conversion_leaves_the_destination_as_it_was(
    to: str, sources: dict[str, Path], tmp_path: Path
) -> None:
    source = damaged(sources, tmp_path)
    folder = tmp_path / "there"
    folder.mkdir()
    path = make(to, folder, sources["npz"])
    before = {file: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}

    with pytest.raises(CorruptCheckpointError, match=r"expected an intact array, got NOT_FOUND.* at \$\.nan"):
        convert(source, path, to_format=to if to in ("orbax", "eformer", "treaty") else None, replace=True)

    assert {file: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()} == before


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    msgpack.write_file(tmp_path / "a.msgpack", {"a": np.ones(2**18, np.float32)})
    code = """
import resource
from treaty.runtime._convert.convert import convert
resource.setrlimit(resource.RLIMIT_FSIZE, (2**19, 2**19))
for name in ("b.msgpack", "b.safetensors", "b.npz"):
    try:
        convert("a.msgpack", name)
    except OSError as error:
        print(error.errno)
"""

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout.split() == [str(errno.EFBIG)] * 3
    assert os.listdir(tmp_path) == ["a.msgpack"]


def test_other_bytes_at_the_destination_are_an_error() -> None:
    tree = tree_of_all_kinds()
    other = {**tree, "kernel": tree["kernel"] + 1e-7, "step": 3.0, "extra": 1}
    del other["mask"]

    with pytest.raises(ConversionError) as caught:
        check_equal(tree, other)

    assert caught.value.problems == (
        "expected nothing, got int 1 at $.extra",
        "expected float32[3, 4] as in the source, got other contents at $.kernel",
        "expected bool[2], got nothing at $.mask",
        "expected int 3 as in the source, got float 3.0 at $.step",
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.safetensors", b"\xff" * 16, "expected a header of at most 8 bytes"),
        ("a.safetensors.index.json", b'{"weight_map": {"a": "../a.safetensors"}}', "expected a file beside the index"),
        ("a.safetensors.index.json", b'{"weight_map": {"a": "gone.safetensors"}}', "expected the shard 'gone.safetens"),
        ("a.msgpack", b"\x81\xa1a", "expected a value, got the end of the data"),
        ("a.msgpack", b"\x81\x01\x02", "expected text as keys, got 1 at \\$"),
        ("a.msgpack", b"\xcd\x01\x02", "expected a tree, got int"),
        ("a.msgpack.gz", b"\x1f\x8b\x08\x00", "expected a whole compressed file"),
        ("a.npz", b"PK\x03\x04", "expected an archive|expected"),
        ("dir/tensorstore_index.json", b"{}", "Unsupported index format"),
        ("dir/_METADATA", b"", "expected JSON"),
        ("text", b"hello", "expected a checkpoint of treaty, .*, got something else"),
    ],
)
def test_hostile_sources_are_told_and_nothing_is_written(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    source = tmp_path / name
    source.parent.mkdir(exist_ok=True)
    source.write_bytes(content)
    out = tmp_path / "out"
    out.mkdir()

    with pytest.raises(TreatyError, match=message):
        convert(source if source.parent == tmp_path else source.parent, out / "b.msgpack")
    assert os.listdir(out) == []


def test_an_orbax_directory_without_its_commit(sources: dict[str, Path], tmp_path: Path) -> None:
    unfinished = tmp_path / "7.orbax-checkpoint-tmp-1"
    convert(sources["npz"], tmp_path / "o", to_format="orbax")
    (tmp_path / "o").rename(unfinished)

    with pytest.raises(TreatyError, match="expected a committed checkpoint, got one whose save did not end"):
        convert(unfinished, tmp_path / "b.msgpack")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to_format": "pickle"}, "expected a format of treaty, .*, got 'pickle'"),
        ({"from_format": "nope"}, "expected a format of treaty, .*, got 'nope'"),
        ({"sizes": {"d_haed": 3}}, r"expected dims of the class or axes of the map \(none\), got 'd_haed'"),
        ({"max_shard_bytes": 3}, "expected --max-shard-bytes for safetensors only, got it for msgpack"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str, sources: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        convert(sources["npz"], tmp_path / "b.msgpack", **options)


def test_places_that_cannot_be_written(sources: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="expected a directory to write into"):
        convert(sources["npz"], tmp_path / "no" / "b.msgpack")
    with pytest.raises(InvalidArgumentError, match="expected a path on this machine, got a URL of gs://"):
        convert(sources["npz"], "gs://b/c")


def test_arrays_over_the_chunk_size_pass_in_parts(tmp_path: Path) -> None:
    """Of a lazy array in parts, the encoder writes what Flax writes for the whole, whatever the parts are."""
    array = np.random.default_rng(0).standard_normal((37, 11)).astype(np.float32)
    for step in (1, 7, 100, 1000):

        def parts(step: int = step) -> Any:
            return (array.reshape(-1)[i : i + step] for i in range(0, array.size, step))

        lazy = in_parts(array.shape, array.dtype, parts)
        for chunk in (100, 404, 2**20):
            assert msgpack.pack({"a": lazy}, chunk_bytes=chunk) == msgpack.pack({"a": array}, chunk_bytes=chunk)
    msgpack.write_file(tmp_path / "a.msgpack", {"a": array}, chunk_bytes=100)
    convert(tmp_path / "a.msgpack", tmp_path / "b.safetensors")
    np.testing.assert_array_equal(safetensors.numpy.load_file(tmp_path / "b.safetensors")["a"], array)


MEMORY = """
import sys
import treaty.runtime._convert.convert as c
from benchmarks.harness import peak_of
from treaty.runtime.formats.eformer.source import EformerSource  # all that is needed is loaded before
import tensorstore
steps = list(zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3]))
print(peak_of(lambda: [c.convert(source, destination, to_format=to) for source, destination, to in steps]) // 2**20)
"""
MEMORY_OF_EACH = (
    MEMORY.replace("print(", "#")
    + """
print(max(peak_of(lambda: c.convert(source, destination, to_format=to)) for source, destination, to in steps) // 2**20)
"""
)
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's count of a process's memory")
@pytest.mark.parametrize(
    ("chain", "limit"),
    [
        ([("a.msgpack", "b.safetensors", "safetensors"), ("b.safetensors", "c.npz", "npz"), ("c.npz", "d.msgpack", "msgpack")], 64),
        ([("a.msgpack", "e", "eformer"), ("e", "o", "orbax"), ("o", "t", "treaty"), ("t", "f.msgpack", "msgpack")], 200),
    ],
    ids=["files", "TensorStore"],
)  # fmt: skip
def test_memory_does_not_grow_with_the_checkpoint(
    chain: list[tuple[str, str, str]], limit: int, tmp_path: Path
) -> None:
    """200 MB in arrays of 4 MB: what TensorStore writes is held a while, what files take is a few pieces."""
    array = np.zeros((1024, 1000), np.float32)
    msgpack.write_file(tmp_path / "a.msgpack", {str(i): array for i in range(50)})

    command = [sys.executable, "-c", MEMORY, *(part for step in chain for part in step)]
    roots = os.pathsep.join(str(ROOT / one) for one in ("", "schema", "generator", "generated", "runtime"))
    environment = {**os.environ, "PYTHONPATH": roots}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < limit


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's count of a process's memory")
def test_memory_does_not_grow_with_one_array(tmp_path: Path) -> None:
    """Of 320 MiB, and through every format that TensorStore stores."""
    array = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.float32, (80 * 1024, 1024))
    msgpack.write_file(tmp_path / "a.msgpack", {"a": array})
    chain = ("a.msgpack", "o", "orbax", "o", "t", "treaty", "t", "e", "eformer", "e", "b.safetensors", "safetensors")

    command = [sys.executable, "-c", MEMORY_OF_EACH, *chain]
    roots = os.pathsep.join(str(ROOT / one) for one in ("", "schema", "generator", "generated", "runtime"))
    environment = {**os.environ, "PYTHONPATH": roots}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 240


MEMORY_OF_A_MAP = """
import sys
from typing import Annotated
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float32
from benchmarks.harness import peak_of
from treaty.generator import load
from treaty.runtime import save
from treaty.schema import Dims, state
from treaty.schema.keymap import KeyMap, Rule

@state
class Linear:
    kernel: Float32[Array, "a b"]

@state
class Model:
    layers: Annotated[tuple[Linear, ...], Dims(...)]

load(Model)
KEYMAPS = [
    KeyMap([Rule("h.{i}.weight", "layers[{i}].kernel", "b a -> a b")]),  # transposed
    KeyMap([Rule("stack.weight", "layers[{i}].kernel", "i b a -> a b")]),  # stacked, and transposed
]
small = Model(layers=(Linear(kernel=jnp.ones((2, 3))),) * 2)
model = Model(layers=tuple(Linear(kernel=jnp.full((1024, 1000), float(i))) for i in range(50)))
jax.block_until_ready(model)
for path in sys.argv[1:]:
    save(path, small, keymap=KEYMAPS[1])  # what is needed is loaded
    print(*(peak_of(lambda: save(path, model, keymap=keymap)) // 2**20 for keymap in KEYMAPS))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's count of a process's memory")
def test_memory_of_a_save_under_a_key_map_does_not_grow_with_the_checkpoint(tmp_path: Path) -> None:
    """200 MB in arrays of 4 MB, transposed, and stacked to one."""
    names = ("a.msgpack", "a.safetensors", "a.npz", "a")
    roots = os.pathsep.join(str(ROOT / one) for one in ("", "schema", "generator", "generated", "runtime"))

    done = subprocess.run(
        [sys.executable, "-c", MEMORY_OF_A_MAP, *names],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert max(map(int, done.stdout.split())) < 120, done.stdout


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(folder)]
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("needs root, to mount a disk that is small")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("to", NAMES)
def test_a_disk_without_room_is_left_as_it_was(to: str, old: bool, small_disk: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    tree = {str(i): random.integers(0, 256, 2**20, np.uint8) for i in range(4)}
    msgpack.write_file(tmp_path / "large.msgpack", tree)
    msgpack.write_file(tmp_path / "small.msgpack", {"a": np.ones(3)})
    place = small_disk / NAMES[to]
    directory = to if to in ("orbax", "eformer", "treaty") else None
    if old:
        convert(tmp_path / "small.msgpack", place, to_format=directory)
    before = {file: file.read_bytes() for file in sorted(small_disk.rglob("*")) if file.is_file()}

    shards = 2**20 if to == "sharded" else None
    with pytest.raises((OSError, TreatyError), match=r"No space left|RESOURCE_EXHAUSTED|UNKNOWN|write"):
        convert(tmp_path / "large.msgpack", place, to_format=directory, max_shard_bytes=shards, replace=old)

    assert {file: file.read_bytes() for file in sorted(small_disk.rglob("*")) if file.is_file()} == before
    assert [name for name in os.listdir(small_disk) if name.startswith(".")] == []


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["convert", *arguments])
    return done.exit_code, done.output


def test_the_command(tmp_path: Path) -> None:
    save(tmp_path / "a.msgpack", params())
    (tmp_path / "map.json").write_text(LLAMA.to_json())
    schema = ("--schema", "treaty.schema.library.transformer:Params")
    a, hf, b = (str(tmp_path / name) for name in ("a.msgpack", "hf.safetensors", "b.msgpack"))

    code, output = run(
        a, hf, *schema, "--map", "treaty.schema.library.llama:LLAMA", "--reverse", "--max-shard-bytes", "2000"
    )
    assert (code, output) == (0, "msgpack -> safetensors: 20 leaves, 5.0 KiB of arrays, all compared\n")
    weight_map = json.loads((tmp_path / "hf.safetensors.index.json").read_text())["weight_map"]
    assert len(weight_map) == 20

    assert run(hf, b, *schema, "--map", str(tmp_path / "map.json"), "--dim", "d_head=2", "--quiet") == (0, "")
    assert Path(b).read_bytes() == Path(a).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nix", "b.msgpack"), "error: expected a checkpoint, got nothing at nix"),
        (("a.msgpack", "a.msgpack"), "; --force replaces it"),
        (("a.msgpack", "b.npz", "--schema", "nope"), "error: --schema: expected PKG.MODULE:NAME, got 'nope'"),
        (("a.msgpack", "b.npz", "--schema", "nope:X"), "error: --schema: No module named 'nope'"),
        (("a.msgpack", "b.npz", "--map", "os:sep"), "error: --map: expected a KeyMap, got str at os:sep"),
        (("a.msgpack", "b.npz", "--map", "no.toml"), "error: --map: expected a file, got nothing at no.toml"),
        (("a.msgpack", "b.npz", "--dim", "d"), "error: --dim: expected NAME=SIZE, got 'd'"),
        (("a.msgpack", "b.npz", "--reverse"), "error: --reverse needs --map, whose direction it turns"),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    msgpack.write_file("a.msgpack", {"a": 1})

    code, output = run(*arguments)

    assert code == (3 if "nix" in arguments else 2)
    assert message in output
    assert os.listdir(tmp_path) == ["a.msgpack"]
