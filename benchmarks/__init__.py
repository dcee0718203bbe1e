"""Treaty beside Flax, mypy and bare JAX, measured in one run: `python -m benchmarks [name...] [--quick] [--json FILE]`."""
