"""What every option of `restore` gives, and how it is refused: a check for each, of a checkpoint of `train()` in any format."""

from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import BFloat16, Float16, Float32, Float64, Int8, Int32, Int64

from tests.runtime.equality import same
from treaty.generator import load
from treaty.runtime import KeyMapError, StateMismatchError, restore
from treaty.runtime._restore import pipeline
from treaty.runtime._state import state_dict
from treaty.schema import Dims, Length, TreatyError, state
from treaty.schema.keymap import KeyMap, Rule

P: Any = PartitionSpec  # JAX does not annotate its constructor


@state
class Block:
    up: Float32[Array, "d_model d_ff"]
    down: Float32[Array, "d_ff d_model"]


@state
class Params:
    embed: BFloat16[Array, "vocab d_model"]
    blocks: Annotated[tuple[Block, ...], Length("n"), Dims("d_model", "d_ff")]


@state
class Train:
    step: int
    params: Params
    count: Int32[Array, ""]
    seen: Int32[np.ndarray, "k"]
    eps: Float32[Array, ""]


@state
class StepAndParams:
    step: int
    params: Params


@state
class Narrow:
    """What is stored where `Wide` is declared."""

    half: BFloat16[Array, "a b"]
    other: Float16[Array, "a b"]
    host: BFloat16[np.ndarray, "b"]
    count: Int8[Array, ""]
    seen: Int32[np.ndarray, "k"]
    same: Float32[np.ndarray, "k"]


@state
class Wide:
    half: Float32[Array, "a b"]
    other: Float32[Array, "a b"]
    host: Float64[np.ndarray, "b"]
    count: Int32[Array, ""]
    seen: Int64[np.ndarray, "k"]
    same: Float32[np.ndarray, "k"]


@state
class HalfOther:
    """`Narrow`, with one field as wide as it is stored."""

    half: BFloat16[Array, "a b"]
    other: Float32[Array, "a b"]
    host: BFloat16[np.ndarray, "b"]
    count: Int8[Array, ""]
    seen: Int32[np.ndarray, "k"]
    same: Float32[np.ndarray, "k"]


@state
class Renamed:
    """The params of `Train` under other names: transposed, stacked, cut."""

    ups: Float32[Array, "n d_ff d_model"]
    first: Float32[Array, "half d_model"]
    second: Float32[Array, "half d_model"]


for one in (Train, StepAndParams, Narrow, Wide, HalfOther, Renamed):
    load(one)

RENAMED = KeyMap(
    [
        Rule("params.blocks.{i}.up", "ups", "a b -> i b a"),
        Rule("params.embed", ("first", "second"), axis=0),
    ],
    ignore_stored=["params.blocks.{i}.down", "step", "count", "seen", "eps"],
)


def train(vocab: int = 8) -> Train:
    random = np.random.default_rng(0)

    def block() -> Block:
        up, down = random.standard_normal((4, 16), np.float32), random.standard_normal((16, 4), np.float32)
        return Block(up=jnp.asarray(up), down=jnp.asarray(down))

    embed = jnp.asarray(random.standard_normal((vocab, 4)), jnp.bfloat16)
    return Train(
        step=7,
        params=Params(embed=embed, blocks=tuple(block() for _ in range(3))),
        count=jnp.int32(11),
        seen=np.arange(5, dtype=np.int32),
        eps=jnp.float32(1e-8),
    )


def narrow() -> Narrow:
    """With what a careless conversion loses: NaNs, infinities, subnormal numbers, negative zeros."""
    values = np.array([1.5, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3.3e38, -1e-6], np.float32)
    return Narrow(
        half=jnp.asarray(values.reshape(4, 2), jnp.bfloat16),
        other=jnp.asarray(np.clip(values, -6e4, 6e4).reshape(4, 2), jnp.float16),
        host=values[:2].astype(jnp.bfloat16),
        count=jnp.int8(-5),
        seen=np.array([-(2**31), 2**31 - 1], np.int32),
        same=np.array([np.nan, -0.0], np.float32),
    )


