"""What the formats have in common: what a format is, and how values, notes and arrays of zarr are written down."""
