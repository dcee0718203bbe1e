"""A file that replaces another is for those who might read that one, and for nobody else."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.test_files import Model, model
from treaty.runtime import restore, save
from treaty.runtime._convert.convert import convert
from treaty.runtime._storage import permissions as _permissions
from treaty.runtime._storage.files import replacing
from treaty.runtime.formats import npz

NAMES = ["x.msgpack", "x.msgpack.gz", "x.msgpack.zst", "x.safetensors", "x.npz"]
ACL = "system.posix_acl_access"
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root, who may be anybody")


def write(path: Path, seed: int) -> None:
    npz.write(path, {"w": np.full(100, seed)}) if path.suffix == ".npz" else save(path, model(seed))


@pytest.fixture(params=NAMES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    found: Path = tmp_path / request.param
    write(found, 1)
    return found


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        save(tmp_path / "x.msgpack", model(1))
    finally:
        os.umask(before)
    assert mode(tmp_path / "x.msgpack") == 0o640


@pytest.mark.parametrize("bits", [0o600, 0o400, 0o664, 0o604])
def test_the_mode_stays(path: Path, bits: int) -> None:
    path.chmod(bits)
    write(path, 2)
    assert mode(path) == bits


@pytest.mark.parametrize("bits", [0o600, 0o640])
def test_no_byte_is_there_before_the_mode_is(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "x"
    path.touch()
    path.chmod(bits)
    with replacing(path) as descriptor:
        (temporary,) = tmp_path.glob(".x.*")
        assert mode(temporary) == bits
        os.write(descriptor, b"secret")
    assert path.read_bytes() == b"secret"


def test_extended_attributes_stay(path: Path) -> None:
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        pytest.skip("needs a file system with extended attributes")
    write(path, 2)
    assert os.getxattr(path, "user.note") == b"mine"


def acl(*entries: tuple[int, int, int]) -> bytes:
    """POSIX's access ACL as Linux keeps it: tag, permissions, who."""
    parts = [(2).to_bytes(4, "little")]
    for tag, bits, who in entries:
        parts.append(tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + (who & 0xFFFFFFFF).to_bytes(4, "little"))
    return b"".join(parts)


FOR_ONE_MORE = acl((1, 6, -1), (2, 4, NOBODY), (4, 0, -1), (16, 4, -1), (32, 0, -1))  # the group itself may nothing


@pytest.fixture
def with_acl(path: Path) -> Path:
    try:
        os.setxattr(path, ACL, FOR_ONE_MORE)
    except OSError:
        pytest.skip("needs a file system with ACLs")
    return path


def test_an_acl_stays(with_acl: Path) -> None:
    write(with_acl, 2)
    assert os.getxattr(with_acl, ACL) == FOR_ONE_MORE
    assert mode(with_acl) == 0o640


def test_an_acl_that_cannot_be_kept_gives_the_group_nothing(with_acl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_permissions, "_keep_acl", lambda old, new: False)
    write(with_acl, 2)
    assert mode(with_acl) == 0o600


@pytest.mark.parametrize("bits", [0o600, 0o640])
def test_a_default_acl_of_the_directory_is_for_new_files_only(path: Path, bits: int) -> None:
    path.chmod(bits)
    try:
        os.setxattr(path.parent, "system.posix_acl_default", FOR_ONE_MORE)
    except OSError:
        pytest.skip("needs a file system with ACLs")
    write(path, 2)
    assert mode(path) == bits
    with pytest.raises(OSError):  # noqa: PT011
        os.getxattr(path, ACL)
    write(new := path.with_name(f"new{''.join(path.suffixes)}"), 1)
    assert b"\xfe\xff\x00\x00" in os.getxattr(new, ACL)


@as_root
def test_owner_and_group_stay(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)
    write(path, 2)
    assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY, NOBODY)


REPLACE = """
import os, sys
from treaty.runtime._storage.files import write_pieces
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
write_pieces(sys.argv[1], [b"new"])
"""


@as_root
@pytest.mark.parametrize(("before", "after"), [(0o660, 0o600), (0o664, 0o644), (0o646, 0o644), (0o604, 0o600)])
def test_a_group_that_cannot_be_kept_loses_what_others_have_not(before: int, after: int) -> None:
    """Nobody may not give a file to root's group: who was of the group is then one of the others, and vice versa."""
    with tempfile.TemporaryDirectory() as folder:  # not pytest's, which only its user may enter
        os.chmod(folder, 0o777)
        path = Path(folder, "x.msgpack")
        path.write_bytes(b"old")
        path.chmod(before)
        command = [sys.executable, "-c", REPLACE, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert (path.read_bytes(), mode(path), path.stat().st_gid) == (b"new", after, NOBODY)


@pytest.mark.parametrize("bits", [0o700, 0o750, 0o755])
def test_a_directory_stays_as_it_is_and_so_does_what_it_holds(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "run"
    save(path, model(1))
    (data,) = path.glob("data-*")
    for one in (path, data):
        one.chmod(bits)
    (path / "treaty.json").chmod(0o600)
    save(path, model(2))
    (data,) = path.glob("data-*")
    assert [mode(one) for one in (path, data, path / "treaty.json")] == [bits, bits, 0o600]
    assert restore(path, Model, into="numpy").layers


@pytest.mark.parametrize("sizes", [(None, 50_000), (50_000, None), (50_000, 20_000), (50_000, 50_000)])
def test_the_mode_of_shards_and_of_one_file_follows_the_name(
    sizes: tuple[int | None, int | None], tmp_path: Path
) -> None:
    save(tmp_path / "x.safetensors", model(1), max_shard_bytes=sizes[0])
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    save(tmp_path / "x.safetensors", model(2), max_shard_bytes=sizes[1])
    assert {mode(file) for file in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("name", ["x.msgpack", "x.safetensors", "x.npz", "directory"])
def test_a_conversion_keeps_the_mode_of_what_it_replaces(name: str, tmp_path: Path) -> None:
    save(tmp_path / "source.msgpack", model(1))
    convert(tmp_path / "source.msgpack", tmp_path / name)
    (tmp_path / name).chmod(0o700)
    convert(tmp_path / "source.msgpack", tmp_path / name, replace=True)
    assert mode(tmp_path / name) == 0o700
