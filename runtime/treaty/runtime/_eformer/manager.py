"""What `treaty.runtime.leaves` asks of a checkpoint manager, and JAX's own as the default."""

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import jax
from jax.experimental.array_serialization.serialization import GlobalAsyncCheckpointManager

_JAX: Final[Any] = GlobalAsyncCheckpointManager  # its constructor is untyped


class ArraySaver(Protocol):
    """What a save calls."""

    def serialize(
        self,
        arrays: Sequence[jax.Array],
        tensorstore_specs: Sequence[dict[str, Any]],
        *,
        on_commit_callback: Callable[[], None],
    ) -> None: ...

    def wait_until_finished(self) -> None: ...


class ArrayLoader(Protocol):
    """What a load calls."""

    def deserialize(
        self, shardings: Sequence[jax.sharding.Sharding], tensorstore_specs: Sequence[dict[str, Any]]
    ) -> Sequence[jax.Array]: ...

    def wait_until_finished(self) -> None: ...


class Manager(ArraySaver, ArrayLoader, Protocol):
    """The part of JAX's GlobalAsyncCheckpointManagerBase that is called here."""


def default_manager() -> Manager:
    # eformer's variable and default: how long processes wait for each other at the end of a save.
    manager: Manager = _JAX(timeout_secs=int(os.getenv("GLOBAL_CHECKPOINT_TIMEOUT", "400")))
    return manager
