"""Reading arrays onto devices where the caller brings no manager."""

from collections.abc import Sequence
from typing import Any

import jax
import tensorstore as ts
from jax.sharding import Sharding

from treaty.runtime._devices.placement import Target, make_room, nbytes_needed, place
from treaty.runtime._lazy import Job, jobs_of
from treaty.runtime._process.uninterrupted import uninterrupted
from treaty.runtime._process.workers import in_threads
from treaty.runtime._storage.claimed_sizes import fits_in_memory
from treaty.runtime.formats.shared.stored_arrays import stored_array


class ShardReader:
    """The reading methods of JAX's manager, which reads a replicated region once for each device, and on a failure
    leaves reads behind that complain later of a closed event loop."""

    def deserialize(
        self, shardings: Sequence[Sharding], tensorstore_specs: Sequence[dict[str, Any]]
    ) -> list[jax.Array]:
        opening = [ts.open(spec, open=True, read=True) for spec in tensorstore_specs]
        arrays = [stored_array(future.result(), lambda read: read()) for future in opening]
        targets = [
            Target(array.shape, array.dtype, array.dtype, on_host=False, sharding=sharding)
            for array, sharding in zip(arrays, shardings, strict=True)
        ]
        for target in targets:
            if not fits_in_memory(nbytes_needed(target)):
                raise MemoryError(f"{target.stored}{list(target.shape)}")
        rooms = [make_room(target) for target in targets]
        jobs: list[Job] = []
        for array, room in zip(arrays, rooms, strict=True):
            jobs += jobs_of(array, room.parts)
        _run(jobs)
        return place(rooms)

    def wait_until_finished(self) -> None:
        """Nothing is ever under way."""


@uninterrupted
def _run(jobs: Sequence[Job]) -> None:
    in_threads("treaty-read", lambda job: job.run(), jobs)
