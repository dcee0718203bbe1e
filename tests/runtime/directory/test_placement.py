"""Restoring anywhere: other meshes, one device, numpy, parts, other dtypes; and what is refused before a byte is read."""

import io
import sys
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from jaxtyping import BFloat16, Float32, Float64, Int32

from tests.runtime.directory.states import Block, Linear, Params, StepAndParams, Train, bits, linear, train
from treaty.generator import load
from treaty.runtime import StateMismatchError, shardings
from treaty.runtime._restore import read as restore_read
from treaty.runtime.directory import restore, save
from treaty.runtime.formats.directory import read as _read
from treaty.schema import ArraySpec, Dims, TreatyError, state

P: Any = PartitionSpec
DIMS = {"vocab": 32, "d_model": 8, "n_layers": 2, "streams": 4, "n": 16}


def mesh(*sizes: int) -> Mesh:
    count = int(np.prod(sizes))
    return Mesh(np.array(jax.devices()[:count]).reshape(sizes), ("data", "model")[: len(sizes)])


def spec_of(array: jax.Array) -> Any:
    assert isinstance(array.sharding, NamedSharding)
    return array.sharding.spec


RULES = {"4*d_model": "model", "vocab": "data"}


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (1, 2), (4, 2), (2, 4), (8, 1), (1, 8)])
def test_a_checkpoint_restores_on_any_mesh(sizes: tuple[int, int], checkpoint: Path) -> None:
    restored = restore(checkpoint, Train, mesh=mesh(*sizes), rules=RULES)
    assert bits(restored) == bits(train(1))
    embed, up = restored.params.embed, restored.params.blocks[0].up
    assert embed.sharding == NamedSharding(mesh(*sizes), P("data", None))
    assert up.kernel.sharding == NamedSharding(mesh(*sizes), P(None, "model"))
    assert up.kernel.sharding.shard_shape(up.kernel.shape) == (8, 32 // sizes[1])
    assert type(restored.seen) is np.ndarray


def test_what_was_saved_on_one_mesh_restores_on_another(tmp_path: Path, checkpoint: Path) -> None:
    for number, sizes in enumerate([(4, 2), (1, 8), (2, 2)]):
        value = restore(checkpoint, Train, mesh=mesh(*sizes), rules=RULES)
        checkpoint = tmp_path / str(number)
        save(checkpoint, value)
    assert bits(restore(checkpoint, Train)) == bits(train(1))


def test_a_mesh_alone_replicates(checkpoint: Path) -> None:
    restored = restore(checkpoint, Train, mesh=mesh(4, 2))
    assert bits(restored) == bits(train(1))
    assert restored.params.embed.is_fully_replicated
    assert len(restored.params.embed.devices()) == 8


def test_shardings_are_an_instance_of_the_class(checkpoint: Path) -> None:
    found: Any = shardings(Train, mesh(4, 2), RULES, DIMS)
    assert isinstance(found, Train)
    assert found.params.embed == NamedSharding(mesh(4, 2), P("data", None))
    assert found.params.blocks[1].down.kernel == NamedSharding(mesh(4, 2), P("model", None))
    assert found.rng == NamedSharding(mesh(4, 2), P(None))  # of the keys, not of the words they are stored as
    assert found.lr is None
    assert bits(restore(checkpoint, Train, shardings=found)) == bits(train(1))
    jitted = jax.jit(lambda params: params, out_shardings=found.params)
    assert jitted(train(1).params).embed.sharding == found.params.embed


@pytest.mark.parametrize(("rules", "spec"), [({"vocab": "data"}, P(None)), ({"streams": "data"}, P("data"))])
def test_shardings_place_prng_keys_in_a_step(rules: Any, spec: Any, checkpoint: Path) -> None:
    found: Any = shardings(Train, mesh(4, 2), rules, DIMS)
    restored = restore(checkpoint, Train, mesh=mesh(4, 2), rules=rules)
    split = jax.jit(lambda keys: keys, out_shardings=found.rng)(restored.rng)
    assert split.sharding == NamedSharding(mesh(4, 2), spec)
    assert bits(split) == bits(train(1).rng)


def test_a_dim_is_known_by_its_own_name_and_by_those_above_it(checkpoint: Path) -> None:
    by_owner = restore(checkpoint, Train, mesh=mesh(4, 2), rules={"d_model": "model"}).params.blocks[0]
    assert spec_of(by_owner.up.kernel) == P("model", None)
    by_own = restore(checkpoint, Train, mesh=mesh(4, 2), rules={"d_in": "data", "d_model": "model"}).params.blocks[0]
    assert spec_of(by_own.up.kernel) == P("data", None)
    assert spec_of(by_own.down.kernel) == P("data", "model")
    both = restore(checkpoint, Train, mesh=mesh(4, 2), rules={"d_in": ("data", "model"), "d_out": "model"})
    assert spec_of(both.params.blocks[0].up.kernel) == P(("data", "model"), None)
    assert spec_of(both.params.blocks[0].up.bias) == P("model")


def test_regular_expressions_match_paths(checkpoint: Path) -> None:
    rules = [(r"blocks/\d/up/kernel$", P("data", "model")), ("embed", P("model")), (".*", P())]
    restored = restore(checkpoint, Train, mesh=mesh(2, 4), rules=rules)
    assert bits(restored) == bits(train(1))
    assert spec_of(restored.params.blocks[1].up.kernel) == P("data", "model")
    assert spec_of(restored.params.embed) == P("model")
    with pytest.raises(TreatyError, match="rules: no pattern matches params/blocks/0/up/bias; end with"):
        restore(checkpoint, Train, mesh=mesh(2, 4), rules=rules[:-1] and [("embed|kernel", P())])


def test_one_sharding_or_nested_dicts_of_them(checkpoint: Path) -> None:
    last = SingleDeviceSharding(jax.devices()[-1])
    restored = restore(checkpoint, Train, shardings=last)
    assert bits(restored) == bits(train(1))
    assert restored.params.embed.devices() == restored.rng.devices() == {jax.devices()[-1]}
    restored = restore(checkpoint, Train, shardings={"params": {"embed": last}})
    assert restored.params.embed.devices() == {jax.devices()[-1]}
    assert restored.step.devices() == {jax.devices()[0]}


def test_replicas_do_not_share_memory_that_a_donation_reuses(checkpoint: Path) -> None:
    kernel = restore(checkpoint, Train, mesh=mesh(4, 2)).params.blocks[0].up.kernel
    expected = np.asarray(train(1).params.blocks[0].up.kernel) * 2
    doubled = jax.jit(lambda x: x * 2, donate_argnums=0)(kernel)
    assert all(np.array_equal(np.asarray(shard.data), expected) for shard in doubled.addressable_shards)


def test_a_template_gives_shapes_static_fields_and_containers(checkpoint: Path) -> None:
    assert bits(restore(checkpoint, train(1))) == bits(train(1))
    with pytest.raises(StateMismatchError, match="expected 'run 2' as in the template, got 'run 1'"):
        restore(checkpoint, train(2))
    with pytest.raises(
        StateMismatchError, match=r"expected bfloat16\[32, 4\] as in the template, got bfloat16\[32, 8\]"
    ):
        restore(checkpoint, train(1, d_model=4))


def test_numpy_stays_on_the_host(checkpoint: Path) -> None:
    restored = restore(checkpoint, Train, into="numpy")
    assert isinstance(restored.params.embed, np.ndarray)
    assert restored.params.embed.tobytes() == np.asarray(train(1).params.embed).tobytes()


def test_a_part_is_restored_by_its_path(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bits(restore(checkpoint, Params, at="params")) == bits(train(1).params)
    assert bits(restore(checkpoint, Linear, at="$.params.blocks[1].up")) == bits(train(1).params.blocks[1].up)
    assert bits(restore(checkpoint, Block, at="params.blocks.0")) == bits(train(1).params.blocks[0])
    read = []
    fill = _read.CheckpointReader._fill

    def watched(*args: Any) -> None:
        read.append(args[4])
        fill(*args)

    monkeypatch.setattr(_read.CheckpointReader, "_fill", watched)
    restore(checkpoint, Linear, at="params.blocks[1].up")
    assert {path for path in read if path} == {"$.params.blocks[1].up.kernel", "$.params.blocks[1].up.bias"}


def test_a_list_of_paths_leaves_the_rest(checkpoint: Path) -> None:
    restored = restore(checkpoint, StepAndParams, at=["step", "params"])
    assert bits(restored.params) == bits(train(1).params)
    with pytest.raises(StateMismatchError, match=r"expected no such key in StepAndParams, got .* at \$\.rng"):
        restore(checkpoint, StepAndParams)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("parms", r"expected \$\.parms in .*, got lr, note, params, rng, seen, step at \$"),
        ("params.blocks[7]", r"expected \$\.params\.blocks\[7\] in .*, got 0, 1 at \$\.params\.blocks"),
        ("params..x", "at='params..x': expected a path like"),
        (["step", "nowhere"], r"expected \$\.nowhere in"),
    ],
)
def test_a_path_that_leads_nowhere_says_what_is_there(at: Any, message: str, checkpoint: Path) -> None:
    with pytest.raises(TreatyError, match=message):
        restore(checkpoint, Params, at=at)


