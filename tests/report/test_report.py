"""`report`: what a page says of a checkpoint of each format, of two, and of the steps of a run."""

import json
import zipfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from tests.architecture.packages import ROOT
from tests.faults.states import Run, run
from tests.report.pages import data_of, leaves_by_path
from tests.runtime.directory import states
from tests.runtime.test_restore_formats import WRITERS, train
from treaty.runtime import CheckpointManager, InvalidArgumentError, MissingCheckpointError, inspect, report
from treaty.runtime._checkpoint.outline import outline_of_checkpoint
from treaty.runtime._report.tree import tree_of
from treaty.runtime._restore.select import parse_path
from treaty.runtime.directory import save
from treaty.runtime.formats import npz
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.table import FORMATS
from treaty.schema.outline import OutlineNode

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_reported_on(name: str, tmp_path: Path) -> None:
    path = WRITERS[name](tmp_path / "saved", train())
    data = data_of(report(path, progress=False))
    assert data["checkpoints"][0]["format"] == {"flax": "msgpack"}.get(name, name.split()[0])
    assert data["checkpoints"][0]["step"] == 7
    assert data["problems"] == []
    leaves = leaves_by_path(data)
    kernel = leaves["$.params.layers[2].kernel"]
    assert (kernel["dtype"], kernel["shape"], kernel["role"]) == ("float32", [8, 8], "params")
    assert (kernel["stats"]["min"], kernel["stats"]["norm"]) == (2.0, 16.0)
    assert leaves["$.host"]["stats"]["max"] == 4


def test_a_directory_says_what_its_writer_declared(tmp_path: Path) -> None:
    save(tmp_path / "a", states.train(), metadata={"epoch": 3})
    data = data_of(report(tmp_path / "a", progress=False))
    head, leaves = data["checkpoints"][0], leaves_by_path(data)
    assert head["class"] == "tests.runtime.directory.states:Train"
    assert head["digest"] == inspect(tmp_path / "a").digest
    assert json.loads(head["metadata"]) == {"epoch": 3}
    assert head["verified"] == {"state": "no"}
    kernel = leaves["$.params.blocks[1].up.kernel"]
    assert kernel["dims"] == ["d_in", "d_out"]
    assert leaves["$.rng"]["dtype"] == "key<threefry2x32>"
    assert leaves["$.rng"]["stats"] is None
    assert leaves["$.lr"]["value"] == "0.001"
    roles = {path: leaf["role"] for path, leaf in leaves.items()}
    assert (roles["$.params.embed"], roles["$.rng"], roles["$.step"]) == ("params", "rng", "other")


def test_the_state_of_an_optimizer_is_known_by_its_class(tmp_path: Path) -> None:
    path = WRITERS["treaty"](tmp_path / "saved", train())
    assert (
        leaves_by_path(data_of(report(path, progress=False)))["$.trace.trace.layers[0].kernel"]["role"] == "optimizer"
    )


def test_what_an_earlier_version_wrote_is_told_with_its_revision(tmp_path: Path) -> None:
    with zipfile.ZipFile(ROOT / "tests" / "golden" / "0003" / "evolved.zip") as archive:
        archive.extractall(tmp_path)
    head = data_of(report(tmp_path, progress=False))["checkpoints"][0]
    assert (head["class"], head["revision"]) == ("evolved_v2:Evolved", 1)


def test_a_report_can_verify(tmp_path: Path) -> None:
    save(tmp_path / "a", states.train())
    npz.write(tmp_path / "b.npz", states.linear(2, 3))
    assert data_of(report(tmp_path / "a", verify=True, progress=False))["checkpoints"][0]["verified"] == {
        "state": "checked"
    }
    found = data_of(report(tmp_path / "b.npz", verify=True, progress=False))
    assert found["checkpoints"][0]["verified"] == {"state": "readable"}


def test_what_changed_is_told_leaf_by_leaf(tmp_path: Path) -> None:
    old = states.train()
    embed = old.params.embed.at[0, 0].set(jnp.nan)
    save(tmp_path / "old", old)
    params = states.Params(embed=embed, blocks=old.params.blocks)
    new = states.Train(step=old.step, params=params, rng=old.rng, seen=old.seen, note=old.note, lr=0.5)
    save(tmp_path / "new", new)
    leaves = leaves_by_path(data_of(report(tmp_path / "old", tmp_path / "new", progress=False)))
    changed = {path: leaf["change"]["what"] for path, leaf in leaves.items() if leaf["change"]["what"] != "same"}
    assert changed == {"$.params.embed": "values", "$.lr": "values"}
    found = leaves["$.params.embed"]
    assert found["change"]["same_elements"] == 1 - 1 / embed.size
    assert (found["was_stats"]["nans"], found["stats"]["nans"]) == (0, 1)
    assert (leaves["$.lr"]["was"]["value"], leaves["$.lr"]["value"]) == ("0.001", "0.5")


