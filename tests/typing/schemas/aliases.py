"""Names for other schema modules to import: mypy takes `F32` for Annotated and `Matrix` for a bare Array."""

from jax import Array
from jaxtyping import Float32 as F32

__all__ = ["F32", "Matrix"]

Matrix = F32[Array, "rows cols"]
