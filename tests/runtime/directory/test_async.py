"""Saving in the background: what is saved is the state at the time of the call, and no failure is lost."""

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jaxtyping import Float32

import treaty.runtime
from tests.runtime.directory.states import Linear, Train, bits, train
from treaty.generator import load
from treaty.runtime import StateMismatchError, inspect
from treaty.runtime._process import background as _background
from treaty.runtime._storage.memory import copied
from treaty.runtime.directory import restore, save, save_async
from treaty.runtime.formats.directory import plan as _plan
from treaty.runtime.formats.directory import save as _save
from treaty.runtime.formats.directory import write as _write
from treaty.schema import ArraySpec, Dims, TreatyError, state
from treaty.schema.keymap import KeyMap, Rule


@state
class Item:
    w: Float32[Array, "a o"]


@state
class Stacks:
    items: Annotated[tuple[Item, ...], Dims(...)]
    v: list[Annotated[np.ndarray, ArraySpec("float32", "n")]]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Saves wait until it is set."""
    opened = threading.Event()
    write = _write.write

    def waiting(*args: Any) -> None:
        assert opened.wait(60)
        write(*args)

    monkeypatch.setattr(_save, "write", waiting)
    return opened


def test_the_save_is_done_when_the_handle_says_so(tmp_path: Path, gate: threading.Event) -> None:
    handle = save_async(tmp_path / "a", train(1), metadata={"step": 1})
    assert not handle.done()
    with pytest.raises(TimeoutError, match="is still under way after 0 s"):
        handle.result(0)
    gate.set()
    handle.result()
    assert handle.done()
    assert bits(restore(tmp_path / "a", Train)) == bits(train(1))


@pytest.mark.usefixtures("fine_layout")
def test_the_state_may_change_or_be_donated_meanwhile(tmp_path: Path, gate: threading.Event) -> None:
    value, expected = train(1), bits(train(1))
    handle = save_async(tmp_path / "a", value)
    value.seen[:] = -1
    _donate(value.params).embed.block_until_ready()
    gate.set()
    handle.result()
    assert bits(restore(tmp_path / "a", Train)) == expected


@pytest.mark.usefixtures("fine_layout")
def test_under_a_key_map_the_state_is_that_of_the_call_as_well(tmp_path: Path, gate: threading.Event) -> None:
    """Laid out when it is written: transposed, and stacked of several."""
    load(Stacks)
    keymap = KeyMap([Rule("w", "items[{i}].w", "i o a -> a o"), Rule("v", "v[{i}]", "i a -> a")], of=Stacks)
    value = Stacks(
        items=tuple(Item(w=jnp.arange(6.0).reshape(2, 3) + i) for i in range(3)),
        v=[np.full(5, i, np.float32) for i in range(2)],
    )
    expected = bits(value)

    handle = treaty.runtime.save_async(tmp_path / "a", value, keymap=keymap)
    value.v[0][:] = -1
    _donate(value.items)
    gate.set()
    handle.result()

    assert sorted(leaf.path for leaf in inspect(tmp_path / "a").leaves) == [("v",), ("w",)]
    assert bits(treaty.runtime.restore(tmp_path / "a", Stacks, keymap=keymap)) == expected


@pytest.mark.usefixtures("fine_layout")
def test_arrays_may_be_deleted_and_their_memory_used_again_meanwhile(tmp_path: Path, gate: threading.Event) -> None:
    value, expected = train(1), bits(train(1))
    handle = save_async(tmp_path / "a", value)
    for array in jax.tree.leaves(value):
        if isinstance(array, jax.Array):
            array.delete()
    del value
    others = [train(seed) for seed in range(2, 6)]
    gate.set()
    handle.result()
    assert bits(restore(tmp_path / "a", Train)) == expected
    assert bits(others[0]) == bits(train(2))


@pytest.mark.usefixtures("fine_layout")
def test_after_the_save_arrays_are_donated_as_ever(tmp_path: Path) -> None:
    value = train(1)
    save_async(tmp_path / "a", value).result()
    _donate(value.params)
    assert value.params.embed.is_deleted()


_donate = jax.jit(lambda params: jax.tree.map(lambda x: x * 0 + 7, params), donate_argnums=0)


def test_saves_are_written_in_order_and_one_at_a_time(tmp_path: Path) -> None:
    handles = []
    for seed in range(4):
        handles.append(save_async(tmp_path / "a", train(seed)))
        assert all(handle.done() for handle in handles[:-1])
    save(tmp_path / "a", train(4))
    assert all(handle.done() for handle in handles)
    for handle in handles:
        handle.result()
    assert bits(restore(tmp_path / "a", Train)) == bits(train(4))


@pytest.mark.usefixtures("fine_layout")
def test_a_state_is_copied_when_the_save_before_is_finished(
    tmp_path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = save_async(tmp_path / "a", train(1))
    finished: list[bool] = []

    def watched(array: Any) -> Any:
        finished.append(first.done())
        return copied(array)

    monkeypatch.setattr(_plan, "copied", watched)
    checked = threading.Event()
    plan_tree = _plan.plan_tree

    def planned(*args: Any) -> Any:
        plan = plan_tree(*args)
        checked.set()
        return plan

    monkeypatch.setattr(_save, "plan_tree", planned)
    second = threading.Thread(target=lambda: save_async(tmp_path / "a", train(2)).result())
    second.start()
    assert checked.wait(60)
    gate.set()
    second.join(60)
    assert finished
    assert all(finished)
    assert bits(restore(tmp_path / "a", Train)) == bits(train(2))


def test_a_failure_that_the_next_save_waited_for_stays_in_its_handle(tmp_path: Path, gate: threading.Event) -> None:
    (tmp_path / "file").write_text("in the way")
    failed = save_async(tmp_path / "file", train(1))
    threading.Timer(0, gate.set).start()
    save_async(tmp_path / "a", train(2)).result()
    with pytest.raises(TreatyError, match="got a file at"):
        failed.result()


def test_a_failure_is_raised_by_result_and_does_not_stop_the_next_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    failed = save_async(tmp_path / "file", train(1))
    next_one = save_async(tmp_path / "a", train(2))
    with pytest.raises(TreatyError, match="got a file at"):
        failed.result()
    with pytest.raises(TreatyError, match="got a file at"):
        failed.result()
    next_one.result()
    assert bits(restore(tmp_path / "a", Train)) == bits(train(2))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_write, "_write_pack", full)
    with pytest.raises(OSError, match="No space left"):
        save_async(tmp_path / "a", train(3)).result()
    assert bits(restore(tmp_path / "a", Train)) == bits(train(2))


def test_a_wrong_state_is_refused_at_once(tmp_path: Path) -> None:
    wrong = Linear(kernel=jnp.zeros((2, 3)), bias=jnp.zeros(4))
    with pytest.raises(StateMismatchError):
        save_async(tmp_path / "a", wrong)


EXIT = """
import sys
from tests.runtime.directory.states import train
from treaty.runtime.directory import save_async
for path in sys.argv[1:]:
    save_async(path, train(1))
