"""What JAX sees of a class whose generated code is missing, stale or late: an error or the right leaves, never a lone leaf."""

import copy
import importlib
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import jax
import jax.numpy as jnp
import pytest
from jax import Array
from jaxtyping import Float32

from treaty.generator import _worker, load
from treaty.generator._generate import text_of
from treaty.generator._modules import Module
from treaty.runtime import CodecError
from treaty.schema import field, modules, state
from treaty.schema.ir_json import class_from_data

MODEL = """
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float32
from treaty.schema import field, state


@state
class One:
    x: Float32[Array, "d"]


DEFAULT = One(x=jnp.ones(2))
"""
FIELD = 'x: Float32[Array, "d"]'
STALE = (
    "the generated code of first_sight_model:One is older than its declaration; run: treaty generate first_sight_model"
)
USES: list[Callable[[Any], Any]] = [
    lambda model: jax.tree.leaves(model.DEFAULT),
    lambda model: jax.tree.leaves(model.One(x=jnp.ones(2))),
    lambda model: jax.jit(lambda one: one.x)(model.DEFAULT),
    lambda model: jax.tree.map(lambda x: x, {"a": model.DEFAULT}),
    lambda model: jax.tree_util.tree_flatten_with_path(model.DEFAULT),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith("first_sight_")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def model(folder: Path, text: str, generated_from: str | None = None) -> Any:
    """The module as a fresh process would import it, with the code of an older text beside it, or with none."""
    path = folder / "first_sight_model.py"
    if generated_from is not None:
        path.write_text(generated_from)
        modules.generating = True
        try:
            found = _worker.read("first_sight_model")
        finally:
            modules.generating = False
        classes = tuple(map(class_from_data, found["classes"]))
        code = text_of(Module("first_sight_model", "", tuple(found["roots"]), classes, found["generated"]))
        (folder / "first_sight_model_treaty.py").write_text(code)
        forget()
        for cached in folder.glob("__pycache__/*"):  # two texts of one size and second
            cached.unlink()
    path.write_text(text)
    return importlib.import_module("first_sight_model")


def test_a_class_without_generated_code_is_no_leaf(folder: Path) -> None:
    found = model(folder, MODEL)
    for use in USES:
        with pytest.raises(CodecError) as caught:
            use(found)
        assert str(caught.value) == (
            "no generated code for first_sight_model:One; run: treaty generate first_sight_model"
        )


@pytest.mark.parametrize("use", USES)
def test_an_instance_of_the_module_itself_is_a_pytree_at_once(use: Callable[[Any], Any], folder: Path) -> None:
    leaves = jax.tree.leaves(use(model(folder, MODEL, generated_from=MODEL)))
    assert [leaf.shape for leaf in leaves if isinstance(leaf, Array)] == [(2,)]


def test_an_instance_that_was_pickled_or_copied_is_a_pytree_where_no_other_was_made(folder: Path) -> None:
    text = MODEL.replace("DEFAULT = ", "MAKE = lambda: ")
    pickled = pickle.dumps(model(folder, text, generated_from=text).MAKE())
    forget()
    one = pickle.loads(pickled)
    assert [leaf.shape for leaf in jax.tree.leaves(one)] == [(2,)]
    assert [leaf.shape for leaf in jax.tree.leaves(copy.deepcopy(one))] == [(2,)]


@pytest.mark.parametrize(
    "new",
    [
        MODEL.replace(FIELD, f"{FIELD}\n    y: {FIELD[3:]} = field(factory=lambda: jnp.ones(2))"),
        MODEL.replace(FIELD, f"{FIELD}\n    n: int = field(default=3, static=True)"),
        MODEL.replace(FIELD, f"y: int = 3\n    {FIELD}"),
    ],
)
def test_stale_code_is_noticed_before_jax_sees_an_instance(new: str, folder: Path) -> None:
    found = model(folder, new, generated_from=MODEL)
    for use in USES:
        for _ in range(2):
            with pytest.raises(CodecError) as caught:
                use(found)
            assert str(caught.value) == STALE


def test_a_field_that_became_static_is_noticed(folder: Path) -> None:
    old = MODEL.replace(FIELD, "x: int").replace("jnp.ones(2)", "1")
    found = model(folder, old.replace("x: int", "x: int = field(static=True)"), generated_from=old)
    with pytest.raises(CodecError) as caught:
        jax.tree.leaves(found.DEFAULT)
    assert str(caught.value) == STALE


def test_code_can_be_generated_where_another_module_makes_instances_of_stale_classes(tmp_path: Path) -> None:
    """The one who is told to run `treaty generate` must be able to."""
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "user.py").write_text(
        "import jax.numpy as jnp\nimport model\nfrom treaty.schema import field, state\n\n"
        "FIRST = model.One(x=jnp.ones(2))\n\n@state\nclass Two:\n    one: model.One = field(factory=lambda: FIRST)\n"
    )
    generate = [sys.executable, "-m", "treaty.cli", "generate", "model", "user"]
    subprocess.run(generate, cwd=tmp_path, check=True)
    (tmp_path / "model.py").write_text(MODEL.replace(FIELD, f"{FIELD}\n    number: int = 1"))
    subprocess.run(generate, cwd=tmp_path, check=True)
    code = "import jax, user; print(len(jax.tree.leaves(user.Two())))"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True) == "2\n"


def test_a_class_of_a_notebook_may_have_instances_before_its_code() -> None:
    @state
    class Late:
        x: Float32[Array, "d"]
        name: str = field(static=True, default="n")

    early = Late(x=jnp.ones(2))
    with pytest.raises(CodecError, match=r"call treaty.generator.load\(Late\) first"):
        jax.tree.leaves(early)
    evolved = attrs.evolve(early, name="m")  # type: ignore[misc]
    load(Late)
    assert len(jax.tree.leaves(early)) == 1
    doubled: Any = jax.jit(lambda late: jax.tree.map(lambda x: 2 * x, late))(evolved)
    assert (type(doubled), doubled.name, float(doubled.x.sum())) == (Late, "m", 4.0)
    ((path, _),) = jax.tree_util.tree_flatten_with_path(early)[0]
    assert jax.tree_util.keystr(path) == ".x"


def test_a_subclass_of_a_loaded_class_needs_code_of_its_own() -> None:
    @state
    class Base:
        x: Float32[Array, "d"]

    load(Base)

    @state
    class Sub(Base):
        y: Float32[Array, "d"]

    with pytest.raises(CodecError, match="load"):
        jax.tree.leaves(Sub(x=jnp.ones(1), y=jnp.ones(1)))
    assert len(jax.tree.leaves(Base(x=jnp.ones(1)))) == 1


def test_a_class_that_is_a_pytree_of_its_own_stays_that() -> None:
    @state
    class Mine:
        x: int

    jax.tree_util.register_pytree_node(Mine, lambda mine: ((), mine.x), lambda x, _: Mine(x=x))
    assert jax.tree.leaves(Mine(x=1)) == []
