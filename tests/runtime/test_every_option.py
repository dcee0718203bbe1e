"""Every option of `restore` with every format: it means the same in each, and is refused in the same words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from flax import serialization
from jax.sharding import NamedSharding

from tests.runtime.equality import same
from tests.runtime.restore_options import (
    RIGHT,
    Check,
    HalfOther,
    Narrow,
    P,
    Params,
    Train,
    Wide,
    a_narrow_dtype_is_widened_unasked,
    a_wide_dtype_is_narrowed_only_when_asked,
    mesh,
    narrow,
    refusal,
    train,
)
from treaty.runtime import KeyMapError, StateMismatchError, restore, save, to_state_dict
from treaty.runtime._checkpoint.save import save_as
from treaty.runtime._trees import flatten
from treaty.runtime.formats.directory import plan
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.table import format_named
from treaty.schema import TreatyError
from treaty.schema.keymap import KeyMap, Rule

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def by_treaty(format: str, **options: Any) -> Callable[[Path, Any], None]:
    return lambda path, state: save_as(format_named(format), str(path), state, None, None, Writing(**options))


def in_chunks(path: Path, state: Any) -> None:
    """A directory in which every array has files of its own, several where it has several rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "SMALL_BYTES", 0)
        patch.setattr(plan, "CHUNK_BYTES", 32)
        save(path, state)


def by_flax(path: Path, state: Any) -> None:
    path.write_bytes(
        serialization.to_bytes(serialization.msgpack_restore(serialization.to_bytes(to_state_dict(state))))
    )


def by_orbax(path: Path, state: Any) -> None:
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, to_state_dict(state))


def by_savez_compressed(path: Path, state: Any) -> None:
    leaves = {"/".join(keys): np.asarray(leaf) for keys, leaf in flatten(to_state_dict(state))}
    np.savez_compressed(path, **leaves)  # type: ignore[arg-type]


WRITERS: dict[str, Callable[[Path, Any], None]] = {
    "x.msgpack": save,
    "x.msgpack.gz": save,
    "flax.msgpack": by_flax,
    "x.safetensors": save,
    "shards.safetensors": by_treaty("safetensors", max_shard_bytes=300),
    "x.npz": save,
    "compressed.npz": by_savez_compressed,
    "orbax": by_orbax,
    "our orbax": by_treaty("orbax"),
    "eformer": by_treaty("eformer"),
    "directory": save,
    "chunks": in_chunks,
}
every_format = pytest.mark.parametrize("name", WRITERS)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Any], Path]:
    """The path of a state in a format, written when it is first asked for."""
    folder = tmp_path_factory.mktemp("saved")
    written: set[Path] = set()

    def path_of(name: str, state: Any) -> Path:
        path = folder / type(state).__name__ / name
        path.parent.mkdir(exist_ok=True)
        if path not in written:
            WRITERS[name](path, state)
            written.add(path)
        return path

    return path_of


Saved = Callable[[str, Any], Path]


@every_format
@pytest.mark.parametrize("check", RIGHT, ids=lambda check: check.__name__)
def test_a_right_option(check: Check, name: str, saved: Saved) -> None:
    check(saved(name, train()))


@every_format
def test_a_narrow_dtype_is_widened_unasked(name: str, saved: Saved) -> None:
    a_narrow_dtype_is_widened_unasked(saved(name, narrow()))


@every_format
def test_a_wide_dtype_is_narrowed_only_when_asked(name: str, saved: Saved) -> None:
    a_wide_dtype_is_narrowed_only_when_asked(saved(name, wide()))


@every_format
def test_what_would_be_widened_is_no_mismatch_beside_others(name: str, saved: Saved) -> None:
    wrong = wide(seen=3)
    assert refusal(saved(name, narrow()), wrong) == (
        StateMismatchError,
        "expected int64[3] as in the template, got int64[2] at $.seen",
    )
    assert refusal(saved(name, narrow()), Wide, dims={"k": 3}) == (
        StateMismatchError,
        "expected int64[k=3], got int64[2] at $.seen\nexpected float32[k=3], got float32[2] at $.same\n"
        "of these sizes the checkpoint has others: dims={'k': 2}",
    )