def test_another_structure_is_told_between_formats_too(tmp_path: Path) -> None:
    npz_path, other = tmp_path / "old.npz", tmp_path / "new"
    np.savez(npz_path, a=np.ones(3, np.float32), b=np.ones(3), c=np.ones((2, 2)), same=np.arange(4))
    new = {"a": np.ones(3), "c": np.ones((2, 3)), "d": {"e": np.ones(1)}, "same": np.arange(4)}
    FORMATS["msgpack"].write(str(other), new, Writing())
    leaves = leaves_by_path(data_of(report(npz_path, other, progress=False)))
    assert {path: leaf["change"]["what"] for path, leaf in leaves.items()} == {
        "$.a": "dtype",
        "$.b": "removed",
        "$.c": "shape",
        "$.d.e": "added",
        "$.same": "same",
    }


def test_the_budget_is_kept_and_what_is_beyond_is_not_read(tmp_path: Path) -> None:
    """The files of large arrays are damaged: who reads one of them notices."""
    state = states.linear(1000, 600)
    save(tmp_path / "a", state)
    large = [path for path in (tmp_path / "a").rglob("*") if path.is_file() and path.stat().st_size > 100_000]
    assert large
    for chunk in large:
        chunk.write_bytes(bytes(chunk.stat().st_size))
    data = data_of(report(tmp_path / "a", max_bytes=100_000, progress=False))
    leaves = leaves_by_path(data)
    assert data["problems"] == []
    assert (leaves["$.kernel"]["read"], leaves["$.kernel"]["stats"]) == (False, None)
    assert leaves["$.bias"]["read"]
    assert data["budget"] == {"max_bytes": 100_000, "all_bytes": 2_402_400, "read_bytes": 2400}

    data = data_of(report(tmp_path / "a", max_bytes=3_000_000, progress=False))
    assert "expected checksum" in leaves_by_path(data)["$.kernel"]["error"]
    assert data["problems"]


def test_a_run_is_shown_with_its_steps_and_the_newest(tmp_path: Path) -> None:
    with CheckpointManager(tmp_path / "run", Run, keep_last=2) as manager:
        for step in (1, 2, 3):
            manager.save(step, run(step), metrics={"loss": 1 / step, "bad": float("nan")})
    CheckpointManager(tmp_path / "run", Run, keep_last=1).close()
    data = data_of(report(tmp_path / "run", progress=False))
    assert data["run"]["rules"]["keep_last"] == 1
    shown = [(one["step"], one["kept"], one["why"], one["metrics"]) for one in data["run"]["steps"]]
    assert shown == [
        (2, False, "no rule keeps it", {"loss": 0.5, "bad": "nan"}),
        (3, True, "newest, keep_last=1", {"loss": 1 / 3, "bad": "nan"}),
    ]
    assert data["checkpoints"][0]["step"] == 3
    assert data["checkpoints"][0]["metrics"] == {"loss": 1 / 3, "bad": "nan"}
    one = data_of(report(tmp_path / "run" / "2", progress=False))
    assert (one["run"], one["checkpoints"][0]["step"]) == (None, 2)


def test_steps_after_a_rollback_have_the_names_of_their_folders(tmp_path: Path) -> None:
    with CheckpointManager(tmp_path / "run", Run) as manager:
        for step in (100, 200, 150):
            manager.save(step, run(step))
    steps = data_of(report(tmp_path / "run", progress=False))["run"]["steps"]
    assert [(one["step"], one["name"]) for one in steps] == [(100, "100"), (200, "200"), (150, "150-r1")]


def test_a_run_whose_newest_step_is_damaged_is_shown_all_the_same(tmp_path: Path) -> None:
    with CheckpointManager(tmp_path / "run", Run) as manager:
        manager.save(1, run(1))
        manager.save(2, run(2))
    manifest = tmp_path / "run" / "2" / "treaty.json"
    manifest.write_bytes(manifest.read_bytes()[:-1])
    data = data_of(report(tmp_path / "run", progress=False))
    assert [one["step"] for one in data["run"]["steps"]] == [1, 2]
    assert data["checkpoints"] == []
    assert data["problems"]


