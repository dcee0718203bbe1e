"""Migrations as data: what rules do to checkpoints of every format, what they read, and the way back."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from tests.evolution.project import Project, projects
from tests.evolution.states import WRITERS, bits, fingerprint, write
from treaty.runtime import MigrationError, StateMismatchError, plan, restore, save
from treaty.runtime._evolve.apply import apply
from treaty.runtime._evolve.histories import history_of
from treaty.runtime._lazy import LazyArray
from treaty.runtime._restore.options import Options
from treaty.runtime._restore.resolve import Resolved
from treaty.runtime._restore.resolve import resolve as find_and_apply
from treaty.runtime._restore.source import Source
from treaty.runtime._state.registry import codec_of
from treaty.runtime.formats.directory import plan as directory_plan
from treaty.runtime.formats.table import reading
from treaty.schema import Schema, resolve, schema_of
from treaty.schema.evolution.inverse import inverse
from treaty.schema.evolution.resolution import Plan

UNSURE = ("x.msgpack", "x.npz", "orbax")  # that keep neither a schema nor a revision
SAVED = [name for name in WRITERS if name not in ("orbax", "sharded")]


def numbers(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(len(shape)).standard_normal(shape, np.float32))


def released(project: Project, text: str) -> None:
    """Released without a word of protest."""
    project.declare(text)
    for symbol, schema in project.declared().items():
        history = project.locked.history(symbol)
        for revision in history.revisions if history else ():
            found = resolve(revision.schema, schema, history_of, revisions={**revision.uses, symbol: revision.number})
            assert found.problems == ()
    project.lock()


ATTENTION = """
@state
class Attention:
    qkv: Float32[Array, "d 3*h"]
    out: Float32[Array, "h d"]
"""
SPLIT = """
@state
class Attention:
    query: Float32[Array, "d h"]
    key: Float32[Array, "d h"]
    value: Float32[Array, "d h"]
    out: Float32[Array, "h d"]

migration(Attention, 1, moves=[Rule("qkv", ("query", "key", "value"), axis=1)])
"""
MODEL = """
@state
class Block(Generic[P]):
    attention: Annotated[Attention, Dims(...)]
    more: P

@state
class Model:
    blocks: list[Block[Attention]]
    maybe: Annotated[Attention | None, Dims(None)]
    named: Annotated[dict[str, Attention], Dims(None)]