def mesh() -> Any:
    return jax.make_mesh((4,), ("model",))


def a_subtree_is_chosen_by_its_path(path: Path) -> None:
    same(restore(path, Params, at="params"), train().params)
    same(restore(path, Block, at="$.params.blocks[1]"), train().params.blocks[1])


def a_list_of_paths_leaves_the_rest(path: Path) -> None:
    expected = StepAndParams(step=7, params=train().params)
    same(restore(path, StepAndParams, at=["params", "step"]), expected)
    same(restore(path, StepAndParams, at=("step", "params.embed", "params.blocks")), expected)


def the_path_of_the_root_is_all(path: Path) -> None:
    for root in ("", "$", [""], ["$", "params"]):
        same(restore(path, Train, at=root), train())


def dims_that_are_right_change_nothing(path: Path) -> None:
    same(restore(path, Train, dims={"k": 5}), train())


def a_key_map_renames_transposes_stacks_and_cuts(path: Path) -> None:
    params = train().params
    embed = np.asarray(params.embed).astype(np.float32)
    expected = Renamed(
        ups=jnp.stack([block.up.T for block in params.blocks]),
        first=jnp.asarray(embed[:4]),
        second=jnp.asarray(embed[4:]),
    )
    same(restore(path, Renamed, keymap=RENAMED), expected)
    rules = {"d_ff": "model", "half": "model"}
    back = restore(path, Renamed, keymap=RENAMED, mesh=mesh(), rules=rules, max_bytes_in_flight=100)
    same(back, expected)
    assert back.ups.sharding == NamedSharding(mesh(), P(None, "model", None))
    same(restore(path, Renamed, keymap=RENAMED, into="numpy"), expected)
    with pytest.raises(KeyMapError, match=r"expected one rule, got none for 'params.embed'"):
        restore(path, Renamed, keymap=KeyMap(RENAMED.rules[:1], ignore_stored=RENAMED.ignore_stored))


def rules_place_by_the_names_of_dims(path: Path) -> None:
    back = restore(path, Train, mesh=mesh(), rules={"d_ff": "model"})
    same(back, train())
    assert back.params.blocks[2].up.sharding == NamedSharding(mesh(), P(None, "model"))
    assert back.params.blocks[2].down.sharding == NamedSharding(mesh(), P("model", None))


def rules_place_by_patterns_of_paths(path: Path) -> None:
    back = restore(path, Train, mesh=mesh(), rules=[("blocks/.*/up", P("model")), (".*", P())])
    same(back, train())
    assert back.params.blocks[0].up.sharding == NamedSharding(mesh(), P("model"))
    assert back.params.blocks[0].down.sharding == NamedSharding(mesh(), P())


def a_mesh_alone_replicates(path: Path) -> None:
    back = restore(path, Train, mesh=mesh())
    same(back, train())
    assert back.params.embed.sharding == NamedSharding(mesh(), P())


def one_sharding_is_for_all_arrays(path: Path) -> None:
    there = NamedSharding(mesh(), P())
    back = restore(path, Train, shardings=there)
    same(back, train())
    assert {back.params.embed.sharding, back.count.sharding} == {there}
    assert type(back.seen) is np.ndarray


def shardings_are_an_instance_of_the_class(path: Path) -> None:
    rows, columns = NamedSharding(mesh(), P("model")), NamedSharding(mesh(), P(None, "model"))
    wanted: Any = Block(up=columns, down=rows)  # type: ignore[arg-type]
    back = restore(path, Block, at="params.blocks[2]", shardings=wanted)
    same(back, train().params.blocks[2])
    assert (back.up.sharding, back.down.sharding) == (columns, rows)


def numpy_stays_on_the_host(path: Path) -> None:
    back = restore(path, Train, into="numpy")
    same(back, train())
    assert {type(leaf) for leaf in jax.tree.leaves(back)} <= {np.ndarray, int}
    same(restore(path, Params, at="params", into="numpy"), train().params)


