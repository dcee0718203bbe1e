"""Registering types: one registry for us and Flax, paths for error messages, threads."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import flax.struct
import numpy as np
import pytest

from tests.compat.trees import FLAX
from treaty.generator import load
from treaty.runtime import StateMismatchError, serialization
from treaty.runtime._flax import registry
from treaty.schema import state


class Outer:
    """Registered with Flax, and written against it."""

    def __init__(self, part: Any) -> None:
        self.part = part


def read_outer(outer: Outer, state: dict[str, Any]) -> Outer:
    return Outer(FLAX.from_state_dict(outer.part, state["part"], name="part"))


FLAX.register_serialization_state(Outer, lambda outer: {"part": FLAX.to_state_dict(outer.part)}, read_outer)


@flax.struct.dataclass
class Versioned:
    """A struct dataclass whose functions somebody replaced, to read an older form."""

    array: Any


FLAX.register_serialization_state(
    Versioned,
    lambda one: {"array": one.array},
    lambda one, state: one.replace(array=state["array"].reshape(-1)),
    override=True,
)


class Box:
    def __init__(self, value: Any) -> None:
        self.value = value


paths: list[str] = []


def read_box(box: Box, state: dict[str, Any]) -> Box:
    paths.append(serialization.current_path())
    return Box(serialization.from_state_dict(box.value, state["value"], name="value"))


serialization.register_serialization_state(Box, lambda box: {"value": serialization.to_state_dict(box.value)}, read_box)


@pytest.fixture(autouse=True)
def _forget_paths() -> Iterator[None]:
    paths.clear()
    yield
    assert serialization.current_path() == ""


def test_a_registered_type_is_known_to_flax() -> None:
    assert serialization.is_serializable(Box)
    assert serialization.is_serializable(Box(1))
    assert FLAX.is_serializable(Box)
    assert FLAX.to_bytes(Outer(Box(1))) == serialization.to_bytes(Outer(Box(1)))


def test_registering_twice_raises_flaxs_error_wherever_the_first_was() -> None:
    for cls in (Box, Outer, dict):
        with pytest.raises(ValueError, match=f'a serialization handler for "{cls.__name__}" is already registered'):
            serialization.register_serialization_state(cls, None, None)


def test_the_latest_registration_counts_whoever_took_it() -> None:
    class Mine:
        pass

    for turn, module in enumerate([serialization, FLAX, serialization]):
        state = {"turn": turn}
        module.register_serialization_state(Mine, lambda _, state=state: state, lambda target, _: target, override=True)
        assert serialization.to_state_dict([Mine()]) == {"0": {"turn": turn}}
        assert FLAX.to_state_dict([Mine()]) == {"0": {"turn": turn}}


@pytest.mark.parametrize("value", [1, "text", np.zeros(2), None])
def test_leaves_are_not_serializable_as_in_flax(value: Any) -> None:
    assert not serialization.is_serializable(value)
    assert not FLAX.is_serializable(value)


def test_paths_lead_through_both_modules() -> None:
    tree = {"a": [Box({"b": Outer(Box(Outer([Box(1)])))})]}
    for module in (serialization, FLAX):
        module.from_state_dict(tree, serialization.to_state_dict(tree))
    expected = ["./a/0", "./a/0/value/b/part", "./a/0/value/b/part/value/part/0"]
    assert paths == expected * 2


def test_mismatches_below_registered_types_have_the_whole_path() -> None:
    tree = {"a": [Box({"b": Outer(Box(Outer([Box(np.zeros(2))])))})]}
    other = {"a": [Box({"b": Outer(Box(Outer([Box(np.zeros(3))])))})]}
    with pytest.raises(StateMismatchError) as caught:
        serialization.from_state_dict(tree, serialization.to_state_dict(other))
    assert str(caught.value) == "expected float64[2], got float64[3] at $.a[0].value.b.part.value.part[0].value"
    with pytest.raises(ValueError, match=r"at path \./a/0/value/b/part/value/part$"):
        serialization.from_state_dict(
            tree, {"a": {"0": {"value": {"b": {"part": {"value": {"part": {"0": 1, "1": 2}}}}}}}}
        )


def test_only_what_a_registered_function_makes_of_the_state_counts() -> None:
    """A type may read its older form, in which arrays had other shapes."""

    class Flat:
        def __init__(self, array: Any) -> None:
            self.array = array

    def read(target: Flat, state: dict[str, Any]) -> Flat:
        return Flat(serialization.from_state_dict(target.array, state["array"]).reshape(-1))

    serialization.register_serialization_state(Flat, lambda flat: {"array": flat.array}, read)
    restored = serialization.from_state_dict(Flat(np.zeros(4)), {"array": np.ones((2, 2))})
    assert restored.array.shape == (4,)
    with pytest.raises(StateMismatchError, match=r"expected float64\[4\], got float64\[9\] at \$.array"):
        serialization.from_state_dict(Flat(np.zeros(4)), {"array": np.ones((3, 3))})


def test_replaced_functions_of_a_struct_dataclass_are_used() -> None:
    restored = serialization.from_state_dict([Versioned(np.zeros(4))], {"0": {"array": np.ones((2, 2))}})
    assert restored[0].array.shape == (4,)
    with pytest.raises(StateMismatchError, match=r"expected float64\[3\], got float64\[4\] at \$\[0\].array"):
        serialization.from_state_dict([Versioned(np.zeros(3))], {"0": {"array": np.ones((2, 2))}})


def test_a_function_that_changes_the_target_itself_is_caught_too() -> None:
    class Mutable:
        def __init__(self) -> None:
            self.array = np.zeros(2)

    def read(target: Mutable, state: dict[str, Any]) -> Mutable:
        target.array = state["array"]
        return target

    serialization.register_serialization_state(Mutable, lambda mutable: {"array": mutable.array}, read)
    with pytest.raises(StateMismatchError, match=r"expected float64\[2\], got float64\[5\] at \$.array"):
        serialization.from_state_dict(Mutable(), {"array": np.zeros(5)})


def test_a_state_dict_has_str_keys_only() -> None:
    class Wrong:
        pass

    serialization.register_serialization_state(Wrong, lambda _: {1: 2}, lambda target, _: target)
    with pytest.raises(AssertionError, match="A state dict must only have string keys"):
        serialization.to_state_dict([Wrong()])


def test_containers_can_be_overridden() -> None:
    original = FLAX._STATE_DICT_REGISTRY[list]
    try:
        serialization.register_serialization_state(list, lambda _: {"list": 1}, lambda xs, _: xs, override=True)
        assert serialization.to_state_dict({"a": [1]}) == {"a": {"list": 1}}
        assert FLAX.to_state_dict({"a": [1]}) == {"a": {"list": 1}}
    finally:
        FLAX.register_serialization_state(list, *original, override=True)
        del registry._registered[list]


def test_threads_have_their_own_path_and_strictness() -> None:
    class Waiting:
        pass

    together = threading.Barrier(4)
    seen: dict[str, set[str]] = {}

    def read(target: Waiting, state: str) -> Waiting:
        together.wait(30)
        seen.setdefault(state, set()).add(serialization.current_path())
        together.wait(30)
        return target

    serialization.register_serialization_state(Waiting, lambda _: "state", read)

    def restore(name: str, strict: bool) -> bool:
        with serialization.strict(strict):
            target = {name: [Waiting()], "array": np.zeros(2)}
            try:
                serialization.from_state_dict(target, {name: {"0": name}, "array": np.zeros(3)})
            except StateMismatchError:
                return True
            return False

    with ThreadPoolExecutor(4) as pool:
        raised = list(pool.map(restore, "abcd", [True, False, True, False]))
    assert raised == [True, False, True, False]
    assert seen == {name: {f"./{name}/0"} for name in "abcd"}


@state
class Overridden:
    x: int


@state
class WithoutCode:
    x: int


load(Overridden)


def test_what_is_registered_over_generated_code_serves_bytes_and_files_too(tmp_path: Path) -> None:
    cls = Overridden
    assert serialization.msgpack_restore(serialization.to_bytes(cls(x=1))) == {"x": 1}
    serialization.register_serialization_state(
        cls, lambda one: {"y": one.x + 1}, lambda one, stored: cls(x=stored["y"] - 1), override=True
    )
    stored = serialization.to_bytes(cls(x=1))
    assert serialization.msgpack_restore(stored) == {"y": 2} == serialization.to_state_dict(cls(x=1))
    assert serialization.from_bytes(cls(x=7), stored).x == 1
    serialization.save_to_file(cls(x=4), tmp_path / "x.msgpack")
    assert serialization.load_from_file(cls(x=0), tmp_path / "x.msgpack").x == 4


def test_a_class_without_code_is_an_issue_and_no_error() -> None:
    valid, issues = serialization.validate_serializable({"a": WithoutCode(x=1)})
    assert not valid
    assert issues[0].startswith("no generated code for ")