# What is asked for, of which class or template, and what is said. Formats keep leaves in different orders, and so may
# lists of them in messages be: lines are compared as a set.
WRONG: dict[str, tuple[Any, dict[str, Any], type[TreatyError], str]] = {
    "at, a number": (Train, {"at": 5}, TreatyError, "at: expected a path as a str, or a list of them, got 5"),
    "at, nothing": (Train, {"at": []}, TreatyError, "at: expected a path, or a list of them, got an empty list"),
    "at, no path": (
        Train,
        {"at": "a..b"},
        TreatyError,
        "at='a..b': expected a path like params or blocks[3].up or table['a.b']",
    ),
    "at, no key in quotes": (
        Train,
        {"at": "['a\\']"},
        TreatyError,
        r"""at="['a\\']": expected a key in quotes as Python writes it, got 'a\'""",
    ),
    "at, another path": (
        Train,
        {"at": "parms"},
        TreatyError,
        "expected $.parms in PATH, got count, eps, params, seen, step at $; did you mean $.params?",
    ),
    "at, another path in a list": (
        Train,
        {"at": ["step", "params.blocks[7].up"]},
        TreatyError,
        "expected $.params.blocks[7].up in PATH, got 0, 1, 2 at $.params.blocks",
    ),
    "at, too little": (
        Train,
        {"at": ["params", "eps", "seen"]},
        StateMismatchError,
        "expected int, got nothing at $.step\nexpected int32[], got nothing at $.count",
    ),
    "at, another class": (
        Params,
        {"at": "params.blocks[0]"},
        StateMismatchError,
        "expected bfloat16[vocab, d_model], got nothing at $.embed\nexpected tuple, got nothing at $.blocks\n"
        "expected no such key in Params, got float32[4, 16] at $.up\n"
        "expected no such key in Params, got float32[16, 4] at $.down",
    ),
    "at, an array": (
        Params,
        {"at": "params.embed"},
        StateMismatchError,
        "expected Params as a dict, got bfloat16[8, 4] at $",
    ),
    "dims, another size": (
        Train,
        {"dims": {"k": 4}},
        StateMismatchError,
        "expected int32[k=4], got int32[5] at $.seen\nof these sizes the checkpoint has others: dims={'k': 5}",
    ),
    "dims, another name": (
        Train,
        {"dims": {"z": 3}},
        TreatyError,
        "tests.runtime.restore_options:Train has no dim 'z'; its dims: k",
    ),
    "dims, text": (Train, {"dims": {"k": "5"}}, TreatyError, "dims={'k': '5'}: expected an int"),
    "dims, a list": (Train, {"dims": ["k"]}, TreatyError, "dims: expected a mapping of names to sizes, got list"),
    "keymap, text": (Train, {"keymap": "map.json"}, TreatyError, "keymap: expected a KeyMap, got str"),
    "keymap, of something else": (
        Train,
        {"keymap": KeyMap([Rule("a", "b")], ignore_stored=["params.**", "seen", "eps"])},
        KeyMapError,
        "expected one rule, got none for 'step'\nexpected one rule, got none for 'count'\n"
        "expected something for each rule, got nothing for 'a'\n"
        "nothing fits: the names may be those of the map's other side",
    ),
    "mesh, text": (Train, {"mesh": "model"}, TreatyError, "mesh: expected a jax.sharding.Mesh, got str"),
    "rules, no mesh": (Train, {"rules": {"d_ff": "model"}}, TreatyError, "rules= needs mesh=, whose axes they name"),
    "rules, another dim": (
        Train,
        {"mesh": mesh(), "rules": {"width": "model"}},
        TreatyError,
        "rules: no array has a dim 'width'; there are d_ff, d_model, vocab",
    ),
    "rules, another axis": (
        Train,
        {"mesh": mesh(), "rules": {"d_ff": "data"}},
        TreatyError,
        "rules: 'd_ff': the mesh has no axis 'data'; it has model",
    ),
    "rules, no pattern": (
        Train,
        {"mesh": mesh(), "rules": [("blocks", P())]},
        TreatyError,
        "rules: no pattern matches params/embed; end with ('.*', PartitionSpec()) to replicate the rest",
    ),
    "shardings, text": (
        Train,
        {"shardings": "model"},
        TreatyError,
        "shardings: expected a Sharding, or an instance of the class or nested dicts that hold them, got str",
    ),
    "shardings, too many axes": (
        Params,
        {"at": "params", "shardings": NamedSharding(mesh(), P(None, None, "model"))},
        TreatyError,
        "expected a sharding that divides [8, 4], got list index out of range at $.embed",
    ),
    "shardings and mesh": (
        Train,
        {"mesh": mesh(), "shardings": NamedSharding(mesh(), P())},
        TreatyError,
        "expected shardings= or mesh=, got both",
    ),
    "into, torch": (Train, {"into": "torch"}, TreatyError, "into='torch': expected \"numpy\" or None"),
    "into, with a mesh": (
        Train,
        {"into": "numpy", "mesh": mesh()},
        TreatyError,
        'into="numpy" keeps arrays on the host; it goes with neither mesh= nor shardings=',
    ),
    "cast, no dtype": (
        Train,
        {"cast": {"float32": "fp7"}},
        TreatyError,
        "cast={'float32': 'fp7'}: expected names of dtypes, got 'fp7'",
    ),
    "cast, a list of dtypes": (
        Train,
        {"cast": {"float32": ["bfloat16"]}},
        TreatyError,
        "cast={'float32': ['bfloat16']}: expected names of dtypes, got ['bfloat16']",
    ),
    "cast, text": (Train, {"cast": "bfloat16"}, TreatyError, "cast: expected a mapping of dtypes to dtypes, got str"),
    "max_bytes_in_flight, none": (
        Train,
        {"max_bytes_in_flight": 0},
        TreatyError,
        "expected max_bytes_in_flight of 1 or more, got 0",
    ),
    "max_bytes_in_flight, a bool": (
        Train,
        {"max_bytes_in_flight": True},
        TreatyError,
        "expected max_bytes_in_flight of 1 or more, got True",
    ),
    "a template, other shapes": (
        train(vocab=9),
        {},
        StateMismatchError,
        "expected bfloat16[9, 4] as in the template, got bfloat16[8, 4] at $.params.embed",
    ),
    "a template, fewer items": (
        Params(embed=train().params.embed, blocks=()),
        {"at": "params"},
        StateMismatchError,
        "expected 0 items as in the template, got 3 items at $.blocks",
    ),
    "a class of nobody": (
        int,
        {},
        TreatyError,
        "int: expected a class declared with @state (or an attrs class); write @state above the class",
    ),
}


