"""Old files that are mapped go the short way, and come out as by the plain one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.evolution.project import Project, projects
from tests.evolution.states import leaf_bits
from treaty.runtime import restore, save
from treaty.runtime._restore import pipeline
from treaty.runtime._restore.mapped import NOTHING
from treaty.schema import migration

LAYER = """
@state
class Layer:
    kernel: Float32[np.ndarray, "a b"]
    bias: Float32[np.ndarray, "b"]
"""
RENAMED = """
@state
class Layer:
    weight: Float32[np.ndarray, "a b"] = field(aliases=("kernel",))
    bias: Float32[np.ndarray, "b"]
"""
MODEL = """
@state
class Model:
    layers: list[Annotated[Layer, Dims(...)]]
"""


def layers(project: Project, count: int) -> list[Any]:
    return [
        project["Layer"](kernel=np.full((2, 3), n, np.float32), bias=np.full(3, -n, np.float32)) for n in range(count)
    ]


def model(project: Project) -> Any:
    return project["Model"](layers=layers(project, 30))


def deep(project: Project) -> Any:
    stacks = [project["Model"](layers=layers(project, 30)) for _ in range(25)]
    return project["Deep"](stacks=stacks, last=None)


def chain(project: Project) -> Any:
    node = project["Link"]
    return node(w=np.ones(2, np.float32), rest=node(w=np.zeros(2, np.float32), rest=None))


DEEP = "\n@state\nclass Deep:\n    stacks: Annotated[list[Model], Dims(None)]\n    last: Annotated[Layer, Dims(...)] | None\n"
LINK = '@state\nclass Link:\n    {}\n    rest: "Annotated[Link, Dims(...)] | None"\n'
CASES: dict[str, tuple[str, str, Callable[[Project], Any]]] = {
    "renamed in alike items": (LAYER + MODEL, RENAMED + MODEL, model),
    "filled in beside alike items": (LAYER + MODEL, LAYER + MODEL + "    step: int = 3\n", model),
    "filled in in alike items": (LAYER + MODEL, LAYER + "    scale: float = 1.5\n" + MODEL, model),
    "dropped in alike items": (
        LAYER + MODEL,
        LAYER.replace("@state", '@state(reserved=("bias",))').replace('    bias: Float32[np.ndarray, "b"]\n', "")
        + MODEL,
        model,
    ),
    "widened in alike items": (
        LAYER + MODEL,
        LAYER.replace("bias: Float32", "bias: Float64") + MODEL,
        model,
    ),
    "alike items in alike items, and None": (LAYER + MODEL + DEEP, RENAMED + MODEL + DEEP, deep),
    "a class inside itself": (
        LINK.format('w: Float32[np.ndarray, "d"]'),
        LINK.format('v: Float32[np.ndarray, "d"] = field(aliases=("w",))'),
        chain,
    ),
}


@pytest.mark.parametrize("suffix", ["msgpack", "safetensors"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("into", ["numpy", None])
def test_the_short_way_gives_what_the_plain_one_does(
    case: str, suffix: str, into: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after, make = CASES[case]
    path = tmp_path / f"a.{suffix}"
    with projects():
        project = Project().release(before)
        state = make(project)
        save(path, state)
        target = type(state).__name__
        project.release(after)
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "build_mapped", lambda *_: NOTHING)
            plain = restore(path, project[target], into=into)
        monkeypatch.setattr(pipeline, "_restore", _not_called)
        short = restore(path, project[target], into=into)
        assert leaf_bits(short) == leaf_bits(plain)


def _not_called(*_: object) -> object:
    raise AssertionError("the short way gave up")


def test_a_default_never_takes_the_place_of_what_is_stored(tmp_path: Path) -> None:
    with projects():
        project = Project().release(LAYER)
        project.release(LAYER + "    scale: float = 2.0\n")
        one = project["Layer"](kernel=np.ones((2, 3), np.float32), bias=np.ones(3, np.float32), scale=7.0)
        save(tmp_path / "a.msgpack", one)
        project.release(RENAMED + "    scale: float = 2.0\n")
        assert restore(tmp_path / "a.msgpack", project["Layer"]).scale == 7.0


def test_a_migration_that_is_imported_after_the_first_restore_is_applied_too(tmp_path: Path) -> None:
    with projects():
        project = Project().release(LAYER)
        save(tmp_path / "a.msgpack", layers(project, 1)[0])
        project.release(RENAMED)
        layer = project["Layer"]
        assert restore(tmp_path / "a.msgpack", layer, into="numpy").weight.sum() == 0
        migration(layer, 1)(lambda old: {"weight": old["kernel"] + 1, "bias": old["bias"]})
        assert restore(tmp_path / "a.msgpack", layer, into="numpy").weight.sum() == 6


def test_names_that_cannot_be_those_of_an_earlier_revision(tmp_path: Path) -> None:
    first = '@state\nclass A:\n    w: Float32[np.ndarray, "d"]\n    table: dict[str, Float32[np.ndarray, "d"]]\n'
    second = '@state(reserved=("table",))\nclass A:\n    w: Float32[np.ndarray, "d"]\n'
    array = np.ones(2, np.float32)
    save_file({"w": array, "table.a": array, "table.a.b": array}, tmp_path / "x.safetensors")
    with projects():
        project = Project().release(first).release(second)
        for progress in (None, True):  # with a bar, the plain way
            restored = restore(tmp_path / "x.safetensors", project["A"], progress=progress, into="numpy")
            assert restored.w.tolist() == [1, 1]
