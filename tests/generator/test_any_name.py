"""Names that Python, the templates and generated code use themselves, given by a user to everything that has a name.

`TREATY_NAMES=all pytest tests/generator/test_any_name.py` takes every name for everything; the suite takes a part.
"""

import builtins
import keyword
import os
import re
from pathlib import Path

import pytest
from mypy import api

from tests import forked
from tests.generator.test_circles import CIRCLES
from tests.generator.test_circles import write as write_circle
from tests.generator.test_hostile_text import module_full_of_it
from treaty.generator import plan
from treaty.generator._names import snake
from treaty.runtime import codec

HERE = Path(__file__).parent
HEADER = """\
import enum as _enum
import typing as _t
from jax import Array as _Array
from jaxtyping import Float32 as _Float32
import builtins as _b
from treaty.schema import Dims as _Dims, Length as _Length, field as _field, state as _state

"""
# Reads and writes a value of every class of the modules named, with all that generated code can do to it.
ROUND_TRIP = """\
import importlib, sys
import jax, numpy as np
from treaty.runtime import abstract, from_state_dict, to_state_dict
from treaty.runtime._state.registry import codec_of_class

def filled(cls):
    made = abstract(cls, **{dim: 2 for dim in codec_of_class(cls).sizes})
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf, made)

for name in sys.argv[1:]:
    for cls in list(vars(importlib.import_module(name)).values()):
        if isinstance(cls, type) and cls.__module__ == name and hasattr(cls, "__treaty_state__"):
            if getattr(cls, "__parameters__", ()):
                continue  # with its arguments it is a field of another
            if cls.__name__.startswith("Loose"):
                child = filled(vars(sys.modules[name])[cls.__name__.replace("Loose", "Child")])
                value = cls(arrays=[child.x], many=[child], by_name={"a": child})
            else:
                value = filled(cls)
            saved = to_state_dict(value)
            dims = codec_of_class(cls).dims
            for given in ({}, {dim: 2 for dim in dims}):
                again = from_state_dict(cls, saved, dims=given)
                assert jax.tree.structure(again) == jax.tree.structure(value), cls
            for key in saved:
                try:
                    from_state_dict(cls, {**saved, key: b"something else"})
                except ValueError:
                    continue
                raise AssertionError(f"{cls}.{key} took something else")
print("done")
"""


DIMS = """\
@_state
class Child{n}:
    x: _Float32[_Array, {dims!r}]
    y: _Float32[_Array, {dims!r}] | None

@_state
class Parent{n}:
    tied: _t.Annotated[Child{n}, _Dims(None, **{ties})] | None
    alike: _t.Annotated[tuple[_t.Annotated[Child{n}, _Dims(...)], ...], _Length({first!r})]
    maybe: _t.Annotated[Child{n}, _Dims(...)] | None
    pair: tuple[_t.Annotated[Child{n}, _Dims(...)] | None, int]

@_state
class Loose{n}:
    arrays: list[_Float32[_Array, {dims!r}]]
    many: list[_t.Annotated[Child{n}, _Dims(...)]]
    by_name: dict[str, _t.Annotated[Child{n}, _Dims(...)]]
"""


def all_names() -> list[str]:
    """Keywords, builtins, and every identifier of the templates, the helpers and the goldens."""
    texts: list[str | Path] = [
        codec.__file__,
        plan.__file__,
        *HERE.glob("cases/*/expected.py"),
        *HERE.glob("cases/*/schema.py"),
    ]
    texts += Path(plan.__file__).parent.glob("templates/*")
    found = {word for path in texts for word in re.findall(r"[^\W\d]\w*", Path(path).read_text())}
    return sorted(found | set(keyword.kwlist) | set(keyword.softkwlist) | set(dir(builtins)))


