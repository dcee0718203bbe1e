"""Which leaves are one row, and tables in which they stand."""

import pytest

from treaty.runtime._display.folding import Path, Row, each, folded
from treaty.runtime.commands.tables import cut, cut_end, width


def rows(*paths: str, forms: str = "", depth: int | None = None) -> list[str]:
    keys: list[Path] = [tuple(path.split("/")) for path in paths]
    found = folded(keys, lambda number: forms[number] if forms else "x", depth)
    assert sorted(number for row in found for number in row.leaves) == list(range(len(paths)))
    return [f"{row.path} {len(row.leaves)}" for row in found]


def test_layers_with_the_same_below_them_are_one_row_for_each_leaf() -> None:
    assert rows("l/0/a", "l/0/b", "l/1/a", "l/1/b", "l/2/a", "l/2/b") == ["$.l[0..2].a 3", "$.l[0..2].b 3"]
    assert rows("block_0/a", "block_1/a", "head/a") == ["$.block_0..1.a 2", "$.head.a 1"]
    assert rows("l/0/m/0/a", "l/0/m/1/a", "l/1/m/0/a", "l/1/m/1/a") == ["$.l[0..1].m[0..1].a 4"]


def test_what_differs_ends_a_run() -> None:
    assert rows("l/0/a", "l/1/a", "l/2/a", "l/3/b") == ["$.l[0..2].a 3", "$.l[3].b 1"]
    assert rows("l/0/a", "l/1/a", "l/2/a", "l/3/a", forms="xxyy") == ["$.l[0..1].a 2", "$.l[2..3].a 2"]
    assert rows("l/0/a", "l/2/a") == ["$.l[0].a 1", "$.l[2].a 1"]
    assert rows("l/0/a", "m/1/a") == ["$.l[0].a 1", "$.m[1].a 1"]
    assert rows("a0/x", "b1/x") == ["$.a0.x 1", "$.b1.x 1"]


def test_few_values_are_read_one_by_one() -> None:
    assert rows("w/0", "w/1", "w/2") == ["$.w[0] 1", "$.w[1] 1", "$.w[2] 1"]
    assert rows("w/0", "w/1", "w/2", "w/3") == ["$.w[0..3] 4"]


def test_numbers_are_in_their_order_where_a_format_keeps_none() -> None:
    names = sorted(f"l/{number}/a" for number in range(12))
    assert names[2] == "l/10/a"
    assert rows(*names) == ["$.l[0..11].a 12"]
    assert rows("b_01/a", "b_02/a") == ["$.b_01..02.a 2"]
    assert rows("odd name 1/a", "odd name 2/a") == ["$['odd name 1..2'].a 2"]


def test_below_a_depth_there_are_sums() -> None:
    paths = [f"l/{number}/{leaf}" for number in range(3) for leaf in "ab"]
    assert rows(*paths, "step", depth=0) == ["$ 7"]
    assert rows(*paths, "step", depth=1) == ["$.l 6", "$.step 1"]
    assert rows(*paths, "step", depth=2) == ["$.l[0..2] 6", "$.step 1"]
    assert rows(*paths, "step", depth=9) == ["$.l[0..2].a 3", "$.l[0..2].b 3", "$.step 1"]


def test_paths_begin_with_the_part_that_was_asked_for() -> None:
    assert folded([()], lambda _: "x", root=("l", "3")) == [Row("$.l[3]", (0,))]
    assert each([("a",)], root=("l", "3")) == [Row("$.l[3].a", (0,))]


def test_ten_thousand_keys_of_many_levels() -> None:
    paths = [f"l/{number}/" + "x/" * 200 + "y" for number in range(50)]
    assert rows(*paths) == ["$.l[0..49]" + ".x" * 200 + ".y 50"]


@pytest.mark.parametrize(
    ("text", "most", "short"),
    [
        ("$.layers[0..47].kernel", 22, "$.layers[0..47].kernel"),
        ("$.layers[0..47].kernel", 12, "$.laye…ernel"),
        ("日本語日本語", 7, "日本…語"),
        ("ab", 1, "…"),
    ],
)
def test_a_cut_keeps_both_ends(text: str, most: int, short: str) -> None:
    assert cut(text, most) == short
    assert width(short) <= most


def test_a_cut_at_the_end() -> None:
    assert [cut_end("abcd", most) for most in (4, 3, 1)] == ["abcd", "ab…", "…"]
    assert width("e\u0301 日") == 4
