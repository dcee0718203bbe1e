"""Spread items, `Keys("block_{i}")`, over the revisions of their class: under a key of their own before or after, or under other names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.evolution.project import Project, projects
from treaty.runtime import TreatyError, plan, restore, save
from treaty.runtime._golden.update import Update

LISTED = """
from treaty.schema import Keys

@state
class Linear:
    w: Float32[Array, "a b"]

@state
class Model:
    embed: Float32[Array, "a"]
    blocks: Annotated[tuple[Linear, ...], Length("n"), Dims(...)]
"""
FIELD = 'blocks: Annotated[tuple[Linear, ...], Length("n"), Dims(...)]'
SPREAD = 'blocks: Annotated[tuple[Linear, ...], Keys("block_{i}"), Length("n"), Dims(...)]'
LAYERS = SPREAD.replace("block_{i}", "layer_{i}")
FORMATS = ("run.msgpack", "run.safetensors", "run.npz", "run", "run.msgpack.gz")
COUNT = 12  # 10 comes before 2 as text


@pytest.fixture
def project() -> Iterator[Project]:
    with projects() as make:
        yield make()


def declared(field: str) -> str:
    return LISTED.replace(FIELD, field)


def model(project: Project) -> Any:
    layers = tuple(project["Linear"](w=np.full((2, 3), i, np.float32)) for i in range(COUNT))
    return project["Model"](embed=np.zeros(2, np.float32), blocks=layers)


def numbers(restored: Any) -> list[float]:
    return [float(one.w[0, 0]) for one in restored.blocks]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("before", "after", "alias"),
    [(FIELD, SPREAD, "blocks"), (SPREAD, FIELD, "block_{i}"), (SPREAD, LAYERS, "block_{i}")],
)
def test_an_alias_is_all_that_a_change_of_keys_needs(
    project: Project, before: str, after: str, alias: str, name: str, tmp_path: Path
) -> None:
    project.release(declared(before))
    save(tmp_path / name, model(project), revision=1)
    project.release(declared(f'{after} = field(aliases=("{alias}",))'))

    restored = restore(tmp_path / name, project["Model"], dims={"n": COUNT, "a": 2, "b": 3})

    assert numbers(restored) == list(range(COUNT))
    save(tmp_path / "again", restored)
    assert numbers(restore(tmp_path / "again", project["Model"])) == list(range(COUNT))


@pytest.mark.parametrize(("before", "after"), [(FIELD, SPREAD), (SPREAD, FIELD), (SPREAD, LAYERS)])
def test_without_one_a_restore_and_its_plan_say_so(project: Project, before: str, after: str, tmp_path: Path) -> None:
    project.release(declared(before))
    save(tmp_path / "run", model(project))
    project.declare(declared(after))
    old, new = (one.partition('Keys("')[2].partition('"')[0] or "blocks" for one in (before, after))

    said = str(plan(tmp_path / "run", project["Model"]))

    assert f"field(aliases=('{old}',))" in said, said
    assert new in said
    with pytest.raises(TreatyError, match=r"aliases="):
        restore(tmp_path / "run", project["Model"])


def test_an_earlier_revision_is_written_with_its_keys(project: Project, tmp_path: Path) -> None:
    project.release(declared(SPREAD))
    project.release(declared(f'{LAYERS} = field(aliases=("block_{{i}}",))'))

    save(tmp_path / "old.npz", model(project), revision=1)

    with np.load(tmp_path / "old.npz") as file:
        assert {"block_0/w", "block_11/w", "embed"} <= {*file.files}
    assert numbers(restore(tmp_path / "old.npz", project["Model"])) == list(range(COUNT))


def test_a_function_of_a_migration_has_them_under_the_text_of_their_keys(project: Project, tmp_path: Path) -> None:
    """As its types say: no checker knows keys that count."""
    project.release(declared(SPREAD))
    save(tmp_path / "run", model(project))
    migration = """
@migration(Model, 1)
def halved(old: dict[str, Any]) -> dict[str, Any]:
    return {"embed": old["embed"], "layer_{i}": {str(i): old["block_{i}"][str(2 * i)] for i in range(6)}}
"""
    project.release(declared(LAYERS) + migration)

    assert numbers(restore(tmp_path / "run", project["Model"])) == [0, 2, 4, 6, 8, 10]


def test_moves_of_a_migration_name_items(project: Project, tmp_path: Path) -> None:
    project.release(declared(SPREAD))
    save(tmp_path / "run", model(project))
    project.release(declared(LAYERS) + '\nmoved = migration(Model, 1, moves=[Rule("block_{i}.w", "layer_{i}.w")])\n')

    assert numbers(restore(tmp_path / "run", project["Model"])) == list(range(COUNT))


def test_golden_checkpoints_have_them_and_replay(project: Project, tmp_path: Path) -> None:
    project.release(declared(SPREAD))
    assert [line for one in Update(project.name, tmp_path).run() for line in one.wrong] == []
    with np.load(next(tmp_path.rglob("*.npz"))) as file:
        assert any(name.startswith("block_") for name in file.files)
    project.release(declared(f'{LAYERS} = field(aliases=("block_{{i}}",))'))

    assert [line for one in Update(project.name, tmp_path).run() for line in one.wrong] == []
