"""The parts of the drop-in modules for eformer, `treaty.runtime.leaves` and `treaty.runtime.sharding`, and nothing else's home."""
