"""What stands behind `treaty.runtime.serialization`, the drop-in module for flax.serialization. Flax is never imported."""
