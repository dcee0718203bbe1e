"""Small arrays go to the device by a compiled function where there are many of one shape: as `jax.device_put` would take them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from treaty.runtime._state import many_arrays
from treaty.runtime._state.many_arrays import put_many


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_arrays, "FEWEST", 4)


def told(array: Any) -> tuple[Any, ...]:
    """All that can be seen of an array."""
    bits = np.asarray(array).tobytes()
    return type(array), array.aval, array.weak_type, array.sharding, array.committed, bits


def compare(arrays: list[Any]) -> None:
    assert list(map(told, put_many(arrays))) == list(map(told, jax.device_put(arrays)))


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many arrays a call of the compiled function is given."""
    counts: list[int] = []
    real = many_arrays._same

    def counting(arrays: list[Any]) -> list[Any]:
        counts.append(len(arrays))
        passed: list[Any] = real(arrays)
        return passed

    monkeypatch.setattr(many_arrays, "_same", counting)
    return counts


@pytest.mark.parametrize("count", [0, 1, 3, 4, 16, 17, 40])
def test_any_number_of_arrays(count: int, passed: list[int]) -> None:
    compare([np.full((2, 3), i, np.float32) for i in range(count)])
    assert passed == ([16] * -(-count // 16) if count >= 4 else [])


def test_shapes_and_dtypes_in_any_order() -> None:
    shapes: list[tuple[int, ...]] = [(), (3,), (0, 2), (2, 2)]
    dtypes = [np.float32, np.int8, np.bool_, jnp.bfloat16, np.complex64]
    random = np.random.default_rng(0)
    arrays = [np.full(shapes[i % 4], i % 2, dtypes[i % 5]) for i in random.integers(0, 20, 100)]
    large = np.zeros(2**18, np.float32)
    others = [np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)) for _ in range(5)]
    compare([*arrays, large, *others, np.arange(12, dtype=np.float32)[::2]])


def test_the_bits_of_nans_stay(passed: list[int]) -> None:
    compare([np.array([0x7FC00000 + i, 0xFF800001 + i], np.uint32).view(np.float32) for i in range(20)])
    assert passed


def test_the_memory_is_not_shared_with_the_caller() -> None:
    memory = np.zeros((32, 16), np.float32)
    found = put_many(list(memory))
    memory[:] = 7
    assert all(float(array.sum()) == 0 for array in found)


@pytest.mark.parametrize(
    "setting", [jax.transfer_guard("disallow"), jax.debug_nans(True), jax.debug_infs(True), jax.disable_jit()]
)
def test_what_users_set_to_find_faults_meets_no_compiled_function(setting: Any, passed: list[int]) -> None:
    with setting:
        found = put_many([np.full(2, np.nan, np.float32) for _ in range(20)])
    assert len(found) == 20
    assert passed == []
