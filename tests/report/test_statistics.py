"""What is counted, against numpy; piece by piece as at once."""

from typing import Any

import numpy as np
import pytest

from treaty.runtime._report.changes import Change
from treaty.runtime._report.histogram import Histogram
from treaty.runtime._report.statistics import Statistics
from treaty.runtime._same import has_numbers
from treaty.schema.dtypes import TABLE

RNG = np.random.default_rng(0)


def statistics(array: Any, pieces: int = 3) -> dict[str, Any]:
    found = Statistics()
    for piece in np.array_split(array.reshape(-1), pieces):
        found.add(piece)
    return found.as_data()


@pytest.mark.parametrize("dtype", [row.numpy for row in TABLE], ids=str)
def test_every_dtype_is_counted_as_numpy_counts(dtype: "np.dtype[Any]") -> None:
    assert has_numbers(dtype)
    array = RNG.integers(0, 2, 5000).astype(dtype)  # what the narrowest of them holds
    wide = np.abs(array) if dtype.kind == "c" else array.astype(np.float64)
    found = statistics(array)
    assert found["count"] == 5000
    assert found["zeros"] == np.count_nonzero(wide == 0)
    assert found["nans"] == found["infinities"] == 0 or "e8m0" in dtype.name  # which has no zero, but NaN in its place
    if not np.isnan(wide).any():
        assert (found["min"], found["max"]) == (wide.min(), wide.max())
        assert found["mean"] == pytest.approx(wide.mean())
        assert found["std"] == pytest.approx(wide.std())
        assert found["norm"] == pytest.approx(np.linalg.norm(wide))


def test_nan_and_inf_are_counted_and_leave_the_rest_alone() -> None:
    array = RNG.standard_normal(100_000).astype(np.float32)
    rest = array[1000:].astype(np.float64)
    array[:700], array[700:900], array[900:1000] = np.nan, np.inf, -np.inf
    found = statistics(array)
    assert (found["nans"], found["infinities"]) == (np.isnan(array).sum(), np.isinf(array).sum())
    assert found["mean"] == pytest.approx(rest.mean())
    assert found["std"] == pytest.approx(rest.std())
    assert sum(found["histogram"]["counts"]) == rest.size


def test_where_nothing_is_finite_there_are_only_counts() -> None:
    assert statistics(np.full(9, np.nan)) == {"count": 9, "nans": 9, "infinities": 0, "zeros": 0}
    assert statistics(np.empty(0), 1) == {"count": 0, "nans": 0, "infinities": 0, "zeros": 0}


def test_complex_numbers_are_told_by_their_magnitudes() -> None:
    array = (RNG.standard_normal(1000) + 1j * RNG.standard_normal(1000)).astype(np.complex64)
    array[5] = complex(np.nan, 1)
    found = statistics(array)
    assert found["nans"] == 1
    assert found["max"] == pytest.approx(np.nanmax(np.abs(array)))
    assert found["norm"] == pytest.approx(np.linalg.norm(np.delete(array, 5)))


def test_long_integers_keep_their_digits() -> None:
    found = statistics(np.array([-(2**63), 2**63 - 1]), 1)
    assert (found["min"], found["max"]) == (str(-(2**63)), str(2**63 - 1))


def test_text_and_bytes_without_a_meaning_have_no_numbers() -> None:
    assert [has_numbers(np.dtype(name)) for name in ("S3", "U3", "M8[s]", "V2")] == [False] * 4


def test_a_histogram_counts_as_numpy_does_whatever_comes_later() -> None:
    """The first piece says nothing about the range of the others."""
    pieces = [np.zeros(10), RNG.standard_normal(1000) * 1e-6, RNG.standard_normal(5000), np.array([-900.0, 40.0])]
    histogram = Histogram()
    for piece in pieces:
        histogram.add(piece)
    found = histogram.as_data()
    assert found is not None
    edges = found["low"] + found["width"] * np.arange(len(found["counts"]) + 1)
    expected, _ = np.histogram(np.concatenate(pieces), edges)
    assert sum(found["counts"]) == sum(map(len, pieces))
    assert np.abs(expected - found["counts"]).sum() <= 2  # of numbers that lie on an edge
    assert len(found["counts"]) <= 48


@pytest.mark.parametrize("numbers", [[3.0, 3.0], [0.0], [-1e308, 1.7e308]], ids=["one number", "zero", "too far apart"])
def test_of_some_numbers_there_is_no_histogram(numbers: list[float]) -> None:
    histogram = Histogram()
    histogram.add(np.array(numbers))
    assert histogram.as_data() is None


def test_a_change_is_told_in_norms_elements_and_bits() -> None:
    before = np.array([3.0, 4.0, 0.0, np.nan], np.float32)
    after = np.array([3.0, 4.5, 0.0, 1.0], np.float32)
    change = Change()
    change.add(before[:1], after[:1])
    change.add(before[1:], after[1:])
    found = change.as_data()
    assert found["relative"] == 0.5 / 5
    assert found["max_abs"] == 0.5
    assert found["same_elements"] == 2 / 4
    differ = np.bitwise_count(before.view(np.uint32) ^ after.view(np.uint32)).sum()
    assert found["same_bits"] == 1 - differ / 128
    assert not change.is_none


def test_what_was_zero_has_changed_infinitely() -> None:
    change = Change()
    change.add(np.zeros(3), np.ones(3))
    assert change.as_data()["relative"] == "inf"
