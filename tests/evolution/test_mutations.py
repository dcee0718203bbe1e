"""The mutation harness: every kind of change, and what the gate says of it, against what happens to checkpoints.

Here each change at the root and at one place inside; `python -m tests.evolution.mutations` takes every place.
"""

import pytest

from tests.evolution import mutations
from tests.evolution.mutations import CHANGES, HOSTS, INSIDE, Case, Change, Host, run, table
from tests.evolution.states import WRITERS

HALVES = {
    "at the root": [(change, HOSTS[0]) for change in CHANGES],
    "deep inside": [(change, INSIDE[n % len(INSIDE)]) for n, change in enumerate(CHANGES)],
}


@pytest.mark.parametrize("where", HALVES)
def test_no_missed_break_no_false_alarm_no_silent_change(where: str) -> None:
    cases = list(run(HALVES[where], list(WRITERS)))
    print("\n".join(table(cases)))
    assert [f"{case.change.kind}, {case.host}, {case.format}: {case.fault}" for case in cases if case.fault] == []


def test_every_kind_of_the_list_is_there() -> None:
    kinds = {change.kind.partition(",")[0].partition(" ")[0] for change in CHANGES}
    wanted = "rename retype rank dim dims dtype container add remove reorder doc key optional required enum tie static generic optax"
    assert set(wanted.split()) <= kinds


def some(*kinds: str) -> list[tuple[Change, Host]]:
    return [(change, HOSTS[0]) for change in CHANGES if change.kind in kinds]


def faults(cases: list[Case]) -> set[str]:
    return {case.fault.partition(":")[0] for case in cases if case.fault}


def test_the_harness_finds_a_gate_that_is_asleep() -> None:
    cases = list(run(some("rename", "dims permuted"), ["directory"], lambda *_: {}))
    assert faults(cases) == {"missed"}


def test_the_harness_finds_a_gate_that_cries_wolf() -> None:
    cases = list(run(some("reorder"), ["directory"], lambda declared, _: dict.fromkeys(declared, "SILENT")))
    assert faults(cases) == {"false alarm"}


def test_the_harness_finds_a_silent_change() -> None:
    """A change that nobody declares: 4 is restored where 3 is expected."""
    wrong = Change("nothing", "fine", "w: int", "w: int", new={"w": "old.w + 1"})
    assert faults(list(run([(wrong, HOSTS[0])], ["directory", "x.npz"]))) == {"wrong"}


def test_the_table_counts_everything() -> None:
    cases = list(run(some("rename, alias"), ["directory", "x.msgpack"]))
    assert list(mutations.table(cases))[1:] == [
        f"{'rename, alias':36}{'fine':9}{'fine':8}{2:>9}{'':>9}{'':>9}{'':>9}{'':>9}",
        "1 changes, 1 places, 2 formats: 2 restores",
        "faults: none",
    ]
