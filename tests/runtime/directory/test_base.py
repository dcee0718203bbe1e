"""`save(path, state, base=earlier)`: what is the same bytes is linked, and each checkpoint is whole by itself."""

import errno
import logging
import os
import shutil
import signal
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

import attrs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.runtime.directory.states import Train, bits, files_of, train
from treaty import runtime
from treaty.runtime import MissingCheckpointError, TreatyError
from treaty.runtime._lazy import as_bytes
from treaty.runtime._process.uninterrupted import task_of_this_thread
from treaty.runtime._storage.links import Linker
from treaty.runtime.directory import restore, save, save_async, verify
from treaty.runtime.formats.directory import remembered as _remembered
from treaty.runtime.formats.directory import write as _write
from treaty.runtime.formats.directory.manifest import NAME, parse
from treaty.runtime.formats.directory.places import Local

pytestmark = pytest.mark.usefixtures("fine_layout")


def names(path: Path) -> dict[str, int]:
    """The files of the data, and which file each is."""
    (data,) = path.glob("data-*")
    return {str(file.relative_to(data)): file.stat().st_ino for file in files_of(data)}


def linked(new: Path, old: Path) -> set[str]:
    """The files of a checkpoint that are also the other's."""
    return {name for name, inode in names(new).items() if inode in names(old).values()}


def chunks(names: Collection[str]) -> set[str]:
    return {name for name in names if "/c." in name}


def evolve(instance: Any, **changes: Any) -> Any:
    return attrs.evolve(instance, **changes)


def copied(state: Train) -> Any:
    """The same in other arrays."""
    return jax.tree.map(lambda leaf: jnp.copy(leaf) if isinstance(leaf, jax.Array) else leaf, state)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of chunks that are hashed."""
    sizes: list[int] = []

    def counting(array: Any) -> Any:
        sizes.append(array.nbytes)
        return as_bytes(array)

    monkeypatch.setattr(_write, "as_bytes", counting)
    return sizes


def test_a_copy_put_where_this_process_committed_is_not_taken_for_synced(tmp_path: Path) -> None:
    """`cp -a` gives back the same bytes, times and, where it writes into the same files, the same inodes."""
    save(tmp_path / "1", train(1))
    shutil.copytree(tmp_path / "1", tmp_path / "backup")
    assert Local(tmp_path / "1").is_synced
    inode = (tmp_path / "1" / NAME).stat().st_ino
    shutil.copytree(tmp_path / "backup", tmp_path / "1", dirs_exist_ok=True)
    assert (tmp_path / "1" / NAME).stat().st_ino == inode
    assert not Local(tmp_path / "1").is_synced


def test_an_interrupted_save_links_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a network file system thousands of links take minutes."""
    state = train(1)
    save(tmp_path / "1", state)
    links: list[str] = []

    def interrupted(linker: Linker, source: Path, name: str, *rest: Any) -> Any:
        links.append(name)
        task = task_of_this_thread()
        assert task is not None
        if not task.is_stopping:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            while not task.is_stopping:
                os.sched_yield()
        return link(linker, source, name, *rest)

    link = Linker.link
    monkeypatch.setattr(Linker, "link", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path / "2", state, base=tmp_path / "1")
    assert len(links) == 1
    assert os.listdir(tmp_path / "2") == []


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    state = train(1)
    save(tmp_path / "1", state)
    up = state.params.blocks[0].up
    block = evolve(state.params.blocks[0], up=evolve(up, kernel=up.kernel.at[0, 0].set(7)))
    changed = evolve(state, params=evolve(state.params, blocks=(block, state.params.blocks[1])))

    save(tmp_path / "2", changed, base=tmp_path / "1")

    written = names(tmp_path / "2").keys() - linked(tmp_path / "2", tmp_path / "1")
    assert len(chunks(written)) == 1, "one element lies in one chunk"
    assert written - chunks(written) == {"zarr.json"}
    assert bits(restore(tmp_path / "1", Train)) == bits(state)
    assert bits(restore(tmp_path / "2", Train)) == bits(changed)
    verify(tmp_path / "2")


@pytest.mark.parametrize("gone", ["1", "2"])
def test_each_is_whole_without_the_other(gone: str, tmp_path: Path) -> None:
    state = train(1)
    save(tmp_path / "1", state)
    save(tmp_path / "2", state, base=tmp_path / "1")
    save(tmp_path / "3", state, base=tmp_path / "2")
    runtime.remove(tmp_path / gone)
    for left in {"1", "2", "3"} - {gone}:
        verify(tmp_path / left)
        assert bits(restore(tmp_path / left, Train)) == bits(state)


def test_the_same_arrays_are_not_hashed_again(tmp_path: Path, hashed: list[int]) -> None:
    state = evolve(train(1), seen=np.zeros(1, np.float32))  # numpy's may change
    save(tmp_path / "1", state)
    hashed.clear()
    save(tmp_path / "2", state, base=tmp_path / "1")
    assert hashed == []
    save(tmp_path / "3", copied(state), base=tmp_path / "2")
    assert hashed != []
    assert chunks(linked(tmp_path / "3", tmp_path / "1")) == chunks(names(tmp_path / "1"))


