"""What a restore and a plan say of checkpoints of earlier revisions: what is known is told, and no function runs to find out."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from tests.evolution.project import Project
from tests.evolution.states import WRITERS, write
from treaty.runtime import InvalidArgumentError, MigrationError, StateMismatchError, StorageError, plan, restore
from treaty.runtime._restore.options import Options
from treaty.runtime.formats.safetensors.source import SafetensorsSource

A = """
@state
class A:
    w: Float32[Array, "n"]
    x: int
"""
RAISES = """
@migration(A, 1)
def changed(old):
    raise AssertionError("the function was run")
"""


def first(project: Project, folder: Path, names: Any = WRITERS) -> dict[str, Path]:
    project.release(A)
    return write(folder, project["A"](w=jnp.arange(3.0), x=2), names)


@pytest.mark.parametrize("name", ["x.msgpack", "x.npz", "orbax"])
def test_no_migration_runs_to_find_out_which_revision_a_checkpoint_is_of(
    project: Project, tmp_path: Path, name: str
) -> None:
    path = first(project, tmp_path, [name])[name]
    project.release(A + RAISES)
    for ask in (restore, plan):
        with pytest.raises(InvalidArgumentError, match="expected to know the revision of A, got what may be of 2 or 1"):
            ask(path, project["A"])


@pytest.mark.parametrize("name", WRITERS)
def test_a_migration_that_raises_hides_no_problem_that_was_known(project: Project, tmp_path: Path, name: str) -> None:
    root = "@state\nclass Root:\n    a: A\n"
    project.release(A + root)
    path = write(tmp_path, project["Root"](a=project["A"](w=jnp.ones(2), x=1)), [name])[name]
    project.release(A + RAISES + root + "    more: int\n")
    with pytest.raises(StateMismatchError) as caught:
        restore(path, project["Root"], revision=1)
    assert str(caught.value).splitlines()[0] == "expected int, got nothing at $.more"
    assert plan(path, project["Root"], revision=1).problems[0].startswith("expected int, got nothing at $.more")


@pytest.mark.parametrize("name", WRITERS)
def test_a_plan_reports_a_default_whose_factory_fails(project: Project, tmp_path: Path, name: str) -> None:
    path = first(project, tmp_path, [name])[name]
    text = "def made():\n    if FAILS:\n        raise OSError('no disk')\n    return 1\nFAILS = False\n"
    project.release(text + A + "    y: int = field(factory=made)\n")
    project.module.FAILS = True  # type: ignore[attr-defined]
    expected = (
        f"{project.name}:A, y: factory: it raises OSError: no disk; write one that works wherever treaty generate runs"
    )
    found = plan(path, project["A"])
    assert found.problems == (expected,)
    with pytest.raises(InvalidArgumentError) as caught:
        restore(path, project["A"])
    assert str(caught.value) == expected


@pytest.mark.parametrize("value", [10**400, 2**53 + 1])
@pytest.mark.parametrize("name", ["directory", "x.npz", "x.safetensors"])
@pytest.mark.parametrize("to", ["float", "complex"])
def test_an_int_that_no_float_holds_is_told(project: Project, tmp_path: Path, name: str, to: str, value: int) -> None:
    number = "@state\nclass N:\n    x: {}\n"
    project.release(number.format("int"))
    path = write(tmp_path, project["N"](x=value), [name])[name]
    project.release(number.format(to))
    project.release(number.format(to) + "@migration(N, 2)\ndef same(old):\n    return old\n")
    with pytest.raises(MigrationError, match=rf"expected {to}, got int .*, which is none exactly"):
        restore(path, project["N"], revision=1)


def test_all_of_a_checkpoint_is_all_of_it_however_it_is_said(project: Project, tmp_path: Path) -> None:
    assert [Options(at=at).at for at in (None, "$", "", ["$", "w"], "w")] == [None, None, None, None, "w"]
    paths = first(project, tmp_path)
    project.release(A + "    y: int = 5\n")
    for path in paths.values():
        assert restore(path, project["A"], at="$").y == 5


def test_a_wider_array_that_a_migration_gives_is_widened_without_x64(project: Project, tmp_path: Path) -> None:
    path = first(project, tmp_path, ["directory"])["directory"]
    step = "@migration(A, 1)\ndef changed(old):\n    return {**old, 'w': jnp.asarray(old['w']) + 1}\n"
    project.release(A + step)
    assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]
    project.release(A.replace("Float32[Array", "Float64[np.ndarray") + step)
    found = restore(path, project["A"])
    assert found.w.dtype == np.float64
    np.testing.assert_array_equal(found.w, [1.0, 2.0, 3.0])


NAMES = """
@state
class A:
    {}: Float32[Array, "n"]{}
    b: Float32[Array, "n"]
"""


def test_names_that_cannot_be_of_one_revision_are_not_of_it(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.release(NAMES.format("a", ""))
    path = tmp_path / "x.safetensors"
    safetensors.numpy.save_file({"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)}, path)
    project.release(NAMES.format("c", ' = field(aliases=("a",))'))
    whole = SafetensorsSource.whole

    def refused(self: Any, schema: Any) -> Any:
        keys = () if schema is None else [one.key for one in schema.root_class.fields]
        if "c" in keys:
            raise StateMismatchError([], ["these names are not of this schema"])
        return whole(self, schema)

    monkeypatch.setattr(SafetensorsSource, "whole", refused)
    np.testing.assert_array_equal(restore(path, project["A"]).c, np.ones(2))

    def broken(self: Any, schema: Any) -> Any:
        raise StorageError("cannot read it")

    monkeypatch.setattr(SafetensorsSource, "whole", broken)
    with pytest.raises(StorageError, match="cannot read it"):
        restore(path, project["A"])
