"""The file of a lock: what it says of a class, that it is only added to, and what happens to one that somebody damaged."""

import functools
import json
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import Array
from jax.tree_util import Partial
from jaxtyping import Float32, Int32

from treaty.schema import Dims, Fields, Length, Rule, Schema, SchemaError, field, migration, schema_of, state
from treaty.schema import modules as schema_modules
from treaty.schema._read import SchemaReader
from treaty.schema.evolution.changes import changes
from treaty.schema.evolution.digests import function_digest
from treaty.schema.evolution.history import instance
from treaty.schema.evolution.lock import Lock, Moved, Orphaned, Waived
from treaty.schema.evolution.migrations import steps_of
from treaty.schema.keymap import KeyMap
from treaty.schema.library import optax, transformer

HERE = "tests.schema.test_lock_file"
GOLDEN = Path(__file__).parent.parent / "generator" / "cases" / "evolved" / "expected.lock"
P = TypeVar("P")
Q = TypeVar("Q")


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]


@state
class Biased:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"] | None = None


@state
class Moments(Generic[P, Q]):
    mu: P
    nu: Q


@state
class Swapped(Generic[Q, P]):
    mu: P
    nu: Q


class Pair(NamedTuple):
    a: Int32[Array, ""]
    b: int


@state
class Odd(Generic[P]):
    items: Annotated[list[P], Length("n")]
    nested: Annotated[Moments[P, Linear], Dims(...)]
    loose: Annotated[Moments[Pair, P], Dims(None)]
    inline: Annotated[Pair, Fields(a=P, b=int)]
    maybe: P | None = None


def opened(cls: type) -> Schema:
    """A class as it is locked: with its type variables open."""
    reader = SchemaReader()
    root = reader.generic(cls)
    return Schema(root, reader.classes()).at(root)


def locked(*classes: type, name: str = "Linear", message: str = "") -> Lock:
    """A lock in which one class was declared as these, one after the other."""
    lock = Lock(HERE, name="state_treaty.lock")
    for cls in classes:
        lock = lock.add(f"{HERE}:{name}", opened(cls), message=message)
    return lock


def refusal(text: str) -> str:
    with pytest.raises(SchemaError) as caught:
        Lock.parse(text, "state_treaty.lock")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_lock_is_read_back_as_it_was_written() -> None:
    lock = locked(Linear, Biased, message='with "quotes" and ünicode')
    lock = lock.with_entry(Moved({f"{HERE}:Linear": f"{HERE}:Dense"}, "a better name"))
    lock = lock.with_entry(Orphaned(f"{HERE}:Dense", 1, "never trained"))
    lock = lock.with_entry(Waived("SILENT", f"{HERE}:Dense", 2, "meant"))

    read = Lock.parse(lock.to_text())

    assert read == lock
    assert read.to_text() == lock.to_text()
    line = read.lines[f"{HERE}:Dense"]
    assert (line.former, line.last, line.orphaned) == ((f"{HERE}:Linear",), 2, {1: "never trained"})


def test_it_is_only_added_to() -> None:
    before, after = locked(Linear).to_text(), locked(Linear, Biased).to_text()
    assert after.startswith(before.removesuffix("\n]}\n"))


def test_a_history_has_the_schemas_as_they_were() -> None:
    history = Lock.parse(locked(Linear, Biased).to_text()).history("Linear")

    assert [revision.number for revision in history.revisions] == [1, 2]
    assert history[1].schema == schema_of(Linear)
    assert history[2].schema == schema_of(Biased)
    assert history.present(schema_of(Linear)) == 3  # as it was once, and not as it was last
    assert history.present(schema_of(Biased)) == 2
    assert Lock(HERE).history("Linear").last == 0


