"""Real restores and saves of every format pass the packages of runtime in the order that docs/architecture.md tells."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import Mesh
from jaxtyping import Float32, Int32

from tests.architecture.packages import RUNTIME, module_of, package_of
from tests.architecture.walks import EACH, RESTORE, SAVE, TOOLS, Step
from treaty.generator import load
from treaty.runtime import restore, save, save_async, to_state_dict
from treaty.runtime._checkpoint.save import save_as
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.table import FORMATS
from treaty.schema import field, state
from treaty.schema.keymap import KeyMap, Rule


@state
class Params:
    step: Int32[Array, ""]
    kernel: Float32[Array, "d_in d_out"]


@state
class Renamed:
    step: Int32[Array, ""]
    weight: Float32[Array, "d_in d_out"] = field(aliases=("kernel",))


load(Params)
load(Renamed)

NAMES = {
    "treaty": "a",
    "safetensors": "a.safetensors",
    "npz": "a.npz",
    "msgpack": "a.msgpack",
    "orbax": "a",
    "eformer": "a",
}
# A format that keeps small values in another.
INSIDE = {"treaty": {"formats/msgpack"}, "orbax": {"formats/msgpack"}}
MAP = KeyMap([Rule("count", "step"), Rule("weight", "kernel", "d_out d_in -> d_in d_out")])


class Seen:
    """What was entered: the packages, and of the steps of a walk each that was met, in order."""

    def __init__(self, walk: tuple[Step, ...]) -> None:
        self.packages: set[str] = set()
        self.steps: list[str] = []
        self.is_over = False  # threads that began meanwhile live on, and go on calling
        self._known = {(step.package, name): step.package for step in walk for name in (step.function, step.short)}

    def enter(self, frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if self.is_over or event != "call" or not file.startswith(str(RUNTIME)) or _is_aside(frame):
            return
        module = module_of(Path(file))
        package = package_of(module)
        self.packages.add(package)
        function = f"{module.rpartition('.')[2]}.{frame.f_code.co_name}"
        if (package, function) in self._known:
            self.steps.append(package)

    def enter_format(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def entered(*args: Any, **options: Any) -> Any:
            self.steps.append(EACH)
            return call(*args, **options)

        return entered

    @property
    def walk(self) -> list[str]:
        """Where a package is left and entered again, it is there twice."""
        return [package for package, _ in groupby(self.steps)]


def _is_aside(frame: FrameType | None) -> bool:
    """Whether something is imported for the first time, or every format is asked whether it is the one."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib") or frame.f_code.co_name == "format_at":
            return True
        frame = frame.f_back
    return False


@contextmanager
def followed(walk: tuple[Step, ...], name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    seen = Seen(walk)
    format = FORMATS[name]
    doors = ("open", "write", "write_instance", "write_later")
    calls: Any = {door: seen.enter_format(call) for door in doors if (call := getattr(format, door)) is not None}
    watched = format._replace(**calls)
    monkeypatch.setitem(FORMATS, name, watched)
    threading.setprofile(seen.enter)
    sys.setprofile(seen.enter)
    try:
        yield seen
    finally:
        seen.is_over = True
        sys.setprofile(None)
        threading.setprofile(None)


def expected(walk: tuple[Step, ...], *left_out: str) -> list[str]:
    return [step.package for step in walk if step.package not in left_out]


def others(seen: Seen, walk: tuple[Step, ...], name: str) -> set[str]:
    """The packages that were entered and that the walk does not tell of."""
    package = "directory" if name == "treaty" else name
    return seen.packages - {step.package for step in walk} - TOOLS - {f"formats/{package}"} - INSIDE.get(name, set())


def params() -> Params:
    return Params(step=jnp.int32(3), kernel=jnp.ones((2, 4)))


def stored(name: str, folder: Path, tree: dict[str, Any]) -> Path:
    path = folder / NAMES[name]
    FORMATS[name].write(str(path), tree, Writing())
    return path


@pytest.mark.parametrize("walk", [RESTORE, SAVE])
def test_a_walk_passes_no_package_twice(walk: tuple[Step, ...]) -> None:
    packages = [step.package for step in walk]
    assert len(set(packages)) == len(packages)


@pytest.mark.parametrize("name", FORMATS)
def test_a_restore(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stored(name, tmp_path, dict(to_state_dict(params())))

    with followed(RESTORE, name, monkeypatch) as seen:
        back = restore(path, Params)

    assert jnp.array_equal(back.kernel, params().kernel)
    at_once = name in ("msgpack", "safetensors")  # which are mapped
    assert seen.walk == expected(RESTORE, "_keymaps", "_evolve", *["_devices"] * at_once)
    assert not others(seen, RESTORE, name)


@pytest.mark.parametrize("name", FORMATS)
def test_a_restore_with_a_key_map_onto_a_mesh(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stored(name, tmp_path, {"count": np.int32(3).reshape(()), "weight": np.ones((4, 2), np.float32)})
    mesh = Mesh(np.array(jax.devices()[:2]), ("x",))

    with followed(RESTORE, name, monkeypatch) as seen:
        back = restore(path, Params, keymap=MAP, mesh=mesh, rules={"d_in": "x"})

    assert back.kernel.shape == (2, 4)
    assert seen.walk == expected(RESTORE, "_evolve")
    assert not others(seen, RESTORE, name)


def test_a_restore_of_an_earlier_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a", params())

    with followed(RESTORE, "treaty", monkeypatch) as seen:
        back = restore(tmp_path / "a", Renamed)

    assert jnp.array_equal(back.weight, params().kernel)
    assert seen.walk == expected(RESTORE, "_keymaps")
    assert not others(seen, RESTORE, "treaty")


@pytest.mark.parametrize("name", FORMATS)
def test_a_save(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / NAMES[name]
    by_path = FORMATS[name].suffixes or name == "treaty"

    with followed(SAVE, name, monkeypatch) as seen:
        if by_path:
            save(path, params())
        else:  # what no path asks for: as `save` goes on once the format is known
            save_as(FORMATS[name], str(path), params(), None, None, Writing())

    assert jnp.array_equal(restore(path, Params).kernel, params().kernel)
    at_once = name == "msgpack"  # which has `write_instance`
    left_out = [*["_checkpoint", "formats"] * (not by_path), *["_save", "_state"] * at_once]
    assert seen.walk == expected(SAVE, "_keymaps", "_evolve", *left_out)
    assert not others(seen, SAVE, name)


def test_a_save_with_a_key_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with followed(SAVE, "safetensors", monkeypatch) as seen:
        save(tmp_path / "a.safetensors", params(), keymap=MAP)

    assert seen.walk == expected(SAVE, "_evolve")
    assert not others(seen, SAVE, "safetensors")


def test_a_save_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with followed(SAVE, "treaty", monkeypatch) as seen:
        save_async(tmp_path / "a", params()).result()

    assert jnp.array_equal(restore(tmp_path / "a", Params).kernel, params().kernel)
    assert seen.walk == expected(SAVE, "_checkpoint", "_keymaps", "_evolve")  # the walk begins at `save`
    assert not others(seen, SAVE, "treaty")


def test_these_tests_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with followed(SAVE, "npz", monkeypatch) as seen:
        save(tmp_path / "a.npz", params())
        save(tmp_path / "b.npz", params())
        restore(tmp_path / "a.npz", Params)

    assert seen.walk[:8].count("_save") == 2
    assert others(seen, SAVE, "npz") == {"_restore", "_devices"}