def test_all_that_is_wrong_is_said_before_an_array_is_read(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @state
    class Other:
        step: Float32[Array, ""]
        params: Float32[Array, "a b"]
        rng: Int32[Array, "n"]
        seen: Float32[np.ndarray, "n"]
        lr: int
        extra: Float32[Array, "q"]

    load(Other)
    monkeypatch.setattr(_read.CheckpointReader, "jobs", lambda *_: pytest.fail("read an array"))
    with pytest.raises(StateMismatchError) as raised:
        restore(checkpoint, Other)
    assert {mismatch.path[0] for mismatch in raised.value.mismatches} == {
        "step", "params", "rng", "lr", "extra", "note",
    }  # fmt: skip
    with pytest.raises(StateMismatchError, match="n=17"):
        restore(checkpoint, Train, dims={"n": 17})


def test_dtypes_widen_by_a_closed_table_and_narrow_when_asked(tmp_path: Path) -> None:
    @state
    class Stored:
        half: BFloat16[Array, "n"]
        single: Float32[Array, "n"]

    @state
    class Wide:
        half: Float32[Array, "n"]
        single: Float64[np.ndarray, "n"]

    @state
    class Narrow:
        half: BFloat16[Array, "n"]
        single: BFloat16[Array, "n"]

    for cls in (Stored, Wide, Narrow):
        load(cls)
    x = jnp.arange(5) / 3
    save(tmp_path / "a", Stored(half=x.astype(jnp.bfloat16), single=x))
    wide = restore(tmp_path / "a", Wide)
    assert np.array_equal(wide.half, x.astype(jnp.bfloat16).astype(jnp.float32))
    assert np.array_equal(wide.single, np.asarray(x).astype(np.float64))
    with pytest.raises(StateMismatchError, match=r"expected bfloat16\[n=5\], got float32\[5\] at \$\.single"):
        restore(tmp_path / "a", Narrow)
    narrow = restore(tmp_path / "a", Narrow, cast={"float32": "bfloat16"})
    assert np.array_equal(narrow.single, x.astype(jnp.bfloat16))
    with pytest.raises(TreatyError, match="expected names of dtypes, got 'f32'"):
        restore(tmp_path / "a", Narrow, cast={"f32": "bfloat16"})


def test_memory_in_flight_is_bounded(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = []
    place = vars(restore_read)["place"]

    def placed(rooms: Any) -> Any:
        batches.append(sum(part.memory.nbytes for room in rooms for part in room.parts))
        return place(rooms)

    monkeypatch.setattr(restore_read, "place", placed)
    assert bits(restore(checkpoint, Train, max_bytes_in_flight=2048)) == bits(train(1))
    assert len(batches) > 2
    assert max(batches) <= 2048


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_progress_bar_shows_on_a_terminal_only(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, progress, shows in ((io.StringIO(), None, False), (Terminal(), None, True), (Terminal(), False, False)):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            restore(checkpoint, Train, progress=progress)
        assert ("restore" in stream.getvalue()) == shows


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"rules": {"vocab": "data"}}, "rules= needs mesh="),
    ({"mesh": "", "rules": {"vocap": "data"}}, "rules: no array has a dim 'vocap'; there are"),
    ({"mesh": "", "rules": {"vocab": "modle"}}, "the mesh has no axis 'modle'; it has data, model"),
    ({"mesh": "", "shardings": {}}, "expected shardings= or mesh=, got both"),
    ({"mesh": "", "into": "numpy"}, "goes with neither mesh= nor shardings="),
    ({"into": "torch"}, "into='torch'"),
    ({"dims": {"nowhere": 1}}, "has no dim 'nowhere'"),
    ({"shardings": {"step": 3}}, r"expected a Sharding or None, got int at \$\.step"),
    (
        {"mesh": "", "rules": {"streams": ("data", "model")}},
        r"expected a sharding that divides \[4, 2\], got .* at \$\.rng",
    ),
]