def test_a_numpy_array_that_changed_in_place_is_written(tmp_path: Path) -> None:
    state = train(1)
    save(tmp_path / "1", state)
    state.seen[3] = 77
    save(tmp_path / "2", state, base=tmp_path / "1")
    assert restore(tmp_path / "2", Train).seen[3] == 77
    assert restore(tmp_path / "1", Train).seen[3] == 3


def test_what_is_known_of_an_array_goes_with_it(tmp_path: Path) -> None:
    before = len(_remembered._records)
    state = train(1)
    save(tmp_path / "1", state)
    assert len(_remembered._records) > before
    del state
    assert len(_remembered._records) == before


def test_a_deleted_array_is_refused_though_it_was_saved_before(tmp_path: Path) -> None:
    state = train(1)
    save(tmp_path / "1", state)
    state.params.embed.delete()
    with pytest.raises(Exception, match="deleted"):
        save(tmp_path / "2", state, base=tmp_path / "1")
    assert not (tmp_path / "2" / "treaty.json").exists()


def test_a_checkpoint_may_be_the_base_of_what_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "latest"
    save(path, train(1), base=path)  # the first: there is nothing yet
    before = names(path)
    save(path, train(1), base=path)
    assert chunks(before) == chunks({name for name, inode in names(path).items() if before.get(name) == inode})
    save(path, train(2), base=path)
    assert bits(restore(path, Train)) == bits(train(2))
    assert len(list(path.glob("data-*"))) == 1
    verify(path)


def test_in_the_background_a_save_is_based_on_the_one_before_it(tmp_path: Path) -> None:
    state = train(1)
    handles = [save_async(tmp_path / "0", state)]
    handles += [save_async(tmp_path / str(i), state, base=tmp_path / str(i - 1)) for i in (1, 2)]
    for handle in handles:
        handle.result()
    assert chunks(linked(tmp_path / "2", tmp_path / "0")) == chunks(names(tmp_path / "2"))
    assert bits(restore(tmp_path / "2", Train)) == bits(state)


def test_shards_are_linked_too(tmp_path: Path, hashed: list[int]) -> None:
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    spec: Any = PartitionSpec
    state = train(1)
    embed = jax.device_put(state.params.embed, NamedSharding(mesh, spec("y", "x")))
    state = evolve(state, params=evolve(state.params, embed=embed))
    save(tmp_path / "1", state)
    hashed.clear()
    save(tmp_path / "2", evolve(state, seen=np.zeros(1, np.float32)), base=tmp_path / "1")
    assert hashed == []
    assert bits(restore(tmp_path / "2", Train).params) == bits(train(1).params)


def test_a_file_that_was_changed_since_is_not_linked(tmp_path: Path) -> None:
    """Whoever damages a file in place damages one checkpoint, not those that are based on it later."""
    state = train(1)
    save(tmp_path / "1", state)
    chunk = next(file for file in files_of(tmp_path / "1") if file.name.startswith("c."))
    later = (tmp_path / "1" / "treaty.json").stat().st_mtime_ns + 10**9
    chunk.write_bytes(bytes(chunk.stat().st_size))
    os.utime(chunk, ns=(later, later))
    save(tmp_path / "2", state, base=tmp_path / "1")
    verify(tmp_path / "2")
    with pytest.raises(TreatyError, match="is damaged"):
        verify(tmp_path / "1")


@pytest.mark.parametrize("damage", ["missing", "short", "a link"])
def test_a_base_that_lacks_a_file_serves_for_the_others(damage: str, tmp_path: Path) -> None:
    state = train(1)
    save(tmp_path / "1", state)
    chunk = next(file for file in files_of(tmp_path / "1") if file.name.startswith("c."))
    content = chunk.read_bytes()
    chunk.unlink()
    if damage == "short":
        chunk.write_bytes(content[:-1])
        os.utime(chunk, ns=(0, 0))
    if damage == "a link":
        (tmp_path / "other").write_bytes(bytes(len(content)))
        os.utime(tmp_path / "other", ns=(0, 0))
        chunk.symlink_to(tmp_path / "other")
    save(tmp_path / "2", state, base=tmp_path / "1")
    verify(tmp_path / "2")
    assert bits(restore(tmp_path / "2", Train)) == bits(state)
    assert linked(tmp_path / "2", tmp_path / "1")


def test_whoever_may_not_change_a_new_file_may_not_change_a_linked_one(tmp_path: Path) -> None:
    state = train(1)
    save(tmp_path / "1", state)
    for file in files_of(tmp_path / "1"):
        file.chmod(0o666)
    save(tmp_path / "2", state, base=tmp_path / "1")
    assert linked(tmp_path / "2", tmp_path / "1") == set()
    assert {file.stat().st_mode & 0o022 for file in files_of(tmp_path / "2")} == {0}


