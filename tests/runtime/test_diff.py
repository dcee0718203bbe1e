"""`treaty diff` and the comparison behind it."""

import json
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from treaty.cli import main
from treaty.runtime._convert.compare import Difference, compare
from treaty.runtime._convert.convert import convert
from treaty.runtime._lazy import in_parts
from treaty.runtime.formats import msgpack


def difference(one: Any, other: Any, **tolerances: float) -> Difference | None:
    found = compare({"x": one}, {"x": other}, tolerances.get("rtol", 0.0), tolerances.get("atol", 0.0))
    return found[0] if found else None


def values(one: Any, other: Any, dtype: Any, **tolerances: float) -> tuple[int, float, float] | None:
    """How many elements differ, and by how much at most."""
    found = difference(np.asarray(one).astype(dtype), np.asarray(other).astype(dtype), **tolerances)
    return None if found is None else (found.count, found.max_abs, found.max_rel)


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, "int8", "int64", "uint64"]
)
def test_numbers_of_every_kind(dtype: Any) -> None:
    assert values([1, 2, 4], [1, 2, 4], dtype) is None
    assert values([1, 2, 4], [1, 3, 8], dtype) == (2, 4.0, 0.5)


def test_bools_and_complex_numbers() -> None:
    assert values([True, False], [True, True], bool) == (1, 1.0, 1.0)
    assert values([3 + 4j], [0], np.complex64) == (1, 5.0, 1.0)
    assert values([1, 2], [1, 3], ml_dtypes.int4) == (1, 1.0, 1 / 3)


def test_large_integers_are_exact() -> None:
    assert values([2**53], [2**53 + 1], np.int64) == (1, 1.0, 1 / 2**53)
    assert values([0], [2**64 - 1], np.uint64) == (1, float(2**64), 1.0)
    assert values([-(2**63)], [2**63 - 1], np.int64) == (1, float(2**64), 2.0)


def test_nan_equals_nan_and_nothing_else() -> None:
    assert values([np.nan, 1], [np.nan, 1], np.float32) is None
    assert values([np.nan, 1], [0, 1], np.float32) == (1, math.inf, math.inf)
    assert values([np.inf, 1], [np.inf, 1], ml_dtypes.bfloat16) is None
    assert values([np.inf], [-np.inf], np.float64) == (1, math.inf, math.inf)
    assert values([0.0], [-0.0], np.float32) is None
    assert difference(math.nan, math.nan) is None


def test_tolerances() -> None:
    assert values([1.0, 100.0], [1.01, 101.0], np.float64, rtol=0.02) is None
    assert values([1.0, 100.0], [2.0, 101.0], np.float64, rtol=0.02) == (1, 1.0, 0.5)
    assert values([1.0], [1.5], np.float64, atol=0.5) is None
    assert values([np.nan], [1.5], np.float64, atol=9.0) == (1, math.inf, math.inf)
    assert difference(1.0, 1.1, atol=0.2) is None
    assert difference(1, 2, rtol=0.5) is None


def test_no_tolerance_reaches_infinity() -> None:
    for tolerance in ({"rtol": 1e-3}, {"rtol": 9.0}, {"atol": 1e300}, {"atol": 1.0, "rtol": 1.0}):
        for one, other in ((1.0, math.inf), (math.inf, 1.0), (math.inf, -math.inf), (math.nan, 1.0), (1.0, math.nan)):
            assert values([one], [other], np.float32, **tolerance) == (1, math.inf, math.inf)
            for kind in (float, complex):
                assert difference(kind(one), kind(other), **tolerance) is not None


@pytest.mark.parametrize("tolerance", [{"rtol": 1e-3}, {"atol": 1e-3}, {"rtol": 1e-3, "atol": 1e-3}])
def test_what_is_not_finite_equals_itself_beside_what_is_within_the_tolerance(tolerance: dict[str, float]) -> None:
    one, other = [math.nan, math.inf, -math.inf, 1.0], [math.nan, math.inf, -math.inf, 1.0000001]
    assert values(one, other, np.float64, **tolerance) is None
    assert values([*one, 1], [*other, 2], np.float64, **tolerance) == (1, 1.0, 0.5)


@pytest.mark.parametrize("bits", [53, 64, 70, 2000])
def test_python_integers_of_any_length_are_exact(bits: int) -> None:
    one, other = 2**bits, 2**bits + 1
    found = difference(one, other)
    assert found is not None
    assert (found.what, found.count, found.max_abs, found.max_rel) == ("values", 1, 1.0, 1 / other)
    assert difference(one, other, atol=1.0) is None
    assert difference(one, other, atol=0.5) is not None
    assert difference(one, 2 * one, rtol=0.5) is None
    assert difference(one, 2 * one, rtol=0.499) is not None
    assert difference(0, -one, rtol=1.0) is None


def test_dates_and_records_are_the_same_where_their_bits_are() -> None:
    dates = np.array(["2020-01-01", "NaT", "2021-01-01"], "M8[s]")
    later = np.array(["2020-01-02", "NaT", "2021-01-01"], "M8[s]")
    assert difference(dates, dates.copy()) is None
    assert values(dates, later, "M8[s]") == (1, math.inf, math.inf)
    days = difference(dates, later.astype("M8[D]"))
    assert days is not None
    assert (days.what, days.count) == ("dtype", 1)
    records = np.array([(math.nan, 1), (2, 3)], [("a", "f4"), ("b", "i4")])
    others = np.array([(math.nan, 2), (2, 3)], records.dtype)
    assert difference(records, records.copy()) is None
    assert values(records, others, records.dtype) == (1, math.inf, math.inf)
    assert difference(records, np.zeros(2, "V4")) is not None
    assert difference(records, np.zeros(2)) is not None