def test_a_sharding_that_no_array_is_placed_by_is_an_error(checkpoint: Path) -> None:
    last = SingleDeviceSharding(jax.devices()[-1])
    given = {
        "parms": last,
        "params": {"embed": last, "blocks": {"7": {"up": last}}},
        "seen": last,
        "step": {"inner": last},
        "lr": last,
    }
    with pytest.raises(TreatyError) as caught:
        restore(checkpoint, Train, shardings=given)
    assert str(caught.value).splitlines() == [
        "shardings: expected an array for a device, got nothing at $.parms",
        "shardings: expected an array for a device, got nothing at $.params.blocks[7].up",
        "shardings: expected an array for a device, got float32[16] at $.seen",
        "shardings: expected an array for a device, got nothing at $.step.inner",
        "shardings: expected an array for a device, got float 0.001 at $.lr",
    ]


def test_an_instance_may_hold_a_sharding_for_every_leaf(checkpoint: Path) -> None:
    last = SingleDeviceSharding(jax.devices()[-1])
    restored = restore(checkpoint, Train, shardings=jax.tree.map(lambda leaf: last, train(1)))
    assert restored.step.devices() == {jax.devices()[-1]}
    assert bits(restored) == bits(train(1))


def test_a_mesh_that_is_none_is_told(checkpoint: Path) -> None:
    with pytest.raises(TreatyError, match=r"mesh: expected a jax.sharding.Mesh, got str"):
        shardings(Train, "mesh", {}, DIMS)  # type: ignore[arg-type]


