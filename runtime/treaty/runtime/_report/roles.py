"""What a leaf is there for: params, the state of an optimizer, random numbers, or the rest."""

from typing import Any, Final

from treaty.schema import Schema, ir

PARAMS: Final = "params"
OPTIMIZER: Final = "optimizer"
RNG: Final = "rng"
OTHER: Final = "other"
ROLES: Final = (PARAMS, OPTIMIZER, RNG, OTHER)

_LEVELS: Final = 2  # of keys whose names say it: further down a name is one of a model
_NAMES: Final = {
    **dict.fromkeys(("params", "weights", "variables", "ema", "ema_params", "target_params", "batch_stats"), PARAMS),
    **dict.fromkeys(("opt", "opt_state", "optim", "optimizer", "optimizer_state", "optimizers", "tx"), OPTIMIZER),
    **dict.fromkeys(("rng", "rngs", "rng_key", "prng", "prng_key", "dropout_rng"), RNG),
}
_OPTAX: Final = ("treaty.schema.library.optax:", "optax:", "optax.")  # how the symbols of its states begin


def role_below(schema: Schema | None, type: ir.Type | None, key: str, depth: int, role: str | None) -> str | None:
    """The role of all below a node, where it is known; `role` is that of the node above."""
    if isinstance(type, ir.Optional):
        type = type.item
    if isinstance(type, ir.Key):
        return RNG
    if schema is not None and isinstance(type, ir.Node) and schema[type.cls].symbol.startswith(_OPTAX):
        return OPTIMIZER
    if role is None and depth <= _LEVELS:
        return _NAMES.get(key)
    return role


def role_of_leaf(role: str | None, leaf: Any) -> str:
    """Of a leaf that nothing above says a role of: arrays of fractions are params, as in files that hold nothing else."""
    if role is not None:
        return role
    dtype, shape = str(getattr(leaf, "dtype", "")), getattr(leaf, "shape", ())
    return PARAMS if shape and "float" in dtype else OTHER