def test_a_revision_repeats_nothing_that_stands_above_it() -> None:
    lock = locked(Linear).add(f"{HERE}:Odd", opened(Odd)).add(f"{HERE}:Moments", opened(Moments))
    entry = lock.lines[f"{HERE}:Odd"][1]
    assert f"{HERE}:Linear" not in entry.declares
    assert f"{HERE}:Moments[~0, {HERE}:Linear]" in entry.declares


@pytest.mark.parametrize(
    ("generic", "filled"),
    [
        (Moments, Moments[Linear, Pair]),
        (Moments, Moments[Linear, Annotated[Linear, Dims(d_in="d_out")]]),
        (Moments, Moments[Float32[Array, "d"], list[Linear]]),
        (Moments, Moments),
        (Odd, Odd[Linear]),
        (Odd, Odd[Moments[Linear, int]]),
        (Odd, Odd[tuple[Linear, Pair]]),
        (optax.AdamW, optax.AdamW[transformer.Params, optax.ScheduleState]),
        (optax.MultiStepsState, optax.MultiStepsState[optax.Sgd[Linear, Pair], Linear, tuple[()]]),
    ],
    ids=str,
)
def test_a_generic_class_that_was_locked_open_is_each_of_its_instances(generic: type, filled: Any) -> None:
    schema = schema_of(filled)
    made = instance(Schema.from_json(opened(generic).to_json()), schema.root_class.args, schema)
    assert made is not None
    assert made.digest == schema.digest


def test_type_variables_that_swap_places_are_a_change() -> None:
    assert opened(Moments).digest != opened(Swapped).digest


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda text: text.replace("float32", "float16", 1), "revision 1: the entry was edited, or one before it"),
        (lambda text: text.replace('"sha256:', '"sha256:0', 1), "revision 1: the entry was edited, or one before it"),
        (lambda text: text[: len(text) // 2], "expected a lock in JSON, got "),
        (lambda text: text.replace('"log": [', '"log": {'), "expected a lock in JSON, got "),
        (lambda text: "", "expected a lock in JSON, got "),
        (lambda text: "[]", 'expected "treaty": "lock", got [] at the start'),
        (lambda text: text.replace('"version": 1', '"version": "1"'), 'expected "version": 1, got "1" at the start'),
        (lambda text: text.replace('"revision": 1', '"revision": "1"'), "expected 'revision': a number, got \"1\""),
        (lambda text: text.replace('"digest"', '"digits"', 1), "expected 'digest': text, got null at log[0]"),
        (lambda text: text.replace('"chain"', '"more": 1, "chain"', 1), 'got "more" at log[0]'),
        (lambda text: text.replace('"revision": 2', '"revision": 3'), "revision 3: revision 2 is missing before it"),
    ],
)
def test_a_lock_that_was_damaged_says_where_and_what_to_do(edit: Any, message: str) -> None:
    found = refusal(edit(locked(Linear, Biased).to_text()))
    assert found.startswith("state_treaty.lock: ")
    assert message in found
    assert found.endswith("(git checkout -- state_treaty.lock) and run treaty lock")


def test_an_entry_that_was_taken_out_is_missed() -> None:
    lock = locked(Linear, Biased, Linear)
    assert "revision 3: revision 2 is missing before it" in refusal(
        attrs.evolve(lock, log=(lock.log[0], lock.log[2])).to_text()
    )


def test_a_class_that_was_cut_out_is_missed_by_what_comes_after() -> None:
    lock = locked(Linear).add(f"{HERE}:Pair", opened(Pair)).add(f"{HERE}:Linear", opened(Biased))
    cut = attrs.evolve(lock, log=(lock.log[0], lock.log[2]))
    assert refusal(cut.to_text()) == (
        "state_treaty.lock: log[1]: it does not follow the entries that it was written after, as when two branches lock and "
        "both are kept, or history is edited; keep the side that was released: git checkout --ours state_treaty.lock "
        "(or --theirs), then run treaty lock, and count a migration of the other side up to the revision that it begins at now"
    )