def test_what_else_may_differ() -> None:
    one = {"a": np.ones(2, np.float32), "b": np.ones(2), "c": 1, "d": "x", "e": {}, "f": np.float32(1)}
    other = {"a": np.ones(2, ml_dtypes.bfloat16), "b": np.ones(3), "c": np.ones(()), "d": "y", "f": np.ones((), "f4")}

    found = [(one.path, one.what, one.left, one.right) for one in compare(one, {**other, "g": None})]

    assert found == [
        (("a",), "dtype", "float32[2]", "bfloat16[2]"),
        (("b",), "shape", "float64[2]", "float64[3]"),
        (("c",), "kind", "int 1", "float64[]"),
        (("d",), "values", "str 'x'", "str 'y'"),
        (("e",), "missing", "dict {}", None),
        (("g",), "missing", None, "NoneType None"),
    ]


@given(
    hnp.arrays(np.float32, st.integers(1, 50), elements=st.floats(width=32)),
    st.integers(1, 7),
    st.integers(1, 7),
    st.data(),
)
def test_pieces_of_any_size_give_what_the_whole_gives(array: Any, left: int, right: int, data: Any) -> None:
    other = array.copy()
    other[data.draw(st.integers(0, array.size - 1))] = data.draw(st.floats(width=32))

    def cut(whole: Any, size: int) -> Any:
        parts = [whole[i : i + size] for i in range(0, whole.size, size)]
        return in_parts(whole.shape, whole.dtype, lambda: iter(parts))

    assert difference(cut(array, left), cut(other, right)) == difference(array, other)
    assert (difference(array, other) is None) == np.array_equal(array, other, equal_nan=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """a.msgpack, the same as a.npz, and b.safetensors, in which three leaves differ."""
    tree = {"blocks": {"0": {"up": np.ones((2, 2), np.float32)}}, "step": np.int32(1), "old": np.zeros(3)}
    other = {"blocks": {"0": {"up": np.array([[1, 1.5], [1, 1]], np.float32)}}, "step": np.int32(2)}
    monkeypatch.chdir(tmp_path)
    msgpack.write_file("a.msgpack", tree)
    convert("a.msgpack", "a.npz")
    msgpack.write_file("b.msgpack", other)
    convert("b.msgpack", "b.safetensors")
    return tmp_path


def test_a_file_with_dates_is_equal_to_itself(tmp_path: Path) -> None:
    path = str(tmp_path / "a.npz")
    np.savez(path, dates=np.array(["2020-01-01", "NaT"], "M8[s]"), x=np.array([math.nan]))
    assert run(path, path) == (0, "equal\n")
    assert run(path, path, "--atol", "1e-3") == (0, "equal\n")


@pytest.mark.parametrize("option", ["--atol", "--rtol"])
@pytest.mark.parametrize("value", ["inf", "nan", "-1"])
def test_a_tolerance_is_a_finite_number(option: str, value: str, folder: Path) -> None:
    code, output = run("a.msgpack", "a.npz", option, value)
    assert code == 2
    assert option in output


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["diff", *arguments])
    return done.exit_code, done.output


def test_equal_checkpoints_of_two_formats(folder: Path) -> None:
    assert run("a.msgpack", "a.npz") == (0, "equal\n")
    assert run("a.npz", "a.msgpack", "--json") == (0, '{\n  "equal": true,\n  "differences": []\n}\n')


def test_a_table_of_what_differs(folder: Path) -> None:
    code, output = run("a.msgpack", "b.safetensors")

    assert code == 1
    assert [line.split() for line in output.splitlines()] == [
        ["leaf", "what", "A", "B", "elements", "max", "abs", "max", "rel"],
        ["$.blocks[0].up", "values", "float32[2,", "2]", "float32[2,", "2]", "1", "0.5", "0.333"],
        ["$.step", "values", "int32[]", "int32[]", "1", "1", "0.5"],
        ["$.old", "missing", "float64[3]", "-"],
    ]


def test_json_of_what_differs(folder: Path) -> None:
    code, output = run("a.msgpack", "b.safetensors", "--json", "--atol", "0.5")

    assert code == 1
    assert json.loads(output) == {
        "equal": False,
        "differences": [
            {"path": ["step"], "what": "values", "a": "int32[]", "b": "int32[]", "count": 1, "max_abs": 1.0, "max_rel": 0.5},
            {"path": ["old"], "what": "missing", "a": "float64[3]", "b": None},
        ],
    }  # fmt: skip


def test_tolerances_make_equal(folder: Path) -> None:
    tree = msgpack.read_file("b.msgpack")
    msgpack.write_file("c.msgpack", {**tree, "step": np.int32(3)})

    assert run("b.safetensors", "c.msgpack", "--rtol", "0.4")[0] == 0
    assert run("b.safetensors", "c.msgpack", "--rtol", "0.3")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nix.msgpack", "a.msgpack"), "error: expected a file, got nothing at 'nix.msgpack'"),
        (("a.msgpack", "cut.msgpack"), "error: expected"),
        (("a.msgpack",), "Missing argument 'B'"),
        (("a.msgpack", "a.npz", "--rtol", "-1"), "--rtol"),
    ],
)
def test_errors_are_neither_equal_nor_different(arguments: tuple[str, ...], message: str, folder: Path) -> None:
    (folder / "cut.msgpack").write_bytes((folder / "a.msgpack").read_bytes()[:-1])

    code, output = run(*arguments)

    assert code == (3 if "nix" in arguments[0] else 2)
    assert message in output
