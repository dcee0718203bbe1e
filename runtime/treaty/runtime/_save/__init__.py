"""The way out, the same for every format: check, lay out, write, commit; at once or in the background."""