"""


def test_the_interpreter_waits_for_saves_and_tells_of_failures_nobody_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    paths = [str(tmp_path / "file"), str(tmp_path / "a")]
    done = subprocess.run([sys.executable, "-c", EXIT, *paths], capture_output=True, text=True, check=True)
    assert done.stderr == (
        f"treaty: the save to {paths[0]} failed: expected a directory or nothing, got a file at {paths[0]}\n"
    )
    assert bits(restore(paths[1], Train)) == bits(train(1))


LATE = """
import atexit, sys
from tests.runtime.directory.states import train
from treaty.runtime.directory import save_async
atexit.register(lambda: [save_async(path, train(seed)) for seed, path in enumerate(sys.argv[1:])])
"""


def test_a_save_may_be_asked_for_while_the_interpreter_exits(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    paths = [str(tmp_path / "file"), str(tmp_path / "a")]
    done = subprocess.run([sys.executable, "-c", LATE, *paths], capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr.count("\n") == 1
    assert f"the save to {paths[0]} failed" in done.stderr
    assert bits(restore(paths[1], Train)) == bits(train(1))


@pytest.mark.usefixtures("fine_layout")
def test_where_no_thread_can_be_started_the_caller_does_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TreatyError, match="got a file at"):
        save_async(tmp_path / "file", train(1)).result()
    save_async(tmp_path / "a", train(1)).result()
    assert bits(restore(tmp_path / "a", Train)) == bits(train(1))


def test_a_save_that_fails_is_waited_for_where_no_thread_can_be_started(
    tmp_path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    failed = save_async(tmp_path / "file", train(1))
    monkeypatch.setattr(_save, "wait_for_earlier", gate.set)  # as when another thread asks at the same time
    monkeypatch.setattr(_background, "_started", lambda _: False)
    late = threading.Thread(target=lambda: save_async(tmp_path / "a", train(2)).result(), daemon=True)
    late.start()
    late.join(60)
    assert not late.is_alive()
    with pytest.raises(TreatyError, match="got a file at"):
        failed.result()
    assert bits(restore(tmp_path / "a", Train)) == bits(train(2))


DAEMON = """
import sys, threading
from tests.runtime.directory.states import train
from treaty.runtime.directory import save_async
from treaty.runtime.formats.directory import save as _async
from treaty.runtime.formats.directory import write as _write
begun, exiting = threading.Event(), threading.Event()
write = _write.write
def slow(*args):
    begun.set()
    threading.main_thread().join()  # until the interpreter begins to exit
    write(*args)