"""


def attention(project: Project) -> Any:
    return project["Attention"](qkv=numbers(4, 6), out=numbers(2, 4))


def split(old: Any, made: Any) -> None:
    query, key, value = np.split(np.asarray(old.qkv), 3, axis=1)
    np.testing.assert_array_equal(made.query, query)
    np.testing.assert_array_equal(made.key, key)
    np.testing.assert_array_equal(made.value, value)
    np.testing.assert_array_equal(made.out, old.out)


@pytest.mark.parametrize("format", WRITERS)
def test_a_split_at_the_root(project: Project, tmp_path: Path, format: str) -> None:
    project.release(ATTENTION)
    old = attention(project)
    (path,) = write(tmp_path, old, [format]).values()
    before = fingerprint(path)
    released(project, SPLIT)
    split(old, restore(path, project["Attention"]))
    assert fingerprint(path) == before


@pytest.mark.parametrize("format", WRITERS)
def test_a_split_wherever_the_class_stands(project: Project, tmp_path: Path, format: str) -> None:
    project.release(ATTENTION + MODEL)
    old = attention(project)
    block = project["Block"](attention=old, more=old)
    state = project["Model"](blocks=[block, block], maybe=old, named={"a": old})
    (path,) = write(tmp_path, state, [format]).values()
    released(project, SPLIT + MODEL)
    found = restore(path, project["Model"])
    for made in (*(one for b in found.blocks for one in (b.attention, b.more)), found.maybe, found.named["a"]):
        split(old, made)


@pytest.mark.parametrize("format", SAVED)
def test_older_code_reads_what_is_saved_for_it(project: Project, tmp_path: Path, format: str) -> None:
    project.release(ATTENTION + MODEL)
    old = attention(project)
    block = project["Block"](attention=old, more=old)
    state = project["Model"](blocks=[block], maybe=None, named={})
    expected = bits(state)
    save(tmp_path / "first", state)
    released(project, SPLIT + MODEL)
    save(tmp_path / format, restore(tmp_path / "first", project["Model"]), revision=1)
    later = bits(restore(tmp_path / format, project["Model"]))
    assert later == bits(restore(tmp_path / "first", project["Model"]))

    project.declare(ATTENTION + MODEL)  # older code, with a lock that knows more
    assert bits(restore(tmp_path / format, project["Model"])) == expected


def test_older_code_with_its_older_lock(project: Project, tmp_path: Path) -> None:
    project.release(ATTENTION)
    old, lock = attention(project), project.locked
    expected = bits(old)
    save(tmp_path / "first", old)
    released(project, SPLIT)
    for name in SAVED:
        save(tmp_path / name, restore(tmp_path / "first", project["Attention"]), revision=1)
    project.locked = lock
    project.declare(ATTENTION).lock()
    for name in SAVED:
        assert bits(restore(tmp_path / name, project["Attention"])) == expected


RULES: dict[str, tuple[str, str, str, dict[str, Any], dict[str, Any]]] = {
    "rename": ('a: Float32[Array, "n"]', 'b: Float32[Array, "n"]', 'Rule("a", "b")', {"a": (3,)}, {"b": lambda a: a}),
    "join": (
        'a: Float32[Array, "n m"]\n    b: Float32[Array, "k m"]',
        'c: Float32[Array, "s m"]',
        'Rule(("a", "b"), "c", ("n m -> n m", "k m -> k m"), axis=0)], sizes={"n": 3, "k": 5',
        {"a": (3, 2), "b": (5, 2)},
        {"c": lambda a, b: np.concatenate([a, b])},
    ),
    "transpose": (
        'a: Float32[Array, "n m"]',
        'a: Float32[Array, "m n"]',
        'Rule("a", "a", "n m -> m n")',
        {"a": (3, 2)},
        {"a": lambda a: a.T},
    ),
    "reshape": (
        'a: Float32[Array, "n w"]\n    b: Float32[Array, "h"]',
        'a: Float32[Array, "n h d"]\n    b: Float32[Array, "h"]',
        'Rule("a", "a", "n (h d) -> n h d")',
        {"a": (3, 8), "b": (2,)},
        {"a": lambda a, b: a.reshape(3, 2, 4), "b": lambda a, b: b},
    ),
    "unequal split": (
        'a: Float32[Array, "n w"]',
        'q: Float32[Array, "n q"]\n    k: Float32[Array, "n k"]\n    v: Float32[Array, "n k"]',
        'Rule("a", ("q", "k", "v"), ("n q -> n q", "n k -> n k", "n k -> n k"), axis=1)], sizes={"q": 4, "k": 1',
        {"a": (2, 6)},
        {"q": lambda a: a[:, :4], "k": lambda a: a[:, 4:5], "v": lambda a: a[:, 5:]},
    ),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("format", WRITERS)
def test_what_rules_do(project: Project, tmp_path: Path, name: str, format: str) -> None:
    before, after, rule, shapes, made = RULES[name]
    end = "" if "sizes=" not in rule else "}"
    call = f"migration(A, 1, moves=[{rule}{end or ']'})"
    project.release(f"@state\nclass A:\n    {before}\n    kept: int\n")
    arrays = {key: numbers(*shape) for key, shape in shapes.items()}
    old = project["A"](**arrays, kept=3)
    expected = bits(old)
    (path,) = write(tmp_path, old, [format]).values()
    released(project, f"@state\nclass A:\n    {after}\n    kept: int\n{call}\n")
    first = 1 if format in UNSURE and name == "transpose" else None
    found = restore(path, project["A"], revision=first)
    for key, function in made.items():
        np.testing.assert_array_equal(getattr(found, key), function(*map(np.asarray, arrays.values())))
    assert found.kept == 3
    save(tmp_path / "back", found, revision=1)
    project.declare(f"@state\nclass A:\n    {before}\n    kept: int\n")
    assert bits(restore(tmp_path / "back", project["A"])) == expected


LAYERS = """
@state
class Layer:
    kernel: Float32[Array, "d e"]
    bias: Float32[Array, "e"]