@state
class Pair:
    pair: tuple[Float32[Array, "n"], Float32[Array, "n"]]
    maybe: Float32[Array, "n"] | None = None


load(Pair)


def test_shardings_for_what_is_not_there_this_time_and_for_tuples_of_another_length(tmp_path: Path) -> None:
    last = SingleDeviceSharding(jax.devices()[-1])
    save(tmp_path / "a", Pair(pair=(jnp.ones(2), jnp.ones(2))))
    found = restore(tmp_path / "a", Pair, shardings={"maybe": last, "pair": last})
    assert found.pair[1].devices() == {jax.devices()[-1]}
    with pytest.raises(TreatyError) as caught:
        restore(tmp_path / "a", Pair, shardings=Pair(pair=(last, last, last)))  # type: ignore[arg-type]
    assert str(caught.value) == "expected a Sharding or None, got tuple at $.pair[0]"


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str, checkpoint: Path) -> None:
    if "mesh" in arguments:
        arguments = {**arguments, "mesh": mesh(4, 2)}
    with pytest.raises(TreatyError, match=message):
        restore(checkpoint, Train, **arguments)


NONSENSE: list[dict[str, Any]] = [
    {"mesh": mesh(2), "rules": [("(", P()), (".*", P())]},
    {"mesh": mesh(2), "rules": [(7, P())]},
    {"mesh": mesh(2), "rules": [(".*", "data")]},
    {"mesh": mesh(2), "rules": [".*"]},
    {"mesh": mesh(2), "rules": [(".*", P("nowhere"))]},
    {"mesh": mesh(2), "rules": [(".*", P(None, None, None, "data"))]},
    {"mesh": mesh(2), "rules": 7},
    {"mesh": mesh(2), "rules": {"vocab": "nowhere"}},
    {"mesh": mesh(2), "rules": {"vocab": 7}},
    {"mesh": mesh(2), "rules": {"nothing": "data"}},
    {"mesh": "data"},
    {"shardings": NamedSharding(mesh(2), P(None, None, "data"))},
    {"shardings": {"params": {"embed": NamedSharding(mesh(2), P(None, None, "data"))}}},
    {"shardings": {"params": {"embed": "data"}}},
    {"shardings": 7},
    *({"at": at} for at in (7, b"params", [7], "params[", "params..embed", [], "params.embed", int)),
]


@pytest.mark.parametrize("arguments", NONSENSE, ids=str)
def test_wrong_places_are_refused_before_an_array_is_read(
    arguments: dict[str, Any], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_read.CheckpointReader, "jobs", lambda *_: pytest.fail("read an array"))
    with pytest.raises(TreatyError):
        restore(checkpoint, Train, **arguments)


def test_doubles_are_not_narrowed_on_their_way_to_devices(tmp_path: Path) -> None:
    @state
    class Host:
        x: Float64[np.ndarray, "n"]

    @state
    class Device:
        x: Float64[Array, "n"]

    load(Host)
    load(Device)
    save(tmp_path / "a", Host(x=np.arange(8.0)))
    with pytest.raises(
        TreatyError,
        match=r"^expected float64 at \$\.\w+, got a JAX that holds float32 \(jax_enable_x64 is off\); set it, declare np",
    ):
        restore(tmp_path / "a", Device, mesh=mesh(4, 2))


def test_untyped_arrays_come_back_as_numpy(tmp_path: Path) -> None:
    @state
    class Loose:
        anything: Any
        fixed: Annotated[Linear, Dims(d_in="a", d_out="b")]
        low: Annotated[np.ndarray[Any, Any], ArraySpec("float8_e4m3", "n")]

    load(Loose)
    low = np.zeros(3, jnp.float8_e4m3)
    save(tmp_path / "a", Loose(anything={"x": jnp.arange(3)}, fixed=linear(2, 3), low=low))
    restored = restore(tmp_path / "a", Loose, mesh=mesh(1, 1), rules={"a": "data"})
    assert type(restored.anything["x"]) is np.ndarray
    assert restored.low.dtype == low.dtype