_async.write = slow
threading.Thread(target=save_async, args=(sys.argv[1], train(1)), daemon=True).start()
assert begun.wait(60)
"""
LATE_DAEMON = DAEMON.replace(
    "_async.write = slow",
    "_async.write = slow\nfrom treaty.runtime._process import background\nbackground._started = lambda thread: False",
)


@pytest.mark.parametrize("script", [DAEMON, LATE_DAEMON])
def test_a_save_that_a_daemon_asked_for_is_written_before_the_interpreter_exits(tmp_path: Path, script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a")], capture_output=True, text=True, check=True, timeout=120
    )
    assert not done.stderr
    assert bits(restore(tmp_path / "a", Train)) == bits(train(1))


ENDINGS = {
    "sys.exit": "sys.exit(3)",
    "an exception": "raise SystemError('x')",
    "atexit": "atexit.register(lambda: save_async(sys.argv[1], train(2)))",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_save_is_written_however_the_program_ends(tmp_path: Path, ending: str) -> None:
    script = "import atexit\n" + EXIT + ENDINGS[ending]
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "a")], capture_output=True, timeout=120)
    assert bits(restore(tmp_path / "a", Train)) == bits(train(2 if ending == "atexit" else 1))


@pytest.mark.usefixtures("fine_layout")
def test_a_failed_save_leaves_neither_memory_nor_threads_nor_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[weakref.ref[Any]] = []
    threads, files = threading.active_count(), len(os.listdir("/dev/fd"))

    def watched(array: Any) -> Any:
        copy = copied(array)
        taken.append(weakref.ref(copy))
        return copy

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_plan, "copied", watched)
    monkeypatch.setattr(_write, "_complete", full)
    handle = save_async(tmp_path / "a", train(1))
    with pytest.raises(OSError, match="No space left"):
        handle.result()
    for thread in threading.enumerate():
        if thread.name == "treaty-save":  # it says that it is done a moment before it ends
            thread.join()
    gc.collect()
    assert taken
    assert not [one for one in taken if one() is not None]
    assert threading.active_count() <= threads
    assert len(os.listdir("/dev/fd")) <= files
    assert not os.listdir(tmp_path / "a")


def test_a_snapshot_copies_what_could_change_only(tmp_path: Path) -> None:
    from treaty.runtime.formats.directory.plan import plan_tree, snapshot

    fixed, changing = jnp.zeros((512, 1024)), np.zeros((512, 1024), np.float32)
    plan = snapshot(plan_tree({"a": fixed, "b": changing, "c": changing.T}, _save._untyped({}), {}, None))
    pieces = [piece.source for piece in plan.pieces]
    assert np.shares_memory(pieces[0], np.asarray(fixed))
    assert not np.shares_memory(pieces[1], changing)
    assert not np.shares_memory(pieces[2], changing)
    assert all(piece.flags.c_contiguous for piece in pieces)