def test_every_path_of_a_page_is_one_that_restore_takes(tmp_path: Path) -> None:
    names = ["plain", "a.b", "with space", 'quote"s', "it's", "0", "007", "$", "\u202ertl", "[1]", "\u2028"]
    both = "'\""  # for which a path has no quotes left
    FORMATS["msgpack"].write(str(tmp_path / "a"), {name: {"inner": 1} for name in [*names, both]}, Writing())
    *known, last = data_of(report(tmp_path / "a"))["tree"]["below"]
    assert [parse_path(one["step"].removeprefix(".")) for one in known] == [(name,) for name in names]
    assert last["unnamed"]


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with CheckpointManager(tmp_path / "run", Run) as manager:
        manager.save(1, run(1))
    with pytest.raises(MissingCheckpointError, match=r"got nothing at .*none"):
        report(tmp_path / "none", tmp_path / "run")
    with pytest.raises(MissingCheckpointError, match="got nothing at"):
        report(tmp_path / "none")
    with pytest.raises(InvalidArgumentError, match="expected a path"):
        report("")


def test_the_page_loads_nothing_and_runs_nothing_but_its_own(tmp_path: Path) -> None:
    save(tmp_path / "a", states.linear(2, 3))
    page = report(tmp_path / "a", progress=False)
    assert page.startswith("<!doctype html>\n<!-- treaty report -->\n")
    policy = page.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "//" not in page.replace("http://www.w3.org/2000/svg", "").partition("<script type")[0]
    assert "innerHTML" not in page


def test_damage_of_a_file_is_told_once(tmp_path: Path) -> None:
    tree = states.linear(20, 30)
    save(tmp_path / "a", tree)
    (pack,) = (tmp_path / "a").rglob("*.msgpack")
    pack.write_bytes(bytes(pack.stat().st_size))
    data = data_of(report(tmp_path / "a", verify=True, progress=False))
    assert [leaf["read"] for leaf in data["leaves"]] == [True, True]
    assert len(data["problems"]) == len(set(data["problems"])) == 2


def test_what_only_looks_like_a_random_key_is_a_node_like_others(tmp_path: Path) -> None:
    nan, words = np.array([np.nan], np.float32), np.zeros((3, 2), np.uint32)
    tree = {
        "cfg": {"impl": "x", "data": {"w": nan}},
        "short": {"impl": "threefry2x32", "data": words[:, :1]},
        "number": {"impl": "threefry2x32", "data": 2},
        "name": {"impl": {"a": 1}, "data": words},
        "keys": {"impl": "threefry2x32", "data": words},
    }
    for name in ("a", "b"):
        FORMATS["msgpack"].write(str(tmp_path / f"{name}.msgpack"), tree, Writing())
    for paths in (["a.msgpack"], ["a.msgpack", "b.msgpack"]):
        leaves = leaves_by_path(data_of(report(*(tmp_path / path for path in paths), progress=False)))
        assert leaves["$.cfg.data.w"]["stats"]["nans"] == 1
        assert leaves["$.short.data"]["shape"] == [3, 1]
        assert leaves["$.number.data"]["value"] == "2"
        assert leaves["$.name.impl.a"]["value"] == "1"
        assert leaves["$.keys"]["dtype"] == "key<threefry2x32>"
    outline = outline_of_checkpoint(tmp_path / "a.msgpack")
    assert isinstance(outline, OutlineNode)
    kinds = {key: type(child).__name__ for key, child in outline.children.items()}
    assert kinds == dict.fromkeys(("cfg", "short", "number", "name"), "OutlineNode") | {"keys": "OutlineLeaf"}


def test_alike_items_are_one_node_above_them() -> None:
    paths = [("l", "0", "w"), ("l", "1", "w"), ("m", "w"), ("m", "x0", "w"), ("m", "x1", "w")]
    l_0, l_1 = ({"step": f"[{item}]", "below": [{"step": ".w", "leaf": item}]} for item in range(2))
    x_0, x_1 = ({"step": f".x{item}", "below": [{"step": ".w", "leaf": 3 + item}]} for item in range(2))
    assert tree_of(paths, lambda _: "") == {
        "step": "",
        "below": [
            {"step": ".l", "run": "[0..1]", "below": [l_0, l_1]},
            {"step": ".m", "below": [{"step": ".w", "leaf": 2}, {"step": "", "run": ".x0..1", "below": [x_0, x_1]}]},
        ],
    }
    assert tree_of(paths[:2], lambda number: str(number))["below"] == [{"step": ".l", "below": [l_0, l_1]}]