def chosen(names: list[str], count: int) -> list[str]:
    """Some of the names, the same in every run; those that generated code is most likely to need are among them."""
    if os.environ.get("TREATY_NAMES") == "all":
        return names
    wanted = {"value", "function", "state", "put", "obj", "items", "read", "codec", "np", "jax", "found", "x", "at0"}
    return [name for index, name in enumerate(names) if name in wanted or index % (len(names) // count) == 0]


def as_dims(names: list[str]) -> str:
    """Keywords stand alone: `2*in` is no expression. jaxtyping has no `__x`, and no dim is called None."""
    names = [name for name in names if not name.startswith("__") and name not in ("_", "None", "True", "False")]
    names = [name for name in names if not keyword.iskeyword(name)] + [
        name for name in names if keyword.iskeyword(name)
    ]
    groups = [names[start : start + 6] for start in range(0, len(names), 6)]
    return "\n".join(
        DIMS.format(
            n=number,
            dims=" ".join(group),
            first=group[0],
            ties={dim: f"2*{dim}" for dim in group[1:3] if not keyword.iskeyword(dim)},
        )
        for number, group in enumerate(groups)
    )


def as_fields(names: list[str]) -> str:
    names = [name for name in names if not name.startswith("_") and not keyword.iskeyword(name) and name != "self"]
    text = "@_state\nclass Named:\n" + "".join(f"    {name}: _b.int\n" for name in names)
    return text + "\n@_state\nclass Arrays:\n" + "".join(f"    {name}: _Float32[_Array, 'd']\n" for name in names)


def as_keys(names: list[str]) -> str:
    fields = [f"    f{index}: _Float32[_Array, 'd'] = _field(key={name!r})\n" for index, name in enumerate(names)]
    return "@_state\nclass Keyed:\n" + "".join(fields)


def as_classes(names: list[str]) -> str:
    by_stem = {snake(name): name for name in names if not keyword.iskeyword(name) and not name.startswith("__")}
    text = ""
    for index, name in enumerate(by_stem.values()):
        text += (
            f"_T{index} = _t.TypeVar('_T{index}')\n@_state\nclass {name}(_t.Generic[_T{index}]):\n    x: _T{index}\n"
        )
        text += "    y: _Float32[_Array, 'd']\n\n"
    text += "@_state\nclass OfAllClasses:\n"
    return text + "".join(
        f"    f{index}: _t.Annotated[{name}[_b.int], _Dims(None)]\n    g{index}: _t.Annotated[{name}[_Float32[_Array, 'd']], _Dims(None)]\n"
        for index, name in enumerate(by_stem.values())
    )


def as_type_variables(names: list[str]) -> str:
    text = ""
    for index, name in enumerate(name for name in names if not keyword.iskeyword(name) and not name.startswith("_")):
        text += f"{name} = _t.TypeVar({name!r})\n@_state\nclass Generic{index}(_t.Generic[{name}]):\n    x: {name}\n\n"
        text += f"@_state\nclass Filled{index}:\n    x: Generic{index}[_Float32[_Array, 'd']]\n\n"
    return text


def as_members(names: list[str]) -> str:
    members = [name for name in names if not keyword.iskeyword(name) and not name.startswith("_") and name != "mro"]
    text = "class Members(_enum.Enum):\n" + "".join(f"    {name} = {index}\n" for index, name in enumerate(members))
    text += "\n@_state\nclass OfMembers:\n"
    return text + "".join(f"    m{index}: Members = Members.{name}\n" for index, name in enumerate(members))


def write_project(root: Path, names: list[str]) -> list[str]:
    """A project whose package `pkg` has a module for each use of the names, and one called by each name."""
    package = root / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    uses = {
        "dims_": as_dims,
        "fields_": as_fields,
        "keys_": as_keys,
        "classes_": as_classes,
        "variables_": as_type_variables,
        "members_": as_members,
    }
    for name, use in uses.items():
        (package / f"{name}.py").write_text(HEADER + use(names))
    modules = [name for name in chosen(names, 5) if not keyword.iskeyword(name) and not name.startswith("__")]
    for name in modules:
        (package / f"{name}.py").write_text(f"{HEADER}@_state\nclass {name}:\n    x: _Float32[_Array, 'd']\n")
    imports = "".join(f"import pkg.{name} as m{index}\n" for index, name in enumerate(modules))
    fields = "".join(
        f"    f{index}: _t.Annotated[m{index}.{name}, _Dims(None)]\n" for index, name in enumerate(modules)
    )
    (package / "modules_.py").write_text(f"{HEADER}{imports}@_state\nclass OfAll:\n{fields}")
    (package / "hostile_.py").write_text(module_full_of_it(), encoding="utf-8")
    write_circle(root, *CIRCLES["modules"])
    return [*(f"pkg.{name}" for name in (*uses, "modules_", "hostile_")), "net.node"]


def test_every_name_can_be_given_to_everything(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    modules = write_project(tmp_path, chosen(all_names(), 20))
    done = forked.run("treaty", "generate", *modules, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = forked.run("python", "-c", ROUND_TRIP, *modules[:-1], cwd=tmp_path)
    assert done.stdout == "done\n", done.stderr
    assert strict_errors(tmp_path, pytestconfig) == []


def strict_errors(root: Path, pytestconfig: pytest.Config) -> list[str]:
    """What mypy says of the generated modules below a folder."""
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir("mypy-plain")
    (root / "mypy.ini").write_text("[mypy]\nstrict = true\nexplicit_package_bases = true\n")
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*_treaty.py"))
    before = os.getcwd()
    os.chdir(root)
    try:
        output, crash, _ = api.run(["--config-file=mypy.ini", f"--cache-dir={cache}", *files])
    finally:
        os.chdir(before)
    assert crash == ""
    return [line for line in output.splitlines() if "_treaty.py" in line and ": error:" in line]
