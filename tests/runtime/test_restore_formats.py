"""`restore` of every format: one call, one class, whoever wrote the checkpoint; what lies there says what it is."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
import safetensors.numpy
from flax import serialization
from jax import Array
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import BFloat16, Float32, Int32, Key

from tests.runtime.directory.states import bits
from treaty.generator import load
from treaty.runtime import (
    CorruptCheckpointError,
    IncompleteCheckpointError,
    KeyMapError,
    StateMismatchError,
    restore,
    save,
    to_state_dict,
)
from treaty.runtime.formats import npz
from treaty.runtime.formats import orbax as our_orbax
from treaty.runtime.formats import safetensors as our_safetensors
from treaty.runtime.leaves import tree_serialize_leaves
from treaty.schema import Dims, Fields, Length, TreatyError, state
from treaty.schema.keymap import KeyMap, Rule

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
P: Any = PartitionSpec  # JAX does not annotate its constructor


@state
class Layer:
    kernel: Float32[Array, "d d"]


@state
class Params:
    layers: Annotated[tuple[Layer, ...], Length("n"), Dims("d")]


@state
class Train:
    step: int
    params: Annotated[Params, Dims(None)]
    trace: Annotated[optax.TraceState, Fields(trace=Annotated[Params, Dims(None)])]
    empty: optax.EmptyState
    rng: Key[Array, ""]
    host: Int32[np.ndarray, "k"]
    maybe: Float32[Array, "d"] | None


@state
class HalfLayer:
    kernel: BFloat16[Array, "d d"]


@state
class Half:
    layers: Annotated[tuple[HalfLayer, ...], Length("n"), Dims("d")]


load(Train)
load(Half)


def params(scale: float = 1.0) -> Params:
    return Params(layers=tuple(Layer(kernel=scale * jnp.full((8, 8), i, jnp.float32)) for i in range(3)))


def train() -> Train:
    return Train(
        step=7,
        params=params(),
        trace=optax.TraceState(params(2.0)),
        empty=optax.EmptyState(),
        rng=jax.random.key(3),
        host=np.arange(5, dtype=np.int32),
        maybe=None,
    )


def tree_of(value: Any) -> Any:
    """A state dict for peers that know no typed keys: arrays in numpy."""
    return jax.tree.map(np.asarray, to_state_dict(value)) if isinstance(value, Params) else to_state_dict(value)


def by_flax(path: Path, value: Any) -> Path:
    path.write_bytes(serialization.to_bytes(tree_of(value)))
    return path


def by_orbax(path: Path, value: Any) -> Path:
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, value)
    return path


def by_a_manager(path: Path, value: Any) -> Path:
    with ocp.CheckpointManager(path) as manager:
        manager.save(1, args=ocp.args.StandardSave({"other": np.ones(3)}))
        manager.save(12, args=ocp.args.StandardSave(value))
    return path


def by_safetensors(path: Path, value: Any, limit: int | None = None) -> Path:
    path.mkdir()
    (path / "config.json").write_text("{}")
    our_safetensors.save(path / "model.safetensors", value, max_shard_bytes=limit)
    return path


def by_eformer(path: Path, value: Any) -> Path:
    tree_serialize_leaves(path, value)
    return path


def by_npz(path: Path, value: Any) -> Path:
    npz.write(path, value)
    return path


def by_treaty(path: Path, value: Any) -> Path:
    save(path, value)
    return path


WRITERS: dict[str, Callable[[Path, Any], Path]] = {
    "flax": by_flax,
    "orbax": by_orbax,
    "orbax manager": by_a_manager,
    "orbax step": lambda path, value: by_a_manager(path, value) / "12",
    "orbax item": lambda path, value: by_a_manager(path, value) / "12" / "default",
    "safetensors": lambda path, value: by_safetensors(path, value),
    "safetensors shards": lambda path, value: by_safetensors(path, value, 600),
    "safetensors without a suffix": lambda path, value: by_safetensors(path, value) / "model.safetensors",
    "eformer": by_eformer,
    "npz": by_npz,
    "treaty": by_treaty,
}


@pytest.fixture(params=WRITERS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    place = WRITERS[request.param](tmp_path / "saved", train())
    return place.rename(tmp_path / "named.anyhow") if request.param.endswith("suffix") else place


def test_the_class_is_built_from_whatever_lies_there(path: Path) -> None:
    back = restore(path, Train)
    assert bits(back) == bits(train())
    assert isinstance(back.params.layers[0].kernel, Array)
    assert isinstance(back.host, np.ndarray)
    assert isinstance(back.trace, optax.TraceState)
    on_host = restore(path, Train, into="numpy", dims={"k": 5})
    assert isinstance(on_host.params.layers[1].kernel, np.ndarray)
    assert bits(restore(path, train())) == bits(train())


def test_parts_are_restored_by_their_paths(path: Path) -> None:
    assert bits(restore(path, Params, at="trace.trace")) == bits(params(2.0))
    assert restore(path, Layer, at="params.layers[2]").kernel[0, 0] == 2
    with pytest.raises(TreatyError, match=r"expected \$\.parms in .*, got .*step.* at \$"):
        restore(path, Params, at="parms")
    with pytest.raises(StateMismatchError, match=r"got nothing at \$\.step"):
        restore(path, Train, at=["params", "rng"])


def test_arrays_go_where_rules_and_shardings_say(path: Path) -> None:
    mesh = jax.make_mesh((4,), ("model",))
    back = restore(path, Train, mesh=mesh, rules={"d": "model"}, max_bytes_in_flight=300)
    assert back.params.layers[1].kernel.sharding == NamedSharding(mesh, P("model", None))
    assert bits(back) == bits(train())
    whole = NamedSharding(mesh, P())
    assert restore(path, Train, shardings=whole).params.layers[0].kernel.sharding == whole
    assert restore(path, Params, at="params", mesh=mesh).layers[2].kernel.sharding == whole
    with pytest.raises(TreatyError, match="rules= needs mesh="):
        restore(path, Train, rules={"d": "model"})
    with pytest.raises(TreatyError, match=r"into=.numpy. keeps arrays on the host"):
        restore(path, Train, mesh=mesh, into="numpy")


def test_everything_that_does_not_fit_is_said_at_once(path: Path) -> None:
    with pytest.raises(StateMismatchError) as caught:
        restore(path, Train, dims={"k": 4})
    assert str(caught.value).splitlines() == [
        "expected int32[k=4], got int32[5] at $.host",
        "of these sizes the checkpoint has others: dims={'k': 5}",
    ]
    with pytest.raises(StateMismatchError) as caught:
        restore(path, Half, at="params")
    assert [str(one) for one in caught.value.mismatches] == [
        f"expected bfloat16[d=8, d=8], got float32[8, 8] at $.layers[{i}].kernel" for i in range(3)
    ]
    assert caught.value.hints == ("to convert what is stored, pass cast={'float32': 'bfloat16'}",)
    wrong = train()
    with pytest.raises(StateMismatchError, match=r"at \$\.trace"):
        restore(path, Train(**{**_fields(wrong), "trace": optax.TraceState(Params(layers=()))}))


def test_a_cast_that_is_asked_for_is_made(path: Path) -> None:
    half = restore(path, Half, at="params", cast={"float32": "bfloat16"})
    assert half.layers[2].kernel.dtype == jnp.bfloat16
    assert np.array_equal(half.layers[2].kernel, np.full((8, 8), 2))
    with pytest.raises(StateMismatchError, match="expected bfloat16"):
        restore(path, Half, at="params", cast={"float32": "float16"})


KERNELS = KeyMap(
    [Rule("params.layers.{i}.kernel", "layers[{i}].kernel", "a b -> b a")],
    ignore_stored=["trace.**", "step", "rng.**", "host", "maybe", "empty"],
)


def test_a_key_map_names_the_fields_of_any_format(path: Path) -> None:
    back = restore(path, Params, keymap=KERNELS)
    assert bits(back) == bits(params())
    mesh = jax.make_mesh((4,), ("model",))
    layer = restore(path, Layer, keymap=KERNELS, at="layers[1]", mesh=mesh, rules={"d": "model"})
    assert layer.kernel.sharding == NamedSharding(mesh, P("model", None))
    assert isinstance(restore(path, params(), keymap=KERNELS, into="numpy").layers[0].kernel, np.ndarray)
    with pytest.raises(KeyMapError, match="expected one rule, got none"):
        restore(path, Params, keymap=KeyMap([Rule("params.layers.{i}.kernel", "layers[{i}].kernel")]))


def test_mismatches_come_before_array_bytes(tmp_path: Path) -> None:
    """Every chunk is gone, and yet it is the dtype that is complained of."""
    path = tmp_path / "saved"
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(params()))
    by_eformer(tmp_path / "eformer", params())
    for chunk in [*path.rglob("0.0"), *(tmp_path / "eformer").rglob("0.0")]:
        chunk.unlink()
    for place in (path, tmp_path / "eformer"):
        with pytest.raises(StateMismatchError, match=r"expected bfloat16.* got float32"):
            restore(place, Half)
        with pytest.raises(
            (IncompleteCheckpointError, CorruptCheckpointError), match=r"\$\.layers\['?[0-2]'?\]\.kernel"
        ):
            restore(place, Params)


def test_a_save_that_did_not_end_is_no_checkpoint(tmp_path: Path) -> None:
    path = by_orbax(tmp_path / "saved", params())
    temporary = path.rename(tmp_path / "saved.orbax-checkpoint-tmp")
    with pytest.raises(IncompleteCheckpointError, match="whose save did not end"):
        restore(temporary, Params)
    manager = by_a_manager(tmp_path / "run", params())
    shutil.copytree(manager / "12", manager / "13.orbax-checkpoint-tmp")
    assert bits(restore(manager, Params)) == bits(params())
    (by_eformer(tmp_path / "eformer", params()) / "tensorstore_index.json").unlink()
    for nothing in ("eformer", "missing"):
        with pytest.raises(IncompleteCheckpointError, match=f"expected a checkpoint, got no.* at .*{nothing}"):
            restore(tmp_path / nothing, Params)


def test_damage_is_told_as_such(tmp_path: Path) -> None:
    (by_orbax(tmp_path / "orbax", params()) / "_METADATA").write_text("{}")
    (by_eformer(tmp_path / "eformer", params()) / "tensorstore_index.json").write_text("{}")
    by_npz(tmp_path / "x.npz", params()).write_bytes(b"PK\3\4 and nothing more")
    (tmp_path / "text").write_text("no checkpoint at all")
    (tmp_path / "x.safetensors").write_bytes(b"\0" * 20)
    for name in ("orbax", "eformer", "x.npz", "text", "x.safetensors"):
        with pytest.raises(CorruptCheckpointError):
            restore(tmp_path / name, Params)


def test_several_items_or_files_are_named_and_one_is_chosen_by_its_path(tmp_path: Path) -> None:
    with ocp.CheckpointManager(tmp_path / "run", item_names=("state", "ema")) as manager:
        ema = ocp.args.StandardSave(params(2.0))
        manager.save(5, args=ocp.args.Composite(state=ocp.args.StandardSave(params()), ema=ema))
    with pytest.raises(TreatyError, match=r"expected one item, got ema, state in .*5; give the path of one"):
        restore(tmp_path / "run", Params)
    assert bits(restore(tmp_path / "run" / "5" / "ema", Params)) == bits(params(2.0))

    folder = by_safetensors(tmp_path / "folder", params())
    shutil.copy(folder / "model.safetensors", folder / "other.safetensors")
    with pytest.raises(TreatyError, match=r"got model.safetensors, other.safetensors in .*; give the path of one"):
        restore(folder, Params)
    assert bits(restore(folder / "other.safetensors", Params)) == bits(params())


def test_trees_with_a_prefix_are_fields_or_parts(tmp_path: Path) -> None:
    tree_serialize_leaves(tmp_path / "run", params(), prefix="params")
    tree_serialize_leaves(tmp_path / "run", {"count": jnp.int32(3)}, prefix="optimizer")
    assert bits(restore(tmp_path / "run", Params, at="params")) == bits(params())
    with pytest.raises(StateMismatchError, match=r"expected no such key in Params, got dict at \$\.params"):
        restore(tmp_path / "run", Params)


def test_messagepack_without_a_suffix_is_not_taken_for_safetensors(tmp_path: Path) -> None:
    """Its ninth byte may be the brace that safetensors begin with."""
    (tmp_path / "flax").write_bytes(serialization.msgpack_serialize({"stepxy": 0x7B}))
    assert (tmp_path / "flax").read_bytes()[8:9] == b"{"
    with pytest.raises(StateMismatchError, match=r"got int 123 at \$\.stepxy"):
        restore(tmp_path / "flax", Params)


def test_a_llama_of_hugging_face_is_restored_and_saved_back(tmp_path: Path) -> None:
    from treaty.schema.library.llama import LLAMA
    from treaty.schema.library.transformer import Params as Transformer

    folder = tmp_path / "llama"
    folder.mkdir()
    tensors = llama()
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    keymap = LLAMA.with_sizes(d_head=4)
    weights = restore(folder, Transformer, keymap=keymap)
    assert np.array_equal(weights.blocks[1].mlp.up, tensors["model.layers.1.mlp.up_proj.weight"].T)

    back = tmp_path / "back"
    back.mkdir()
    save(back / "model.safetensors", weights, keymap=keymap, max_shard_bytes=2000)
    assert len(list(back.glob("*-of-*.safetensors"))) > 1
    found = hugging_face_load(back)
    assert found.keys() == tensors.keys()
    assert all(found[name].tobytes() == tensors[name].tobytes() for name in tensors)
    assert bits(restore(back, Transformer, keymap=keymap)) == bits(weights)


def hugging_face_load(folder: Path) -> dict[str, Any]:
    """As transformers does: the index says which file each name is in, and the library reads it."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    found = {}
    for name, file in index["weight_map"].items():
        with safetensors.safe_open(folder / file, framework="numpy") as opened:
            assert opened.metadata()["format"] == "pt"
            found[name] = opened.get_tensor(name)
    assert index["metadata"]["total_size"] == sum(one.nbytes for one in found.values())
    return found


