"""Flax's own two kinds of nodes, walked here by Flax's rules: its own functions take several times as long.

A type whose functions somebody replaced is not one of them, and goes the general way.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from treaty.runtime._flax.bridge import loaded_flax
from treaty.runtime._flax.registry import registered_here


def struct_fields(cls: type) -> tuple[str, ...] | None:
    """The fields that Flax stores of a struct dataclass; None for any other type."""
    if not dataclasses.is_dataclass(cls) or _module_of_reader(cls) != "flax.struct":
        return None
    return tuple(field.name for field in dataclasses.fields(cls) if field.metadata.get("pytree_node", True))


def is_frozen_dict(cls: type) -> bool:
    return _module_of_reader(cls) == "flax.core.frozen_dict"


def thawed(frozen: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """The plain dict inside a FrozenDict, which itself makes a new FrozenDict of each inner dict that it is asked for."""
    inside = getattr(frozen, "_dict", None)
    return inside if type(inside) is dict else frozen


def _module_of_reader(cls: type) -> str | None:
    flax = loaded_flax()
    functions = registered_here(cls) if flax is None else getattr(flax, "_STATE_DICT_REGISTRY", {}).get(cls)
    return None if functions is None else getattr(functions[1], "__module__", None)
