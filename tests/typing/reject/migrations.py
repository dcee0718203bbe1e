"""Mistakes in functions from the TypedDict of an old version to that of a new one."""

import numpy as np
from schemas.model_treaty import BlockState, LinearState, TrainStateState


def missing_key(old: LinearState) -> LinearState:
    # E: Missing key "bias" for TypedDict "LinearState"  [typeddict-item]
    return {"kernel": old["kernel"]}


def misspelt_key(old: LinearState) -> LinearState:
    # E: Missing key "bias" for TypedDict "LinearState"  [typeddict-item]
    # E: Extra key "bais" for TypedDict "LinearState"  [typeddict-unknown-key]
    return {"kernel": old["kernel"], "bais": old["bias"]}


def misspelt_read(old: LinearState) -> LinearState:
    # E: TypedDict "LinearState" has no key "kernal"  [typeddict-item]
    return {"kernel": old["kernal"], "bias": old["bias"]}


def misspelt_write(state: LinearState) -> None:
    # E: TypedDict "LinearState" has no key "bais"  [typeddict-unknown-key]
    state["bais"] = state["bias"]


def child_of_another_class(old: BlockState) -> BlockState:
    # E: (expression has type "BlockState", TypedDict item "down" has type "LinearState")  [typeddict-item]
    return {"up": old["up"], "down": old}


def list_for_numbered_keys(old: TrainStateState, block: BlockState) -> None:
    # E: Value of "blocks" has incompatible type "list[BlockState]"; expected "dict[str, BlockState]"  [typeddict-item]
    old["blocks"] = [block]


def list_for_an_array(old: LinearState) -> LinearState:
    # E: (expression has type "list[float]", TypedDict item "bias"  [typeddict-item]
    return {"kernel": old["kernel"], "bias": [0.0]}


def other_rank_and_dtype_by_variable(old: LinearState) -> LinearState:
    kernel = np.zeros((3,), np.float64)
    # E: (expression has type "ndarray[tuple[int], dtype[float64]]", TypedDict item "kernel" has type "Array | ndarray[tuple[int, int], dtype[floating[_32Bit]]]")  [typeddict-item]
    return {"kernel": kernel, "bias": old["bias"]}


def other_rank_by_variable(old: LinearState) -> LinearState:
    kernel = np.zeros((3,), np.float32)
    # E: (expression has type "ndarray[tuple[int], dtype[floating[_32Bit]]]", TypedDict item "kernel"  [typeddict-item]
    return {"kernel": kernel, "bias": old["bias"]}


def cast_by_variable(old: LinearState) -> LinearState:
    kernel = old["kernel"].astype(np.float64)
    # E: (expression has type "Array | ndarray[tuple[int, int], dtype[float64]]", TypedDict item "kernel"  [typeddict-item]
    return {"kernel": kernel, "bias": old["bias"]}  # not ty


def leaf_of_another_rank(old: LinearState) -> LinearState:
    # E: (expression has type "Array | ndarray[tuple[int], dtype[floating[_32Bit]]]", TypedDict item "kernel"  [typeddict-item]
    return {"kernel": old["bias"], "bias": old["bias"]}


def leaf_of_another_dtype(old: TrainStateState) -> LinearState:
    # E: (expression has type "Array | ndarray[tuple[int, int], dtype[bfloat16]]", TypedDict item "kernel"  [typeddict-item]
    return {"kernel": old["embed"], "bias": np.zeros(3, np.float32)}


def default_dtype_in_place(old: LinearState) -> LinearState:
    # E: (expression has type "ndarray[tuple[int, int], dtype[float64]]", TypedDict item "kernel"  [typeddict-item]
    return {"kernel": np.zeros((3, 4)), "bias": old["bias"]}


def other_rank_in_place(old: LinearState) -> LinearState:
    # E: (expression has type "ndarray[tuple[int], dtype[floating[_32Bit]]]", TypedDict item "kernel"  [typeddict-item]
    return {"kernel": np.zeros((3,), np.float32), "bias": old["bias"]}


def other_rank_and_dtype_in_place(old: LinearState) -> LinearState:
    # P: (expression has type "ndarray[tuple[int], dtype[float64]]", TypedDict item "kernel" has type "Array | ndarray[tuple[int, int], dtype[floating[_32Bit]]]")  [typeddict-item]
    return {"kernel": np.zeros((3,), np.float64), "bias": old["bias"]}


def cast_in_place(old: LinearState) -> LinearState:
    # P: (expression has type "Array | ndarray[tuple[int, int], dtype[float64]]", TypedDict item "kernel"  [typeddict-item]
    return {"kernel": old["kernel"].astype(np.float64), "bias": old["bias"]}


def cast_by_name_in_place(old: LinearState) -> LinearState:
    # P: (expression has type "Array | ndarray[tuple[int], dtype[float64]]", TypedDict item "bias"  [typeddict-item]
    return {"kernel": old["kernel"], "bias": old["bias"].astype("float64")}


def every_constructor_in_place(old: LinearState) -> list[LinearState]:
    bias = old["bias"]
    return [
        # P: "ndarray[tuple[int, int], dtype[float64]]"  [typeddict-item]
        {"kernel": np.ones((3, 4), np.float64), "bias": bias},
        # P: "ndarray[tuple[int, int], dtype[signedinteger[_32Bit]]]"  [typeddict-item]
        {"kernel": np.empty((3, 4), dtype=np.int32), "bias": bias},
        # P: "ndarray[tuple[int, int], dtype[float64]]"  [typeddict-item]
        {"kernel": np.full((3, 4), 1.0, np.float64), "bias": bias},
        # P: "ndarray[tuple[Any, ...], dtype[float64]]"  [typeddict-item]
        {"kernel": np.array([[1.0]], np.float64), "bias": bias},
        # P: "ndarray[tuple[Any, ...], dtype[float64]]"  [typeddict-item]
        {"kernel": np.asarray(bias, dtype=np.float64), "bias": bias},
        # P: "ndarray[tuple[Any, ...], dtype[float64]]"  [typeddict-item]
        {"kernel": np.asarray(np.ones((3, 4))), "bias": bias},
        # P: "ndarray[tuple[int, int], dtype[signedinteger[_64Bit]]]"  [typeddict-item]
        {"kernel": np.zeros((3, 4), np.dtype("int64")), "bias": bias},
        # P: "ndarray[tuple[int, int], dtype[float64]]"  [typeddict-item]
        {"kernel": np.zeros((3, 4), float), "bias": bias},
        # P: "ndarray[tuple[int], dtype[floating[_32Bit]]]"  [typeddict-item]
        {"kernel": np.zeros([3], np.float32), "bias": bias},
    ]


def returned(x: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    # P: Incompatible return value type (got "ndarray[tuple[int, int], dtype[float64]]"  [return-value]
    return x.astype(np.float64)
