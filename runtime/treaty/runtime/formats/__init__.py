"""One package per format, each ending in a `Format`; `table` lists them and decides which is meant."""
