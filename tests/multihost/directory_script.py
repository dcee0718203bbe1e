"""One process of a distributed program, started by the tests: its arguments are actions like `save:5:/some/path`."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.runtime.directory.states import Train, bits, train
from treaty.runtime import shardings
from treaty.runtime.directory import restore, save, save_async
from treaty.runtime.formats.directory import places as _places
from treaty.runtime.formats.directory import plan as _plan
from treaty.runtime.formats.directory import write as _write
from treaty.schema import TreatyError

RULES = {"4*d_model": "model", "vocab": "data"}
DIMS = {"vocab": 32, "d_model": 6, "n_layers": 2, "streams": 4, "n": 16}


def main(port: str, index: str, count: str, *actions: str) -> None:
    # Who waits for the dead shall not wait long; else a busy machine is not a dead one.
    patience = 10 if any(action.startswith("die:") for action in actions) else 100
    jax.distributed.initialize(
        f"127.0.0.1:{port}",
        int(count),
        int(index),
        coordinator_bind_address=f"127.0.0.1:{port}",
        heartbeat_timeout_seconds=patience,
    )
    vars(_plan).update(SMALL_BYTES=64, CHUNK_BYTES=256)  # many chunks of a small state
    for action in actions:
        name, seed, path = action.split(":", 2)
        where: Any = path if "://" in path else Path(path)
        ACTIONS[name](where, int(seed))
    shutdown: Any = jax.distributed.shutdown
    shutdown()


def mesh() -> Mesh:
    """The model over processes, data over the devices of each, so that every process has shards of its own."""
    return Mesh(np.array(jax.devices()).reshape(jax.process_count(), -1), ("model", "data"))


def shared(seed: int) -> Train:
    """A state that two, three and four processes can divide."""
    return train(seed, d_model=6)


def spread(value: Train, rules: dict[str, str] = RULES) -> Train:
    """Every process makes the whole state, and keeps its own shards of it."""
    found: Any = shardings(Train, mesh(), rules, DIMS)
    spec: Any = PartitionSpec
    key_data = NamedSharding(mesh(), spec())

    def put(array: Any, sharding: Any) -> Any:
        if not isinstance(array, jax.Array):
            return array
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            data = np.asarray(jax.random.key_data(array))
            return jax.random.wrap_key_data(jax.make_array_from_callback(data.shape, key_data, lambda at: data[at]))
        host = np.asarray(array)
        return jax.make_array_from_callback(host.shape, sharding, lambda at: host[at])

    structure: Any
    leaves, structure = jax.tree.flatten(value)
    where = jax.tree.leaves(found, is_leaf=lambda leaf: leaf is None)
    spread_out: Train = structure.unflatten(map(put, leaves, where))
    return spread_out


def do_save(path: Path, seed: int) -> None:
    value = spread(shared(seed))
    assert not value.params.blocks[0].up.kernel.is_fully_replicated
    save(path, value, metadata={"processes": jax.process_count()})


def do_save_twice(path: Path, seed: int) -> None:
    """Two steps with the same arrays; each process links what it would write."""
    value = spread(shared(seed))
    save(path / "1", value)
    save(path / "2", value, base=path / "1")


def do_save_shared(path: Path, seed: int) -> None:
    """Every process holds all: in whole arrays, and in shards of its own devices. Each tells how much it wrote."""
    written: list[int] = []
    put = _places.Local.put

    def counting(self: Any, name: str, content: Any, what: str) -> None:
        written.append(content.nbytes if "/c." in name else 0)
        put(self, name, content, what)

    setattr(_places.Local, "put", counting)  # noqa: B010 - mypy forbids to assign it
    for name, rules in (("whole", {}), ("sharded", {"4*d_model": "data", "vocab": "data"})):
        written.clear()
        save(path / name, spread(shared(seed), rules))
        print(sum(written))
    setattr(_places.Local, "put", put)  # noqa: B010


def do_save_async(path: Path, seed: int) -> None:
    handles = [save_async(path, spread(shared(seed + i))) for i in (-1, 0)]
    for handle in handles:
        handle.result()


def do_restore(path: Path, seed: int) -> None:
    """What this process has of the state is what it should be; nobody has it all."""
    restored = restore(path, Train, mesh=mesh(), rules=RULES)
    expected = dict(jax.tree_util.tree_leaves_with_path(shared(seed).params))
    for place, array in jax.tree_util.tree_leaves_with_path(restored.params):
        whole = np.asarray(expected[place])
        for shard in array.addressable_shards:
            assert np.asarray(shard.data).tobytes() == whole[shard.index].tobytes(), place
    assert int(restored.step.addressable_data(0)) == seed
    assert bits(restore(path, Train, into="numpy").seen) == bits(shared(seed).seen)


def replace_write_piece(function: Any) -> None:
    vars(_write)["_write_piece"] = function


def do_die(path: Path, seed: int) -> None:
    """The last process is killed when it has written some of its chunks; with an odd seed it is the first."""
    victim = 0 if seed % 2 else jax.process_count() - 1
    real, left = _write._write_piece, 2

    def dying(*args: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0 and jax.process_index() == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*args)

    replace_write_piece(dying)
    save(path, spread(shared(seed)))


def do_fail(path: Path, seed: int) -> None:
    """Process 1 cannot write; all are told, and the next save works."""
    real = _write._write_piece

    def failing(*args: Any) -> None:
        if jax.process_index() == 1:
            raise OSError(28, "No space left on device")
        real(*args)

    value = spread(shared(seed))
    replace_write_piece(failing)
    try:
        save(path, value)
    except (TreatyError, OSError) as error:
        print(error)
    replace_write_piece(real)
    save(path, value)


def do_disagree(path: Path, seed: int) -> None:
    """The processes save to different places."""
    try:
        save(path / str(jax.process_index()), spread(shared(seed)))
    except TreatyError as error:
        print(error)


ACTIONS = {
    "save": do_save,
    "save_twice": do_save_twice,
    "save_shared": do_save_shared,
    "save_async": do_save_async,
    "restore": do_restore,
    "die": do_die,
    "fail": do_fail,
    "disagree": do_disagree,
}


if __name__ == "__main__":
    main(*sys.argv[1:])