@state
class Model:
    layers: Annotated[list[Layer], Length("n"), Dims(...)]
    head: Float32[Array, "e v"]
"""
SCANNED = """
@state
class Layers:
    kernel: Float32[Array, "n d e"]
    bias: Float32[Array, "n e"]

@state
class Model:
    layers: Annotated[Layers, Dims(...)]
    head: Float32[Array, "e v"]

migration(Model, 1, moves=[
    Rule("layers.{i}.kernel", "layers.kernel"),
    Rule("layers.{i}.bias", "layers.bias"),
])
"""
UNSTACKED = (
    LAYERS
    + """
migration(Model, 1, moves=[
    Rule("layers.{i}.kernel", "layers.kernel"),
    Rule("layers.{i}.bias", "layers.bias"),
])
migration(Model, 2, moves=[
    Rule("layers.kernel", "layers[{i}].kernel"),
    Rule("layers.bias", "layers[{i}].bias"),
])
"""
)


def layered(project: Project) -> Any:
    layers = [project["Layer"](kernel=numbers(2, 3) + i, bias=numbers(3) - i) for i in range(12)]
    return project["Model"](layers=layers, head=numbers(3, 5))


@pytest.mark.parametrize("format", WRITERS)
def test_layers_are_stacked_for_scan_and_unstacked_again(project: Project, tmp_path: Path, format: str) -> None:
    project.release(LAYERS)
    old = layered(project)
    expected = bits(old)
    (path,) = write(tmp_path, old, [format]).values()
    released(project, SCANNED)
    found = restore(path, project["Model"])
    np.testing.assert_array_equal(found.layers.kernel, np.stack([one.kernel for one in old.layers]))
    np.testing.assert_array_equal(found.layers.bias, np.stack([one.bias for one in old.layers]))
    save(tmp_path / "scanned", found)
    save(tmp_path / "back", found, revision=1)
    scanned = bits(found)
    released(project, UNSTACKED)
    first = 1 if format in UNSURE else None  # the first and the third look alike: nobody guesses
    assert bits(restore(path, project["Model"], revision=first)) == expected
    for name in ("scanned", "back"):
        assert bits(restore(tmp_path / name, project["Model"])) == expected
    save(tmp_path / "second", restore(tmp_path / "back", project["Model"]), revision=2)
    project.declare(SCANNED)
    assert bits(restore(tmp_path / "second", project["Model"])) == scanned


TREES = """
@state
class Inner:
    w: Float32[Array, "n"]
    v: Float32[Array, "n"]

@state
class Left:
    x: Annotated[Inner, Dims(None)]
    y: Annotated[Inner, Dims(None)]

@state
class A:
    left: Left
    other: Inner | None
    step: int
"""
MOVED = """
@state
class Inner:
    w: Float32[Array, "n"]
    v: Float32[Array, "n"]

@state
class Right:
    a: Annotated[Inner, Dims(None)]
    deep: Annotated[dict[str, Inner], Dims(None)]

@state
class A:
    right: Right
    step: int
    w: Float32[Array, "n"]
    v: Float32[Array, "n"]
    other: Annotated[Inner | None, Dims(None)]

