"""Orbax checkpoints: what the real Orbax writes is read here without it, and what is written here the real one restores."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import orbax.checkpoint as ocp
import orbax.checkpoint.experimental.v1 as ocp_v1
import pytest
import tensorstore as ts
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import BFloat16, Float32, Int32, Key

from treaty.generator import load
from treaty.runtime import (
    CorruptCheckpointError,
    IncompleteCheckpointError,
    StateMismatchError,
    inspect,
    to_state_dict,
)
from treaty.runtime._lazy import LazyArray
from treaty.runtime.formats import orbax
from treaty.schema import Dims, Fields, Length, TreatyError, state

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@state
class Params:
    w: Float32[Array, "d_in d_out"]
    b: BFloat16[Array, "d_out"]


Adam = Annotated[
    optax.ScaleByAdamState,
    Fields(
        count=Int32[Array, ""],
        mu=Annotated[Params, Dims("d_in", "d_out")],
        nu=Annotated[Params, Dims("d_in", "d_out")],
    ),
]


@state
class Train:
    params: Annotated[Params, Dims("d_in", "d_out")]
    opt: tuple[Adam, optax.EmptyState]
    layers: Annotated[list[Params], Length("n"), Dims(None)]
    rng: Key[Array, ""]
    step: int
    maybe: Float32[Array, "d_in"] | None


load(Train)


def params(scale: float = 1.0) -> Params:
    return Params(w=scale * jnp.arange(12.0).reshape(3, 4), b=jnp.full(4, scale, jnp.bfloat16))


def train(**changes: Any) -> Train:
    adam = optax.ScaleByAdamState(count=jnp.int32(5), mu=params(2.0), nu=params(3.0))
    fields: dict[str, Any] = {
        "params": params(),
        "opt": (adam, optax.EmptyState()),
        "layers": [params(4.0), params(5.0)],
        "rng": jax.random.key(3),
        "step": 7,
        "maybe": None,
    }
    return Train(**{**fields, **changes})


def tree() -> dict[str, Any]:
    """Everything that Orbax itself can save."""
    spec = cast("Any", PartitionSpec)("x")  # its constructor has no types
    mesh = Mesh(np.array(jax.devices()[:4]), ("x",))
    weights = {"w": jnp.ones((3, 4)), "b": jnp.full(4, 0.5, jnp.bfloat16)}
    return {
        "params": weights,
        "opt": optax.adamw(1e-3).init(weights),
        "list": [jnp.ones(2), np.arange(3)],
        "tuple": (jnp.ones(1), 2),
        "none": None,
        "empty": {"dict": {}, "list": [], "tuple": ()},
        "int": 3,
        "float": 2.5,
        "bool": True,
        "float8": jnp.ones(3, jnp.float8_e4m3fn),
        "int4": jnp.ones(3, jnp.int4),
        "complex": np.ones(2, np.complex64),
        "zeros": np.zeros((4, 5), np.int64),
        "sharded": jax.device_put(jnp.arange(32.0).reshape(8, 4), NamedSharding(mesh, spec)),
        "with.dot": jnp.ones(5),
        "with/slash": jnp.zeros(6),
        "key": jax.random.key(1, impl="rbg"),
    }


def plain(node: Any) -> Any:
    """The state dict that a tree should read back as, arrays in numpy."""
    if isinstance(node, jax.Array) and jnp.issubdtype(node.dtype, jax.dtypes.prng_key):
        return {"impl": str(jax.random.key_impl(node)), "data": np.asarray(jax.random.key_data(node))}
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return {name: plain(getattr(node, name)) for name in node._fields} or None
    if isinstance(node, (list, tuple)):
        node = dict(enumerate(node))
    if isinstance(node, dict):
        return {str(key): plain(value) for key, value in node.items()}
    return np.asarray(node) if isinstance(node, jax.Array) else node


def assert_same(got: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert isinstance(got, dict)
        assert got.keys() == expected.keys()
        for key, value in expected.items():
            assert_same(got[key], value)
    elif isinstance(expected, np.ndarray):
        array = got.read() if isinstance(got, LazyArray) else got
        assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(array, expected)
    else:
        assert (type(got), got) == (type(expected), expected)


def save(path: Path, value: Any, **options: Any) -> Path:
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(value))
    return path


def save_standard(path: Path, value: Any) -> Path:
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, value)
    return path


def save_v1(path: Path, value: Any) -> Path:
    ocp_v1.save(path, value)
    return path


LAYOUTS: dict[str, Callable[[Path, Any], Path]] = {
    "zarr2 in OCDBT": lambda path, value: save(path, value),
    "zarr3 in OCDBT": lambda path, value: save(path, value, use_zarr3=True),
    "zarr2 in files": lambda path, value: save(path, value, use_ocdbt=False),
    "zarr3 in files": lambda path, value: save(path, value, use_ocdbt=False, use_zarr3=True),
    "StandardCheckpointer": save_standard,
    "v1": save_v1,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_orbax_reads_as_the_tree_that_was_saved(layout: str, tmp_path: Path) -> None:
    value = tree()
    read = orbax.read_tree(LAYOUTS[layout](tmp_path / "saved", value))
    assert isinstance(read["sharded"], LazyArray)
    assert_same(read, plain(value))


def test_strings_are_read_where_orbax_puts_them(tmp_path: Path) -> None:
    value = {"names": ["x", "y"], "with/slash": {"a.b": "z"}, "w": np.ones(1)}
    assert_same(orbax.read_tree(save(tmp_path / "saved", value)), plain(value))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_class_is_restored_with_its_own_containers(layout: str, tmp_path: Path) -> None:
    value = train()
    restored = orbax.restore(LAYOUTS[layout](tmp_path / "saved", value), Train)
    assert isinstance(restored.opt[0], optax.ScaleByAdamState)
    assert restored.opt[1] == optax.EmptyState()
    assert isinstance(restored.layers, list)
    assert_same(plain(to_state_dict(restored)), plain(to_state_dict(value)))


def test_orbax_types_of_its_own_do_not_matter(tmp_path: Path) -> None:
    from orbax.checkpoint._src.metadata.pytree_metadata_options import PyTreeMetadataOptions

    rich = PyTreeMetadataOptions(support_rich_types=True)
    path = save(tmp_path / "saved", train(), pytree_metadata_options=rich)
    assert orbax.restore(path, Train, into="numpy").step == 7


def test_a_named_tuple_stored_by_position_is_restored_by_name(tmp_path: Path) -> None:
    value = to_state_dict(train())
    value["opt"]["0"] = dict(zip("012", value["opt"]["0"].values(), strict=True))
    orbax.write(tmp_path / "saved", value)
    assert isinstance(orbax.restore(tmp_path / "saved", Train).opt[0], optax.ScaleByAdamState)


def test_a_manager_gives_its_last_committed_step_or_the_one_asked_for(tmp_path: Path) -> None:
    with ocp.CheckpointManager(tmp_path, item_names=("state", "extra")) as manager:
        for step in (1, 20):
            args = ocp.args.Composite(
                state=ocp.args.StandardSave({"step": step}), extra=ocp.args.StandardSave({"e": np.ones(1)})
            )
            manager.save(step, args=args)
    (tmp_path / "30.orbax-checkpoint-tmp").mkdir()
    assert orbax.read_tree(tmp_path, item="state") == {"step": 20}
    assert orbax.read_tree(tmp_path, item="state", step=1) == {"step": 1}
    assert orbax.read_tree(tmp_path / "1" / "state") == {"step": 1}
    with pytest.raises(TreatyError, match="expected one item, got extra, state in"):
        orbax.read_tree(tmp_path)
    with pytest.raises(IncompleteCheckpointError, match="expected step 2, got 1, 20"):
        orbax.read_tree(tmp_path, step=2)


def test_a_damaged_step_stops_no_other(tmp_path: Path) -> None:
    with ocp.CheckpointManager(tmp_path) as manager:
        for step in (1, 2, 3):
            manager.save(step, args=ocp.args.StandardSave({"step": step}))
    for marker in tmp_path.glob("*/commit_success.txt"):  # which older Orbax did not write
        marker.unlink()
    (tmp_path / "1" / "_CHECKPOINT_METADATA").write_bytes(b"")
    assert orbax.read_tree(tmp_path) == {"step": 3}
    assert orbax.read_tree(tmp_path, step=2) == {"step": 2}
    assert inspect(tmp_path).step == 3
    with pytest.raises(CorruptCheckpointError, match=r"1/_CHECKPOINT_METADATA$"):
        orbax.read_tree(tmp_path, step=1)
    (tmp_path / "3" / "_CHECKPOINT_METADATA").write_bytes(b"{")
    with pytest.raises(CorruptCheckpointError, match=r"3/_CHECKPOINT_METADATA$"):  # and not an older one in its place
        orbax.read_tree(tmp_path)


def test_of_a_step_that_is_an_item_itself_the_number_is_told(tmp_path: Path) -> None:
    save_standard(tmp_path / "run" / "7", {"step": 7})
    assert inspect(tmp_path / "run").step == 7
    assert inspect(tmp_path / "run" / "7").step is None
    never_commit(tmp_path / "run" / "7")
    with pytest.raises(IncompleteCheckpointError, match="expected a committed checkpoint"):
        orbax.read_tree(tmp_path / "run")


def test_steps_may_have_a_prefix_and_leading_zeros(tmp_path: Path) -> None:
    options = ocp.CheckpointManagerOptions(step_prefix="ck", step_format_fixed_length=8)
    with ocp.CheckpointManager(tmp_path, options=options) as manager:
        for step in (9, 10):
            manager.save(step, args=ocp.args.StandardSave({"step": step}))
    assert orbax.read_tree(tmp_path) == {"step": 10}


def test_a_v1_training_checkpointer_is_a_manager_too(tmp_path: Path) -> None:
    with ocp_v1.training.Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(5, {"step": 5})
        checkpointer.save(6, {"step": 6})
    assert orbax.read_tree(tmp_path) == {"step": 6}


PROCESS = """
import sys, jax, numpy as np
jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", 2, int(sys.argv[2]), coordinator_bind_address=f"127.0.0.1:{sys.argv[1]}")
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
sharding = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), PartitionSpec("x"))
whole = np.arange(32.0, dtype=np.float32).reshape(8, 4)
array = jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])
with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(sys.argv[3], {"w": array})
"""


def test_arrays_that_two_processes_wrote_are_whole(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-c", PROCESS, str(port)]
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    processes = [subprocess.Popen([*command, str(i), str(tmp_path / "saved")], env=env) for i in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert (tmp_path / "saved" / "ocdbt.process_1").exists()
    assert_same(orbax.read_tree(tmp_path / "saved"), {"w": np.arange(32.0, dtype=np.float32).reshape(8, 4)})


def test_orbax_restores_what_is_written_here_without_a_target(tmp_path: Path) -> None:
    value = {**tree(), "name": "x", "with/slash": "text", "empty array": np.zeros((0, 3)), "z": 1j}
    del value["opt"]
    orbax.write(tmp_path / "written", value)
    assert_same(orbax.read_tree(tmp_path / "written"), plain(value))
    for restored in (ocp.PyTreeCheckpointer().restore(tmp_path / "written"), ocp_v1.load(tmp_path / "written")):
        assert isinstance(restored["list"], list)
        assert restored["empty"] == value["empty"]
        assert_same(plain(restored), plain(value))


def test_orbax_restores_what_is_written_here_into_a_target(tmp_path: Path) -> None:
    value = tree()
    orbax.write(tmp_path / "written", value)
    target = jax.tree.map(ocp.utils.to_shape_dtype_struct, value)
    with ocp.StandardCheckpointer() as checkpointer:
        restored = checkpointer.restore(tmp_path / "written", target)
    assert type(restored["opt"]) is tuple
    assert isinstance(restored["opt"][0], optax.ScaleByAdamState)
    assert restored["sharded"].sharding == value["sharded"].sharding
    assert_same(plain(restored), plain(value))


def test_orbax_restores_an_instance_into_the_instance(tmp_path: Path) -> None:
    value = train()
    orbax.write(tmp_path / "written", value)
    with ocp.StandardCheckpointer() as checkpointer:
        restored = checkpointer.restore(tmp_path / "written", value)
    assert isinstance(restored, Train)
    assert_same(plain(to_state_dict(restored)), plain(to_state_dict(value)))
    assert_same(plain(to_state_dict(orbax.restore(tmp_path / "written", Train))), plain(to_state_dict(value)))


def test_a_manager_finds_a_step_that_is_written_here(tmp_path: Path) -> None:
    (tmp_path / "10").mkdir()
    orbax.write(tmp_path / "10" / "default", {"w": np.ones(3)})
    with ocp.CheckpointManager(tmp_path) as manager:
        assert manager.latest_step() == 10
        restored = manager.restore(10, args=ocp.args.StandardRestore({"w": np.zeros(3)}))
    assert_same(restored, {"w": np.ones(3)})


def test_a_state_dict_with_a_class_has_sequences_for_orbax(tmp_path: Path) -> None:
    orbax.write(tmp_path / "saved", train())
    lazy = orbax.read_tree(tmp_path / "saved")
    lazy["opt"]["1"] = {}
    orbax.write(tmp_path / "copy", lazy, cls=Train)
    assert isinstance(ocp.PyTreeCheckpointer().restore(tmp_path / "copy")["layers"], list)
    with pytest.raises(StateMismatchError, match=r"expected int, got nothing at \$\.step"):
        orbax.write(tmp_path / "wrong", {key: value for key, value in lazy.items() if key != "step"}, cls=Train)
    assert not list(tmp_path.glob("wrong*"))


def test_many_small_arrays_share_files(tmp_path: Path) -> None:
    value = {f"w{i}": np.full(3, i) for i in range(300)}
    orbax.write(tmp_path / "written", value)
    assert len(list((tmp_path / "written" / "d").iterdir())) < 10
    assert_same(orbax.read_tree(tmp_path / "written"), value)


def test_a_large_array_is_stored_in_parts(tmp_path: Path) -> None:
    value = np.arange(5 * 2**22, dtype=np.float32).reshape(5, 2**11, 2**11)
    orbax.write(tmp_path / "written", {"w": value})
    assert_same(ocp.PyTreeCheckpointer().restore(tmp_path / "written"), {"w": value})
    spec = {"driver": "zarr3", "kvstore": {"driver": "ocdbt", "base": f"file://{tmp_path}/written/", "path": "w/"}}
    assert ts.open(spec).result().chunk_layout.read_chunk.shape == (1, 2**10, 2**11)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a.b": np.ones(1), "a": {"b": np.ones(1)}}, r"joined with dots, as Orbax does, got \$\['a.b'\] and \$\.a\.b"),
        ({"a": b"x"}, r"expected what Orbax can store, got bytes at \$\.a"),
        ({"a": 2**70}, r"got an array of object at \$\.a"),
        ({"a": np.ones(1, ml_dtypes.uint4)}, r"got an array of uint4 at \$\.a"),
        ({"a~b": "x"}, r"expected a key that is a JSON pointer of its own, got \$\['a~b'\]"),
        ({}, "expected a tree with a leaf"),
    ],
)
def test_what_orbax_could_not_restore_is_not_written(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TreatyError, match=message):
        orbax.write(tmp_path / "written", value)
    assert not list(tmp_path.iterdir())


KILLED = """
import os, signal, sys
import numpy as np
from treaty.runtime.formats import orbax
from treaty.runtime.formats.orbax import write_item

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(write_item, sys.argv[2], kill)
orbax.write(sys.argv[1], {"x": np.ones((600, 600))})
"""


@pytest.mark.parametrize("where", ["_commit", "_metadata", "_sync", "sync_directory"])
def test_what_a_killed_write_left_goes_with_the_next_one(where: str, tmp_path: Path) -> None:
    for _ in range(2):
        subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "1"), where], check=False)
    shutil.rmtree(tmp_path / "1", ignore_errors=True)
    orbax.write(tmp_path / "1", {"x": np.zeros((4, 4))})
    assert os.listdir(tmp_path) == ["1"]
    assert orbax.read_tree(tmp_path / "1")["x"].read().sum() == 0


def test_orbax_sees_no_step_in_what_a_killed_write_left(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "7"), "_sync"], check=False)
    assert len(os.listdir(tmp_path)) == 1
    with ocp.CheckpointManager(tmp_path) as manager:
        assert manager.all_steps() == []
        manager.save(8, args=ocp.args.StandardSave({"step": 8}))
    assert orbax.read_tree(tmp_path) == {"step": 8}


def test_nothing_is_left_of_a_write_that_fails_and_nothing_is_replaced(tmp_path: Path) -> None:
    def fail() -> Any:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        orbax.write(tmp_path / "written", {"a": np.ones(3), "b": LazyArray((3,), np.dtype("f4"), fail)})
    assert not list(tmp_path.iterdir())
    orbax.write(tmp_path / "written", {"a": 1})
    with pytest.raises(TreatyError, match="expected a path that is free"):
        orbax.write(tmp_path / "written", {"a": 2})
    assert orbax.read_tree(tmp_path / "written") == {"a": 1}


def test_every_mismatch_is_said_before_an_array_is_read(tmp_path: Path) -> None:
    value = to_state_dict(train())
    value["layers"]["0"]["w"] = np.ones(3, np.float32)
    value["layers"]["1"]["b"] = np.ones(4, np.float32)
    value["step"] = 0.5
    value["extra"] = np.ones(2)
    path = save(tmp_path / "saved", value, use_ocdbt=False)
    for chunk in path.glob("*/0.0"):
        chunk.unlink()
    with pytest.raises(StateMismatchError) as caught:
        orbax.restore(path, Train)
    assert [str(one) for one in caught.value.mismatches] == [
        "expected float32[d_in=3, d_out=4], got float32[3] at $.layers[0].w",
        "expected bfloat16[d_out=4], got float32[4] at $.layers[1].b",
        "expected int, got float 0.5 at $.step",
        "expected no such key in Train, got float64[2] at $.extra",
    ]
    with pytest.raises(
        StateMismatchError, match=r"expected float32\[d_in=9, d_out=4\], got float32\[3, 4\] at \$.params.w"
    ):
        orbax.restore(save(tmp_path / "right", train()), Train, dims={"d_in": 9})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return save(tmp_path / "saved", {"w": np.ones((3, 4)), "s": "x", "n": 1}, use_ocdbt=False)


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def entry(metadata: dict[str, Any], name: str) -> dict[str, Any]:
    return cast("dict[str, Any]", metadata["tree_metadata"][f"('{name}',)"])


def climb(metadata: dict[str, Any]) -> None:
    entry(metadata, "w")["key_metadata"] = [{"key": "../w", "key_type": 2}]


def never_commit(path: Path) -> None:
    (path / "commit_success.txt").unlink()
    edit(path / "_CHECKPOINT_METADATA", lambda data: data.update(commit_timestamp_nsecs=None))


DAMAGE: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "chunk gone": (lambda path: (path / "w/0.0").unlink(), IncompleteCheckpointError, r"at \$\.w"),
    "chunk cut": (lambda path: (path / "w/0.0").write_bytes(b"\x28\xb5\x2f"), CorruptCheckpointError, r"at \$\.w"),
    "array gone": (lambda path: shutil.rmtree(path / "w"), IncompleteCheckpointError, r"at \$\.w"),
    "array metadata empty": (lambda path: (path / "w/.zarray").write_bytes(b""), CorruptCheckpointError, r"at \$\.w"),
    "shape differs": (
        lambda path: edit(path / "w/.zarray", lambda data: data.update(shape=[6, 4])),
        IncompleteCheckpointError,
        r"at \$\.w",
    ),
    "scalar with axes": (
        lambda path: edit(
            path / "_METADATA", lambda data: entry(data, "w")["value_metadata"].update(value_type="scalar")
        ),
        CorruptCheckpointError,
        r"expected a scalar, got float64\[3, 4\] at \$\.w",
    ),
    "parts too large": (
        lambda path: edit(
            path / "_METADATA", lambda data: entry(data, "w")["value_metadata"].update(write_shape=[4, 4])
        ),
        CorruptCheckpointError,
        r"expected an array with parts of \[4, 4\], got \[3, 4\] at \$\.w",
    ),
    "unknown kind": (
        lambda path: edit(path / "_METADATA", lambda data: entry(data, "w")["value_metadata"].update(value_type="X")),
        CorruptCheckpointError,
        r"got 'X' at \$\.w",
    ),
    "one place twice": (
        lambda path: edit(path / "_METADATA", lambda data: data["tree_metadata"].update(x=entry(data, "w"))),
        CorruptCheckpointError,
        "got one for",
    ),
    "climbs out": (lambda path: edit(path / "_METADATA", climb), CorruptCheckpointError, "below the checkpoint"),
    "metadata gone": (lambda path: (path / "_METADATA").unlink(), IncompleteCheckpointError, "got no _METADATA"),
    "metadata empty": (lambda path: (path / "_METADATA").write_bytes(b""), CorruptCheckpointError, "expected JSON"),
    "metadata of something else": (
        lambda path: (path / "_METADATA").write_text('{"tree_metadata": {"a": 3}}'),
        CorruptCheckpointError,
        "expected keys and values of leaves",
    ),
    "strings gone": (lambda path: (path / "_strings.json").unlink(), IncompleteCheckpointError, "_strings.json"),
    "string gone": (lambda path: (path / "_strings.json").write_text("{}"), IncompleteCheckpointError, r"at \$\.s"),
    "manifest gone": (
        lambda path: edit(path / "_METADATA", lambda data: data.update(use_ocdbt=True)),
        IncompleteCheckpointError,
        "manifest.ocdbt",
    ),
    "never committed": (
        never_commit,
        IncompleteCheckpointError,
        "whose save did not end",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named(damage: str, files: Path) -> None:
    act, error, message = DAMAGE[damage]
    act(files)
    with pytest.raises(error, match=message):
        orbax.read_tree(files)["w"].read()


def test_an_uncommitted_directory_is_no_checkpoint(files: Path) -> None:
    temporary = files.rename(files.with_name("saved.orbax-checkpoint-tmp"))
    with pytest.raises(IncompleteCheckpointError, match="whose save did not end"):
        orbax.read_tree(temporary)
    with pytest.raises(IncompleteCheckpointError, match="got no directory"):
        orbax.read_tree(files)
