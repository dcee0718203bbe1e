"""`save` and `restore`: what a path means, parts of files, and files onto a mesh."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Float32, Int32

from treaty.generator import load
from treaty.runtime import StateMismatchError, restore, save, save_async, watch
from treaty.runtime._checkpoint import save as _save
from treaty.runtime.formats.msgpack import instances as _msgpack
from treaty.schema import Dims, Length, TreatyError, state

PATHS = ["x.msgpack", "x.msgpack.gz", "x.msgpack.zst", "x.safetensors", "directory", "x.v2"]
P: Any = PartitionSpec  # JAX does not annotate its constructor
FILES = ["x.msgpack", "x.msgpack.gz", "x.safetensors"]


@state
class Layer:
    kernel: Float32[Array, "d d"]


@state
class Params:
    layers: Annotated[tuple[Layer, ...], Length("n"), Dims("d")]


@state
class Train:
    step: Int32[Array, ""]
    params: Params


load(Train)


def train() -> Train:
    layers = tuple(Layer(kernel=jnp.full((8, 8), i, jnp.float32)) for i in range(4))
    return Train(step=jnp.int32(7), params=Params(layers=layers))


@pytest.mark.parametrize("name", PATHS)
def test_every_kind_of_path_holds_a_checkpoint(name: str, tmp_path: Path) -> None:
    save(tmp_path / name, train())
    assert (tmp_path / name).is_dir() == (name in ("directory", "x.v2"))
    back = restore(tmp_path / name, Train)
    assert isinstance(back.params.layers[3].kernel, Array)
    assert jax.tree.all(jax.tree.map(np.array_equal, back, train()))
    assert isinstance(restore(tmp_path / name, Train, into="numpy").step, np.ndarray)


@pytest.mark.parametrize("name", [*FILES, "directory"])
def test_a_subtree_is_restored_by_its_path(name: str, tmp_path: Path) -> None:
    save(tmp_path / name, train())
    assert restore(tmp_path / name, Params, at="params").layers[2].kernel[0, 0] == 2
    assert restore(tmp_path / name, Layer, at="params.layers[3]").kernel[0, 0] == 3
    with pytest.raises(TreatyError, match=r"expected \$\.parms in .*, got params, step at \$"):
        restore(tmp_path / name, Params, at="parms")
    with pytest.raises(StateMismatchError, match=r"expected no such key in Train, got|expected .* got nothing"):
        restore(tmp_path / name, Train, at=["params"])


@pytest.mark.parametrize("name", [*FILES, "directory"])
def test_arrays_go_where_rules_and_shardings_say(name: str, tmp_path: Path) -> None:
    save(tmp_path / name, train())
    mesh = jax.make_mesh((4,), ("model",))
    back = restore(tmp_path / name, Train, mesh=mesh, rules={"d": "model"})
    assert back.params.layers[1].kernel.sharding == NamedSharding(mesh, P("model", None))
    assert np.array_equal(back.params.layers[1].kernel, train().params.layers[1].kernel)
    whole = NamedSharding(mesh, P())
    assert restore(tmp_path / name, Train, shardings=whole).step.sharding == whole
    assert restore(tmp_path / name, Train, mesh=mesh).step.sharding == whole


def test_what_a_format_cannot_do_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TreatyError, match=r"expected a directory or a \.safetensors path for metadata, got"):
        save(tmp_path / "x.msgpack", train(), metadata={"a": 1})
    with pytest.raises(TreatyError, match=r"expected a \.safetensors path for max_shard_bytes, got"):
        save(tmp_path / "x", train(), max_shard_bytes=10)
    with pytest.raises(TreatyError, match=r"expected a directory for timeout, got"):
        save(tmp_path / "x.safetensors", train(), timeout=5)
    with pytest.raises(TreatyError, match=r"expected a directory or a URL, got the file"):
        save_async(tmp_path / "x.msgpack", train())
    save(tmp_path / "x.msgpack", train())
    with pytest.raises(TreatyError, match="expected names of dtypes, got 'fp7'"):
        restore(tmp_path / "x.msgpack", Train, cast={"float32": "fp7"})
    with pytest.raises(TreatyError, match="expected max_bytes_in_flight of 1 or more, got 0"):
        restore(tmp_path / "x.msgpack", Train, max_bytes_in_flight=0)
    with pytest.raises(TreatyError, match="rules= needs mesh="):
        restore(tmp_path / "x.msgpack", Train, rules={"d": "model"})
    with pytest.raises(FileNotFoundError, match="expected a file, got nothing at"):
        restore(tmp_path / "missing.msgpack", Train)


WITHOUT_STANDARD_ERROR = """
import sys
from tests.faults.states import Run, bits, run
from treaty.runtime import restore, save, save_async, verify
assert sys.stderr is None
save(sys.argv[1], run(1))
assert bits(restore(sys.argv[1], Run)) == bits(run(1))
verify(sys.argv[1], progress=True)
save_async(sys.argv[1] + "/treaty.json/x", run(1))  # fails, and nobody asks
"""


def test_a_program_without_standard_error_saves_and_restores(tmp_path: Path) -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", WITHOUT_STANDARD_ERROR, str(tmp_path / "a")]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


def test_who_saves_a_file_with_wrong_arguments_is_waited_for_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> Any:
        raise AssertionError("a file is of one process")

    monkeypatch.setattr(_save, "team", asked)
    for path in ("x.npz", b"x.npz", Path("x.npz")):
        with pytest.raises(TreatyError, match=r"expected .* for compress, got 'x\.npz'"):
            save(path, object(), compress="zstd")


def test_a_file_that_is_gone_again_was_saved_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = _msgpack.save_file

    def then_removed(path: str, *what: Any) -> None:
        write(path, *what)
        os.remove(path)

    seen: list[Any] = []
    stop = watch(seen.append)
    monkeypatch.setattr(_msgpack, "save_file", then_removed)
    save(tmp_path / "x.msgpack", Layer(kernel=jnp.zeros((2, 2))))
    stop()
    assert [(one.what, one.error) for one in seen] == [("save", None)]