@pytest.mark.parametrize("call", ["touch", "unlink"])
def test_the_file_that_tells_the_usual_permissions_never_stays_in_a_checkpoint(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk with errors may make it and say that it could not, or not take it away: no file is there that is nobody's."""
    done: Any = getattr(Path, call)

    def failing(self: Path, *args: Any, **options: Any) -> None:
        if call == "touch":
            done(self, *args, **options)
        if self.name.startswith("probe-"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    save(tmp_path / "1", train(1))
    monkeypatch.setattr(Path, call, failing)
    if call == "touch":
        save(tmp_path / "2", train(1), base=tmp_path / "1")
        verify(tmp_path / "2")
    else:
        with pytest.raises(runtime.StorageError, match=r"cannot write .*2: Input/output error"):
            save(tmp_path / "2", train(1), base=tmp_path / "1")
        assert not (tmp_path / "2" / "treaty.json").exists()


@pytest.mark.parametrize("number", [errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.EXDEV])
def test_without_hard_links_all_is_written(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    state = train(1)
    save(tmp_path / "1", state)
    monkeypatch.setattr(os, "link", cannot)
    save(tmp_path / "2", state, base=tmp_path / "1")
    assert linked(tmp_path / "2", tmp_path / "1") == set()
    verify(tmp_path / "2")
    assert bits(restore(tmp_path / "2", Train)) == bits(state)


def test_a_base_on_another_file_system(tmp_path: Path) -> None:
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK) or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system")
    base = shared / f"treaty-{os.getpid()}"
    try:
        save(base, train(1))
        save(tmp_path / "2", train(1), base=base)
    finally:
        shutil.rmtree(base)
    assert bits(restore(tmp_path / "2", Train)) == bits(train(1))


def test_object_stores_are_written_in_full(tmp_path: Path) -> None:
    state = train(1)
    save("memory://base/1", state)
    save("memory://base/2", state, base="memory://base/1")
    save(tmp_path / "3", state, base="memory://base/2")
    save("memory://base/4", state, base=tmp_path / "3")
    for path in ("memory://base/2", tmp_path / "3", "memory://base/4"):
        verify(path)
        assert bits(restore(path, Train)) == bits(state)


def test_a_base_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(MissingCheckpointError) as caught:
        save(tmp_path / "2", train(), base=tmp_path / "1")
    assert str(caught.value) == (
        f"base: expected a checkpoint, got no treaty.json at {tmp_path}/1: nothing was saved there, or the save did not finish"
    )
    assert not (tmp_path / "2").exists()
    with pytest.raises(TreatyError, match=r"expected a directory for base, got '.*x\.safetensors'"):
        runtime.save(tmp_path / "x.safetensors", train(), base=tmp_path / "1")


def test_a_damaged_base_is_no_reason_not_to_save(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path / "1", train(1))
    (tmp_path / "1" / "treaty.json").write_bytes(b"{")
    with caplog.at_level(logging.WARNING, "treaty"):
        runtime.save(tmp_path / "2", train(1), base=tmp_path / "1")
    assert bits(restore(tmp_path / "2", Train)) == bits(train(1))
    (line,) = caplog.messages
    assert line.startswith(f"{tmp_path}/2 is saved in full, not based on {tmp_path}/1: expected a manifest that ends")


def test_a_checkpoint_without_upper_halves_is_replaced_in_full(tmp_path: Path) -> None:
    """As an earlier version wrote it: 64 bits are not enough to take bytes for the same."""
    save(tmp_path / "1", train(1))
    manifest = tmp_path / "1" / "treaty.json"
    manifest.write_bytes(parse(manifest.read_bytes(), "here")._replace(upper={}).to_bytes())
    save(tmp_path / "2", train(1), base=tmp_path / "1")
    assert chunks(linked(tmp_path / "2", tmp_path / "1")) == set()
    verify(tmp_path / "2")


@settings(max_examples=8, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["keep", "new", "equal", "numpy"]), st.integers(0, 2), st.booleans()), max_size=6
    )
)
def test_any_chain_of_steps_restores_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, bool]]
) -> None:
    """Each is based on one of the last three that are there; some are removed on the way."""
    folder = tmp_path_factory.mktemp("chain")
    state = train(0)
    save(folder / "0", state)
    expected = {0: bits(state)}
    for number, (change, back, removes) in enumerate(steps, start=1):
        if change == "new":
            state = evolve(state, params=train(number).params)
        elif change == "equal":
            state = copied(state)
        elif change == "numpy":
            seen = np.array(state.seen)
            seen[number] += 1
            state = evolve(state, seen=seen)
        base = list(expected)[-1 - min(back, len(expected) - 1)]
        save(folder / str(number), state, base=folder / str(base))
        expected[number] = bits(state)
        if removes:
            runtime.remove(folder / str(base))
            del expected[base]
    for number, found in expected.items():
        verify(folder / str(number))
        assert bits(restore(folder / str(number), Train)) == found
