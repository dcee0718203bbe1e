"""Golden checkpoints as they are made up, added and replayed; the command has tests of its own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.evolution.project import Project, schema
from tests.evolution.states import bits
from treaty.runtime import golden, restore, save, to_state_dict
from treaty.runtime._golden.checksums import checksums
from treaty.runtime._golden.sizes import small_sizes
from treaty.runtime._golden.update import GoldenOutcome, Update
from treaty.runtime._golden.values import array, made_up
from treaty.runtime._state.explain import explain
from treaty.runtime._trees import flatten
from treaty.schema import TreatyError
from treaty.schema.dtypes import BY_NAME, TABLE

LINEAR = """
@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: BFloat16[Array, "d_out"]
"""
EVERYTHING = f"""{LINEAR}
class Mode(enum.Enum):
    TRAIN = "t"
    EVAL = "e"

class Pair(NamedTuple):
    one: Int8[Array, "n"]
    two: float

@state
class Moments(Generic[P]):
    mu: P
    nu: P

@state
class Tree:
    value: int
    children: list["Tree"]
    left: "Tree | None" = None

@state
class Everything:
    step: Int32[Array, ""]
    linear: Annotated[Linear, Dims(d_in="d_model", d_out="4*d_model")]
    moments: Annotated[Moments[Linear], Dims(...)]
    layers: Annotated[tuple[Linear, ...], Length("n_layers"), Dims(d_in="d_model", d_out="d_model")]
    rng: Key[Array, "streams"]
    rbg: Annotated[Array, ArraySpec("key<rbg>")]
    pair: Annotated[Pair, Dims(None)]
    both: tuple[int, str]
    tree: Tree
    mode: Mode
    maybe: Float32[Array, "o"] | None
    by_name: dict[str, complex]
    by_number: dict[int, bool]
    half: np.float16
    nothing: None
    other: Any
    blob: bytes = b""
    note: str = field(default="", static=True)
    host: Annotated[np.ndarray, ArraySpec("float64", "n 3")] = field(factory=lambda: np.zeros((1, 3)))