migration(A, 1, moves=[
    Rule("left.x", "right.a"),
    Rule("left.y.w", "w"),
    Rule("left.y.v", "v"),
    Rule("other", "other"),
])
"""


@pytest.mark.parametrize("other", [True, False])
def test_subtrees_and_leaves_move_across_the_tree(project: Project, tmp_path: Path, other: bool) -> None:
    moved = MOVED.replace("    deep: Annotated[dict[str, Inner], Dims(None)]\n", "")
    project.release(TREES)
    inner = project["Inner"](w=numbers(3), v=numbers(3) + 1)
    left = project["Left"](x=inner, y=project["Inner"](w=numbers(4), v=numbers(4) * 2))
    old = project["A"](left=left, other=inner if other else None, step=5)
    expected = bits(old)
    paths = write(tmp_path, old)
    released(project, moved)
    for path in paths.values():
        found = restore(path, project["A"])
        np.testing.assert_array_equal(found.right.a.w, inner.w)
        np.testing.assert_array_equal(found.v, left.y.v)
        assert (found.other is not None, found.step) == (other, 5)
    save(tmp_path / "back", found, revision=1)
    project.declare(TREES)
    assert bits(restore(tmp_path / "back", project["A"])) == expected


WRAPPED = """
@state
class Inner:
    w: Float32[Array, "n"]

@state
class A:
    alone: Annotated[Inner, Dims(...)]
    listed: Annotated[tuple[Inner, ...], Length("k"), Dims(...)]
    named: Annotated[dict[str, Inner], Dims(...)]
    rows: Annotated[tuple[Inner, ...], Length("k"), Dims(...)]
"""
WRAPPING = """
@state
class Inner:
    w: Float32[Array, "n"]

@state
class Outer:
    inner: Annotated[Inner, Dims(n="m")]
    scale: Float32[Array, "m"] | None = None
    decay: float = 0.5

@state
class Stacked:
    w: Float32[Array, "k m"]
    decay: float = 0.25

@state
class A:
    alone: Annotated[Outer, Dims(...)]
    blocks: Annotated[tuple[Outer, ...], Length("k"), Dims(...)]
    named: Annotated[dict[str, Outer], Dims(...)]
    deep: Annotated[tuple[Stacked], Dims(...)]

migration(A, 1, moves=[
    Rule("alone", "alone.inner"), Rule("listed.{i}", "blocks.{i}.inner"), Rule("named.{i}", "named.{i}.inner"),
    Rule("rows.{i}.w", "deep.0.w"),
])
"""


@pytest.mark.parametrize("format", SAVED)
def test_what_a_rule_wraps_has_its_other_fields_filled_in(project: Project, tmp_path: Path, format: str) -> None:
    project.release(WRAPPED)
    inner = project["Inner"]
    listed, rows = (tuple(inner(w=numbers(3) + i) for i in (j, j + 1)) for j in (0, 7))
    old = project["A"](alone=inner(w=numbers(3)), listed=listed, named={"7": inner(w=numbers(3) - 1)}, rows=rows)
    expected = bits(old)
    (path,) = write(tmp_path, old, [format]).values()
    released(project, WRAPPING)
    found = restore(path, project["A"])
    for made, was in [
        (found.alone, old.alone),
        (found.named["7"], old.named["7"]),
        *zip(found.blocks, listed, strict=True),
    ]:
        np.testing.assert_array_equal(made.inner.w, was.w)
        assert (made.scale, made.decay) == (None, 0.5)
    np.testing.assert_array_equal(found.deep[0].w, np.stack([one.w for one in rows]))
    assert found.deep[0].decay == 0.25

    save(tmp_path / "back", found, revision=1)
    outer = project["Outer"](inner=found.alone.inner, decay=2.0)
    changed = project["A"](alone=outer, blocks=found.blocks, named=found.named, deep=found.deep)
    with pytest.raises(MigrationError, match=r"expected 0.5, .* got another value at \$\.alone\.decay"):
        save(tmp_path / "changed", changed, revision=1)
    project.declare(WRAPPED)
    assert bits(restore(tmp_path / "back", project["A"])) == expected


def test_two_classes_with_migrations_and_a_rename_between(project: Project, tmp_path: Path) -> None:
    """A chain: each class at its own pace, an alias and a default in between."""
    project.release(ATTENTION + "@state\nclass A:\n    at: Attention\n    scale: float\n")
    old = project["A"](at=attention(project), scale=0.5)
    paths = write(tmp_path, old)
    second = (
        ATTENTION
        + '@state\nclass A:\n    attention: Attention = field(aliases=("at",))\n    scale: float\n    n: int = 7\n'
    )
    released(project, second)
    third = (
        SPLIT
        + '@state\nclass A:\n    attention: Attention = field(aliases=("at",))\n    scale: float\n    n: int = 7\n'
    )
    released(project, third)
    fourth = third.replace("scale: float", "factor: float") + 'migration(A, 3, moves=[Rule("scale", "factor")])\n'
    released(project, fourth)
    for path in paths.values():
        found = restore(path, project["A"])
        split(old.at, found.attention)
        assert (found.factor, found.n) == (0.5, 7)
    (first,) = (one for one in plan(paths["directory"], project["A"]).leaves if one.path == ("factor",))
    assert (first.verb, first.was) == ("moved", (("scale",),))


def test_a_step_that_is_not_the_first_of_a_chain(project: Project, tmp_path: Path) -> None:
    """A checkpoint of the second revision does not go through the first migration."""
    project.release("@state\nclass A:\n    a: int\n")
    project.release("@state\nclass A:\n    b: int\nmigration(A, 1, moves=[Rule('a', 'b')])\n")
    paths = write(tmp_path, project["A"](b=4))
    project.release(
        "@state\nclass A:\n    c: int\nmigration(A, 1, moves=[Rule('a', 'b')])\nmigration(A, 2, moves=[Rule('b', 'c')])\n"
    )
    assert [restore(path, project["A"]).c for path in paths.values()] == [4] * len(paths)


# What is read.


def bytes_read() -> int:
    found = re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    assert found is not None
    return int(found[1])


SIDE = 1024
BIG = """
@state
class A:
    fused: Float32[Array, "2*n n"]
    small: Float32[Array, "k"]
    rest: Float32[Array, "n n"]
