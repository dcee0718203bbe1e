"""The assertions that Flax only promises: what raises, with which words, and what does not."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from treaty.runtime import StateMismatchError, serialization
from treaty.schema import TreatyError

F32 = np.zeros((2, 3), np.float32)


def restore_bytes(target: Any, state: Any) -> Any:
    return serialization.from_bytes(target, serialization.to_bytes(state))


def messages(target: Any, state: Any, through_bytes: bool = False) -> list[str]:
    restore = restore_bytes if through_bytes else serialization.from_state_dict
    with pytest.raises(StateMismatchError) as caught:
        restore(target, state)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TreatyError)
    return str(caught.value).splitlines()


def test_every_wrong_shape_is_listed() -> None:
    target = {"a": [F32, jnp.zeros(4)], "b c": {"d": F32}, "e": F32}
    state = {"a": {"0": np.zeros((2, 4)), "1": np.zeros(())}, "b c": {"d": np.zeros((3, 2))}, "e": F32}
    assert messages(target, state) == [
        "expected float32[2, 3], got float64[2, 4] at $.a[0]",
        "expected float32[4], got float64[] at $.a[1]",
        "expected float32[2, 3], got float64[3, 2] at $['b c'].d",
    ]


def test_a_leaf_that_is_the_whole_target() -> None:
    assert messages(F32, np.zeros(2)) == ["expected float32[2, 3], got float64[2] at $"]


def test_a_dtype_must_match_only_when_it_comes_from_bytes_or_a_file(tmp_path: Any) -> None:
    state = {"a": F32.astype(np.float64), "b": np.float32(1)}
    target = {"a": F32, "b": np.float64(1)}
    assert serialization.from_state_dict(target, state)["a"].dtype == np.float64
    expected = [
        "expected float32[2, 3], got float64[2, 3] at $.a",
        "expected numpy scalar float64, got numpy scalar float32 at $.b",
    ]
    assert messages(target, state, through_bytes=True) == expected
    serialization.save_to_file(state, tmp_path / "file")
    with pytest.raises(StateMismatchError, match="got float64"):
        serialization.load_from_file(target, tmp_path / "file")
    with pytest.raises(StateMismatchError, match="got float64"):
        serialization.from_compressed_bytes(target, serialization.to_compressed_bytes(state))


def test_something_else_than_an_array_is_a_mismatch() -> None:
    state: dict[str, Any] = {"a": None, "b": {}, "c": "text", "d": [1], "e": 1}
    assert messages(dict.fromkeys("abcde", F32), state) == [
        "expected float32[2, 3], got None at $.a",
        "expected float32[2, 3], got dict at $.b",
        "expected float32[2, 3], got str 'text' at $.c",
        "expected float32[2, 3], got list at $.d",
        "expected float32[2, 3], got int 1 at $.e",
    ]


def test_something_else_than_a_container_is_a_mismatch() -> None:
    assert messages({"a": {"b": 1}, "c": [1, 2], "d": (F32,)}, {"a": F32, "c": 3, "d": {"0": np.zeros(2)}}) == [
        "expected a dict of 1, got float32[2, 3] at $.a",
        "expected a list of 2, got int 3 at $.c",
        "expected float32[2, 3], got float64[2] at $.d[0]",
    ]
    assert messages([1], {"a": 1}) == ["expected the keys ['0'], got ['a'] at $"]


def test_a_number_may_stand_for_an_array_without_axes() -> None:
    target = {"a": jnp.int32(0), "b": np.float32(0), "c": jnp.zeros((), jnp.bfloat16), "d": jnp.bool_(0)}
    state = {"a": 1, "b": 2.0, "c": 3.0, "d": True}
    assert serialization.from_bytes(target, serialization.to_bytes(state)) == state
    wrong = {"a": 1.5, "b": 2, "c": True, "d": 0}
    assert serialization.from_state_dict(target, wrong) == wrong
    assert messages(target, wrong, through_bytes=True) == [
        "expected int32[], got float 1.5 at $.a",
        "expected numpy scalar float32, got int 2 at $.b",
        "expected bfloat16[], got bool True at $.c",
        "expected bool[], got int 0 at $.d",
    ]


@pytest.mark.parametrize("target", [None, 0, 1.5, "text", object(), np.float32, int])
def test_a_target_that_is_no_array_promises_nothing(target: Any) -> None:
    data = serialization.to_bytes({"a": F32})
    assert serialization.from_bytes({"a": target}, data)["a"].shape == (2, 3)


def test_shapes_without_data_are_targets_too() -> None:
    target = {"a": jax.eval_shape(lambda: jnp.zeros((2, 3)))}
    assert serialization.from_bytes(target, serialization.to_bytes({"a": F32}))["a"].shape == (2, 3)
    assert messages(target, {"a": np.zeros(3)}) == ["expected float32[2, 3], got float64[3] at $.a"]


def test_keys_are_typed() -> None:
    key = jax.random.key(0)
    assert serialization.from_state_dict({"k": key}, {"k": key})["k"] is key
    assert messages({"k": key}, {"k": np.zeros(2, np.uint32)}) == ["expected key<fry>[], got uint32[2] at $.k"]


def test_extra_keys_of_a_dict_are_ignored_as_in_flax() -> None:
    assert serialization.from_state_dict({"a": 1}, {"a": 2, "b": 3}) == {"a": 2}


def test_flaxs_error_comes_first_and_tells_what_was_found_before() -> None:
    with pytest.raises(ValueError, match="The size of the list and the state dict do not match") as caught:
        serialization.from_state_dict({"a": F32, "b": [1]}, {"a": np.zeros(2), "b": {}})
    assert caught.value.__notes__ == ["Before that:\nexpected float32[2, 3], got float64[2] at $.a"]


def test_a_name_is_where_the_target_is() -> None:
    with pytest.raises(StateMismatchError, match=r"at \$\.params\.w$"):
        serialization.from_state_dict({"w": F32}, {"w": np.zeros(1)}, name="params")
    with pytest.raises(ValueError, match=r"at path params/a$"):
        serialization.from_state_dict({"a": [1]}, {"a": {}}, name="params")


def test_not_strict_is_flaxs_leniency_for_a_while() -> None:
    data = serialization.to_bytes({"a": np.zeros(9)})
    with serialization.strict(False):
        assert serialization.from_bytes({"a": F32}, data)["a"].shape == (9,)
        with serialization.strict(True), pytest.raises(StateMismatchError):
            serialization.from_bytes({"a": F32}, data)
        assert serialization.from_bytes({"a": F32}, data)["a"].shape == (9,)
    with pytest.raises(StateMismatchError):
        serialization.from_bytes({"a": F32}, data)


def test_a_key_of_thousands_of_digits_is_told_as_text() -> None:
    key = "9" * 5000
    with pytest.raises(StateMismatchError) as caught:
        serialization.from_state_dict({key: np.ones(2)}, {key: np.ones(3)})
    assert str(caught.value) == f"expected float64[2], got float64[3] at $['{key}']"