@pytest.mark.parametrize(
    ("entry", "other"),
    [
        (Moved({f"{HERE}:Linear": f"{HERE}:Dense"}), Moved({f"{HERE}:Linear": f"{HERE}:Layer"})),
        (Orphaned(f"{HERE}:Linear", 1, "never trained"), Orphaned(f"{HERE}:Linear", 1, "lost")),
        (Orphaned(f"{HERE}:Pair", None, "gone"), None),
        (Waived("LOAD", f"{HERE}:Linear", 1, "meant", ("w: x",)), Waived("LOAD", f"{HERE}:Linear", 1, "meant")),
    ],
)
def test_a_move_an_orphan_and_a_waiver_are_chained_too(entry: Any, other: Any) -> None:
    lock = locked(Linear).add(f"{HERE}:Pair", opened(Pair)).with_entry(entry)
    then = lock.with_entry(Waived("LOAD", next(iter(lock.lines)), 1, "another")).log[-1]
    kept = lock.log[-1]
    edited = () if other is None else (attrs.evolve(other, follows=kept.follows),)
    assert "log[" in refusal(attrs.evolve(lock, log=(*lock.log[:-1], *edited, then)).to_text())


def test_a_lock_from_before_entries_were_chained_to_the_log_is_read_and_added_to() -> None:
    old = attrs.evolve(locked(Linear), log=tuple(attrs.evolve(one, follows="") for one in locked(Linear).log))
    read = Lock.parse(old.to_text()).add(f"{HERE}:Linear", opened(Biased))
    assert [bool(one.follows) for one in Lock.parse(read.to_text()).log] == [False, True]
    stripped = attrs.evolve(
        read, log=(*read.log, attrs.evolve(read.add(f"{HERE}:Pair", opened(Pair)).log[-1], follows=""))
    )
    assert "log[2]: it does not follow" in refusal(stripped.to_text())


@pytest.mark.parametrize("entry", [Orphaned(f"{HERE}:Linear", 1, "lost"), Waived("LOAD", f"{HERE}:Linear", 1, "lost")])
def test_what_is_given_up_or_waived_has_a_reason(entry: Any) -> None:
    text = locked(Linear).with_entry(entry).to_text()
    assert "expected 'why': a reason, got \"\"" in refusal(text.replace("lost", ""))


def test_a_merge_that_git_could_not_make_says_how_to_settle_it() -> None:
    first, second = locked(Linear, Biased).to_text(), locked(Linear, Moments).to_text()
    lines = first.splitlines(keepends=True)
    common = next(
        n for n, (one, other) in enumerate(zip(lines, second.splitlines(keepends=True), strict=False)) if one != other
    )
    both = [
        *lines[:common],
        "<<<<<<< HEAD\n",
        *lines[common:],
        "=======\n",
        *second.splitlines(keepends=True)[common:],
        ">>>>>>> b\n",
    ]

    found = refusal("".join(both))

    assert found.startswith(
        "state_treaty.lock: two branches locked revisions, and git could not merge them; keep the side"
    )
    assert "git checkout --ours state_treaty.lock (or --theirs), then run treaty lock" in found


def test_both_sides_of_a_merge_kept_are_two_revisions_of_one_number() -> None:
    first, second = locked(Linear, Biased), locked(Linear, Moments)
    found = refusal(attrs.evolve(first, log=(*first.log, second.log[1])).to_text())
    assert f"{HERE}:Linear has two revisions 2, as when two branches lock and both are kept; keep the side" in found


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace('"version": 1', '"version": 2'),
        lambda text: text.replace('"event": "revision"', '"event": "frozen"'),
    ],
)
def test_a_lock_of_a_newer_treaty_is_no_damage(edit: Any) -> None:
    found = refusal(edit(locked(Linear).to_text()))
    assert "state_treaty.lock: written by a newer Treaty (" in found
    assert found.endswith("; upgrade treaty")


