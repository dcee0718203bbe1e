"""A pytest plugin: from here on, `flax.serialization` is our module, for Flax's own code too."""

import sys

from flax_private import serialization  # type: ignore[import-not-found]  # found where the suite runs

sys.modules["flax.serialization"] = serialization
