"""What can be said of a tree before it is saved."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from treaty.runtime._errors import TreatyError, show_path
from treaty.runtime._flax.paths import Names, error_path
from treaty.runtime._flax.registry import is_serializable
from treaty.runtime._flax.write import to_state_dict
from treaty.runtime._state.arrays import is_key
from treaty.runtime.formats import msgpack


def validate_serializable(pytree: Any) -> tuple[bool, list[str]]:
    """Whether `to_bytes` takes a tree, and all that it would refuse. Looks at no array's data."""
    try:
        issues = list(_issues(to_state_dict(pytree), ()))
    except (ValueError, TypeError, TreatyError) as error:  # dict keys without a form of their own, a class without code
        issues = [str(error)]
    return not issues, issues


def get_serialization_info(pytree: Any) -> dict[str, Any]:
    """num_leaves, tree_structure, total_elements, memory_bytes, is_serializable and the names of all dtypes."""
    leaves = jax.tree_util.tree_leaves(pytree)
    arrays = [leaf for leaf in leaves if hasattr(leaf, "dtype") and hasattr(leaf, "shape")]
    numbers = [leaf for leaf in leaves if isinstance(leaf, (bool, int, float, complex)) and not hasattr(leaf, "dtype")]
    return {
        "num_leaves": len(leaves),
        "tree_structure": str(jax.tree_util.tree_structure(pytree)),
        "total_elements": sum(int(np.prod(leaf.shape)) for leaf in arrays) + len(leaves) - len(arrays),
        "memory_bytes": sum(getattr(leaf, "nbytes", 0) for leaf in arrays)
        + sum(np.asarray(leaf).nbytes for leaf in numbers),
        "is_serializable": is_serializable(pytree),
        "dtypes": sorted({str(leaf.dtype) for leaf in arrays}),
    }


def _issues(state: Any, names: Names) -> Iterator[str]:
    if type(state) is dict:
        for key, value in state.items():
            yield from _issues(value, (*names, str(key)))
    elif type(state) is list:
        for index, value in enumerate(state):
            yield from _issues(value, (*names, str(index)))
    else:
        issue = _issue(state)
        if issue:
            yield f"{issue} at {show_path(error_path(names))}"


def _issue(leaf: Any) -> str:
    if isinstance(leaf, jax.Array):
        if not leaf.is_fully_addressable and not leaf.is_fully_replicated:
            return "Non-addressable array"
        if is_key(leaf):
            return "Typed PRNG key: store jax.random.key_data of it"
        return ""
    sample = leaf.reshape(-1)[:0] if isinstance(leaf, np.ndarray) else leaf
    try:
        msgpack.pack(sample)
    except (TypeError, ValueError, OverflowError) as error:
        return str(error)
    return ""
