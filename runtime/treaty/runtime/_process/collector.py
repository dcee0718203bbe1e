"""Python's garbage collector, told to wait while thousands of objects are made of which all stay.

It would look at each of them, and at all that the program holds, again and again. Restoring 10,000 small leaves takes 0.8 of
the time into numpy arrays, and 0.67 into jax arrays.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """For work that does not wait for a disk: other threads make garbage meanwhile."""
    enabled = gc.isenabled()
    try:
        gc.disable()  # inside, or a Ctrl-C right after it would leave it so
        yield
    finally:
        if enabled:
            gc.enable()