"""


def update(project: Project, folder: Path, **options: Any) -> dict[str, GoldenOutcome]:
    return {one.name: one for one in Update(project.name, folder, **options).run()}


def wrong(outcomes: dict[str, GoldenOutcome]) -> list[str]:
    return [line for one in outcomes.values() for line in one.wrong]


def checkpoints(project: Project, folder: Path) -> list[golden.Checkpoint]:
    return golden.checkpoints(folder / f"golden-{project.name}", project.name)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        pytest.param('a: Float32[Array, "m n"]', {"m": 2, "n": 3}, id="small sizes that differ"),
        pytest.param('a: Float32[Array, "k=2*n n"]', {"n": 2}, id="labels follow"),
        pytest.param('x: Annotated[Heads, Dims(d="m")]', {"m": 12, "h": 3, "k": 4}, id="a label below decides"),
        pytest.param('x: Annotated[Heads, Dims(d="2*m+2")]', {"m": 5, "h": 3, "k": 4}, id="through a tie"),
        pytest.param('x: Annotated[Heads, Dims(d="35")]', {"h": 7, "k": 5}, id="sizes are tried"),
        pytest.param('a: Float32[Array, "m-n m n"]', {"m": 8, "n": 7}, id="none is 0 or below"),
    ],
)
def test_sizes_fit_labels_and_ties(text: str, sizes: dict[str, int]) -> None:
    heads = '@state\nclass Heads:\n    a: Float32[Array, "d=h*k h k"]\n'
    found = schema(f"{heads}\n@state\nclass Root:\n    {text}\n")
    assert explain(found, made_up(found)) == ()
    assert small_sizes(found) == sizes


def test_sizes_that_cannot_be_are_said() -> None:
    found = schema(
        '@state\nclass A:\n    a: Float32[Array, "d=2*h h"]\n@state\nclass Root:\n    x: Annotated[A, Dims(d="31")]\n'
    )
    with pytest.raises(TreatyError, match="expected small sizes that its labels and ties allow, found none for m:Root"):
        small_sizes(found)


@pytest.mark.parametrize("dtype", [row.name for row in TABLE])
def test_arrays_of_every_dtype_are_the_same_everywhere(dtype: str) -> None:
    made = array(dtype, (3, 5), 7)
    assert (made.shape, str(made.dtype)) == ((3, 5), dtype)
    assert made.tobytes() == array(dtype, (3, 5), 7).tobytes() != array(dtype, (3, 5), 8).tobytes()
    assert len({one.tobytes() for one in made.reshape(-1)}) >= min(2, made.size)


def test_a_state_of_every_kind_of_leaf_is_written_as_save_writes_it(project: Project, tmp_path: Path) -> None:
    project.release(EVERYTHING)
    outcomes = update(project, tmp_path)
    assert wrong(outcomes) == []
    assert outcomes["Everything"].without == {"orbax": "expected what Orbax can store, got bytes at $.blob"}
    made = [one for one in checkpoints(project, tmp_path) if one.cls == "Everything"]
    states = [restore(one.path, project["Everything"], revision=one.asked) for one in made]
    leaves = dict(flatten(to_state_dict(states[0])))
    assert leaves["maybe",].size
    assert leaves["other",] == {}
    assert leaves["tree", "children"] == {}
    assert all(bits(state) == bits(states[0]) for state in states)
    for one in made:
        if one.path.suffix in (".msgpack", ".safetensors", ".npz"):
            save(tmp_path / one.path.name, states[0])
            assert (tmp_path / one.path.name).read_bytes() == one.path.read_bytes()
    manifest = json.loads((made[0].path / "treaty.json").read_text())
    save(tmp_path / "treaty", states[0])
    saved = json.loads((tmp_path / "treaty" / "treaty.json").read_text())
    assert (manifest["schema"], manifest["more"]["revisions"]) == (saved["schema"], saved["more"]["revisions"])


def test_every_dtype_is_restored_alike_in_every_format(project: Project, tmp_path: Path) -> None:
    fields = [f'    x_{row.name}: Annotated[np.ndarray, ArraySpec("{row.name}", "n 3")]' for row in TABLE]
    project.release("@state\nclass Dtypes:\n" + "\n".join(fields))
    outcomes = update(project, tmp_path)
    assert wrong(outcomes) == []
    assert "orbax" in outcomes["Dtypes"].without  # which has no name for some of them
    assert [one.path.name for one in checkpoints(project, tmp_path)] == [
        "treaty",
        "checkpoint.msgpack",
        "checkpoint.safetensors",
        "checkpoint.npz",
    ]


def test_a_checksum_is_of_the_elements_and_not_of_unused_bits() -> None:
    narrow = BY_NAME["int4"].numpy
    ours, others = (np.array([byte], np.uint8).view(narrow) for byte in (0x0F, 0xFF))
    assert checksums({"a": ours}) == checksums({"a": others}) != checksums({"a": ours.astype("int8")})


def test_a_class_keeps_its_checkpoints_under_another_name(project: Project, tmp_path: Path) -> None:
    project.release(LINEAR)
    update(project, tmp_path)
    project.declare(LINEAR.replace("Linear", "Dense")).move({"Linear": "Dense"})
    project.declare(LINEAR.replace("Linear", "Dense") + LINEAR.replace('"d_in d_out"', '"d_in 2 d_out"')).lock()
    outcomes = update(project, tmp_path)
    assert wrong(outcomes) == []
    assert {name: (one.added, one.replayed) for name, one in outcomes.items()} == {
        "Dense": ([], [1]),
        "Linear": ([1], []),
    }
    names = {(one.cls, one.path.parent.name) for one in checkpoints(project, tmp_path)}
    assert names == {("Dense", "Linear-1"), ("Linear", "Linear-1-2")}


def test_a_change_of_meaning_alone_is_replayed_in_every_format(project: Project, tmp_path: Path) -> None:
    """Nothing in a file of MessagePack tells the two revisions apart: the revision is asked for."""
    project.release(LINEAR)
    update(project, tmp_path)
    halved = (
        '\n@migration(Linear, 1)\ndef halved(old):\n    return {"kernel": old["kernel"] / 2, "bias": old["bias"]}\n'
    )
    project.release(LINEAR + halved)
    assert wrong(update(project, tmp_path)) == []
    for one in checkpoints(project, tmp_path):
        state = restore(one.path, project["Linear"], into="numpy", revision=one.asked)
        assert golden.differences(one, state) == []
    first, second = (one.golden for one in checkpoints(project, tmp_path) if one.path.name == "treaty")
    assert first.restored[2]["$.kernel"] != first.restored[1]["$.kernel"] == second.restored[2]["$.kernel"]


def test_a_format_that_comes_later_is_written_from_what_is_there(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.release(LINEAR)
    monkeypatch.setattr("treaty.runtime._golden.write.FORMATS_WRITTEN", ("treaty", "npz"))
    update(project, tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr("treaty.runtime._golden.values._seed", lambda path: 5)  # a later Treaty makes up other values
    outcome = update(project, tmp_path)["Linear"]
    assert (outcome.added, outcome.replayed, outcome.wrong) == ([1], [1], [])
    found = [restore(one.path, project["Linear"], revision=one.asked) for one in checkpoints(project, tmp_path)]
    assert len(found) == 5
    assert all(bits(one) == bits(found[0]) for one in found)


def test_what_nobody_replayed_yet_is_said(project: Project, tmp_path: Path) -> None:
    project.release(LINEAR)
    update(project, tmp_path)
    project.release(f'{LINEAR}    note: str = "none"\n')
    one = checkpoints(project, tmp_path)[0]
    assert golden.differences(one, restore(one.path, project["Linear"])) == [
        f"Linear-1/treaty: nobody knows yet what it is as revision 2 of Linear; run: treaty golden {project.name}"
    ]
    outcome = update(project, tmp_path, only_replays=True)["Linear"]
    assert outcome.missing[0] == "what revision 1 is as revision 2"
    assert update(project, tmp_path)["Linear"].missing == []
    assert golden.differences(checkpoints(project, tmp_path)[0], restore(one.path, project["Linear"])) == []


def test_a_checkpoint_of_a_revision_that_is_not_in_the_lock_is_refused(project: Project, tmp_path: Path) -> None:
    project.release(LINEAR)
    update(project, tmp_path)
    index = tmp_path / f"golden-{project.name}" / "Linear-1" / "index.json"
    data = json.loads(index.read_text())
    index.write_text(json.dumps({**data, "chain": "sha256:0"}))
    with pytest.raises(TreatyError, match="which its lock does not have; delete the folder if it was never released"):
        update(project, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("", "got JSONDecodeError"),
        ("[]", "got TypeError"),
        ({"treaty": "lock"}, "got ValueError: no index of golden checkpoints"),
        ({"version": 2}, "written by a newer Treaty"),
        ({"revision": "1"}, "got TypeError"),
        ({"checkpoints": {"npz": "../x.npz"}}, "got ValueError: a checkpoint lies elsewhere"),
        ({"checkpoints": {"zip": "x.zip"}}, "got ValueError: zip is no format"),
        ({"restored": {"1": {"$.kernel": 5}}}, "got TypeError"),
        ({"restored": []}, "got AttributeError"),
    ],
)
def test_an_index_that_is_none_is_refused(
    change: str | dict[str, Any], message: str, project: Project, tmp_path: Path
) -> None:
    project.release(LINEAR)
    update(project, tmp_path)
    index = tmp_path / f"golden-{project.name}" / "Linear-1" / "index.json"
    text = change if isinstance(change, str) else json.dumps({**json.loads(index.read_text()), **change})
    index.write_text(text)
    with pytest.raises(TreatyError, match=message):
        update(project, tmp_path)
    assert index.read_text() == text


def test_a_class_that_refuses_what_is_made_up_is_said_and_others_go_on(project: Project, tmp_path: Path) -> None:
    checks = "    def __attrs_post_init__(self):\n        if self.rate > 1:\n            raise ValueError('too fast')\n"
    project.release(f"@state\nclass Picky:\n    rate: float\n{checks}{LINEAR}")
    outcomes = update(project, tmp_path)
    assert outcomes["Linear"].added == [1]
    assert outcomes["Picky"].added == []
    assert outcomes["Picky"].wrong[0] == "Picky-1/treaty: ValueError: too fast"
    assert sorted(path.name for path in (tmp_path / f"golden-{project.name}").iterdir()) == ["Linear-1"]
