"""Changes that once passed the gate and broke a checkpoint, or gave it another meaning; and some that it refused for nothing."""

from pathlib import Path
from typing import Any

import pytest

from tests.evolution.project import Project
from treaty.runtime import plan, restore, save
from treaty.runtime._evolve.histories import history_of
from treaty.schema.evolution.gate import breaches


def gate(project: Project, text: str) -> list[str]:
    """What `treaty check` says of the locked revisions when the module has this text: rules, classes and revisions."""
    project.declare(text)
    found = breaches(project.declared(), history_of)
    return sorted(f"{one.name} {one.symbol.partition(':')[2]} {','.join(map(str, one.revisions))}" for one in found)


def a(fields: str, rules: str = "", reserved: str = "") -> str:
    body = "".join(f"    {one.strip()}\n" for one in fields.split(";"))
    options = f"(reserved=({reserved!r},))" if reserved else ""
    return f"@state{options}\nclass A:\n{body}" + (f"migration(A, 1, moves=[{rules}])\n" if rules else "")


MOVED = {
    "axes that changed places": (
        'kernel: Float32[Array, "d_in d_out"]',
        'weight: Float32[Array, "d_out d_in"]',
        'Rule("kernel", "weight")',
        ["SILENT-dims-permuted A 1", "SILENT-dims-permuted A 1"],
    ),
    "axes that changed places, by a layout": (
        'kernel: Float32[Array, "d_in d_out"]',
        'weight: Float32[Array, "d_out d_in"]',
        'Rule("kernel", "weight", "i o -> o i")',
        [],
    ),
    "another size": ('w: Float32[Array, "d 10"]', 'v: Float32[Array, "d 20"]', 'Rule("w", "v")', ["LOAD-size A 1"]),
    "sizes that are one now": (
        'v: Float32[Array, "n"]; w: Float32[Array, "m"]',
        'x: Float32[Array, "n"]; y: Float32[Array, "n"]',
        'Rule("v", "x"), Rule("w", "y")',
        ["LOAD-tie A 1"],
    ),
    "a size that is another elsewhere": (
        'v: Float32[Array, "n"]; w: Float32[Array, "m"]',
        'v: Float32[Array, "n"]; y: Float32[Array, "n"]',
        'Rule("w", "y")',
        ["LOAD-tie A 1"],
    ),
    "fixed sizes in the other order": (
        'w: Float32[Array, "4 8"]',
        'w: Float32[Array, "4 8"]',
        'Rule("w", "w", "a b -> b a")',
        ["LOAD-size A 1", "LOAD-size A 1"],
    ),
    "fixed sizes that follow the layout": (
        'w: Float32[Array, "4 8"]',
        'w: Float32[Array, "8 4"]',
        'Rule("w", "w", "a b -> b a")',
        [],
    ),
    "parts that are not the whole": (
        'qkv: Float32[Array, "d 3*h"]',
        'q: Float32[Array, "d h"]; kv: Float32[Array, "d h"]',
        'Rule("qkv", ("q", "kv"), axis=1)',
        ["LOAD-size A 1"],
    ),
    "parts that are the whole": (
        'qkv: Float32[Array, "d 3*h"]; out: Float32[Array, "h d"]',
        'q: Float32[Array, "d h"]; kv: Float32[Array, "d 2*h"]; out: Float32[Array, "h d"]',
        'Rule("qkv", ("q", "kv"), axis=1)',
        [],
    ),
    "axes that are one axis now": (
        'w: Float32[Array, "n k d"]; x: Float32[Array, "n k"]',
        'w: Float32[Array, "n*k d"]; x: Float32[Array, "n k"]',
        'Rule("w", "w", "n k d -> (n k) d")',
        [],
    ),
    "axes that are one axis of another size": (
        'w: Float32[Array, "n 4 d"]; x: Float32[Array, "n"]',
        'w: Float32[Array, "n*3 d"]; x: Float32[Array, "n"]',
        'Rule("w", "w", "n k d -> (n k) d")',
        ["LOAD-size A 1"],
    ),
    "a cast that the field declares": (
        'v: Float32[Array, "n"]',
        'w: BFloat16[Array, "n"] = field(cast_from=("float32",))',
        'Rule("v", "w")',
        [],
    ),
    "one item of a list": (
        'v: list[Float32[Array, "2"]]',
        'v: list[Float32[Array, "2"]]; head: Float32[Array, "2"]',
        'Rule("v.3", "head")',
        ["LOAD-migration A 1"],
    ),
    "items of a dict, as if of a list": (
        'v: dict[str, Float32[Array, "2 3"]]',
        'v: dict[str, Float32[Array, "3 2"]]',
        'Rule("v.{key}", "v[{key}]", "a b -> b a")',
        ["LOAD-migration A 1"],
    ),
    "items of a dict": (
        'v: dict[str, Float32[Array, "2 3"]]',
        'v: dict[str, Float32[Array, "3 2"]]',
        'Rule("v.{key}", "v.{key}", "a b -> b a")',
        [],
    ),
    "the first item of a list": (
        'v: list[Float32[Array, "2"]]',
        'head: Float32[Array, "2"]',
        'Rule("v.0", "head")',
        ["LOAD-migration A 1"],
    ),
}


