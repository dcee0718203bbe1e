"""Reading by region: who needs a quarter of an array reads a quarter of its bytes, in every format and through key maps."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import jax
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from treaty.runtime import CorruptCheckpointError
from treaty.runtime._devices.placement import Target
from treaty.runtime._keymaps.apply import to_fields
from treaty.runtime._keymaps.views import cut, join, rearrange, stack, take
from treaty.runtime._lazy import LazyArray, Part, box_by_box, covers, host, jobs_of
from treaty.runtime._restore.read import _read_batch
from treaty.runtime.formats import msgpack, npz, safetensors
from treaty.runtime.formats.directory import plan
from treaty.runtime.formats.npz import stored
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.table import format_named, reading
from treaty.runtime.leaves import tree_serialize_leaves
from treaty.schema._key_patterns import Layout
from treaty.schema.keymap import KeyMap, Rule

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
P: Any = PartitionSpec  # JAX does not annotate its constructor
ROWS, COLUMNS = 1024, 1024
SLACK = 2**17  # bytes: headers, metadata and directories of stores


def numbers(rows: int = ROWS) -> Any:
    return np.random.default_rng(0).standard_normal((rows, COLUMNS), np.float32)


def sharded(array: Any) -> Any:
    """Over four devices, row by row, which is how writers choose chunks."""
    return jax.device_put(array, NamedSharding(jax.make_mesh((4,), ("rows",)), P("rows")))


def in_orbax(path: Path, tree: dict[str, Any]) -> None:
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, jax.tree.map(sharded, tree))


def in_eformer(path: Path, tree: dict[str, Any]) -> None:
    tree_serialize_leaves(path, jax.tree.map(sharded, tree))


def in_a_directory(path: Path, tree: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CHUNK_BYTES", 2**18)
        format_named("treaty").write(str(path), tree, Writing())


WRITERS: dict[str, Callable[[Path, dict[str, Any]], object]] = {
    "x.npz": npz.write,
    "x.safetensors": safetensors.dump,
    "x.msgpack": msgpack.write_file,
    "orbax": in_orbax,
    "eformer": in_eformer,
    "directory": in_a_directory,
}
MAPPED = ("x.safetensors", "x.msgpack")


class Region(Target):
    """What a process needs whose devices hold some rows and columns."""

    rows = slice(ROWS // 4, ROWS // 2)
    columns = slice(0, COLUMNS)

    def regions(self) -> dict[tuple[Any, Any], list[Any]]:
        return {((self.rows.start, self.columns.start), (self.rows.stop, self.columns.stop)): []}


class Layer(Target):
    """The second of several."""

    def regions(self) -> dict[tuple[Any, Any], list[Any]]:
        return {((1, 0, 0), (2, *self.shape[1:])): []}


class Columns(Region):
    rows = slice(0, ROWS)
    columns = slice(COLUMNS // 4, COLUMNS // 2)


def bytes_read() -> int:
    """By this process, in calls to the system."""
    found = re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    assert found is not None
    return int(found[1])


def read_region(leaf: Any, region: type[Target] = Region) -> tuple[Any, int]:
    """The memory of a region, and how many bytes were read for it."""
    target = region(tuple(leaf.shape), leaf.dtype, leaf.dtype, sharding=SingleDeviceSharding(jax.devices()[0]))
    before = bytes_read()
    (room,) = _read_batch([leaf], [target], lambda _: None)
    (part,) = room.parts
    return part.memory, bytes_read() - before


@pytest.fixture(params=WRITERS)
def leaf(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = tmp_path / request.param
    WRITERS[request.param](path, {"w": numbers()})
    found = reading(path, lambda source: source.tree())["w"]
    assert isinstance(found, LazyArray) != (request.param in MAPPED)
    return found


def test_a_quarter_of_the_rows_costs_a_quarter_of_the_bytes(leaf: Any) -> None:
    memory, count = read_region(leaf)
    np.testing.assert_array_equal(memory, numbers()[Region.rows])
    if isinstance(leaf, np.ndarray):
        assert np.shares_memory(memory, leaf)  # a view: of a mapped file, what nobody looks at is never read
    else:
        assert memory.nbytes * 0.8 < count < memory.nbytes + SLACK  # eformer's are compressed


def test_other_boxes_are_right_too(leaf: Any) -> None:
    np.testing.assert_array_equal(read_region(leaf, Columns)[0], numbers()[:, Columns.columns])


def test_a_key_map_passes_regions_on(leaf: Any) -> None:
    """The third quarter of the rows, cut off and turned: of it a quarter is wanted."""
    part = to_fields(KeyMap([Rule("fused", ("a", "b", "c", "d"), axis=0)]), {"fused": leaf})["c"]
    stacked = stack([part, part, part, part])
    turned = rearrange(stacked, Layout((("n",), ("a",), ("b",)), (("n",), ("b",), ("a",))), {})
    memory, count = read_region(turned, Layer)
    np.testing.assert_array_equal(memory[0], numbers()[ROWS // 2 : 3 * ROWS // 4].T)
    assert count < numbers().nbytes / 4 + SLACK


def a_box(data: st.DataObject, shape: Sequence[int]) -> tuple[slice, ...]:
    pairs = [sorted((data.draw(st.integers(0, size)), data.draw(st.integers(0, size)))) for size in shape]
    return tuple(slice(first, last) for first, last in pairs)


def filled(array: LazyArray, box: tuple[slice, ...]) -> Any:
    memory = np.empty([one.stop - one.start for one in box], array.dtype)
    array.fill(Part(tuple(one.start for one in box), memory))
    return memory


def a_source(data: st.DataObject, array: Any) -> Any:
    """In memory, lazy as a whole, or lazy by boxes."""

    def fill(part: Part) -> None:
        part.memory[...] = array[part.box]

    kind = data.draw(st.sampled_from(["host", "whole", "boxes", "boxes, checked as a whole"]))
    if kind == "host":
        return array
    jobs = None if kind == "whole" else box_by_box(fill)
    return LazyArray(array.shape, array.dtype, lambda: array, None, jobs, kind.endswith("whole") and jobs is not None)


SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@given(SHAPES, st.integers(1, 3), st.data())
def test_any_box_of_a_derived_array_is_the_slice_of_the_whole(
    shape: tuple[int, ...], count: int, data: st.DataObject
) -> None:
    arrays = [np.arange(np.prod(shape)).reshape(shape) + 1000 * i for i in range(count)]
    sources = [a_source(data, array) for array in arrays]
    axis = data.draw(st.integers(0, len(shape) - 1))
    at, index = data.draw(st.integers(0, shape[axis])), data.draw(st.integers(0, shape[0] - 1))
    turned = tuple((f"a{number}",) for number in range(len(shape)))
    layout = Layout(turned, turned[::-1])
    lengths = [at, shape[axis] - at]
    pairs: list[tuple[Any, Any]] = [
        (stack(sources), np.stack(arrays)),
        (join(sources, axis), np.concatenate(arrays, axis)),
        (take(sources[0], index), arrays[0][index]),
        (take(stack(sources), count - 1), arrays[-1]),
        (rearrange(sources[0], layout, {}), arrays[0].T),
        (cut(join(sources, axis), axis, [count * shape[axis]])[0], np.concatenate(arrays, axis)),
        *zip(cut(sources[0], axis, lengths), np.split(arrays[0], [at], axis), strict=True),
    ]
    for got, expected in pairs:
        np.testing.assert_array_equal(host(got), expected)
        if isinstance(got, LazyArray):
            box = a_box(data, got.shape)
            np.testing.assert_array_equal(filled(got, box), expected[box])
            assert np.array_equal(np.concatenate([*got.pieces(), []]), expected.reshape(-1))


@given(st.lists(st.integers(0, 5), max_size=4).map(tuple), st.data())
def test_any_box_of_an_array_in_an_archive_is_the_slice_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, shape: tuple[int, ...], data: st.DataObject
) -> None:
    """With thresholds so low that each way to read is taken."""
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    path = tmp_path_factory.mktemp("boxes") / "x.npz"
    np.savez(path, x=array)
    lazy = npz.read_tree(path)["x"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "_SHORT", data.draw(st.sampled_from([8, 16, 1000])))
        patch.setattr(stored, "_FAR", data.draw(st.sampled_from([4, 40, 1000])))
        patch.setattr(stored, "PIECE_BYTES", data.draw(st.sampled_from([1000, 2000])))
        box = a_box(data, shape)
        np.testing.assert_array_equal(filled(lazy, box), array[box])
        turned = np.empty([one.stop - one.start for one in box][::-1], np.int32)
        lazy.fill(Part(tuple(one.start for one in box), turned.T))
        np.testing.assert_array_equal(turned.T, array[box])


@given(st.lists(st.integers(0, 4), max_size=3).map(tuple), st.data())
def test_parts_cover_an_array_where_no_element_is_left(shape: tuple[int, ...], data: st.DataObject) -> None:
    boxes = [a_box(data, shape) for _ in range(data.draw(st.integers(0, 4)))]
    seen = np.zeros(shape, bool)
    for box in boxes:
        seen[box] = True
    parts = [Part(tuple(one.start for one in box), seen[box]) for box in boxes]
    assert covers(shape, parts) or not seen.all() or not seen.size
    assert seen.all() or not covers(shape, parts)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("count", [1, 4])
def test_all_of_an_array_of_an_archive_is_checked_in_however_many_parts(count: int, dtype: Any, tmp_path: Path) -> None:
    """Of less than all the checksum says nothing: what is wanted is taken as it is found."""
    array = np.arange(32).reshape(8, 4).astype(dtype)
    npz.write(tmp_path / "x.npz", {"x": array})
    damage(tmp_path / "x.npz", array[5:6].tobytes())
    lazy = npz.read_tree(tmp_path / "x.npz")["x"]
    quarters = [Part((8 // count * i, 0), np.empty((8 // count, 4), dtype)) for i in range(count)]
    (job,) = jobs_of(lazy, quarters)
    with pytest.raises(CorruptCheckpointError, match="expected checksum"):
        job.run()
    np.testing.assert_array_equal(filled(lazy, (slice(0, 4), slice(0, 4))), array[:4])


def test_what_is_cut_from_an_array_of_an_archive_is_checked_too(tmp_path: Path) -> None:
    array = np.arange(32, dtype=np.float32).reshape(8, 4)
    npz.write(tmp_path / "x.npz", {"x": array})
    damage(tmp_path / "x.npz", array[5:6].tobytes())
    lazy = npz.read_tree(tmp_path / "x.npz")["x"]
    upper, lower = cut(lazy, 0, [4, 4])
    for whole in (upper, lower, take(lazy, 0), rearrange(stack([upper, lower]), LAYOUT, {}), join([lower, upper], 1)):
        with pytest.raises(CorruptCheckpointError, match="expected checksum"):
            host(whole)
    np.testing.assert_array_equal(filled(cast(LazyArray, upper), (slice(0, 2), slice(0, 4))), array[:2])


LAYOUT = Layout((("n",), ("a",), ("b",)), (("b",), ("n",), ("a",)))


def damage(path: Path, contents: bytes) -> None:
    whole = path.read_bytes()
    assert whole.count(contents) == 1
    path.write_bytes(whole.replace(contents, bytes(len(contents))))
