"""A pytest plugin: from here on, `flax.serialization` is our module, for Flax's own code too."""

import sys

from treaty.runtime import serialization

sys.modules["flax.serialization"] = serialization
