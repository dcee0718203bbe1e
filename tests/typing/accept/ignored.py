# Needs the plugin: without it there is nothing to ignore.
"""One code for all that the plugin says of declarations, to ignore or to switch off."""

from jax import Array

from treaty.schema import state


@state
class Unchecked:
    x: Array  # type: ignore[treaty]