@given(st.data())
def test_whatever_is_changed_is_found_or_says_nothing_of_what_is_stored(data: st.DataObject) -> None:
    """One character of a real lock: it is refused with one line, or only words and names are others."""
    text = GOLDEN.read_text()
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from('0aZ"{}[],:\\ \n'))
    damaged = text[:place] + other + text[place + 1 :]
    try:
        read = Lock.parse(damaged, "state_treaty.lock")
    except SchemaError:
        refusal(damaged)
        return
    known = Lock.parse(text)
    assert [getattr(one, "chain", "") for one in read.log] == [getattr(one, "chain", "") for one in known.log]
    assert [getattr(one, "declares", "") for one in read.log] == [getattr(one, "declares", "") for one in known.log]


def test_two_classes_may_swap_their_names() -> None:
    a, b = f"{HERE}:A", f"{HERE}:B"
    lock = Lock(HERE).add(a, opened(Linear)).add(b, opened(Biased)).with_entry(Moved({a: b, b: a}))
    assert lock.lines[a][1].digest == schema_of(Biased).digest
    assert lock.lines[b].former == (a,)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            Moved({f"{HERE}:Linear": f"{HERE}:Pair"}),
            "moved to tests.schema.test_lock_file:Pair, which another class is called",
        ),
        (Orphaned(f"{HERE}:Linear", 7, "x"), "Linear 7, which has the revisions 1 to 1"),
    ],
)
def test_an_entry_that_does_not_fit_the_log_is_refused(entry: Any, message: str) -> None:
    lock = locked(Linear).add(f"{HERE}:Pair", opened(Pair))
    with pytest.raises(SchemaError, match=r"expected|moved") as caught:
        lock.with_entry(entry)
    assert message in str(caught.value)


def test_a_class_that_is_gone_leaves_its_name_to_another() -> None:
    lock = locked(Linear).with_entry(Orphaned(f"{HERE}:Linear", None, "not trained any more"))
    assert lock.lines == {}
    again = lock.add(f"{HERE}:Linear", opened(Biased))
    assert again.lines[f"{HERE}:Linear"].last == 1


def test_a_type_variable_is_told_in_words() -> None:
    item = TypeVar("item")

    @state
    class Before(Generic[item]):
        mu: item

    @state
    class After(Generic[item]):
        mu: item
        average: item | None = None

    expected = ("average: added, type argument 1 | None, default None",)
    assert changes(opened(Before), opened(After)) == expected


def test_changes_are_told_in_words() -> None:
    @state
    class Block:
        up: Annotated[Linear, Dims(...)]
        old: int
        scale: float = 1.0

    @state
    class Later:
        up: Annotated[Biased, Dims(d_in="d", d_out="d_out")]
        new: Annotated[list[Linear], Dims(None)]
        scale: float = field(default=2.0, static=True)

    @state
    class Through:
        up: Annotated[Biased, Dims(...)]
        old: int
        scale: float = 1.0

    assert changes(schema_of(Block), schema_of(Later)) == (
        "up: Linear(d_in=d_in, d_out=d_out) -> Biased(d_in=d, d_out=d_out)",
        "old: removed",
        "scale: static now",
        "scale: default 1.0 -> 2.0",
        "new: added, list[Linear]",
        "through Biased",
    )
    assert changes(schema_of(Block), schema_of(Through)) == (
        "up: Linear(d_in=d_in, d_out=d_out) -> Biased(d_in=d_in, d_out=d_out)",
        "through Biased",
    )
    assert changes(schema_of(Block), schema_of(Block)) == ()


def test_a_function_of_another_module_is_told_with_its_module() -> None:
    @state
    class Loss:
        loss: Annotated[Partial, Fields(func=one, args=(int,), keywords={})]

    later = Schema.from_json(schema_of(Loss).to_json().replace(f"{HERE}:one", "my.model:one"))
    assert changes(schema_of(Loss), later) == (f"loss: Partial[{HERE}:one] -> Partial[my.model:one]",)


