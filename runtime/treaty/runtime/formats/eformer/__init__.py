"""eformer's layout: an array of zarr a leaf, and an index."""