"""
CUT = """
@state
class A:
    a: Float32[Array, "n n"]
    b: Float32[Array, "n n"]
    small: Float32[Array, "k"]
    rest: Float32[Array, "n n"]

migration(A, 1, moves=[Rule("fused", ("a", "b"), axis=0)])

@state
class Part:
    small: Float32[Array, "k"]
"""


@pytest.fixture
def chunked() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(directory_plan, "CHUNK_BYTES", 2**18)
        yield


def big(project: Project, path: Path) -> Any:
    project.release(BIG)
    rows = NamedSharding(jax.make_mesh((4,), ("x",)), PartitionSpec("x"))  # type: ignore[no-untyped-call]
    arrays = {"fused": numbers(2 * SIDE, SIDE), "small": numbers(3), "rest": numbers(SIDE, SIDE)}
    placed = {key: one if key == "small" else jax.device_put(one, rows) for key, one in arrays.items()}
    old = project["A"](**placed)
    save(path, old)
    return old


@pytest.mark.usefixtures("chunked")
def test_a_part_of_a_migrated_checkpoint_reads_no_more(project: Project, tmp_path: Path) -> None:
    old = big(project, tmp_path / "x")
    released(project, CUT)
    before = bytes_read()
    found = restore(tmp_path / "x", project["Part"], at=["small"], into="numpy")
    assert bytes_read() - before < 2**18
    np.testing.assert_array_equal(found.small, old.small)


def find(source: Source, cls: type) -> Resolved:
    """All of a restore but the arrays."""
    return find_and_apply(source, codec_of(cls), Options())


@pytest.mark.usefixtures("chunked")
def test_a_function_that_looks_at_one_field_reads_that_one(project: Project, tmp_path: Path) -> None:
    old = big(project, tmp_path / "x")
    project.release(BIG + "@migration(A, 1)\ndef doubled(old):\n    return {**old, 'small': old['small'] * 2}\n")
    before = bytes_read()
    with reading(tmp_path / "x", lambda source: nullcontext(find(source, project["A"]))) as found:
        assert bytes_read() - before < 2**18
        np.testing.assert_array_equal(found.tree["small"], np.asarray(old.small) * 2)
        assert isinstance(found.tree["rest"], LazyArray)
    np.testing.assert_array_equal(restore(tmp_path / "x", project["A"], into="numpy").small, np.asarray(old.small) * 2)


@pytest.mark.usefixtures("chunked")
def test_a_moved_array_goes_to_its_devices_by_region(project: Project, tmp_path: Path) -> None:
    old = big(project, tmp_path / "x")
    released(project, CUT)
    mesh = jax.make_mesh((8,), ("x",))
    before = bytes_read()
    found = restore(tmp_path / "x", project["A"], mesh=mesh, rules={"n": "x"}, max_bytes_in_flight=2**20)
    assert bytes_read() - before < 1.2 * (old.fused.nbytes + old.rest.nbytes)
    assert found.a.sharding.spec == PartitionSpec("x", None)  # type: ignore[no-untyped-call]
    np.testing.assert_array_equal(found.a, np.asarray(old.fused)[:SIDE])


# The way back.


@cache
def way_of(name: str) -> tuple[Plan, Schema]:
    with projects() as make:
        project = make()
        first, second = (ATTENTION, SPLIT) if name == "split" else (LAYERS, SCANNED)
        cls = "Attention" if name == "split" else "Model"
        before = schema_of(project.release(first)[cls])
        after = schema_of(project.release(second)[cls])
        return resolve(before, after, history_of).plan, after


@given(data=st.data())
def test_the_inverse_of_an_inverse_changes_nothing(data: st.DataObject) -> None:
    sizes = data.draw(st.tuples(*[st.integers(1, 4)] * 4))
    name = data.draw(st.sampled_from(["split", "scan"]))
    way, present = way_of(name)
    d, h, n, v = sizes
    old: dict[str, Any] = {"qkv": _ints(d, 3 * h), "out": _ints(h, d)}
    if name == "scan":
        layers = {str(i): {"kernel": _ints(d, h) + i, "bias": _ints(h) - i} for i in range(n)}
        old = {"layers": layers, "head": _ints(h, v)}
    new = apply(way, old, present)
    assert _same(apply(inverse(way), new, present), old)
    assert _same(apply(inverse(inverse(way)), old, present), new)
    assert _same(apply(inverse(inverse(inverse(way))), new, present), old)


def _ints(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


def test_without_a_way_back_all_reasons_are_told(project: Project, tmp_path: Path) -> None:
    project.release(
        "@state\nclass B:\n    x: int\n"
        '@state\nclass A:\n    a: Float16[Array, "n"]\n    gone: int\n    b: B\n    c: list[B]\n'
    )
    project.release(
        "@state\nclass B:\n    x: int\n"
        "@migration(B, 1)\ndef more(old):\n    return {'x': old['x'] + 1}\n"
        '@state(reserved=("gone",))\nclass A:\n    a: Float32[Array, "n"]\n    b: B\n    c: list[B]\n'
    )
    state = project["A"](a=numbers(3), b=project["B"](x=1), c=[])
    with pytest.raises(MigrationError) as caught:
        save(tmp_path / "x", state, revision=1)
    assert str(caught.value).splitlines() == [
        "expected a way back to revision 1 of A, got:",
        "expected a way back, got none: float16 was widened to float32 at $.a",
        "expected a way back, got none: migration(B, 1) is a function; rules have an inverse at $.b",
        "expected a way back, got none: migration(B, 1) is a function; rules have an inverse at $.c[*]",
        "expected a way back, got none: 'gone' was dropped, and had no default at $",
    ]
    assert not (tmp_path / "x").exists()


def test_a_value_that_only_the_present_has_is_not_lost_on_the_way_back(project: Project, tmp_path: Path) -> None:
    project.release("@state\nclass A:\n    a: int\n")
    project.release("@state\nclass A:\n    a: int\n    b: int = 3\n")
    save(tmp_path / "x", project["A"](a=1), revision=1)
    with pytest.raises(MigrationError) as caught:
        save(tmp_path / "y", project["A"](a=1, b=4), revision=1)
    assert str(caught.value) == (
        "expected 3, which the earlier revision has no field for and which is filled in again, got another value at $.b"
    )


def test_what_was_dropped_is_filled_in_on_the_way_back(project: Project, tmp_path: Path) -> None:
    project.release("@state\nclass A:\n    a: int\n    gone: float = 0.25\n")
    project.release('@state(reserved=("gone",))\nclass A:\n    a: int\n')
    for name in SAVED:
        save(tmp_path / name, project["A"](a=1), revision=1)
    project.declare("@state\nclass A:\n    a: int\n    gone: float = 0.25\n")
    assert {restore(tmp_path / name, project["A"]).gone for name in SAVED} == {0.25}


WRONG = {
    "no such name": (
        'Rule("b", "c")',
        "expected 'b' in the earlier revision, got only $.a, $.n",
    ),
    "no such field": ('Rule("a", "x")', "expected 'x' in the later revision, got only $.c, $.n"),
    "no array": ('Rule("n", "n", "k -> k")', "expected arrays on both sides of n <-> n, got int"),
    "another rank": (
        'Rule("a", "c", "k l -> l k")',
        "expected another rank on the later side of a <-> c, got float32[k]",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_rule_that_does_not_fit_is_told(project: Project, name: str) -> None:
    rule, expected = WRONG[name]
    project.release('@state\nclass A:\n    a: Float32[Array, "k"]\n    n: int\n')
    before = schema_of(project["A"])
    project.declare(f'@state\nclass A:\n    c: Float32[Array, "k"]\n    n: int\nmigration(A, 1, moves=[{rule}])\n')
    found = resolve(before, schema_of(project["A"]), history_of)
    assert str(found.problems[0]) == f"{expected} at $; in migration(A, 1)"


FILLED = "def seven():\n    return [7]\n@state\nclass A:\n    x: int\n    more: list[int] = field(factory={})\n"


@pytest.mark.parametrize("factory", ["seven", "lambda: [7]"])
def test_a_default_is_filled_in_before_a_later_migration(project: Project, tmp_path: Path, factory: str) -> None:
    project.release("@state\nclass A:\n    x: int\n")
    paths = write(tmp_path, project["A"](x=3))
    project.release(FILLED.format(factory))
    released(project, FILLED.format(factory).replace("x: int", "y: int") + "migration(A, 2, moves=[Rule('x', 'y')])\n")
    for path in paths.values():
        found = restore(path, project["A"])
        assert (found.y, found.more) == (3, [7])


def test_a_default_without_a_name_that_moved_on_is_told_in_time(project: Project) -> None:
    """Only its text is left, and no text makes a lambda."""
    project.release("@state\nclass A:\n    x: int\n")
    before = schema_of(project["A"])
    project.release(FILLED.format("lambda: [7]"))
    step = "migration(A, 2, moves=[Rule('more', 'most')])\n"
    project.declare(FILLED.format("lambda: [7]").replace("more", "most") + step)
    (problem,) = resolve(before, schema_of(project["A"]), history_of).problems
    assert str(problem) == (
        f"expected a default that can be made again, got {project.name}:A.<lambda> at $.more; a later migration begins "
        f"after it was filled in: give the factory a name, or write the value in a migration"
    )
    project.locked = type(project.locked)(project.name, project.locked.log[:1])
    project.release(FILLED.format("seven"))
    project.declare(FILLED.format("seven").replace("more", "most") + step)
    assert resolve(before, schema_of(project["A"]), history_of).ok


def test_a_key_that_a_rule_cannot_name_is_told(project: Project, tmp_path: Path) -> None:
    item = "@state\nclass B:\n    {}: int\n@state\nclass A:\n    table: dict[str, B]\n"
    project.release(item.format("x"))
    value = project["A"](table={"1": project["B"](x=1), "k": project["B"](x=2)})
    paths = write(tmp_path, value, ["directory"])
    changed = project.declare(item.format("y") + "migration(A, 1, moves=[Rule('table.{k}.x', 'table[{k}].y')])\n")
    with pytest.raises(
        StateMismatchError, match=r"expected 'table.{k}.x' in the earlier .*keys that are text are \.{name}"
    ):
        restore(paths["directory"], changed["A"])