def llama(d_model: int = 8, heads: int = 2, kv: int = 1, d_head: int = 4, d_ff: int = 12) -> dict[str, Any]:
    shapes = {"model.embed_tokens.weight": (16, d_model), "model.norm.weight": (d_model,)}
    for i in range(2):
        layer = f"model.layers.{i}"
        shapes |= {
            f"{layer}.input_layernorm.weight": (d_model,),
            f"{layer}.self_attn.q_proj.weight": (heads * d_head, d_model),
            f"{layer}.self_attn.k_proj.weight": (kv * d_head, d_model),
            f"{layer}.self_attn.v_proj.weight": (kv * d_head, d_model),
            f"{layer}.self_attn.o_proj.weight": (d_model, heads * d_head),
            f"{layer}.post_attention_layernorm.weight": (d_model,),
            f"{layer}.mlp.gate_proj.weight": (d_ff, d_model),
            f"{layer}.mlp.up_proj.weight": (d_ff, d_model),
            f"{layer}.mlp.down_proj.weight": (d_model, d_ff),
        }
    random = np.random.default_rng(0)
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def _fields(value: Train) -> dict[str, Any]:
    return {name: getattr(value, name) for name in Train.__annotations__}


def test_an_orbax_item_written_here_is_recognised_too(tmp_path: Path) -> None:
    our_orbax.write(tmp_path / "written", train())
    assert bits(restore(tmp_path / "written", Train)) == bits(train())
