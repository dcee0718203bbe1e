"""What cannot be right is told in one line, and no checkpoint is ever written to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from tests.evolution.project import Project, schema
from tests.evolution.states import WRITERS, fingerprint, write
from treaty.runtime import StateMismatchError, TreatyError, plan, restore, save
from treaty.schema import SchemaError, resolve
from treaty.schema.evolution.lock import Lock

A = '@state\nclass A:\n    w: Float32[Array, "n"]\n    x: int\n'
TWICE = "@migration(A, 1)\ndef twice(old):\n    return {**old, 'x': 2 * old['x']}\n"


def said(call: Callable[[], object]) -> str:
    with pytest.raises(TreatyError) as caught:
        call()
    return str(caught.value)


def state(project: Project) -> Any:
    return project["A"](w=jnp.ones(2), x=3)


# A checkpoint that is newer than the code.


@pytest.mark.parametrize("format", ["directory", "x.safetensors", "sharded"])
def test_a_checkpoint_that_is_newer_than_the_code(project: Project, tmp_path: Path, format: str) -> None:
    """It looks the same: only its revision tells that its numbers mean something else."""
    old = project.release(A).locked
    project.release(A + TWICE)
    path = write(tmp_path, state(project), [format])[format]
    project.locked = old
    project.declare(A).lock()
    text = said(lambda: restore(path, project["A"]))
    assert "expected a revision of A that this code knows, up to 1, got revision 2, of newer code" in text
    assert "update the code" in text
    assert "revision 2" in "\n".join(plan(path, project["A"]).problems) if format == "directory" else True


@pytest.mark.parametrize("format", ["directory", "x.safetensors", "sharded"])
def test_a_class_inside_that_is_newer_than_the_code(project: Project, tmp_path: Path, format: str) -> None:
    root = "@state\nclass Root:\n    a: list[A]\n"
    old = project.release(A + root).locked
    project.release(A + TWICE + root)
    path = write(tmp_path, project["Root"](a=[state(project)]), [format])[format]
    project.locked = old
    project.declare(A + root).lock()
    assert "up to 1, got revision 2, of newer code" in said(lambda: restore(path, project["Root"]))


@pytest.mark.parametrize("format", WRITERS)
def test_a_field_that_only_newer_code_has(project: Project, tmp_path: Path, format: str) -> None:
    old = project.release(A).locked
    project.release(A + "    y: int = 4\n")
    path = write(tmp_path, project["A"](w=jnp.ones(2), x=3), [format])[format]
    project.locked = old
    project.declare(A).lock()
    said(lambda: restore(path, project["A"]))


# Migrations that cannot be.


def test_a_migration_for_a_revision_that_never_was(project: Project, tmp_path: Path) -> None:
    project.release(A)
    paths = write(tmp_path, state(project))
    project.declare(A + TWICE.replace("(A, 1)", "(A, 3)"))
    for path in paths.values():
        assert restore(path, project["A"]).x == 3  # it begins where nothing is


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            "migration(A, 0, moves=[])",
            "migration(A, 0): expected the number of a revision, from 1 on; treaty lock prints them",
        ),
        (
            "migration(A, True, moves=[])",
            "migration(A, True): expected the number of a revision, from 1 on; treaty lock prints them",
        ),
        (
            "migration(A, 'one', moves=[])",
            "migration(A, 'one'): expected the number of a revision, from 1 on; treaty lock prints them",
        ),
        ("migration(int, 1, moves=[])", "migration(int, 1): expected a class declared with @state"),
        ("migration(3, 1, moves=[])", "migration(3, 1): expected a class declared with @state"),
        ("migration(A, 1, moves=[])", "migration(A, 1): expected moves=[Rule(...), ...], got []"),
        ("migration(A, 1, moves=['x'])", "migration(A, 1): expected moves=[Rule(...), ...], got ['x']"),
        ("migration(A, 1, moves='x')", "migration(A, 1): expected moves=[Rule(...), ...], got 'x'"),
        ("migration(A, 1)(3)", "migration(A, 1): expected a function below it, or moves=[Rule(...), ...]"),
    ],
)
def test_a_call_that_makes_no_sense(project: Project, call: str, expected: str) -> None:
    assert said(lambda: project.declare(f"{A}{call}\n")) == expected


def test_two_migrations_for_one_step(project: Project) -> None:
    text = said(lambda: project.declare(A + TWICE + TWICE.replace("twice", "again")))
    name = project.name
    assert text == (
        f"migration(A, 1): there are two, in {name}:twice (line 18) and {name}:again (line 21); "
        f"a step has one migration: join them, or lock what lies between"
    )


def test_a_function_and_rules_for_one_step(project: Project) -> None:
    text = said(lambda: project.declare(A + TWICE + "migration(A, 1, moves=[Rule('x', 'x')])\n"))
    assert text.startswith("migration(A, 1): there are two, in ")


def test_two_rules_for_one_name(project: Project) -> None:
    rules = "migration(A, 1, moves=[Rule('x', 'y'), Rule('x', 'z')])\n"
    assert said(lambda: project.declare(A + rules)) == "expected one rule for each stored name, got 2 for 'x'"


# Cycles through aliases.


@pytest.mark.parametrize(
    "text",
    [
        '@state\nclass A:\n    x: int = field(aliases=("y",))\n    y: int = field(aliases=("x",))\n',
        '@state\nclass A:\n    x: int = field(aliases=("x",))\n',
        '@state\nclass A:\n    x: int = field(aliases=("z",))\n    y: int = field(aliases=("z",))\n',
        '@state(reserved=("z",))\nclass A:\n    x: int = field(aliases=("z",))\n',
    ],
)
def test_an_alias_that_means_two_things_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match=r"alias '[xyz]' is "):
        schema(text)


def test_keys_that_go_round_in_time_end_where_they_should(project: Project, tmp_path: Path) -> None:
    """x becomes y, then x again: each checkpoint is read by its own revision."""
    project.release("@state\nclass A:\n    x: int\n")
    first = write(tmp_path / "1", project["A"](x=1))
    project.release('@state\nclass A:\n    y: int = field(aliases=("x",))\n')
    second = write(tmp_path / "2", project["A"](y=2))
    project.release('@state\nclass A:\n    x: int = field(aliases=("y",))\n')
    assert [restore(path, project["A"]).x for path in first.values()] == [1] * len(first)
    assert [restore(path, project["A"]).x for path in second.values()] == [2] * len(second)


def test_a_checkpoint_that_has_both_a_key_and_its_alias(project: Project) -> None:
    before = schema("@state\nclass A:\n    x: int\n    y: int\n")
    after = schema('@state\nclass A:\n    y: int = field(aliases=("x",))\n')
    assert [str(one) for one in resolve(before, after).problems] == [
        "expected no such key in A, got int at $.x; it is an alias of y, which is stored too: write a migration that says which one counts"
    ]


# `revision=`.


@pytest.mark.parametrize("revision", [0, -1, True, 1.0, "1"])
def test_a_revision_that_is_no_number(project: Project, tmp_path: Path, revision: Any) -> None:
    project.release(A)
    path = write(tmp_path, state(project), ["directory"])["directory"]
    assert said(lambda: restore(path, project["A"], revision=revision)) == (
        f"expected a revision of 1 or more, got revision={revision!r}"
    )
    assert said(lambda: save(tmp_path / "y", state(project), revision=revision)) == (
        f"expected a revision of A, got revision={revision!r}: 1 to 1 are locked"
    )


@pytest.mark.parametrize("format", WRITERS)
def test_a_revision_that_is_not_locked(project: Project, tmp_path: Path, format: str) -> None:
    project.release(A)
    path = write(tmp_path, state(project), [format])[format]
    assert (
        said(lambda: restore(path, project["A"], revision=2))
        == "expected a revision of A, got revision=2: 1 are locked"
    )


def test_a_revision_of_a_class_without_a_lock(project: Project, tmp_path: Path) -> None:
    project.declare(A)
    save(tmp_path / "x", state(project))
    assert said(lambda: restore(tmp_path / "x", project["A"], revision=1)) == (
        "expected a revision of A, got revision=1: none are locked"
    )
    assert said(lambda: save(tmp_path / "y", state(project), revision=1)) == (
        "expected a revision of A, got revision=1: none are locked; run: treaty lock"
    )


@pytest.mark.parametrize("format", WRITERS)
def test_a_revision_that_the_checkpoint_is_not_of(project: Project, tmp_path: Path, format: str) -> None:
    project.release(A)
    project.release(A + "    y: int = 4\n")
    path = write(tmp_path, project["A"](w=jnp.ones(2), x=3), [format])[format]
    before = fingerprint(path)
    text = said(lambda: restore(path, project["A"], revision=1))
    if format == "directory":
        assert text == f"expected revision 1 of A, got revision 2 in {path}"
    else:
        assert text.splitlines()[0] == "expected no such key in A, got int 4 at $.y"
        assert text.splitlines()[-1] == f"revision=1 was asked for, and {path} is not of it"
    assert fingerprint(path) == before


def test_revision_and_keymap_are_two_ways_to_say_it(project: Project, tmp_path: Path) -> None:
    from treaty.schema import KeyMap, Rule

    project.release(A)
    save(tmp_path / "x", state(project))
    keymap = KeyMap([Rule("w", "w")])
    assert said(lambda: restore(tmp_path / "x", project["A"], revision=1, keymap=keymap)) == (
        "expected revision or keymap, got both: a key map gives the names of the present class"
    )
    assert said(lambda: save(tmp_path / "y.safetensors", state(project), revision=1, keymap=keymap)) == (
        "expected revision or keymap, got both: a key map gives names to the present class"
    )


def test_the_present_revision_can_be_written_by_its_number(project: Project, tmp_path: Path) -> None:
    project.release(A)
    save(tmp_path / "x", state(project), revision=1)
    assert restore(tmp_path / "x", project["A"], revision=1).x == 3


# What no revision explains.


@pytest.mark.parametrize("format", [name for name in WRITERS if name != "directory"])
def test_a_checkpoint_of_no_revision_is_told_so(project: Project, tmp_path: Path, format: str) -> None:
    project.release("@state\nclass A:\n    other: str\n")
    path = write(tmp_path, project["A"](other="x"), [format])[format]
    project.locked = Lock(project.name)
    project.release(A)
    with pytest.raises(StateMismatchError) as caught:
        restore(path, project["A"])
    assert "the checkpoint is none of the revisions 1 to 1 of A either" in str(caught.value)


def test_a_default_that_cannot_be_made(project: Project, tmp_path: Path) -> None:
    project.release("@state\nclass A:\n    x: int\n")
    save(tmp_path / "x", project["A"](x=1))
    project.release(
        "READY = [1]\ndef fail():\n    return [1 // len(READY)]\n@state\nclass A:\n    x: int\n    y: list[int] = field(factory=fail)\n"
    )
    assert restore(tmp_path / "x", project["A"]).y == [1]
    project["READY"].clear()
    text = said(lambda: restore(tmp_path / "x", project["A"]))
    assert text == (
        f"{project.name}:A, y: factory: it raises ZeroDivisionError: integer division or modulo by zero; "
        f"write one that works wherever treaty generate runs"
    )


def test_a_default_of_the_wrong_size(project: Project, tmp_path: Path) -> None:
    project.release(A)
    paths = write(tmp_path, state(project))
    project.release(A + '    y: Float32[Array, "n"] = field(factory=lambda: jnp.zeros(5))\n')
    for path in paths.values():
        assert said(lambda path=path: restore(path, project["A"])).startswith(  # type: ignore[misc]
            "expected float32[n=2], got float32[5] at $.y"
        )


@pytest.mark.parametrize("format", WRITERS)
def test_no_failure_writes_to_a_checkpoint(project: Project, tmp_path: Path, format: str) -> None:
    project.release(A)
    path = write(tmp_path, state(project), [format])[format]
    before = fingerprint(path)
    for text in (
        '@state\nclass A:\n    w: Float32[Array, "n m"]\n    x: int\n',
        "@state\nclass A:\n    x: int\n",
        A + "    y: int\n",
        A + "@migration(A, 1)\ndef fails(old):\n    raise ValueError\n",
        A + "@migration(A, 1)\ndef gives(old):\n    return None\n",
    ):
        project.declare(text)
        said(lambda: restore(path, project["A"], revision=1))
        assert fingerprint(path) == before


@pytest.mark.parametrize("format", WRITERS)
def test_a_default_does_not_stand_for_what_was_left_out(project: Project, tmp_path: Path, format: str) -> None:
    """The checkpoint has the field, and the caller did not ask for it: nothing may be made up."""
    project.release(
        "@state\nclass B:\n    x: int\n    y: int = 3\n@state\nclass A:\n    n: int\n    b: B\n    z: int = 5\n"
    )
    state = project["A"](n=1, b=project["B"](x=1, y=4), z=6)
    path = write(tmp_path, state, [format])[format]
    assert "expected int, got nothing at $.z" in said(lambda: restore(path, project["A"], at=["n", "b"]))
    assert "expected int, got nothing at $.b.y" in said(lambda: restore(path, project["A"], at=["n", "b.x", "z"]))