def one(old: Any) -> Any:
    return {**old, "scale": old["scale"] / 100}


# fmt: off
def other_words(state: "dict[str, float]", x: int = 1) -> "dict[str, float]":
    return state


def same(old: "dict[str, float]") -> "dict[str, float]":
    """Says the same as `one`, in other words."""
    return {
        **old,  # all of it
        'scale': old['scale'] / 100,
    }


def other(old: Any) -> Any:
    return {**old, "scale": old["scale"] / 10}
# fmt: on


def test_a_function_is_known_by_what_it_does() -> None:
    digests = [function_digest(function, "name") for function in (one, same, other, other_words)]
    assert digests[0] == digests[1]
    assert len({*digests}) == 3
    # In every version of Python, or every lock would say that every migration was edited.
    assert digests[0] == "sha256:5420746c69979a4bd505da74e99c530dcd833cf44728d65fe16c99be82d0a1d7"
    assert function_digest(dict, "name") != function_digest(dict, "other")


def doubled(function: Any) -> Any:
    return function


MADE = migration(Linear, 5)


# fmt: off
@functools.cache
@migration(Linear, 3)
def without(old: Any) -> Any:
    def scale(x: Any) -> Any:
        return x * 2
    return scale(old)


@migration(Linear, 4)
@doubled
def below(old: Any) -> Any:
    def scale(x: Any) -> Any:
        return x * 2
    return scale(old)


@MADE
def inside(old: Any) -> Any:
    @doubled
    def scale(x: Any) -> Any:
        return x * 2
    return scale(old)


if True:
    def at_the_margin(old: Any) -> Any:
        return {**old, "note": """first
second"""}

    def edited(old: Any) -> Any:
        return {**old, "note": """first
third"""}
# fmt: on


def test_a_decorator_is_part_of_what_a_migration_does_and_migration_itself_is_not() -> None:
    plain, *decorated = (function_digest(steps_of(f"{HERE}:Linear")[n].call, "name") for n in (3, 4, 5))  # type: ignore[union-attr]
    # As it was before decorators counted: locks that were written then have it.
    assert plain == "sha256:4f38338bdba8940d9cb8d1d85c82b5e2e769a05fa0b6a3d694b38e66f225dc8f"
    assert len({plain, *decorated}) == 3


def test_a_migration_in_a_block_with_a_text_at_the_margin_is_known_by_what_it_does() -> None:
    assert function_digest(at_the_margin, "name") != function_digest(edited, "name")


def test_moves_are_known_by_what_they_say() -> None:
    rules = [Rule("a", "b"), Rule(("c", "d"), "e", axis=0)]
    made = migration(Biased, 7, moves=rules)
    assert made.digest == migration(Biased, 8, moves=list(rules)).digest
    assert made.digest != migration(Biased, 9, moves=rules[:1]).digest
    assert steps_of(f"{HERE}:Biased")[7].digest == made.digest
    assert KeyMap.from_json(made.keymap.to_json()) == made.keymap


def test_a_module_that_is_imported_again_registers_its_migrations_again() -> None:
    for function in (one, one):
        migration(Linear, 1)(function)
    with pytest.raises(
        SchemaError, match=r"migration\(Linear, 1\): there are two, in .*:one \(line \d+\) and .*:other "
    ):
        migration(Linear, 1)(other)


def test_two_functions_of_one_name_are_two_where_code_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_modules, "generating", True)
    migration(Linear, 2)(one)
    with pytest.raises(SchemaError, match="there are two"):
        migration(Linear, 2)(one)


def test_the_json_is_one_field_a_line() -> None:
    text = locked(Biased).to_text()
    assert json.loads(text)["log"][0]["class"] == f"{HERE}:Linear"
    assert [line.strip()[:14] for line in text.splitlines() if '"key"' in line] == ['{"key": "kerne', '{"key": "bias"']