def little_memory_in_flight_gives_the_same(path: Path) -> None:
    same(restore(path, Train, max_bytes_in_flight=1), train())
    same(restore(path, Train, max_bytes_in_flight=300, into="numpy"), train())


def progress_is_shown_or_not(path: Path) -> None:
    for progress in (True, False, None):
        with redirect_stderr(StringIO()) as shown, pytest.MonkeyPatch.context() as patch:
            patch.setenv("FORCE_COLOR", "1")  # rich draws nothing where it sees no terminal
            same(restore(path, Train, progress=progress), train())
        assert ("restore" in shown.getvalue()) is bool(progress)


def a_template_that_fits_gives_the_same(path: Path) -> None:
    same(restore(path, train()), train())
    same(restore(path, train().params, at="params", mesh=mesh(), rules={"d_ff": "model"}), train().params)
    same(restore(path, train(), into="numpy", max_bytes_in_flight=64), train())


def options_go_together(path: Path) -> None:
    options: dict[str, Any] = {"at": "params", "mesh": mesh(), "rules": {"vocab": "model"}, "dims": {"vocab": 8}}
    same(
        restore(path, Params, max_bytes_in_flight=32, progress=False, cast={"float32": "bfloat16"}, **options),
        train().params,
    )


Check = Callable[[Path], None]
RIGHT: list[Check] = [
    a_subtree_is_chosen_by_its_path,
    a_list_of_paths_leaves_the_rest,
    the_path_of_the_root_is_all,
    dims_that_are_right_change_nothing,
    a_key_map_renames_transposes_stacks_and_cuts,
    rules_place_by_the_names_of_dims,
    rules_place_by_patterns_of_paths,
    a_mesh_alone_replicates,
    one_sharding_is_for_all_arrays,
    shardings_are_an_instance_of_the_class,
    numpy_stays_on_the_host,
    little_memory_in_flight_gives_the_same,
    progress_is_shown_or_not,
    a_template_that_fits_gives_the_same,
    options_go_together,
]


def a_narrow_dtype_is_widened_unasked(path: Path) -> None:
    """Of `narrow()`: every value is the stored one, as numpy widens it, and NaN is NaN."""
    stored = narrow()
    expected = {
        "half": np.asarray(stored.half).astype(np.float32),
        "other": np.asarray(stored.other).astype(np.float32),
        "host": stored.host.astype(np.float64),
        "count": np.array(-5, np.int32),
        "seen": stored.seen.astype(np.int64),
        "same": stored.same,
    }
    for options in ({}, {"into": "numpy"}, {"mesh": mesh()}, {"at": ""}, {"max_bytes_in_flight": 1}):
        back = restore(path, Wide, **options)
        for name, array in expected.items():
            same(getattr(back, name), array, name)
    same(restore(path, Narrow), stored)


def a_wide_dtype_is_narrowed_only_when_asked(path: Path) -> None:
    """Of a `Wide` one; the text is the same whatever the format."""
    told = refusal(path, Narrow)
    assert told == (
        StateMismatchError,
        "expected bfloat16[a=4, b=2], got float32[4, 2] at $.half\n"
        "expected float16[a=4, b=2], got float32[4, 2] at $.other\n"
        "expected bfloat16[b=2], got float64[2] at $.host\n"
        "expected int8[], got int32[] at $.count\n"
        "expected int32[k=2], got int64[2] at $.seen\n"
        "to convert what is stored, pass cast={'float64': 'bfloat16', 'int32': 'int8', 'int64': 'int32'}",
    )


def refusal(path: Path, cls: Any, **options: Any) -> tuple[type[Exception], str]:
    """Which error `restore` raises, and its text without the path; no array is read, nor goes to a device, before."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("an array was read, though the restore is refused")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "read_arrays", fail)
        patch.setattr(state_dict, "transfer", fail)
        with pytest.raises(TreatyError) as told:
            restore(path, cls, **options)
    return told.type, str(told.value).replace(str(path), "PATH")
