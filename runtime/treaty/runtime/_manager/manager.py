"""`CheckpointManager`: a directory of steps, and the one that writes to it."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from treaty.runtime._checkpoint.save import checked_compression, save_later
from treaty.runtime._errors import InvalidArgumentError, StorageError
from treaty.runtime._manager.decisions import Decision, cadence, checked_step, require_alike
from treaty.runtime._manager.listing import Listing, StepVerdict, as_data, metrics_of
from treaty.runtime._manager.open_steps import steps_at
from treaty.runtime._manager.preemption import Preemption, signals_of
from treaty.runtime._manager.restoring import Restoring
from treaty.runtime._manager.retention import Order, rules_of
from treaty.runtime._manager.tidying import Tidying
from treaty.runtime._process.background import SaveHandle
from treaty.runtime._process.council import council
from treaty.runtime._process.uninterrupted import Latch
from treaty.runtime._process.watching import log
from treaty.runtime._restore.options import RestoreOptions
from treaty.runtime._storage.paths import AnyPath
from treaty.runtime.formats.directory.steps import StepName
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.table import DEFAULT, FORMATS
from treaty.schema import TreatyError

_T = TypeVar("_T")


class CheckpointManager(Generic[_T]):
    """Saves steps of a run into a directory or a URL, keeps those that rules keep, and restores the newest whole one.

    `save` saves at multiples of `every`, when `every_s` seconds have passed since the last save ("2%": so often that saving
    takes at most that share of the time), or always, if neither is given. `keep_last`, `keep_every` and `keep_best` (`("loss",
    "min", 3)`, or a list of such) each keep steps, and what none of them keeps is deleted; without any, all stay. With
    `on_preemption` SIGTERM, or the signals that it lists, is noted, and the next call saves. `read_only` looks and never writes.
    `compress` is that of `save`, `dims` are those of `restore`; `timeout` is how long processes wait for each other.
    """

    def __init__(
        self,
        directory: AnyPath,
        cls: type[_T],
        *,
        dims: Mapping[str, int] | None = None,
        every: int | None = None,
        every_s: float | str | None = None,
        keep_last: int | None = None,
        keep_every: int | None = None,
        keep_best: tuple[str, Order, int] | Sequence[tuple[str, Order, int]] | None = None,
        on_preemption: bool | Iterable[int] = False,
        compress: str | None = None,
        read_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        self._cls = cls
        self._dims = dims
        self._compress = checked_compression(compress)
        self._cadence = cadence(every, every_s)
        self._rules = rules_of(keep_last, keep_every, keep_best)
        signals = [*signals_of(on_preemption)]
        self._read_only = read_only
        self._timeout = timeout
        self._process = os.getpid()
        self._is_open = True
        self._steps = steps_at(directory)
        self._listing = Listing(self._steps)
        self._council = council(timeout)
        self._tidying = Tidying(self._steps, self._listing, self._rules, self._council)
        self._restoring = Restoring(self._steps, self._listing, self._council, cls)
        self._handle: SaveHandle | None = None  # the last save, until its result was reported to the caller
        self._tidied: Latch | None = None  # set when all that follows the last save is done
        self._last: StepName | None = None  # what this manager has restored or saved last
        self._before: StepName | None = None  # what that was before the last save, which may fail
        given = {"every": every, "every_s": every_s, **self._rules.as_data(), "on_preemption": signals}
        require_alike(self._council, {**given, "compress": compress, "read_only": read_only})
        self._preemption = Preemption(signals, self._council)
        try:
            self._council.agreed(self._open)
        except BaseException:
            self._give_back()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            log.error("%s: %s", self._steps.where, failure)  # what ended the block is the more important one

    def save(
        self,
        step: int,
        state: _T,
        *,
        metrics: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        force: bool = False,
    ) -> Decision:
        """Save a step if it is time, and say so; return when the state may change. Raises what made an earlier save fail."""
        self._require_writer()
        number, values = checked_step(step), metrics_of(metrics)
        by_number = self._cadence.by_number(number)
        self._preemption.save_is_called()
        if not (force or by_number or self._cadence.asks_the_clock or self._preemption.is_watched):
            if not self._council.is_shared:  # else not all would know yet
                self._raise_failure(wait=False)
            return by_number
        started = time.perf_counter()
        self._preemption.pass_on()
        found = self._council.agreed(partial(self._decided, number, by_number, force))
        if found["failed"]:
            self._raise_failure(wait=True)
            raise TreatyError(found["failed"])
        if found["name"] is None:
            self._preemption.save_is_done(found["preempted"])
            return Decision(False, found["reason"])
        note = {"step": number, "time": time.time(), "metrics": as_data(values)}
        # What is the same as in the newest step is linked to it.
        writing = Writing(metadata=metadata or {}, step=note, base=found["base"], compress=self._compress)
        self._begin(StepName(*found["name"]), state, writing)
        self._cadence.saved(time.perf_counter() - started)
        self._preemption.save_is_done(found["preempted"])
        return Decision(True, found["reason"])

    def restore(self, step: int | None = None, **options: Unpack[RestoreOptions]) -> _T:
        """The newest whole step, or the given one; options are those of `treaty.runtime.restore`.

        What is skipped, and why, is on the log. Every process of a program calls it, and gets the same step.
        """
        self._require_own_process()
        if self._dims is not None:
            options.setdefault("dims", self._dims)
        if step is None:
            name, found = self._restoring.newest_whole(options)
        else:
            name, found = self._restoring.given(checked_step(step), options)
        self._last = name
        state: _T = found
        return state

    @property
    def restored_step(self) -> int | None:
        """The step that `restore` gave or `save` saved last."""
        return None if self._last is None else self._last.step

    def latest_step(self) -> int | None:
        """The newest committed step. After a rollback that need not be the one with the highest number."""
        return next((name.step for name in self._listing.committed()), None)

    def all_steps(self) -> list[int]:
        """The numbers of all committed steps, from the lowest."""
        return sorted({name.step for name in self._listing.committed()})

    def metrics(self, step: int) -> dict[str, float]:
        """What was saved with a step."""
        return self._listing.metrics(checked_step(step))

    def best_step(self, metric: str, order: Order | None = None) -> int | None:
        """The step with the lowest ("min") or highest ("max") value; without `order` as `keep_best` says. NaN is never best."""
        known = [one.order for one in self._rules.keep_best if one.metric == metric]
        if order is None and not known:
            raise InvalidArgumentError(
                f'expected order="min" or "max", got none, and no keep_best for {metric!r} that says it'
            )
        if order not in (None, "min", "max"):
            raise InvalidArgumentError(f'expected order="min" or "max", got {order!r}')
        return self._listing.best(metric, order or known[0])

    def pin(self, step: int) -> None:
        """Keep a step whatever the rules say. A reader may do so, too."""
        name = self._listing.name_of(checked_step(step))
        if self._council.index == 0:
            self._steps.pin(name)

    def unpin(self, step: int) -> None:
        name = self._listing.name_of(checked_step(step))
        if self._council.index == 0:
            self._steps.unpin(name)

    def plan(self) -> list[StepVerdict]:
        """Every committed step, from the oldest, and what the rules say of it now. Nothing is deleted."""
        return [verdict for _, verdict in self._listing.verdicts(self._rules)]

    def preempted(self) -> bool:
        """Whether one of the signals of `on_preemption` came, to this process or to another of the program, and `save` has saved
        for it; if `save` was not called since this was asked last, that one came is enough."""
        if not self._preemption.is_watched:
            raise InvalidArgumentError("expected a manager with on_preemption=True, got one that notices no signals")
        self._require_own_process()
        return self._preemption.asked()

    def wait(self) -> None:
        """Until the last save is committed and what is not kept is deleted; raises what made it fail."""
        self._require_own_process()
        if self._tidied is not None:
            self._tidied.wait()
        self._raise_failure(wait=True)

    def close(self) -> None:
        """Wait, and give back the lock and the signals. Closing again does nothing."""
        if not self._is_open or os.getpid() != self._process:
            return
        try:
            self.wait()
        finally:
            self._is_open = False
            self._give_back()

    def _open(self) -> None:
        """On process 0, which has the lock for all."""
        self._steps.check_place()
        if self._read_only:
            return
        self._steps.take()
        try:
            self._steps.write_rules(self._rules.as_data())
        except StorageError as error:
            log.warning("the rules of %s are not noted for treaty steps --plan: %s", self._steps.where, error)

    def _give_back(self) -> None:
        self._preemption.close()
        self._steps.give_back()

    def _decided(self, step: int, by_number: Decision, force: bool) -> dict[str, Any]:
        """On process 0: whether a step is saved, why, and under which name."""
        is_noticed = self._preemption.is_noticed()
        answer: dict[str, Any] = {"preempted": is_noticed, "failed": "", "name": None}
        decision = self._decision(by_number, force, self._preemption.wants_save(is_noticed))
        if decision or (self._handle is not None and self._handle.done()):
            answer["failed"] = self._failure()
        answer["reason"] = decision.reason
        if answer["failed"] or not decision:
            return answer
        newest = next(self._listing.committed(), None)
        if self._last is not None and newest == self._last and newest.step == step and not force:
            return {**answer, "reason": f"step {step} is there already"}
        name = _next_name(step, newest, self._last)
        self._tidying.writing = name  # before it can be seen: what is being written is not cleaned away
        self._steps.begin(name)
        return {**answer, "name": list(name), "base": None if newest is None else self._steps.path_of(newest)}

    def _decision(self, by_number: Decision, force: bool, is_to_end: bool) -> Decision:
        if force:
            return Decision(True, "force=True")
        if is_to_end:
            return Decision(True, "the process is to end")
        if by_number or not self._cadence.asks_the_clock:
            return by_number
        by_clock = self._cadence.by_clock()
        if by_clock or self._cadence.every is None:
            return by_clock
        return Decision(False, f"{by_number.reason}, {by_clock.reason}")

    def _begin(self, name: StepName, state: _T, writing: Writing) -> None:
        tidied, began = Latch(), time.perf_counter()
        writing = writing._replace(then=partial(self._after, began, self._council.turn_over(), tidied))
        place = self._steps.path_of(name)
        self._cadence.begins(began)
        try:
            self._handle = save_later(FORMATS[DEFAULT], place, state, self._cls, writing, self._timeout)
        except BaseException:
            self._cadence.ended(began, 0.0)
            raise
        self._tidied = tidied
        self._before, self._last = self._last, name

    def _after(self, began: float, group: int, tidied: Latch, error: BaseException | None) -> None:
        """In the thread of a save that has ended."""
        self._cadence.ended(began, time.perf_counter() - began)
        if error is None and self._council.index == 0:
            self._tidying.after(group, tidied)
        else:
            tidied.set()

    def _failure(self) -> str:
        """What made the last save fail, in words; waits for its end."""
        if self._handle is None:
            return ""
        error = self._handle.failure()
        return "" if error is None else f"{type(error).__name__}: {error}"

    def _raise_failure(self, *, wait: bool) -> None:
        """The error of the last save, once."""
        handle = self._handle
        if handle is not None and (wait or handle.done()):
            error = handle.failure()  # waits, and may be interrupted: then it is not told yet
            self._handle = None
            if error is not None:
                self._last = self._before
            handle.result()

    def _require_writer(self) -> None:
        self._require_own_process()
        if not self._is_open:
            raise InvalidArgumentError(f"expected an open manager of {self._steps.where}, got one that was closed")
        if self._read_only:
            raise InvalidArgumentError(f"expected a manager that writes to {self._steps.where}, got read_only=True")

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            raise TreatyError(
                "expected the process that made the manager, got a fork of it; make one there, with read_only=True"
            )


def _next_name(step: int, newest: StepName | None, last: StepName | None) -> StepName:
    """Newer than all that is there, or the very step that was saved last, whose place it takes."""
    if newest is None:
        return StepName(0, step)
    if step > newest.step or (step == newest.step and last == newest):
        return StepName(newest.rollbacks, step)
    return StepName(newest.rollbacks + 1, step)
