"""Arrays that stay where they are stored until someone asks for them."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np


@attrs.frozen(eq=False)
class LazyArray:
    """The shape and dtype of a stored array, and how to get its contents onto the host."""

    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    read: Callable[[], "np.ndarray[Any, np.dtype[Any]]"]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize
