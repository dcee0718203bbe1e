"""`save(path, state, compress="zstd")`: fewer bytes on the disk, the same bits back, and all that was checked still is."""

import json
import struct
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import pytest
import tensorstore as ts
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.directory.states import Linear, Train, bits, files_of, linear, train
from treaty.generator import load
from treaty.runtime import CorruptCheckpointError, TreatyError, inspect, restore, save, save_async, verify
from treaty.runtime._convert.convert import convert
from treaty.runtime.formats.directory.checksum import checksum, digest
from treaty.runtime.formats.directory.manifest import Leaf, parse
from treaty.schema import ArraySpec, state
from treaty.schema.dtypes import TABLE

pytestmark = pytest.mark.usefixtures("fine_layout")


def chunks_of(path: Path) -> list[Path]:
    return [file for file in files_of(path) if file.name.startswith("c.")]


def resigned(path: Path, leaf: int, chunk: Path, content: bytes, **claims: Any) -> None:
    """Put another content into a chunk, and say in the manifest that this is what was written."""
    found = parse((path / "treaty.json").read_bytes(), "here")
    old: Leaf = found.leaves[leaf]
    sizes = (len(content), *old.sizes[1:])
    leaves = list(found.leaves)
    leaves[leaf] = old._replace(checksums=(checksum(content), *old.checksums[1:]), sizes=sizes, **claims)
    chunk.write_bytes(content)
    (path / "treaty.json").write_bytes(found._replace(leaves=tuple(leaves)).to_bytes())


def test_a_compressed_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    save(tmp_path / "a", train(1), compress="zstd")
    save_async(tmp_path / "b", train(1), compress="zstd").result()
    for path in (tmp_path / "a", tmp_path / "b"):
        verify(path)
        assert bits(restore(path, Train)) == bits(train(1))
        assert bits(restore(path, Train, into="numpy").params) == bits(train(1).params)
    part = restore(tmp_path / "a", Linear, at="params.blocks[1].up")
    assert bits(part) == bits(train(1).params.blocks[1].up)


@pytest.mark.parametrize("dtype", TABLE, ids=lambda row: row.name)
def test_every_dtype_keeps_its_bits(dtype: Any, tmp_path: Path) -> None:
    @state
    class One:
        x: Annotated[np.ndarray[Any, Any], ArraySpec(dtype.name, "n m")]

    load(One)
    array = (np.arange(256) % (2 if dtype.itemsize == 1 else 7)).astype(dtype.numpy).reshape(64, 4)
    save(tmp_path / "a", One(x=array), compress="zstd")
    assert bits(restore(tmp_path / "a", One)) == bits(One(x=array))
    verify(tmp_path / "a")
    leaf: Any = inspect(tmp_path / "a").leaves[0]
    assert leaf.stored_bytes > 0
    assert leaf.codec is not None


def test_zeros_take_no_room_and_uncompressed_checkpoints_stay_of_the_first_version(tmp_path: Path) -> None:
    value = Linear(kernel=jax.numpy.zeros((256, 64)), bias=jax.numpy.zeros(64))
    for name, how in (("plain", None), ("small", "zstd")):
        save(tmp_path / name, value, compress=how)
    plain, small = (sum(file.stat().st_size for file in chunks_of(tmp_path / name)) for name in ("plain", "small"))
    assert small < plain / 2
    versions = [json.loads((tmp_path / name / "treaty.json").read_bytes())["version"] for name in ("plain", "small")]
    assert versions == [1, 2]


def test_other_readers_of_zarr_open_the_arrays(tmp_path: Path) -> None:
    value = linear(16, 32)
    save(tmp_path / "a", value, compress="zstd")
    (data,) = (tmp_path / "a").glob("data-*")
    store = ts.open({"driver": "zarr3", "kvstore": f"file://{data}/0/", "fill_missing_data_reads": False}).result()
    assert np.array_equal(store.read().result(), np.asarray(value.kernel))
    zarr = pytest.importorskip("zarr")
    assert np.array_equal(zarr.open_group(str(data), mode="r")["0"][:], np.asarray(value.kernel))


