"""Bundled schemas: optax's states, and a reference transformer. Their generated code is in `treaty.generated`."""
