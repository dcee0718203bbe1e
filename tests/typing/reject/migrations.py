"""Mistakes in functions from the TypedDict of an old version to that of a new one."""

import numpy as np

from schemas.model_treaty import BlockState, LinearState, TrainStateState


def missing_key(old: LinearState) -> LinearState:
    return {"kernel": old["kernel"]}  # E: Missing key "bias" for TypedDict "LinearState"  [typeddict-item]


def misspelt_key(old: LinearState) -> LinearState:
    return {"kernel": old["kernel"], "bais": old["bias"]}  # E: Missing key "bias" for TypedDict "LinearState"  [typeddict-item]  # E: Extra key "bais" for TypedDict "LinearState"  [typeddict-unknown-key]


def misspelt_read(old: LinearState) -> LinearState:
    return {"kernel": old["kernal"], "bias": old["bias"]}  # E: TypedDict "LinearState" has no key "kernal"  [typeddict-item]


def misspelt_write(state: LinearState) -> None:
    state["bais"] = state["bias"]  # E: TypedDict "LinearState" has no key "bais"  [typeddict-unknown-key]


def child_of_another_class(old: BlockState) -> BlockState:
    return {"up": old["up"], "down": old}  # E: (expression has type "BlockState", TypedDict item "down" has type "LinearState")  [typeddict-item]


def list_for_numbered_keys(old: TrainStateState, block: BlockState) -> None:
    old["blocks"] = [block]  # E: (expression has type "list[BlockState]", TypedDict item "blocks" has type "dict[str, BlockState]")  [typeddict-item]


def list_for_an_array(old: LinearState) -> LinearState:
    return {"kernel": old["kernel"], "bias": [0.0]}  # E: (expression has type "list[float]", TypedDict item "bias"  [typeddict-item]


def other_rank_and_dtype_by_variable(old: LinearState) -> LinearState:
    kernel = np.zeros((3,), np.float64)
    return {"kernel": kernel, "bias": old["bias"]}  # E: (expression has type "ndarray[tuple[int], dtype[float64]]", TypedDict item "kernel" has type "Array | ndarray[tuple[int, int], dtype[floating[_32Bit]]]")  [typeddict-item]


def other_rank_by_variable(old: LinearState) -> LinearState:
    kernel = np.zeros((3,), np.float32)
    return {"kernel": kernel, "bias": old["bias"]}  # E: (expression has type "ndarray[tuple[int], dtype[floating[_32Bit]]]", TypedDict item "kernel"  [typeddict-item]


def cast_by_variable(old: LinearState) -> LinearState:
    kernel = old["kernel"].astype(np.float64)
    return {"kernel": kernel, "bias": old["bias"]}  # E: (expression has type "Array | ndarray[tuple[int, int], dtype[float64]]", TypedDict item "kernel"  [typeddict-item]


def leaf_of_another_rank(old: LinearState) -> LinearState:
    return {"kernel": old["bias"], "bias": old["bias"]}  # E: (expression has type "Array | ndarray[tuple[int], dtype[floating[_32Bit]]]", TypedDict item "kernel"  [typeddict-item]


def leaf_of_another_dtype(old: TrainStateState) -> LinearState:
    return {"kernel": old["embed"], "bias": np.zeros(3, np.float32)}  # E: (expression has type "Array | ndarray[tuple[int, int], dtype[bfloat16]]", TypedDict item "kernel"  [typeddict-item]


def default_dtype_in_place(old: LinearState) -> LinearState:
    return {"kernel": np.zeros((3, 4)), "bias": old["bias"]}  # E: (expression has type "ndarray[tuple[int, int], dtype[float64]]", TypedDict item "kernel"  [typeddict-item]


def other_rank_in_place(old: LinearState) -> LinearState:
    return {"kernel": np.zeros((3,), np.float32), "bias": old["bias"]}  # E: (expression has type "ndarray[tuple[int], dtype[floating[_32Bit]]]", TypedDict item "kernel"  [typeddict-item]


def other_rank_and_dtype_in_place(old: LinearState) -> LinearState:
    return {"kernel": np.zeros((3,), np.float64), "bias": old["bias"]}  # P: (expression has type "ndarray[tuple[int], dtype[float64]]", TypedDict item "kernel" has type "Array | ndarray[tuple[int, int], dtype[floating[_32Bit]]]")  [typeddict-item]


def cast_in_place(old: LinearState) -> LinearState:
    return {"kernel": old["kernel"].astype(np.float64), "bias": old["bias"]}  # P: (expression has type "Array | ndarray[tuple[int, int], dtype[float64]]", TypedDict item "kernel"  [typeddict-item]


def cast_by_name_in_place(old: LinearState) -> LinearState:
    return {"kernel": old["kernel"], "bias": old["bias"].astype("float64")}  # P: (expression has type "Array | ndarray[tuple[int], dtype[float64]]", TypedDict item "bias"  [typeddict-item]


def every_constructor_in_place(old: LinearState) -> list[LinearState]:
    bias = old["bias"]
    return [
        {"kernel": np.ones((3, 4), np.float64), "bias": bias},  # P: "ndarray[tuple[int, int], dtype[float64]]"  [typeddict-item]
        {"kernel": np.empty((3, 4), dtype=np.int32), "bias": bias},  # P: "ndarray[tuple[int, int], dtype[signedinteger[_32Bit]]]"  [typeddict-item]
        {"kernel": np.full((3, 4), 1.0, np.float64), "bias": bias},  # P: "ndarray[tuple[int, int], dtype[float64]]"  [typeddict-item]
        {"kernel": np.array([[1.0]], np.float64), "bias": bias},  # P: "ndarray[tuple[Any, ...], dtype[float64]]"  [typeddict-item]
        {"kernel": np.asarray(bias, dtype=np.float64), "bias": bias},  # P: "ndarray[tuple[Any, ...], dtype[float64]]"  [typeddict-item]
        {"kernel": np.asarray(np.ones((3, 4))), "bias": bias},  # P: "ndarray[tuple[Any, ...], dtype[float64]]"  [typeddict-item]
        {"kernel": np.zeros((3, 4), np.dtype("int64")), "bias": bias},  # P: "ndarray[tuple[int, int], dtype[signedinteger[_64Bit]]]"  [typeddict-item]
        {"kernel": np.zeros((3, 4), float), "bias": bias},  # P: "ndarray[tuple[int, int], dtype[float64]]"  [typeddict-item]
        {"kernel": np.zeros([3], np.float32), "bias": bias},  # P: "ndarray[tuple[int], dtype[floating[_32Bit]]]"  [typeddict-item]
    ]


def returned(x: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return x.astype(np.float64)  # P: Incompatible return value type (got "ndarray[tuple[int, int], dtype[float64]]"  [return-value]