def test_a_compressed_checkpoint_is_converted_and_links_to_its_base(tmp_path: Path) -> None:
    state = train(1)
    save(tmp_path / "1", state, compress="zstd")
    save(tmp_path / "2", state, compress="zstd", base=tmp_path / "1")
    save(tmp_path / "3", jax.tree.map(lambda leaf: leaf, train(1)), compress="zstd", base=tmp_path / "2")
    save(tmp_path / "4", state, base=tmp_path / "3")
    inodes = [{file.stat().st_ino for file in chunks_of(tmp_path / str(i))} for i in (1, 2, 3, 4)]
    assert inodes[0] == inodes[1] == inodes[2]
    assert not inodes[0] & inodes[3], "one is compressed and the other is not"
    for step in "1234":
        verify(tmp_path / step)
    convert(tmp_path / "2", tmp_path / "x.safetensors", cls=Train, progress=False)
    assert bits(restore(tmp_path / "x.safetensors", Train)) == bits(state)


def test_an_object_store_keeps_compressed_chunks(tmp_path: Path) -> None:
    save("memory://compressed/a", train(1), compress="zstd")
    verify("memory://compressed/a")
    assert bits(restore("memory://compressed/a", Train)) == bits(train(1))


def test_a_flipped_bit_is_found_before_anything_is_decompressed(tmp_path: Path) -> None:
    save(tmp_path / "a", linear(16, 32), compress="zstd")
    chunk = chunks_of(tmp_path / "a")[0]
    content = bytearray(chunk.read_bytes())
    content[-1] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=r"expected checksum .* in 0/c\.0\.0 at \$\.kernel"):
        restore(tmp_path / "a", Linear)
    with pytest.raises(CorruptCheckpointError, match=r"in 0/c\.0\.0 at \$\.kernel"):
        verify(tmp_path / "a")


@pytest.mark.parametrize("claim", [0, 255, 257, 2**31 - 17, 2**32 - 1])
def test_a_chunk_that_says_it_holds_more_or_less_is_refused(claim: int, tmp_path: Path) -> None:
    """With the right checksums, as one who means harm would write them."""
    path = tmp_path / "a"
    save(path, linear(16, 32), compress="zstd")
    chunk = chunks_of(path)[0]
    content = bytearray(chunk.read_bytes())
    content[4:8] = struct.pack("<I", claim)
    resigned(path, 0, chunk, bytes(content))
    words = rf"expected 256 bytes in {len(content)}, got a chunk that says {claim} in {len(content)} in 0/c\.0\.0 at \$\.kernel"
    for read in (lambda: restore(path, Linear), lambda: verify(path)):
        with pytest.raises(CorruptCheckpointError, match=words):
            read()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_frame_of_a_writer_who_means_harm_does_any(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """It is an error that names the file, or an array of the right shape: never a crash, never another error."""
    path = tmp_path_factory.mktemp("frame") / "a"
    save(path, linear(16, 16), compress="zstd")
    chunk = chunks_of(path)[0]
    content = bytearray(chunk.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))]) if data.draw(st.booleans()) else bytes(content)
    resigned(path, 0, chunk, cut)
    try:
        found = f"an array of {restore(path, Linear).kernel.shape}"
    except CorruptCheckpointError as error:
        found = str(error)
    assert "0/c.0.0 at $.kernel" in found or found == "an array of (16, 16)"


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"codec": "lzma"}, "expected a codec of zstd, zstd-shuffle, zstd-bitshuffle, got lzma"),
        ({"sizes": (1,)}, "expected 8 sizes of 256 bytes at most"),
        ({"sizes": (2**62,) * 8}, "expected 8 sizes of 256 bytes at most"),
    ],
)
def test_claims_of_a_manifest_are_not_believed(claims: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    save(path, linear(16, 32), compress="zstd")
    found = parse((path / "treaty.json").read_bytes(), "here")
    leaves = (found.leaves[0]._replace(**claims), *found.leaves[1:])
    content = found._replace(leaves=leaves).to_bytes()
    with pytest.raises(CorruptCheckpointError) as caught:
        parse(content, "here")
    assert words in str(caught.value)


def test_only_directories_are_compressed_so(tmp_path: Path) -> None:
    with pytest.raises(TreatyError, match=r"expected a directory for compress, got '.*x\.npz'"):
        save(tmp_path / "x.npz", train(), compress="zstd")
    with pytest.raises(TreatyError, match="compress: expected 'zstd' or None, got 'lz4'"):
        save(tmp_path / "a", train(), compress="lz4")


@given(st.binary(max_size=1000))
def test_the_lower_half_of_a_digest_is_the_checksum(content: bytes) -> None:
    assert digest(content)[16:] == checksum(content)
