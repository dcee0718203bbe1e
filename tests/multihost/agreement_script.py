"""What each of three processes does; see test_agreement.py. Argument: a directory. Every scenario asserts for itself."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from attrs import evolve
from jax._src import distributed
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.multihost.agreement_states import Rows, Stages, rows
from treaty.runtime import restore as restore_anything
from treaty.runtime import save as save_anything
from treaty.runtime._process import coordinator as _coordinator
from treaty.runtime._process import team as _processes
from treaty.runtime.directory import restore, save, save_async, verify
from treaty.runtime.formats.directory import plan as _plan
from treaty.runtime.formats.directory import save as _save
from treaty.runtime.formats.directory import write as _write
from treaty.schema import TreatyError

P: Any = PartitionSpec
ME, COUNT = jax.process_index(), jax.process_count()
MESH = Mesh(np.array(jax.devices()), ("all",))
ROOT = Path(sys.argv[5])
CLIENT: Any = distributed.global_state.client

vars(_plan).update(SMALL_BYTES=64, CHUNK_BYTES=256)
vars(_processes)["LAST_WORDS"] = 0.1


def spread(whole: Any, *spec: Any) -> jax.Array:
    return jax.make_array_from_callback(whole.shape, NamedSharding(MESH, P(*spec)), lambda at: whole[at])


def state(step: int, **changes: Any) -> Rows:
    """Rows of one step on all processes."""
    whole = rows(step)
    tables = {name: spread(table, "all") for name, table in whole.tables.items()}
    values = {"tables": tables, "rate": whole.rate, "local": whole.local, "seen": whole.seen, **changes}
    return Rows(step=spread(whole.step), **values)


def fails(words: str, work: Callable[..., Any], *args: Any, **options: Any) -> str:
    try:
        work(*args, **options)
    except (TreatyError, OSError, TypeError, MemoryError, KeyboardInterrupt) as error:
        told = f"{type(error).__name__}: {error}"
        assert words in told, (ME, told, words)
        return told
    raise AssertionError((ME, words))


def in_background(*args: Any, **options: Any) -> None:
    save_async(*args, **options).result()


def is_step(path: Path, step: int) -> None:
    """The checkpoint is one step's, in all its rows. Saves that failed may still run elsewhere: all meet first."""
    meet()
    if ME == 0:
        verify(path)
        restored, whole = restore(path, Rows), rows(step)
        assert int(restored.step) == step
        for name, table in whole.tables.items():
            np.testing.assert_array_equal(restored.tables[name], table)
        np.testing.assert_array_equal(restored.local, whole.local)


meetings = iter(range(10**6))


def meet() -> None:
    CLIENT.wait_at_barrier(f"test/{next(meetings)}", 60_000)


def one_that_cannot_plan(path: Path) -> None:
    """The others fail at once with its error, and the next saves are those of the same step everywhere."""
    save(path, state(1))
    bad: list[dict[str, Any]] = [
        {"metadata": {"loss": float("nan")}},
        {"state": object()},
        {"path": "s3://me:secret@bucket"},
        {"path": 7},
        {"path": f"{path}.pt"},
    ]
    for step, change in enumerate(bad, start=1):
        call = {"path": path, "state": state(-step), **(change if ME == 1 else {})}
        told = fails("" if ME == 1 else f"the save of {path} failed on process 1: ", save_anything, **call)
        assert "secret" not in told
        is_step(path, step)
        save_anything(path, state(step + 1))
        is_step(path, step + 1)


def one_with_wrong_arguments(path: Path) -> None:
    """Of `directory.save` and `save_async`, which a path of any suffix is for."""
    calls: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (save, {"base": ""}),
        (in_background, {"path": ""}),
        (save, {"path": 7}),
    ]
    for step, (how, bad) in enumerate(calls, start=1):
        call: dict[str, Any] = {"path": path, "state": state(-step), **(bad if ME == 1 else {})}
        fails("" if ME == 1 else f"the save of {path} failed on process 1: ", how, **call, timeout=60)
        save(path, state(step))
        is_step(path, step)


def process_0_cannot_plan(path: Path) -> None:
    save(path, state(1))
    metadata = {"loss": float("nan")} if ME == 0 else None
    words = "" if ME == 0 else "a save failed on process 0: TreatyError: metadata: expected what JSON holds"
    fails(words, save, path, state(2), metadata=metadata)
    is_step(path, 1)
    save_async(path, state(3)).result()
    is_step(path, 3)


def one_without_memory(path: Path) -> None:
    """Where a snapshot fails, the saves that are under way before it and after it are whole."""

    def scarce(plan: Any) -> Any:
        raise MemoryError("no more")

    before = save_async(path, state(1))
    real = vars(_save)["snapshot"]
    if ME == 2:
        vars(_save)["snapshot"] = scarce
    fails("MemoryError" if ME == 2 else "failed on process 2: MemoryError: no more", in_background, path, state(2))
    vars(_save)["snapshot"] = real
    before.result()
    is_step(path, 1)
    save_async(path, state(3)).result()
    is_step(path, 3)


