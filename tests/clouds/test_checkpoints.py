"""Checkpoints in object stores do all that checkpoints in directories do."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from tests.clouds.conftest import Cloud
from tests.clouds.test_faults import FORBIDDEN
from tests.runtime.directory.states import Linear, Params, Train, bits, linear, train
from treaty.runtime import (
    CorruptCheckpointError,
    IncompleteCheckpointError,
    MissingCheckpointError,
    StorageError,
    remove,
    shardings,
)
from treaty.runtime.directory import inspect, restore, save, save_async, verify
from treaty.runtime.formats.directory import write as _write
from treaty.runtime.formats.directory.remote import Remote
from treaty.schema import TreatyError


def test_what_is_saved_comes_back(cloud: Cloud) -> None:
    save(cloud.url, train(1), metadata={"run": 7})
    assert bits(restore(cloud.url, Train)) == bits(train(1))
    assert bits(restore(cloud.url, Params, at="params")) == bits(train(1).params)
    found = inspect(cloud.url)
    assert (found.path, found.metadata) == (cloud.url, {"run": 7})
    assert verify(cloud.url).leaves == len(found.leaves)


def test_a_slash_at_the_end_means_nothing(cloud: Cloud) -> None:
    save(f"{cloud.url}/", linear(2, 3))
    assert bits(restore(cloud.url, Linear)) == bits(linear(2, 3))


def test_sharded_arrays_are_saved_and_restored_on_other_meshes(cloud: Cloud) -> None:
    value = linear(16, 32)
    four = Mesh(np.array(jax.devices()[:4]), ("x",))
    save(cloud.url, jax.device_put(value, shardings(Linear, four, {"d_out": "x"}, {"d_in": 16, "d_out": 32})))
    eight = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    restored = restore(cloud.url, Linear, mesh=eight, rules={"d_in": "x", "d_out": "y"})
    assert bits(restored) == bits(value)
    assert restored.kernel.addressable_shards[0].data.shape == (4, 16)


def test_a_background_save_is_committed_when_it_says_so(cloud: Cloud) -> None:
    first, second = save_async(cloud.url, train(1)), save_async(cloud.url, train(2))
    second.result(60)
    assert first.done()
    assert bits(restore(cloud.url, Train)) == bits(train(2))


def test_overwriting_removes_the_previous_data(cloud: Cloud) -> None:
    save(cloud.url, train(1))
    before = cloud.names
    save(cloud.url, train(2))
    assert bits(restore(cloud.url, Train)) == bits(train(2))
    assert len(cloud.names) == 2
    assert cloud.names & before == {"treaty.json"}


def test_a_neighbour_with_a_longer_name_is_left_alone(cloud: Cloud) -> None:
    neighbour = Cloud(cloud.server, f"{cloud.url}-2")
    save(neighbour.url, train(1))
    save(cloud.url, train(2))
    save(cloud.url, train(3))
    assert bits(restore(neighbour.url, Train)) == bits(train(1))


def test_a_prefix_with_other_things_is_left_alone(cloud: Cloud) -> None:
    cloud.write("thesis.tex", b"precious")
    with pytest.raises(TreatyError, match=r"expected a checkpoint or nothing, got thesis\.tex in "):
        save(cloud.url, train())
    assert cloud.keys == ["thesis.tex"]


@pytest.mark.parametrize("look", [inspect, verify, lambda url: restore(url, Train)])
def test_without_a_manifest_there_is_no_checkpoint(look: Callable[[str], object], cloud: Cloud) -> None:
    with pytest.raises(IncompleteCheckpointError, match=r"got no treaty\.json at "):
        look(cloud.url)
    save(cloud.url, linear(2, 3))
    cloud.write("treaty.json", None)
    with pytest.raises(IncompleteCheckpointError, match=r"got no treaty\.json at "):
        look(cloud.url)


def _delete(cloud: Cloud, key: str) -> None:
    cloud.write(key, None)


def _truncate(cloud: Cloud, key: str) -> None:
    cloud.write(key, cloud.read(key)[:-1])


def _extend(cloud: Cloud, key: str) -> None:
    cloud.write(key, cloud.read(key) + b"\0")


def _flip(cloud: Cloud, key: str) -> None:
    damaged = bytearray(cloud.read(key))
    damaged[-1] ^= 1
    cloud.write(key, bytes(damaged))


def _swap(cloud: Cloud, key: str) -> None:
    other = key.replace("c.1", "c.0")
    mine, theirs = cloud.read(key), cloud.read(other)
    cloud.write(key, theirs)
    cloud.write(other, mine)


@pytest.mark.parametrize("damage", [_delete, _truncate, _extend, _flip, _swap])
def test_a_damaged_object_is_reported_with_its_leaf(damage: Callable[[Cloud, str], None], cloud: Cloud) -> None:
    save(cloud.url, train(1))
    number = next(i for i, leaf in enumerate(inspect(cloud.url).leaves) if leaf.path == ("params", "embed"))
    damage(cloud, cloud.key(f"/{number}/c.1.0"))
    with pytest.raises(CorruptCheckpointError, match=r"got .* at \$\.params\.embed"):
        restore(cloud.url, Train)
    with pytest.raises(CorruptCheckpointError, match=r"got .* at \$\.params\.embed"):
        verify(cloud.url)


def test_a_damaged_manifest_is_reported_and_can_be_overwritten(cloud: Cloud) -> None:
    save(cloud.url, train(1))
    _flip(cloud, "treaty.json")
    with pytest.raises(CorruptCheckpointError):
        inspect(cloud.url)
    save(cloud.url, train(2))
    assert bits(restore(cloud.url, Train)) == bits(train(2))
    assert len(cloud.names) == 2


def test_lists_of_more_than_a_page_are_read_to_the_end(cloud: Cloud) -> None:
    save(cloud.url, linear(2, 3))
    (data,) = cloud.names - {"treaty.json"}
    cloud.fill(data, 1001)
    with pytest.raises(CorruptCheckpointError, match="… and 981 more"):
        restore(cloud.url, Linear)


@pytest.mark.parametrize("cloud", ["gs"], indirect=True)  # 1001 requests take moto long
def test_leftovers_of_more_than_a_page_are_removed(cloud: Cloud) -> None:
    cloud.fill("data-0123456789abcdef", 1001)
    save(cloud.url, linear(2, 3))
    assert len(cloud.names) == 2
    assert bits(restore(cloud.url, Linear)) == bits(linear(2, 3))


def test_the_commands_take_urls(cloud: Cloud) -> None:
    save(cloud.url, linear(2, 300))
    for command, text in (("inspect", "$.kernel  float32[2, 300]"), ("verify", "all as they were written")):
        line = [sys.executable, "-m", "treaty.cli", command, cloud.url]
        done = subprocess.run(line, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "100"})
        assert text in done.stdout


def test_a_reader_that_is_overtaken_begins_again(cloud: Cloud) -> None:
    save(cloud.url, train(1))
    overtaken: list[bool] = []

    def overtake() -> None:
        if not overtaken:
            overtaken.append(True)
            save(cloud.url, train(2))

    cloud.faults.on(r"GET .*/values\.msgpack", overtake)
    assert bits(restore(cloud.url, Train)) == bits(train(2))


def test_a_checkpoint_is_removed_and_nothing_else(cloud: Cloud) -> None:
    save(cloud.url, linear(2, 30))
    cloud.write("", b"")  # how a store's console makes a folder
    remove(cloud.url)
    assert [key for key in cloud.keys if key] == []
    with pytest.raises(MissingCheckpointError):
        restore(cloud.url, Linear)
    with pytest.raises(MissingCheckpointError, match=r"got no treaty\.json at "):
        remove(cloud.url)
    save(cloud.url, linear(2, 3))
    cloud.write("notes.txt", b"mine")
    with pytest.raises(TreatyError, match=r"got notes\.txt in "):
        remove(cloud.url)
    assert bits(restore(cloud.url, Linear)) == bits(linear(2, 3))


def test_a_remove_that_stopped_leaves_nothing_to_restore_and_is_finished_by_another(cloud: Cloud) -> None:
    """The server takes the mark and then no more."""
    save(cloud.url, linear(2, 30))
    cloud.faults.on("(DELETE|POST) .*data-", FORBIDDEN)
    with pytest.raises(StorageError):
        remove(cloud.url)
    cloud.faults.clear()
    for look in (inspect, verify, lambda url: restore(url, Linear)):
        with pytest.raises(MissingCheckpointError, match=r"expected a checkpoint, got no treaty\.json at "):
            look(cloud.url)
    remove(cloud.url)
    assert cloud.keys == []


def test_a_save_that_began_before_a_remove_does_not_commit_after_it(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(cloud.url, linear(2, 30))
    complete = _write._complete

    def meanwhile(*args: Any) -> Any:
        remove(cloud.url)
        return complete(*args)

    monkeypatch.setattr(_write, "_complete", meanwhile)
    with pytest.raises(TreatyError, match="got another save that finished meanwhile"):
        save(cloud.url, linear(2, 3))
    assert cloud.keys == []


def test_a_first_save_whose_data_were_cleared_away_meanwhile_does_not_commit(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = _write._complete

    def meanwhile(*args: Any) -> Any:
        Remote(cloud.url).remove(is_committed=False)
        return complete(*args)

    monkeypatch.setattr(_write, "_complete", meanwhile)
    with pytest.raises(TreatyError, match="got another save that finished meanwhile"):
        save(cloud.url, linear(2, 3))
    with pytest.raises(MissingCheckpointError):
        restore(cloud.url, Linear)
    assert cloud.keys == []


def test_a_first_save_that_fails_leaves_nothing_that_is_in_the_way(cloud: Cloud) -> None:
    cloud.faults.on(r"(PUT|POST) .*/data-.*\.msgpack", FORBIDDEN)
    with pytest.raises(StorageError):
        save(cloud.url, linear(2, 3))
    cloud.faults.clear()
    for look in (inspect, remove, lambda url: restore(url, Linear)):
        with pytest.raises(MissingCheckpointError, match=r"got no treaty\.json at "):
            look(cloud.url)
    save(cloud.url, linear(2, 3))
    assert bits(restore(cloud.url, Linear)) == bits(linear(2, 3))
    assert len(cloud.names) == 2


def test_folder_markers_are_in_nobodys_way(cloud: Cloud) -> None:
    cloud.write("", b"")
    save(cloud.url, linear(2, 30))
    (data,) = (name for name in cloud.names if name.startswith("data-"))
    cloud.write(f"{data}/", b"")
    assert bits(restore(cloud.url, Linear)) == bits(linear(2, 30))
    assert verify(cloud.url).leaves == 2
    save(cloud.url, linear(2, 3))
    assert bits(restore(cloud.url, Linear)) == bits(linear(2, 3))
