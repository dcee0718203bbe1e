"""Chains of random changes, all declared: whatever was saved on the way comes through as the declarations say, bit for bit.

`TREATY_CHAINS=300 pytest tests/evolution/test_chains.py` takes more of them. A plain model of the state, fields and their values by name, is changed along with the declaration.
"""

import itertools
import os
import tempfile
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from attrs import define, evolve, field, frozen
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.evolution.project import Project
from tests.evolution.states import WRITERS, leaf_bits
from treaty.runtime import restore

WIDER = {"int8": "int16", "int16": "int32", "float16": "float32", "bfloat16": "float32"}
NAMES = {
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "float16": "Float16",
    "bfloat16": "BFloat16",
    "float32": "Float32",
}


@frozen
class Declared:
    """An array field of the class, of a known length."""

    name: str
    dtype: str
    size: int
    aliases: tuple[str, ...] = ()
    default: int | None = None

    @property
    def factory(self) -> str:
        return f"{self.dtype}_{self.size}_{self.default}"

    @property
    def line(self) -> str:
        type = f'{NAMES[self.dtype]}[Array, "{self.size}"]'
        if self.default is not None:
            return f"{self.name}: {type} = field(aliases={self.aliases!r}, factory={self.factory})"
        return f"{self.name}: {type} = field(aliases={self.aliases!r})"


@define
class Saved:
    """A checkpoint, and what its fields would be now, by name."""

    path: Path
    revision: int
    values: dict[str, Any]
    host: bool


@define
class Declaration:
    fields: list[Declared] = field(factory=list)
    reserved: list[str] = field(factory=list)
    steps: list[str] = field(factory=list)
    locked: int = 0
    factories: dict[str, Declared] = field(factory=dict)

    def text(self) -> str:
        lines = sorted((one.line for one in self.fields), key=lambda line: "factory" in line)
        body = "".join(f"    {line}\n" for line in ["step: int", *lines])
        state = f"@state(reserved={tuple(self.reserved)!r})" if self.reserved else "@state"
        host = "@state\nclass Host:\n    parts: dict[str, list[A]]\n    maybe: A | None\n"
        self.factories |= {
            one.factory: one for one in self.fields if one.default is not None
        }  # for ever: they are locked
        made = [
            f"def {name}():\n    return jnp.full({one.size}, {one.default}, jnp.{one.dtype})\n"
            for name, one in self.factories.items()
        ]
        above = "from jaxtyping import Int16\n" + "".join(made)
        return f"{above}{state}\nclass A:\n{body}" + "".join(self.steps) + host


