"""Which steps stay. A pure function of what is there: it looks at no disk, and remembers nothing."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from attrs import frozen

from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime.formats.directory.steps import StepName

Order: TypeAlias = Literal["min", "max"]
NONE: Final = "no rule keeps it"


@frozen
class Best:
    """So many steps with the lowest or highest value of a metric."""

    metric: str
    order: Order
    count: int


@frozen
class Rules:
    """A step stays if one of them says so; where there are none, all stay."""

    keep_last: int | None = None
    keep_every: int | None = None
    keep_best: tuple[Best, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.keep_last is None and self.keep_every is None and not self.keep_best

    def as_data(self) -> dict[str, Any]:
        return {
            "keep_last": self.keep_last,
            "keep_every": self.keep_every,
            "keep_best": [[one.metric, one.order, one.count] for one in self.keep_best],
        }


@frozen
class Candidate:
    """A committed step, as far as its keeping depends on it."""

    name: StepName
    metrics: Mapping[str, float]
    is_pinned: bool = False
    protected: str = ""  # why it is not the manager's to delete, if it is not


def rules_of(keep_last: object, keep_every: object, keep_best: object) -> Rules:
    """The arguments of a manager, checked."""
    return Rules(count_of("keep_last", keep_last), count_of("keep_every", keep_every), tuple(_bests(keep_best)))


def count_of(name: str, value: object) -> int | None:
    if value is not None and (type(value) is not int or value < 1):
        raise InvalidArgumentError(f"expected {name} of 1 or more, got {value!r}")
    return value


def reasons(steps: Sequence[Candidate], rules: Rules) -> dict[StepName, list[str]]:
    """For each step, why it stays; of one that goes, nothing. `steps` in any order."""
    steps = sorted(steps, key=lambda one: one.name, reverse=True)
    found: dict[StepName, list[str]] = {one.name: [] for one in steps}
    for one in steps:
        if one.is_pinned:
            found[one.name].append("pinned")
        if one.protected:
            found[one.name].append(one.protected)
    if steps:
        found[steps[0].name].insert(0, "newest")
    if rules.is_empty:
        for said in found.values():
            said.append("no rule")
        return found
    for name, why in _kept(list(present(steps)), rules):
        found[name].append(why)
    return found


def ranked(steps: Iterable[Candidate], metric: str, order: Order) -> list[Candidate]:
    """The best first, of those that have the metric; of equal ones the newer. NaN is no value."""
    having = [one for one in steps if not math.isnan(one.metrics.get(metric, math.nan))]
    having.sort(key=lambda one: one.name, reverse=True)
    return sorted(having, key=lambda one: one.metrics[metric], reverse=order == "max")


def present(steps: Iterable[Candidate]) -> Iterator[Candidate]:
    """Of several of one number, which a rollback leaves, the newest; from the newest on."""
    seen: set[int] = set()
    for one in steps:
        if one.name.step not in seen:
            seen.add(one.name.step)
            yield one


def _kept(steps: Sequence[Candidate], rules: Rules) -> Iterator[tuple[StepName, str]]:
    if rules.keep_last is not None:
        for one in steps[: rules.keep_last]:
            yield one.name, f"keep_last={rules.keep_last}"
    if rules.keep_every is not None:
        for one in steps:
            if one.name.step % rules.keep_every == 0:
                yield one.name, f"keep_every={rules.keep_every}"
    for best in rules.keep_best:
        for number, one in enumerate(ranked(steps, best.metric, best.order)[: best.count], 1):
            yield one.name, f"{best.order} {best.metric} ({number} of {best.count})"


def _bests(given: object) -> Iterator[Best]:
    if given is None:
        return
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    if several and isinstance(several[0], str):
        several = (several,)
    for one in several:
        if not isinstance(one, Sequence) or isinstance(one, str) or len(one) != 3:
            raise _wrong_best(one)
        metric, order, count = one
        if type(metric) is not str or order not in get_args(Order) or type(count) is not int or count < 1:
            raise _wrong_best(one)
        yield Best(metric, order, count)


def _wrong_best(got: object) -> InvalidArgumentError:
    return InvalidArgumentError(f'expected keep_best like ("loss", "min", 3), or a list of such, got {got!r}')
