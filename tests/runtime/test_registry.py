"""How generated code is found, and what is said when it is missing or stale."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treaty.generator import generate
from treaty.generator._project import Project
from treaty.runtime import CodecError, StateMismatchError, explain, from_state_dict, to_state_dict
from treaty.runtime._state import numbering
from treaty.runtime._state.registry import codec_of_class, revisions_of
from treaty.runtime.codec import Codec
from treaty.schema import SchemaError
from treaty.schema.library.transformer import TrainState

OLD = "from treaty.schema import state\n\n@state\nclass A:\n    x: int\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("registry_"):
            del sys.modules[name]


def write(project: Path, name: str, text: str, generated_from: str | None = None) -> Any:
    """Write a schema module, generate its code (from an older text, if given), and import the schema."""
    path = project / f"{name}.py"
    path.write_text(generated_from or text)
    for output, code in generate(name, Project(project)).items():
        (project / output).write_text(code)
    path.write_text(text)
    return __import__(name)


def test_the_sibling_module_is_found(project: Path) -> None:
    module = write(project, "registry_sibling", OLD)
    assert from_state_dict(module.A, {"x": 1}).x == 1
    assert to_state_dict(module.A(x=2)) == {"x": 2}


def test_the_module_named_by_treaty_is_found(project: Path) -> None:
    module = write(project, "registry_named", OLD + '\n__treaty__ = "registry_elsewhere"\n')
    assert (project / "registry_elsewhere.py").exists()
    assert from_state_dict(module.A, {"x": 1}).x == 1


def test_the_digest_of_generated_code_is_that_of_its_schema() -> None:
    from treaty.generated import optax, transformer

    for module in (optax, transformer):
        codecs = [value for value in vars(module).values() if isinstance(value, Codec)]
        assert codecs
        assert all(codec.digest == codec.schema.digest for codec in codecs)


def test_missing_code_names_the_command(project: Path) -> None:
    (project / "registry_missing.py").write_text(OLD)
    module = __import__("registry_missing")
    with pytest.raises(CodecError) as caught:
        from_state_dict(module.A, {"x": 1})
    assert str(caught.value) == "no generated code for registry_missing:A; run: treaty generate registry_missing"


@pytest.mark.parametrize(
    "new",
    [
        OLD.replace("x: int", "x: float"),
        OLD.replace("x: int", "y: int"),
        OLD.replace("x: int", "x: int\n    y: int = 0"),
        OLD.replace("@state", "@state(reserved=('y',))"),
        OLD.replace("import state", "import field, state").replace("x: int", "x: int = field(aliases=('y',))"),
    ],
)
def test_stale_code_is_never_used(project: Path, new: str) -> None:
    name = f"registry_stale_{abs(hash(new))}"
    module = write(project, name, new, generated_from=OLD)
    with pytest.raises(CodecError) as caught:
        from_state_dict(module.A, {"x": 1})
    assert str(caught.value) == (
        f"the generated code of {name}:A is older than its declaration; run: treaty generate {name}"
    )


def test_code_that_names_a_class_which_is_gone_is_told_so(project: Path) -> None:
    both = OLD + "\n\n@state\nclass B:\n    x: int\n"
    module = write(project, "registry_gone", OLD, generated_from=both)
    with pytest.raises(SchemaError) as caught:
        from_state_dict(module.A, {"x": 1})
    assert str(caught.value) == (
        "expected generated code for what registry_gone declares, got code for B, which is gone; "
        "run: treaty generate registry_gone"
    )


@pytest.mark.parametrize(
    ("inner", "homes"),
    [
        (OLD.replace("@state", "@state(reserved=('y',))"), "registry_inner"),  # which the outer code does not hold
        (OLD.replace("x: int", "x: float"), "registry_inner registry_outer"),  # which is part of its digest
    ],
)
def test_the_modules_of_all_classes_that_changed_are_named(project: Path, inner: str, homes: str) -> None:
    (project / "registry_inner.py").write_text(OLD)
    outer = "import registry_inner\nfrom treaty.schema import state\n\n@state\nclass B:\n    a: registry_inner.A\n"
    (project / "registry_outer.py").write_text(outer)
    for name in ("registry_inner", "registry_outer"):
        for output, code in generate(name, Project(project)).items():
            (project / output).write_text(code)
    (project / "registry_inner.py").write_text(inner)
    module: Any = __import__("registry_outer")
    with pytest.raises(CodecError) as caught:
        from_state_dict(module.B, {"a": {"x": 1}})
    assert str(caught.value) == (
        f"the generated code of registry_outer:B is older than its declaration; run: treaty generate {homes}"
    )


def test_what_is_no_class(project: Path) -> None:
    wrong: list[Any] = [3, [1], int]
    for value in wrong:
        with pytest.raises((CodecError, SchemaError)):
            from_state_dict(value, {})


def test_a_generic_that_no_module_uses(project: Path) -> None:
    text = (
        "from typing import Generic, TypeVar\nfrom treaty.schema import state\nP = TypeVar('P')\n\n"
        "@state\nclass G(Generic[P]):\n    x: P\n"
    )
    module = write(project, "registry_generic", text)
    assert from_state_dict(module.G, {"x": 1}).x == 1
    assert to_state_dict(module.G(x=1)) == {"x": 1}
    with pytest.raises(CodecError, match=r"no generated code for registry_generic:G\[int\]; use it as a field"):
        from_state_dict(module.G[int], {"x": 1})


def test_a_generic_class_of_another_module_has_a_revision_of_its_own() -> None:
    found = revisions_of(codec_of_class(TrainState).schema)
    assert found["treaty.schema.library.transformer:TrainState"] == 1
    assert found["treaty.schema.library.optax:AdamW"] == 1


GENERIC = """\
from typing import Generic, TypeVar

