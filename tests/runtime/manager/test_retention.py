"""Which steps stay: the union of the rules, the newest, the pinned, and what is not the manager's to delete."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from treaty.runtime._manager.retention import Candidate, Rules, ranked, reasons, rules_of
from treaty.runtime.formats.directory.steps import StepName

NUMBERS = st.one_of(st.none(), st.integers(1, 4))
VALUES = st.one_of(st.sampled_from([math.nan, math.inf, -math.inf]), st.integers(0, 3).map(float))
METRICS = st.dictionaries(st.sampled_from(["loss", "speed"]), VALUES)
BEST = st.lists(
    st.tuples(st.sampled_from(["loss", "speed"]), st.sampled_from(["min", "max"]), st.integers(1, 3)), max_size=2
)
NAMES = st.builds(StepName, st.integers(0, 1), st.integers(0, 12))
STEPS = st.lists(
    st.builds(Candidate, NAMES, METRICS, st.booleans(), st.sampled_from(["", "", "a link"])),
    unique_by=lambda one: one.name,
)


def steps(*numbers: int, **losses: float) -> list[Candidate]:
    return [Candidate(StepName(0, one), {"loss": losses[f"s{one}"]} if f"s{one}" in losses else {}) for one in numbers]


def kept(candidates: list[Candidate], rules: Rules) -> dict[str, str]:
    return {str(name): ", ".join(why) for name, why in sorted(reasons(candidates, rules).items()) if why}


def test_a_step_that_any_rule_keeps_is_kept_and_every_rule_that_does_is_named() -> None:
    found = kept(steps(1, 2, 3, 4, 5, 6, s1=0.5, s2=0.1, s4=0.2), rules_of(2, 3, ("loss", "min", 2)))
    assert found == {
        "2": "min loss (1 of 2)",
        "3": "keep_every=3",
        "4": "min loss (2 of 2)",
        "5": "keep_last=2",
        "6": "newest, keep_last=2, keep_every=3",
    }


def test_best_never_evicts_the_newest_and_nan_is_never_best() -> None:
    found = kept(steps(1, 2, 3, s1=math.nan, s2=0.3, s3=9.0), rules_of(None, None, [("loss", "min", 1)]))
    assert found == {"2": "min loss (1 of 1)", "3": "newest"}


def test_of_equal_values_the_newer_is_better() -> None:
    assert [one.name.step for one in ranked(steps(1, 2, 3, s1=1, s2=1, s3=2), "loss", "min")] == [2, 1, 3]
    assert [one.name.step for one in ranked(steps(1, 2, 3, s1=1, s2=1, s3=0), "loss", "max")] == [2, 1, 3]


def test_of_one_number_the_one_after_the_rollback_counts() -> None:
    both = [Candidate(StepName(0, 5), {}), Candidate(StepName(0, 9), {}), Candidate(StepName(1, 5), {})]
    assert kept(both, rules_of(2, None, None)) == {"9": "keep_last=2", "5-r1": "newest, keep_last=2"}
    assert kept(both, rules_of(None, 5, None)) == {"5-r1": "newest, keep_every=5"}
    assert set(kept(both, Rules())) == {"5", "9", "5-r1"}


@settings(max_examples=50)
@given(STEPS, NUMBERS, NUMBERS, BEST)
def test_rules_only_ever_keep_more(
    found: list[Candidate], last: int | None, every: int | None, best: list[tuple[str, str, int]]
) -> None:
    rules = rules_of(last, every, best)
    why = reasons(found, rules)
    held = {name for name, said in why.items() if said}
    assert set(why) == {one.name for one in found}
    assert {one.name for one in found if one.is_pinned or one.protected} <= held
    assert not found or max(one.name for one in found) in held
    assert why == reasons(list(reversed(found)), rules)
    if rules.is_empty:
        assert held == set(why)
        return
    parts = [rules_of(last, None, None), rules_of(None, every, None), *(rules_of(None, None, [one]) for one in best)]
    apart = [{name for name, said in reasons(found, one).items() if said} for one in parts if not one.is_empty]
    assert held == set().union(*apart)
    for one in best:
        ranking = ranked(found, one[0], "min" if one[1] == "min" else "max")
        assert not any(math.isnan(candidate.metrics[one[0]]) for candidate in ranking)