@pytest.mark.parametrize("case", MOVED)
def test_the_sizes_of_what_rules_move(project: Project, case: str) -> None:
    before, after, rules, expected = MOVED[case]
    project.release(a(before))
    assert gate(project, a(after, rules)) == expected


SIZES = {
    "a size in a sum": ('"2*d"', '"2*d+1"', ["LOAD-size A 1"]),
    "another factor": ('"2*d"', '"3*d"', ["LOAD-size A 1"]),
    "another name in a product": ('"2*d"', '"2*n"', []),
    "a product in another order": ('"2*d"', '"d*2"', []),
}


@pytest.mark.parametrize("case", SIZES)
def test_sizes_that_stand_only_in_expressions(project: Project, case: str) -> None:
    before, after, expected = SIZES[case]
    project.release(a(f"w: Float32[Array, {before}]"))
    assert gate(project, a(f"w: Float32[Array, {after}]")) == expected


def test_sizes_of_each_item_are_not_one(project: Project) -> None:
    one = '@state\nclass L:\n    w: Float32[Array, "n"]\n@state\nclass A:\n    items: Annotated[list[L], Dims({})]\n'
    project.release(one.format("None"))
    assert gate(project, one.format("...")) == ["LOAD-tie A 1"]


def test_lengths_of_each_item_are_not_one(project: Project) -> None:
    project.release(a("items: list[list[int]]"))
    assert gate(project, a('items: list[Annotated[list[int], Length("n")]]')) == ["LOAD-tie A 1"]


OTHER_MEANINGS = {
    "a key that an alias had": (
        ["a: int", 'b: int = field(default=0, aliases=("a",))'],
        "b: int = 0; a: int = 1",
        ["SILENT-reused A 1", "SILENT-reused A 1"],
    ),
    "a default under another name": (
        ["a: int", "a: int; lr: float = 0.1"],
        'a: int; rate: float = field(default=0.01, aliases=("lr",))',
        ["SILENT-default A 1"],
    ),
    "a default of a tuple": (
        ["a: int", "a: int; betas: tuple[float, float] = (0.9, 0.999)"],
        "a: int; betas: tuple[float, float] = (0.9, 0.95)",
        ["SILENT-default A 1"],
    ),
    "a default that stands for nothing": (
        ["rate: float", 'lr: float = field(default=0.1, aliases=("rate",))'],
        'lr: float = field(default=0.01, aliases=("rate",))',
        [],
    ),
    "the same default": (["a: int", "a: int; lr: float = 0.1"], "a: int; lr: float = 0.1; b: int = 3", []),
}


@pytest.mark.parametrize("case", OTHER_MEANINGS)
def test_what_a_locked_revision_meant_it_means_for_ever(project: Project, case: str) -> None:
    released, after, expected = OTHER_MEANINGS[case]
    for fields in released:
        project.release(a(fields))
    assert gate(project, a(after)) == expected


def test_a_reserved_key_is_not_free_again(project: Project) -> None:
    project.release(a('a: int; momentum: Float32[Array, "d"]'))
    project.release(a("a: int", reserved="momentum"))
    after = a('a: int; momentum: Float32[Array, "d"] | None = None')
    assert gate(project, after) == ["SILENT-reused A 1"]


def test_a_migration_says_what_a_new_default_means(project: Project) -> None:
    project.release(a("a: int"))
    project.release(a("a: int; lr: float = 0.1"))
    after = a("a: int; lr: float = 0.01") + "@migration(A, 2)\ndef same(old: Any) -> Any:\n    return old\n"
    assert gate(project, after) == []