def other_states(path: Path) -> None:
    """What differs is named, with the process that differs; nothing is committed."""
    save(path, state(1))
    good = state(2)
    tables = dict(good.tables)
    b = tables.pop("b")
    small, large = np.arange(4, dtype=np.float32), np.arange(64, dtype=np.float32)
    wide = np.zeros((12, 7), np.float32)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"tables": {**tables, "c": b}}, "process 1 saves nothing at $.tables.b, process 0 float32[12, 6] in shards"),
        (
            {"tables": {name: spread(wide, "all") for name in "ab"}},
            "process 1 saves float32[12, 7] in shards of [2, 7] at $.tables.a, process 0 float32[12, 6] in shards of",
        ),
        ({"tables": {**tables, "b": spread(rows(2).tables["b"])}}, "process 1 saves float32[12, 6] at $.tables.b"),
        ({"rate": 0.2}, "process 1 saves another value than process 0 at $.rate"),
        ({"seen": small + 1}, "process 1 saves another value than process 0 at $.seen"),
        ({"local": large + 1}, "process 1 saves other elements than process 0 at $.local"),
    ]
    for changes, words in cases:
        bad = state(2, **(changes if ME == 1 else {}))
        for how in (save, in_background):
            told = fails(words, how, path, bad)
            assert told.endswith("; every process must save the same state"), told
            is_step(path, 1)
    words = "process 1 saves 1 as metadata 'loss', process 0 0"
    fails(words, save, path, good, metadata={"a": 1, "loss": ME})
    os.chdir(ROOT / ("here" if ME == 1 else "there"))
    words = f"expected all processes to save {ROOT}/here/relative, got process 0 that saves {ROOT}/there/relative"
    fails(words, save, "relative", good)
    os.chdir(ROOT)
    os.chdir(ROOT / ("link" if ME == 1 else "there"))
    save("relative", good, metadata={"b": 1, "a": 2} if ME else {"a": 2, "b": 1})
    is_step(ROOT / "there" / "relative", 2)
    os.chdir(ROOT)


def other_order(path: Path) -> None:
    """Leaves are known by their paths; keys come back in the order of process 0."""
    tables = state(1).tables
    order = ["b", "a"] if ME == 0 else ["a", "b"]
    for how in (save, in_background):
        how(path, state(1, tables={name: tables[name] for name in order}))
        is_step(path, 1)
        assert list(restore(path, Rows, into="numpy").tables) == ["b", "a"]


def pipeline(path: Path) -> None:
    """Arrays that only some processes have, and not process 0, small and large ones."""

    def mesh(*processes: int) -> Mesh:
        return Mesh(np.array([device for device in jax.devices() if device.process_index in processes]), ("x",))

    def placed(how: Callable[..., Any]) -> Stages:
        return Stages(
            small=how("small", P(), mesh(1)),
            large=how("large", P("x"), mesh(1)),
            single=how("single", None, mesh(2)),
            both=how("both", P("x"), mesh(1, 2)),
            copied=how("copied", P(), mesh(1, 2)),
            key=how("key", P(), mesh(1)),
            first=how("first", P("x"), mesh(0)),
            tiny=how("tiny", P("x"), mesh(0)),
            empty=how("empty", P(), mesh(2)),
        )

    whole: dict[str, Any] = {name: np.arange(size, dtype=np.float32) + size for name, size in SIZES.items()}
    whole["key"] = np.array([1, 2], np.uint32)

    def sharding(name: str, spec: Any, where: Mesh) -> Any:
        return jax.sharding.SingleDeviceSharding(where.devices[0]) if spec is None else NamedSharding(where, spec)

    def array(name: str, spec: Any, where: Mesh) -> Any:
        target, value = sharding(name, spec, where), whole[name]
        regions = target.addressable_devices_indices_map(value.shape)
        parts = [jax.device_put(value[index], device) for device, index in regions.items()]
        made = jax.make_array_from_single_device_arrays(value.shape, target, parts, dtype=value.dtype)
        return jax.random.wrap_key_data(made) if name == "key" else made

    def bits(array: Any) -> Any:
        return jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else array

    stages, shardings = placed(array), placed(sharding)
    for how in (save, in_background):
        how(path, stages)
        meet()
        verify(path)
        same = restore_anything(path, Stages, shardings=shardings)
        everywhere = restore_anything(path, Stages, mesh=MESH)
        on_host = restore_anything(path, Stages, into="numpy")
        for name, value in whole.items():
            assert getattr(same, name).sharding == getattr(shardings, name), name
            for shard in bits(getattr(same, name)).addressable_shards:
                np.testing.assert_array_equal(shard.data, value[shard.index])
            np.testing.assert_array_equal(bits(getattr(everywhere, name)).addressable_data(0), value)
            np.testing.assert_array_equal(bits(getattr(on_host, name)), value)
        meet()
    changed: Any = evolve
    mixed = changed(stages, small=jnp.asarray(whole["small"])) if ME == 2 else stages
    words = "expected an array on devices of process 1 alone, as process 0 has it, got another one at $.small"
    fails(words, save, path, mixed)


SIZES = {"small": 4, "large": 64, "single": 64, "both": 32, "copied": 4, "first": 64, "tiny": 4, "empty": 0}


