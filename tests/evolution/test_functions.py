"""Migrations as functions: what they see, what they may give, and what is said of those that go wrong."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.evolution.project import Project
from tests.evolution.states import WRITERS, fingerprint, write
from treaty.runtime import MigrationError, plan, restore, save
from treaty.runtime._evolve.pending import PendingArray, pending, settled
from treaty.runtime._lazy import LazyArray

A = """
@state
class A:
    w: Float32[Array, "n m"]
    x: int
    names: list[int]
"""
PENDING = "x.npz", "directory", "orbax"  # formats whose arrays are still to be read


def function(body: str) -> str:
    return f"{A}\n@migration(A, 1)\ndef changed(old):\n    {body}\n"


def first(project: Project, folder: Path, formats: Any = ("directory", "x.msgpack")) -> dict[str, Path]:
    project.release(A)
    return write(folder, project["A"](w=jnp.arange(6.0).reshape(2, 3), x=2, names=[1, 2]), formats)


@pytest.mark.parametrize("format", WRITERS)
def test_a_function_gives_the_next_revision(project: Project, tmp_path: Path, format: str) -> None:
    path = first(project, tmp_path, [format])[format]
    before = fingerprint(path)
    project.release(function("return {**old, 'w': old['w'] * old['x'], 'x': old['x'] + 1}"))
    found = restore(path, project["A"], revision=1)
    np.testing.assert_array_equal(found.w, np.arange(6.0).reshape(2, 3) * 2)
    assert (found.x, found.names) == (3, [1, 2])
    assert fingerprint(path) == before


@pytest.mark.parametrize("format", WRITERS)
def test_it_is_called_only_for_the_revision_that_it_begins_at(project: Project, tmp_path: Path, format: str) -> None:
    first(project, tmp_path)
    project.release(function("raise AssertionError"))
    path = write(tmp_path / "second", project["A"](w=jnp.ones((2, 3)), x=7, names=[]), [format])[format]
    revision = None if format in ("directory", "x.safetensors", "sharded") else 2  # they say it themselves
    assert restore(path, project["A"], revision=revision).x == 7


def test_where_only_the_meaning_changed_nobody_guesses(project: Project, tmp_path: Path) -> None:
    path = first(project, tmp_path)["x.msgpack"]
    project.release(function("return {**old, 'x': old['x'] + 1}"))
    with pytest.raises(
        Exception, match="expected to know the revision of A, got what may be of 2 or 1, which differ in mean"
    ):
        restore(path, project["A"])
    assert restore(path, project["A"], revision=1).x == 3
    assert restore(path, project["A"], revision=2).x == 2


def test_the_same_before_it_is_locked(project: Project, tmp_path: Path) -> None:
    paths = first(project, tmp_path)
    project.declare(function("return {**old, 'x': old['x'] + 1}"))
    assert restore(paths["directory"], project["A"]).x == 3
    assert restore(paths["x.msgpack"], project["A"], revision=1).x == 3
    assert restore(paths["x.msgpack"], project["A"], revision=2).x == 2


def test_a_change_of_meaning_deep_inside_is_one_of_all_that_reach_it(project: Project, tmp_path: Path) -> None:
    root = "@state\nclass Root:\n    a: dict[str, A]\n    n: int\n"
    project.release(A + root)
    a = project["A"](w=jnp.ones((1, 1)), x=2, names=[])
    paths = write(tmp_path, project["Root"](a={"k": a}, n=1))
    project.release(function("return {**old, 'x': old['x'] + 1}") + root)
    for name in ("directory", "x.safetensors", "sharded"):
        assert restore(paths[name], project["Root"]).a["k"].x == 3
    for name in ("x.msgpack", "x.npz", "orbax"):
        with pytest.raises(Exception, match="expected to know the revision of Root, got what may be of 2 or 1"):
            restore(paths[name], project["Root"])
        assert restore(paths[name], project["Root"], revision=1).a["k"].x == 3
        assert restore(paths[name], project["Root"], revision=2).a["k"].x == 2


def test_a_generic_class(project: Project, tmp_path: Path) -> None:
    text = '@state\nclass M(Generic[P]):\n    mu: P\n    n: int\n@state\nclass B:\n    w: Float32[Array, "k"]\n'
    root = "@state\nclass Root:\n    m: M[B]\n    more: Annotated[list[M[M[B]]], Dims(None)]\n"
    project.release(text + root)
    b = project["B"](w=jnp.arange(3.0))
    m = project["M"](mu=b, n=1)
    paths = write(tmp_path, project["Root"](m=m, more=[project["M"](mu=m, n=1)]))
    step = "@migration(M, 1)\ndef more(old):\n    return {'mu': old['mu'], 'n': {'0': old['n']}}\n"
    project.release(text.replace("n: int", "n: list[int]") + step + root)
    for path in paths.values():
        found = restore(path, project["Root"])
        assert (found.m.n, found.more[0].n, found.more[0].mu.n) == ([1], [1], [1])
        np.testing.assert_array_equal(found.more[0].mu.mu.w, b.w)


WRONG = {
    "raises": ("return {'w': old['v']}", "{name}: {where} raised KeyError: 'v'"),
    "gives None": (
        "pass",
        "{name}: a migration has to return the next revision\nexpected A as a dict, got None at $, in what {where} returned",
    ),
    "gives another tree": (
        "return {'w': old['w'], 'y': 1, 'names': old['names']}",
        "{name}: a migration has to return the next revision\n"
        "expected int, got nothing at $.x, in what {where} returned\n"
        "expected no such key in A, got int 1 at $.y, in what {where} returned",
    ),
    "gives another rank": (
        "return {**old, 'w': old['w'][0]}",
        "{name}: a migration has to return the next revision\n"
        "expected float32[n=3, m], got float32[3] at $.w, in what {where} returned",
    ),
    "gives another dtype": (
        "return {**old, 'w': np.asarray(old['w'], np.int32)}",
        "{name}: a migration has to return the next revision\n"
        "expected float32[n=2, m=3], got int32[2, 3] at $.w, in what {where} returned",
    ),
    "gives another type": (
        "return {**old, 'x': 'two'}",
        "{name}: a migration has to return the next revision\nexpected int, got str 'two' at $.x, in what {where} returned",
    ),
    "gives a list": (
        "return {**old, 'names': [1, 2]}",
        "{name}: a migration has to return the next revision\n"
        "expected list as a dict, got list at $.names, in what {where} returned",
    ),
}


@pytest.mark.parametrize("format", ["directory", "x.msgpack"])
@pytest.mark.parametrize("name", WRONG)
def test_a_function_that_goes_wrong(project: Project, tmp_path: Path, name: str, format: str) -> None:
    path = first(project, tmp_path, [format])[format]
    before = fingerprint(path)
    body, expected = WRONG[name]
    project.release(function(body))
    with pytest.raises(MigrationError) as caught:
        restore(path, project["A"], revision=1)
    assert str(caught.value) == expected.format(name="migration(A, 1) at $", where=f"{project.name}:changed")
    assert fingerprint(path) == before


def test_where_it_went_wrong_is_told(project: Project, tmp_path: Path) -> None:
    root = "@state\nclass Root:\n    a: dict[str, list[A]]\n"
    project.release(A + root)
    a = project["A"](w=jnp.ones((1, 1)), x=2, names=[])
    save(tmp_path / "x", project["Root"](a={"k": [a]}))
    project.release(function("return {**old, 'x': old['y']}") + root)
    with pytest.raises(MigrationError) as caught:
        restore(tmp_path / "x", project["Root"])
    assert str(caught.value) == f"migration(A, 1) at $.a.k[0]: {project.name}:changed raised KeyError: 'y'"
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("format", WRITERS)
def test_what_a_function_does_to_its_input_stays_there(project: Project, tmp_path: Path, format: str) -> None:
    path = first(project, tmp_path, [format])[format]
    before = fingerprint(path)
    project.release(function("old['x'] = 5; old['names'].clear(); return {**old, 'names': {'0': 9}}"))
    assert restore(path, project["A"], revision=1).names == [9]
    project.declare(A)
    project.locked = project.locked.__class__(project.name)
    project.lock()
    found = restore(path, project["A"])
    assert (found.x, found.names) == (2, [1, 2])
    assert fingerprint(path) == before


@pytest.mark.parametrize("format", WRITERS)
def test_the_arrays_of_a_checkpoint_cannot_be_written_to(project: Project, tmp_path: Path, format: str) -> None:
    path = first(project, tmp_path, [format])[format]
    for body in ("old['w'] *= 2", "old['w'][0] = 2", "np.multiply(old['w'], 2, out=old['w'])"):
        project.release(function(f"{body}; return old"))
        with pytest.raises(MigrationError, match=r"raised ValueError: .*read-only"):
            restore(path, project["A"], revision=1)
        project.locked = type(project.locked)(project.name, project.locked.log[:1])


def test_plan_does_not_run_it(project: Project, tmp_path: Path) -> None:
    path = first(project, tmp_path)["directory"]
    project.release(function("raise AssertionError"))
    found = plan(path, project["A"])
    assert found.ok
    assert found.unknown == (f"migration(A, 1), {project.name}:changed",)


# The arrays that it sees.


def array() -> tuple[Any, list[str]]:
    """One that says when it is read."""
    read: list[str] = []

    def values() -> Any:
        read.append("read")
        return np.arange(6, dtype=np.float32).reshape(2, 3)

    return PendingArray(LazyArray((2, 3), np.dtype(np.float32), values)), read


LIKE_NUMPY: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda a: 2 * a + a / 2 - a**2 + (-a) // 2,
    "in place, into another": lambda a: np.add(a, 1, out=np.empty((2, 3), np.float32)),
    "with another of its kind": lambda a: a + a,
    "matrices": lambda a: a @ a.T,
    "comparison": lambda a: (a > 2) & (a != 4) | (a == 0),
    "functions": lambda a: np.concatenate([a, np.zeros_like(a)], axis=1),
    "nested functions": lambda a: np.stack([np.sqrt(a), np.where(a > 1, a, 0)]),
    "split": lambda a: np.split(a, 3, axis=1)[1],
    "reductions": lambda a: a.sum(axis=0) + np.mean(a) + np.max(a),
    "ufunc methods": lambda a: np.add.reduce(a, axis=1),
    "einsum": lambda a: np.einsum("ij->ji", a),
    "index": lambda a: a[1],
    "indices": lambda a: a[:, ::2],
    "mask": lambda a: a[a > 2],
    "new axis": lambda a: a[None, ..., 0],
    "astype": lambda a: a.astype(np.int8),
    "reshape": lambda a: a.reshape(3, 2),
    "T": lambda a: a.T,
    "flat": lambda a: a.ravel(),
    "iteration": lambda a: [row.tolist() for row in a],
    "a number": lambda a: float(a[1, 2]) + int(np.asarray(a)[0, 0]),
    "asarray": lambda a: np.asarray(a, np.float64),
    "copy": lambda a: a.copy(),
    "jax": lambda a: np.asarray(jnp.asarray(a) * 2),
    "functions of jax": lambda a: np.asarray(jnp.concatenate([a, a])),
    "length": lambda a: len(a),
    "attributes": lambda a: (*a.shape, a.ndim, a.size, a.nbytes, a.itemsize),
    "contains": lambda a: 3.0 in a,
    "tolist": lambda a: a.tolist(),
}


@pytest.mark.parametrize("name", LIKE_NUMPY)
def test_a_pending_array_is_like_one_of_numpy(name: str) -> None:
    function = LIKE_NUMPY[name]
    pending_array, _ = array()
    found, expected = function(pending_array), function(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert type(found) is type(expected)
    np.testing.assert_array_equal(found, expected)
    assert getattr(found, "dtype", None) == getattr(expected, "dtype", None)


def test_shape_and_dtype_are_known_without_reading() -> None:
    a, read = array()
    assert (a.shape, str(a.dtype), a.ndim, a.size, a.nbytes, len(a)) == ((2, 3), "float32", 2, 6, 24, 2)
    assert repr(a) == "<float32[2, 3], not read yet>"
    assert read == []


def test_it_is_read_once() -> None:
    a, read = array()
    a + a, a[0], a.sum()
    assert read == ["read"]


def test_a_copy_is_a_copy() -> None:
    a, _ = array()
    np.array(a)[0, 0] = 7
    a.copy()[0, 0] = 7
    np.asarray(a).astype(np.float64)[0, 0] = 7
    assert a[0, 0] == 0


def test_numbers_are_numbers() -> None:
    zero = PendingArray(LazyArray((), np.dtype(np.int32), lambda: np.array(3, np.int32)))
    assert (int(zero), float(zero), complex(zero), bool(zero), list(range(zero))) == (3, 3.0, 3 + 0j, True, [0, 1, 2])
    assert f"{zero:03d}" == "003"


def test_what_is_passed_on_is_still_to_be_read() -> None:
    a, read = array()
    tree = {"a": a.stored, "b": {"c": 1}}
    passed = settled(copy.copy(pending(tree)))
    assert passed["a"] is a.stored
    assert settled(copy.deepcopy(pending(tree)))["a"].shape == (2, 3)
    assert read == []


@pytest.mark.parametrize("format", PENDING)
def test_what_is_read_is_not_read_again(project: Project, tmp_path: Path, format: str) -> None:
    """A function that looks at an array and passes it on: its elements are what it saw."""
    path = first(project, tmp_path, [format])[format]
    project.release(function("assert old['w'].sum() == 15; return old"))
    np.testing.assert_array_equal(restore(path, project["A"], revision=1).w, np.arange(6.0).reshape(2, 3))