@every_format
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_option_is_refused_in_the_same_words_before_an_array_is_read(
    wrong: str, name: str, saved: Saved
) -> None:
    is_refused(saved(name, train()), wrong)


def is_refused(path: Path, wrong: str) -> None:
    target, options, kind, text = WRONG[wrong]
    found, told = refusal(path, target, **options)
    assert issubclass(found, kind)
    assert sorted(told.splitlines()) == sorted(text.splitlines())


@every_format
def test_a_cast_that_is_asked_for_is_made(name: str, saved: Saved) -> None:
    path, stored = saved(name, wide()), wide()
    cast = {"float32": "bfloat16", "float64": "bfloat16", "int32": "int8", "int64": "int32"}
    assert refusal(path, Narrow, cast=cast) == (
        StateMismatchError,
        "expected float16[a=4, b=2], got float32[4, 2] at $.other\n"
        "to convert what is stored, pass cast={'float32': 'float16'}",
    )
    back = restore(path, HalfOther, cast=cast, mesh=mesh(), rules={"a": "model"})
    same(back.half, np.asarray(stored.half).astype(jnp.bfloat16))
    same(back.other, stored.other)
    same(back.host, stored.host.astype(jnp.bfloat16))
    same(back.seen, stored.seen.astype(np.int32))
    assert back.half.sharding == NamedSharding(mesh(), P("model", None))


def wide(seen: int = 2) -> Wide:
    """Of values that narrow dtypes hold, so that a cast to them is known to the last bit."""
    half = np.array([[1.5, -0.0], [np.inf, -2.0], [0.25, 3.0], [7.0, -1.0]], np.float32)
    return Wide(
        half=jnp.asarray(half),
        other=jnp.asarray(half * 2),
        host=np.array([0.5, -4.0]),
        count=jnp.int32(9),
        seen=np.arange(seen) - 1,
        same=np.array([0.1, 0.2], np.float32),
    )