class Chains(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.project = Project()
        self.now = Declaration()
        self.saved: list[Saved] = []
        self.names = (f"f{n}" for n in itertools.count())
        self.changed: set[str] = set()  # fields that this revision has touched: one change each

    @initialize(dtypes=st.lists(st.sampled_from(sorted(NAMES)), min_size=2, max_size=3))
    def begin(self, dtypes: list[str]) -> None:
        self.now.fields = [Declared(next(self.names), dtype, 4) for dtype in dtypes]
        self.lock()

    # Changes. Each is told to the declaration and to the values of what was saved before.

    @rule(dtype=st.sampled_from(sorted(NAMES)), default=st.integers(0, 9), size=st.sampled_from([2, 4]))
    def add(self, dtype: str, default: int, size: int) -> None:
        one = Declared(next(self.names), dtype, size, default=default)
        self.now.fields.append(one)
        self.changed.add(one.name)
        for saved in self.saved:
            saved.values[one.name] = jnp.full(size, default, dtype)

    @rule(data=st.data())
    def rename(self, data: st.DataObject) -> None:
        one = self.choose(data)
        if one is None:
            return
        new = evolve(one, name=next(self.names), aliases=(one.name, *one.aliases))
        self.replace(one, new)
        for saved in self.saved:
            saved.values[new.name] = saved.values.pop(one.name)

    @rule(data=st.data())
    def widen(self, data: st.DataObject) -> None:
        one = self.choose(data, lambda field: field.dtype in WIDER)
        if one is None:
            return
        new = evolve(one, dtype=WIDER[one.dtype])
        self.replace(one, new)
        for saved in self.saved:
            saved.values[one.name] = saved.values[one.name].astype(new.dtype)

    @precondition(lambda self: len(self.now.fields) > 2)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        one = self.choose(data)
        if one is None:
            return
        self.now.fields.remove(one)
        self.now.reserved += [one.name, *one.aliases]
        self.changed.add(one.name)
        for saved in self.saved:
            del saved.values[one.name]

    @rule(data=st.data())
    def move_by_rule(self, data: st.DataObject) -> None:
        self.lock()
        one = self.choose(data)
        if one is None:
            return
        new = evolve(one, name=next(self.names), aliases=())
        self.replace(one, new)
        self.step(f'Rule("{one.name}", "{new.name}")')
        for saved in self.saved:
            saved.values[new.name] = saved.values.pop(one.name)

    @rule(data=st.data())
    def split(self, data: st.DataObject) -> None:
        self.lock()
        one = self.choose(data, lambda field: field.size == 4)
        if one is None:
            return
        parts = [Declared(next(self.names), one.dtype, 2) for _ in range(2)]
        self.now.fields.remove(one)
        self.now.fields += parts
        self.step(f'Rule("{one.name}", ("{parts[0].name}", "{parts[1].name}"), axis=0)')
        for saved in self.saved:
            whole = saved.values.pop(one.name)
            saved.values |= {parts[0].name: whole[:2], parts[1].name: whole[2:]}

    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        self.lock()
        first = self.choose(data, lambda field: field.size == 2)
        second = (
            None
            if first is None
            else self.choose(data, lambda other: other != first and (other.size, other.dtype) == (2, first.dtype))
        )
        if first is None or second is None:
            return
        whole = Declared(next(self.names), first.dtype, 4)
        self.now.fields = [one for one in self.now.fields if one not in (first, second)] + [whole]
        self.step(f'Rule(("{first.name}", "{second.name}"), "{whole.name}", axis=0)')
        for saved in self.saved:
            saved.values[whole.name] = jnp.concatenate([saved.values.pop(first.name), saved.values.pop(second.name)])

    # What happens in between.

    @rule(seed=st.integers(0, 99), format=st.sampled_from(sorted(WRITERS)), host=st.booleans())
    def save(self, seed: int, format: str, host: bool) -> None:
        self.lock()
        random = np.random.default_rng(seed)
        values = {one.name: jnp.asarray(random.integers(-9, 9, one.size), one.dtype) for one in self.now.fields}
        a = self.project["A"](step=seed, **values)
        state = self.project["Host"](parts={"x": [a, a]}, maybe=a) if host else a
        folder = Path(self.folder.name, str(len(self.saved)))
        folder.mkdir()
        WRITERS[format](folder / format, state)
        self.saved.append(Saved(folder / format, self.now.locked, {**values, "step": seed}, host))

    @precondition(lambda self: self.saved)
    @rule()
    def restore_all(self) -> None:
        self.lock()
        for saved in self.saved:
            self.check(saved)

    def teardown(self) -> None:
        if self.now.fields:
            self.restore_all()
        self.project.forget()
        self.folder.cleanup()

    def check(self, saved: Saved) -> None:
        cls = self.project["Host" if saved.host else "A"]
        # Of others, revisions may look alike: then only the number tells.
        says = saved.path.name in ("directory", "x.safetensors", "sharded")
        found = restore(saved.path, cls, revision=None if says else saved.revision)
        for one in [*found.parts["x"], found.maybe] if saved.host else [found]:
            got = {name: leaf_bits(getattr(one, name)) for name in [other.name for other in self.now.fields]}
            assert got == {name: leaf_bits(value) for name, value in saved.values.items() if name != "step"}
            assert one.step == saved.values["step"]

    # How.

    def lock(self) -> None:
        self.changed.clear()
        self.project.release(self.now.text())
        self.now.locked = self.project.history("A").last
        assert self.project.history("Host").last == self.now.locked  # it reaches the other

    def step(self, rules: str) -> None:
        self.now.steps.append(f"migration(A, {self.now.locked}, moves=[{rules}])\n")
        self.lock()

    def choose(self, data: st.DataObject, suits: Any = lambda field: True) -> Declared | None:
        fitting = [one for one in self.now.fields if one.name not in self.changed and suits(one)]
        return data.draw(st.sampled_from(fitting)) if fitting else None

    def replace(self, one: Declared, new: Declared) -> None:
        self.now.fields[self.now.fields.index(one)] = new
        self.changed |= {one.name, new.name}


TestChains = Chains.TestCase
TestChains.settings = settings(max_examples=int(os.environ.get("TREATY_CHAINS", "10")), stateful_step_count=12)


def test_the_model_can_fail(tmp_path: Path) -> None:
    chains = Chains()
    chains.begin(["int8", "float32"])
    chains.save(1, "directory", True)
    chains.saved[0].values["f0"] = chains.saved[0].values["f0"] + 1
    try:
        chains.check(chains.saved[0])
    except AssertionError:
        return
    finally:
        chains.saved.clear()
        chains.teardown()
    raise AssertionError("a wrong value was not found")
