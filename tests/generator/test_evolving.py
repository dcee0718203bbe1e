"""What `treaty generate` says of declarations for earlier checkpoints; and factories, which it alone calls."""

import sys
from pathlib import Path

import pytest

from treaty.generator import generate
from treaty.generator._project import Project
from treaty.schema import SchemaError

HEAD = """\
import os
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float32, Int32
from treaty.schema import field, state

@state
class Linear:
    kernel: Float32[Array, "n 2"]
    note: str = field(static=True, default="")
"""


def generated(folder: Path, text: str) -> str:
    (folder / "evolving_state.py").write_text(HEAD + text)
    (output,) = generate("evolving_state", Project(folder)).values()
    return output


def problems_of(folder: Path, text: str) -> list[str]:
    with pytest.raises(SchemaError) as caught:
        generated(folder, text)
    return list(caught.value.problems)


def test_mistakes_come_with_file_line_class_and_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = """
@state(reserved=("gone",))
class Wrong:
    a: int = field(aliases=("b",))
    b: int = field(key="gone")
    c: int = field(key="b")
    d: int = field(cast_from=("int8",))
    e: int = field(default="3")
    f: Linear = field(factory=lambda: Linear(kernel=jnp.zeros((3, 4))))
    g: int = field(factory=lambda: 1 // 0)
    h: int = field(factory=lambda: exit("gone"))
"""
    line = HEAD.count("\n") + 2
    assert problems_of(tmp_path, text) == [
        f"evolving_state.py:{line}: Wrong.{problem}"
        for problem in (
            "d: field(cast_from=...): expected a field of arrays, got int; "
            "remove it, or write it on the field that is the array",
            "a: alias 'b' is the key of c; an alias is a key that no field has any more: remove it",
            "b: key 'gone' is reserved by Wrong: earlier checkpoints hold another thing under it; "
            "write field(key=...) with another",
            "e: default: expected int, got '3'; write a default that fits, or none",
            "f: factory: expected float32[n, 2], got float32[3, 4] at $.f.kernel; write a factory that fits, or none",
            "g: factory: it raises ZeroDivisionError: integer division or modulo by zero; "
            "write one that works wherever treaty generate runs",
            "h: factory: it raises SystemExit: gone; write one that works wherever treaty generate runs",
        )
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "@state(version=2)",
            "state(version=...): revisions are not counted by hand any more; write @state alone, and run: treaty lock",
        ),
        ("@state(reserved='gone')", "state(reserved='gone'): expected a tuple of strings; write ('gone',)"),
    ],
)
def test_wrong_arguments_come_with_the_line_they_stand_on(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = HEAD.count("\n") + 1
    assert problems_of(tmp_path, f"{text}\nclass Wrong:\n    x: int\n") == [f"evolving_state.py:{line}: {problem}"]


def test_a_factory_may_map_over_classes_whose_code_is_not_there_yet(tmp_path: Path) -> None:
    generated(
        tmp_path,
        """
def zeros() -> Linear:
    return jax.tree.map(jnp.zeros_like, Linear(kernel=jnp.ones((3, 2)), note="static"))

@state
class Train:
    params: Linear = field(factory=zeros)
""",
    )


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "cpu"), ({"JAX_PLATFORMS": "cpu,tpu"}, "cpu,tpu"), ({"JAX_PLATFORM_NAME": "cpu"}, "None")],
)
def test_factories_take_no_accelerator_unless_told_to(
    given: dict[str, str], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JAX_PLATFORMS", "JAX_PLATFORM_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    text = "\n@state\nclass Where:\n    x: int = field(factory=lambda: str(os.environ.get('JAX_PLATFORMS')))\n"
    (problem,) = problems_of(tmp_path, text)
    assert f"factory: expected int, got {found!r}; " in problem


def test_what_readers_need_of_earlier_checkpoints_is_in_generated_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = generated(
        tmp_path,
        """
@state(reserved=("class", '\"\"\"\\\\'))
class Odd:
    x: int = field(aliases=("def", "a b", "\\n", "\\ud800", "{{ x }}"))
""",
    )
    (tmp_path / "evolving_state_treaty.py").write_text(output)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        import evolving_state  # type: ignore[import-not-found]

        from treaty.runtime._state.registry import codec_of_class

        cls = codec_of_class(evolving_state.Odd).schema.root_class
        assert cls.reserved == ("class", '"""\\')
        assert cls.fields[0].aliases == ("def", "a b", "\n", "\ud800", "{{ x }}")
    finally:
        for name in ("evolving_state", "evolving_state_treaty"):
            sys.modules.pop(name, None)