def test_a_default_of_a_class_that_nobody_locks(project: Project) -> None:
    text = "class Hyper(NamedTuple):\n    rate: float\n{}@state\nclass A:\n    hyper: Hyper\n"
    project.release(text.format(""))
    project.release(text.format("    decay: float = 0.1\n"))
    assert gate(project, text.format("    decay: float = 0.2\n")) == ["SILENT-default A 1"]


OPTIMIZERS = """
@{0}
class Sgd:
    mu: int

@{0}
class Adam:
    mu: int

@state
class A:
    opt: {1}
"""


@pytest.mark.parametrize("kind", ["state", "attrs.frozen"])
def test_another_class_of_the_same_fields(project: Project, kind: str) -> None:
    head = "import attrs\n" if kind != "state" else ""
    project.release(head + OPTIMIZERS.format(kind, "Sgd"))
    assert gate(project, head + OPTIMIZERS.format(kind, "Adam")) == ["SILENT-class A 1"]


def test_a_change_of_one_class_does_not_hide_that_of_another(project: Project) -> None:
    text = (
        'class Inner(NamedTuple):\n    w: {0}[Array, "d"]\n'
        '@state\nclass X:\n    w: {0}[Array, "d"]\n@state\nclass Y:\n    inner: Annotated[Inner, Dims(...)]\n'
    )
    project.release(text.format("Float32"))
    assert gate(project, text.format("Float16")) == ["LOAD-dtype X 1", "LOAD-dtype Y 1"]


NESTED = """
@state
class Inner:
    w: int

@state
class Outer:
    inner: Inner
{}
"""
WITH_Y = NESTED.format(
    "    y: int\n@migration(Outer, 1)\ndef f(old: Any) -> Any:\n    return {**old, 'y': old['inner']['w']}\n"
)
DOUBLED = WITH_Y + "@migration(Inner, 1)\ndef g(old: Any) -> Any:\n    return {'w': 2 * old['w']}\n"


@pytest.mark.parametrize("is_locked", [False, True])
def test_migrations_of_two_classes_run_in_the_order_in_which_they_were_released(
    project: Project, tmp_path: Path, is_locked: bool
) -> None:
    project.release(NESTED.format(""))
    save(tmp_path / "a", project["Outer"](inner=project["Inner"](w=3)))
    project.release(WITH_Y)
    project.declare(DOUBLED)
    if is_locked:
        project.lock()
    restored: Any = restore(tmp_path / "a", project["Outer"])
    assert (restored.y, restored.inner.w) == (3, 6)


def test_a_past_default_of_infinity_is_made_again(project: Project, tmp_path: Path) -> None:
    project.release(a("step: int"))
    save(tmp_path / "a", project["A"](step=1))
    project.release(a('step: int; best: float = float("inf")'))
    after = a("step: int; loss: float") + 'migration(A, 2, moves=[Rule("best", "loss")])\n'
    assert gate(project, after) == []
    assert plan(tmp_path / "a", project["A"]).ok
    assert restore(tmp_path / "a", project["A"]).loss == float("inf")


@pytest.mark.parametrize("factory", ["functools.partial(float, 2)", "'2'.__len__"])
def test_a_past_factory_that_cannot_be_found_again(project: Project, factory: str) -> None:
    head = "import functools\n"
    project.release(head + a("step: int"))
    project.release(head + a(f"step: int; best: float = field(factory={factory})"))
    after = head + a("step: int; loss: float") + 'migration(A, 2, moves=[Rule("best", "loss")])\n'
    assert gate(project, after) == ["LOAD-default A 1"]


def test_an_alias_that_is_told_today_does_not_change_an_earlier_step(project: Project, tmp_path: Path) -> None:
    project.release(a("a: int"))
    save(tmp_path / "a", project["A"](a=7))
    project.release(a("c: int = 0; a: int"))
    text = a('c: int = field(default=0, aliases=("a",)); b: int')
    after = text + "@migration(A, 2)\ndef f(old: Any) -> Any:\n    return {'c': old['c'], 'b': old['a']}\n"
    assert gate(project, after) == []
    restored: Any = restore(tmp_path / "a", project["A"])
    assert (restored.c, restored.b) == (0, 7)


def test_a_factory_that_takes_the_instance_fills_in_nothing(project: Project) -> None:
    head = "import attrs\n"
    project.release(head + a("step: int"))
    after = head + a(
        "step: int; best: int = attrs.field(default=attrs.Factory(lambda self: self.step, takes_self=True))"
    )
    assert gate(project, after) == ["LOAD-default A 1"]