from treaty.schema import state

P = TypeVar("P")


@state
class Inner:
    x: int


@state
class G(Generic[P]):
    a: P
    b: int


@state
class Root:
    g: G[Inner]
"""


@pytest.mark.parametrize(
    ("old", "new", "stale"),
    [
        ("    b: int", "    b: float", "G[{name}:Inner]"),  # the generic class itself
        ("    x: int", "    x: float", "Inner"),  # an argument
    ],
)
def test_an_instance_of_a_generic_class_is_not_served_by_stale_code(
    project: Path, old: str, new: str, stale: str
) -> None:
    name = f"registry_generic_{abs(hash(new))}"
    module = write(project, name, GENERIC.replace(old, new), generated_from=GENERIC)
    with pytest.raises(CodecError) as caught:
        to_state_dict(module.G(a=module.Inner(x=1), b=2))
    assert str(caught.value) == (
        f"the generated code of {name}:{stale.format(name=name)} is older than its declaration; run: treaty generate {name}"
    )


def test_the_code_of_a_generic_instance_does_not_depend_on_what_was_asked_before(project: Path) -> None:
    module = write(project, "registry_generic_order", GENERIC)
    value = module.G(a=module.Inner(x=1), b=2)
    before = to_state_dict(value)
    assert explain(module.G, {"a": 1, "b": 2}) == ()  # of the class without arguments
    assert to_state_dict(value) == before == {"a": {"x": 1}, "b": 2}
    with pytest.raises(StateMismatchError, match=r"expected Inner, got int 1 at \$.a"):
        to_state_dict(module.G(a=1, b=2))


def test_the_keys_of_a_sequence_are_those_that_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(list[str]):
        """Another thread puts a shorter list in place in the meantime."""

        def __len__(self) -> int:
            monkeypatch.setattr(numbering, "_texts", ["0"])
            return super().__len__()

    monkeypatch.setattr(numbering, "_texts", Other("01234"))
    assert list(numbering.index_keys(3)) == ["0", "1", "2", "3", "4"]
