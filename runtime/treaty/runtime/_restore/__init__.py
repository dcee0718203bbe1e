"""The way in, the same for every format: select, key map, resolve, fit, cast, place, build."""
