"""What a forked process may not share with its parent: locks that the parent holds, and libraries whose threads it lacks.

A lock of flock belongs to all copies of a descriptor, so a child that outlives its parent would hold it. The threads of
TensorStore and of JAX stay behind with the parent: what needs them would wait for ever, or end the process.
"""

import errno
import fcntl
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from treaty.schema import TreatyError

_ADVICE: Final = 'start such processes with multiprocessing.get_context("spawn"), or fork them earlier'

# NFS asks for a descriptor that can write, which no directory has: EBADF.
_NO_LOCKS: Final = (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_OF_TENSORSTORE: Final = "ts_pool_worker\n"

_locks: set[int] = set()  # descriptors
_forking = threading.RLock()  # held while a lock is opened or closed, so that no fork comes between that and its note
_uses_tensorstore = False
_lacks_tensorstore = False
_lacks_devices = False


def open_lock(path: str | os.PathLike[str], flags: int = os.O_RDONLY | os.O_DIRECTORY, mode: int = 0o666) -> int:
    """A descriptor of a directory, or of a file with other flags, to be locked; children do not keep it."""
    with _forking:
        descriptor = os.open(path, flags, mode)
        _locks.add(descriptor)
    return descriptor


def try_lock(descriptor: int) -> bool | None:
    """Whether no other process has the lock; None where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return None
    return True


def close_lock(descriptor: int) -> None:
    with _forking:
        if descriptor in _locks:  # not in a child, which has closed it
            _locks.remove(descriptor)
            with suppress(OSError):  # of a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # also for a copy in a process that is just being started
            with suppress(OSError):  # what was written there is synced, and Linux has closed it all the same
                os.close(descriptor)


def use_tensorstore() -> None:
    """To be called before it is used: TensorStore ends a process that was forked from one that used it."""
    global _uses_tensorstore
    if _lacks_tensorstore:
        raise TreatyError(f"expected TensorStore's threads, got a process forked after they were started; {_ADVICE}")
    _uses_tensorstore = True


def check_devices() -> None:
    """A copy to a device may wait for a thread of JAX."""
    if _lacks_devices:
        raise TreatyError(
            f'expected JAX\'s threads, got a process forked after JAX was used; pass into="numpy", or {_ADVICE}'
        )


def check_readable(state: object) -> None:
    """What was being computed at the fork, or is on an accelerator, never arrives in the child."""
    if not _lacks_devices:
        return
    import jax

    # Any: the type of jax.Array lacks is_ready.
    arrays: list[Any] = [leaf for leaf in jax.tree.leaves(state) if isinstance(leaf, jax.Array)]
    for array in arrays:
        if not array.is_ready() or any(device.platform != "cpu" for device in array.devices()):
            raise TreatyError(
                "expected arrays in the host's memory, got one that was being computed, or on an accelerator, when this "
                f"process was forked; {_ADVICE}"
            )


def _in_child() -> None:
    global _lacks_tensorstore, _lacks_devices
    for descriptor in _locks:
        os.close(descriptor)  # and not unlock: the lock is the parent's
    _locks.clear()
    with suppress(RuntimeError):  # an interrupt kept it from being taken
        _forking.release()
    _lacks_tensorstore = _lacks_tensorstore or _uses_tensorstore or _parent_runs_tensorstore()
    bridge = sys.modules.get("jax._src.xla_bridge")  # JAX has no public name for this
    _lacks_devices = _lacks_devices or (bridge is not None and bridge.backends_are_initialized())


def _parent_runs_tensorstore() -> bool:
    """Whether others have used it, as Orbax does: by the names of its threads, where the system tells."""
    if "tensorstore" not in sys.modules:
        return False
    with suppress(OSError):
        return any(name.read_text() == _OF_TENSORSTORE for name in Path(f"/proc/{os.getppid()}/task").glob("*/comm"))
    return False


if hasattr(os, "register_at_fork"):
    # The lock's own methods: Python runs no signal handler in them, as it would in functions around them.
    os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_in_child)
