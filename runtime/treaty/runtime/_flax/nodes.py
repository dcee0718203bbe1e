"""Flax's own two kinds of nodes, walked here by Flax's rules: its own functions take several times as long.

A type whose functions somebody replaced is not one of them, and goes the general way.
"""

import dataclasses

from treaty.runtime._flax.bridge import loaded_flax


def struct_fields(cls: type) -> tuple[str, ...] | None:
    """The fields that Flax stores of a struct dataclass; None for any other type."""
    if not dataclasses.is_dataclass(cls) or _module_of_reader(cls) != "flax.struct":
        return None
    return tuple(field.name for field in dataclasses.fields(cls) if field.metadata.get("pytree_node", True))


def is_frozen_dict(cls: type) -> bool:
    return _module_of_reader(cls) == "flax.core.frozen_dict"


def _module_of_reader(cls: type) -> str | None:
    registered = getattr(loaded_flax(), "_STATE_DICT_REGISTRY", {}).get(cls)
    return None if registered is None else getattr(registered[1], "__module__", None)
