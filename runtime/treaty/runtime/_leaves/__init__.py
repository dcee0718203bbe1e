"""The parts of `treaty.runtime.leaves`: eformer's checkpoint layout, read and written strictly."""