def one_that_does_not_come(path: Path) -> None:
    """The others name it, and when it makes the save after that, all are together again."""
    save(path, state(1), metadata={"step": 1})
    if ME != 1:
        patience = 0.5 if ME == 0 else 60
        words = "failed: expected process 1"
        fails(words, save, path, state(2), metadata={"step": 2}, timeout=patience)
    is_step(path, 1)
    save(path, state(3), metadata={"step": 3})
    is_step(path, 3)
    if ME == 0:
        fails("expected process 1 and 2 to be done within 0.5 s", save, path, state(4), timeout=0.5)
    meet()
    if ME != 0:
        fails("to be done within 0.5 s, got no answer", save, path, state(4))
    save(path, state(5))
    is_step(path, 5)


def interrupted(path: Path) -> None:
    """Control-C while waiting for a process that does not come."""
    save(path, state(1))
    waiting = threading.Event()
    real = _coordinator.Patience.pause

    def pause(self: Any) -> bool:
        waiting.set()
        return real(self)

    def interrupt() -> None:
        waiting.wait()
        os.kill(os.getpid(), signal.SIGINT)

    if ME == 0:
        vars(_coordinator)["Patience"].pause = pause
        threading.Thread(target=interrupt).start()
        fails("KeyboardInterrupt", save, path, state(2))
        vars(_coordinator)["Patience"].pause = real
    meet()
    if ME != 0:
        fails(f"the save of {path} failed on process 0: it was interrupted", save, path, state(2))
    save(path, state(3))
    is_step(path, 3)


def begun_while_another_waits(path: Path) -> None:
    """A save that begins does not take away the answer that one in the background still waits for."""
    waiting, begun = threading.Event(), threading.Event()
    together: Any = _processes.Together
    real = together._take_over

    def take_over(self: Any) -> Any:
        if self._is_told:  # its part is done, and it waits for the commit
            waiting.set()
            assert begun.wait(60)
        return real(self)

    if ME == 1:
        together._take_over = take_over
        handle = save_async(path, state(1), timeout=20)
        assert waiting.wait(60)
        meet()
        said = CLIENT.blocking_key_value_get(_over_key(), 60_000)  # process 0 has committed, and told this one
        assert said == "{}", said
        _processes.team()  # as the next save begins
        begun.set()
        handle.result(60)
        together._take_over = real
    else:
        handle = save_async(path, state(1), timeout=20)
        meet()
        handle.result()
        _processes.team()
    is_step(path, 1)


def _over_key() -> str:
    (session,) = vars(_coordinator)["_sessions"].values()
    return f"treaty/save/{session.taken + session.skipped - 1}/over/{ME}"


def random_failures(path: Path) -> None:
    """One process fails somewhere, again and again; what is committed is always one step's."""
    chance = np.random.default_rng(7)  # the same on all processes
    spots: list[tuple[Any, str]] = [
        (_save, "plan_tree"),
        (_save, "snapshot"),
        (_write, "facts_of"),
        (_write, "_write_piece"),
        (_write, "_write_pack"),
        (_write, "_gather"),
        (_write, "_complete"),
        (_write, "wait_for"),
    ]
    committed = 0
    for step in range(1, 25):
        who, (owner, name) = int(chance.integers(COUNT)), spots[chance.integers(len(spots))]
        real, left = vars(owner)[name], int(chance.integers(3))

        def failing(*args: Any, real: Any = real) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(5, "broken")
            return real(*args)

        if who == ME and step % 3:
            vars(owner)[name] = failing
        try:
            (in_background if step % 2 else save)(path, state(step))
            is_saved = True
        except (TreatyError, OSError):
            is_saved = False
        vars(owner)[name] = real
        assert is_saved or step % 3, step
        meet()
        now = int(restore(path, Rows, into="numpy").step) if committed or is_saved else 0
        assert now in (committed, step), (now, step)
        assert now == step or not is_saved
        committed = now
        if committed:
            is_step(path, committed)
        meet()
    assert committed == 24


def nothing_left(path: Path) -> None:
    for step in range(20):
        (in_background if step % 2 else save)(path, state(step))
    meet()
    left = CLIENT.key_value_dir_get("treaty/")
    assert left == [], left


def one_that_exits(path: Path) -> None:
    """The last scenario: process 1 ends before its save, which the others learn at once."""
    save(path, state(1))
    if ME != 1:
        fails("expected an answer of process 1, got none: it has exited", save, path, state(2))
        assert int(restore(path, Rows, into="numpy").step) == 1


for name in ("here", "there"):
    (ROOT / name).mkdir(exist_ok=True)
meet()
if ME == 0:
    (ROOT / "link").symlink_to("there")
meet()
SCENARIOS = [
    one_that_cannot_plan,
    one_with_wrong_arguments,
    process_0_cannot_plan,
    one_without_memory,
    other_states,
    other_order,
    pipeline,
    one_that_does_not_come,
    interrupted,
    begun_while_another_waits,
    random_failures,
    nothing_left,
]
for scenario in SCENARIOS:
    scenario(ROOT / scenario.__name__)
    meet()
one_that_exits(ROOT / "exits")
