"""`CheckpointManager`: a directory of steps, and the one that writes to it."""

import errno
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, Unpack

from treaty.runtime._checkpoint.restore import restore
from treaty.runtime._checkpoint.save import checked_compression, save_later
from treaty.runtime._errors import (
    CorruptCheckpointError,
    IncompleteCheckpointError,
    InvalidArgumentError,
    MissingCheckpointError,
    StorageError,
)
from treaty.runtime._manager.decisions import Decision, cadence, checked_step, require_alike
from treaty.runtime._manager.listing import Listing, StepVerdict, as_data, metrics_of
from treaty.runtime._manager.places import steps_at
from treaty.runtime._manager.preemption import Preemption, signals_of
from treaty.runtime._manager.retention import Candidate, Order, ranked, rules_of
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
_SKIPPED: Final = (IncompleteCheckpointError, CorruptCheckpointError)


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
        self._tidying = Lock()
        self._handle: SaveHandle | None = None  # of the save whose end nobody has been told of
        self._tidied: Latch | None = None  # set when all that follows the last save is done
        self._writing: StepName | None = None
        self._last: StepName | None = None  # what this manager has restored or saved last
        given = {"every": every, "every_s": every_s, **self._rules.as_data(), "on_preemption": signals}
        require_alike(self._council, {**given, "compress": compress, "read_only": read_only})
        self._preemption = Preemption(signals, self._council)
        try:
            self._council.agreed(self._open)
        except BaseException:
            self._preemption.close()
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
        if step is not None:
            name = self._name_of(checked_step(step))
            found: _T = restore(self._steps.path_of(name), self._cls, **options)
            self._last = name
            return found
        return self._newest_whole(options)

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
        name = self._name_of(checked_step(step))
        note = self._listing.note(name)
        if note is None:
            raise MissingCheckpointError(f"expected step {step}, got none in {self._steps.where}")
        return dict(note.metrics)

    def best_step(self, metric: str, order: Order | None = None) -> int | None:
        """The step with the lowest ("min") or highest ("max") value; without `order` as `keep_best` says. NaN is never best."""
        known = [one.order for one in self._rules.keep_best if one.metric == metric]
        if order is None and not known:
            raise InvalidArgumentError(
                f'expected order="min" or "max", got none, and no keep_best for {metric!r} that says it'
            )
        if order not in (None, "min", "max"):
            raise InvalidArgumentError(f'expected order="min" or "max", got {order!r}')
        found: dict[int, Candidate] = {}
        for name in self._listing.committed():
            if (note := self._listing.note(name)) is not None:
                found.setdefault(name.step, Candidate(name, note.metrics))
        return next((one.name.step for one in ranked(found.values(), metric, order or known[0])), None)

    def pin(self, step: int) -> None:
        """Keep a step whatever the rules say. A reader may do so, too."""
        name = self._name_of(checked_step(step))
        if self._council.index == 0:
            self._steps.pin(name)

    def unpin(self, step: int) -> None:
        name = self._name_of(checked_step(step))
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
        self._raise_failure(wait=True)
        if self._tidied is not None:
            self._tidied.wait()

    def close(self) -> None:
        """Wait, and give back the lock and the signals. Closing again does nothing."""
        if not self._is_open or os.getpid() != self._process:
            return
        try:
            self.wait()
        finally:
            self._is_open = False
            self._preemption.close()
            if not self._read_only and self._council.index == 0:
                self._steps.give_back()

    def _open(self) -> None:
        """On process 0, which has the lock for all."""
        self._steps.check_place()
        if not self._read_only:
            self._steps.take()
            self._steps.write_rules(self._rules.as_data())

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
        self._writing = name  # before it can be seen: what is being written is not cleaned away
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
        chapter = self._council.turn_over()
        writing = writing._replace(then=partial(self._after, name, tidied, began, chapter))
        self._handle = save_later(FORMATS[DEFAULT], self._steps.path_of(name), state, self._cls, writing, self._timeout)
        self._tidied = tidied
        self._last = name

    def _after(self, name: StepName, tidied: Latch, began: float, chapter: int) -> None:
        """In the thread of a save that has ended: on process 0, delete what is not kept."""
        try:
            self._cadence.lasted(time.perf_counter() - began)
            if self._council.index == 0:
                with self._tidying:
                    if self._steps.is_committed(name):
                        self._council.forget(chapter)
                        self._delete_what_goes()
        except Exception as error:  # the step is saved, and the next save tries again
            log.warning("%s could not be tidied up: %s", self._steps.where, error)
        finally:
            tidied.set()

    def _delete_what_goes(self) -> None:
        for name, verdict in self._listing.verdicts(self._rules):
            if not verdict.kept and name != self._writing:
                self._steps.check()  # who has lost the lock decides nothing any more
                self._steps.remove(name)
        self._steps.check()
        self._steps.clean(lambda name: name == self._writing)

    def _newest_whole(self, options: RestoreOptions) -> _T:
        skipped: dict[StepName, str] = {}
        while (name := self._newest_besides(skipped)) is not None:
            state, problem, error = self._tried(name, options)
            problems = self._council.problems(problem)
            if error is not None:
                raise error
            if not problems:
                self._last = name
                newest: _T = state
                return newest
            told = "; ".join(problems[peer] for peer in sorted(problems))
            skipped[name] = f"step {name}: {told}"
            log.warning("step %s of %s is skipped: %s", name, self._steps.where, told)
        if skipped:
            raise CorruptCheckpointError(
                "\n".join([f"expected a whole step in {self._steps.where}, got:", *skipped.values()])
            )
        raise MissingCheckpointError(f"expected a step, got none that was committed in {self._steps.where}")

    def _newest_besides(self, skipped: Collection[StepName]) -> StepName | None:
        """Looked up for each try: meanwhile a writer may have deleted what was tried, and saved another."""
        found = self._council.agreed(
            lambda: next((list(name) for name in self._listing.committed() if name not in skipped), None)
        )
        return None if found is None else StepName(*found)

    def _tried(self, name: StepName, options: RestoreOptions) -> tuple[Any, str | None, BaseException | None]:
        """A state, or why this step is no good for this process, and the error where no other step would be better."""
        try:
            return restore(self._steps.path_of(name), self._cls, **options), None, None
        except _SKIPPED as error:
            return None, str(error), None
        except StorageError as error:
            return None, str(error), None if error.errno == errno.EIO else error
        except BaseException as error:
            return None, f"{type(error).__name__}: {error}", error

    def _name_of(self, step: int) -> StepName:
        found = next((name for name in self._listing.committed() if name.step == step), None)
        if found is None:
            raise MissingCheckpointError(f"expected step {step}, got none that was committed in {self._steps.where}")
        return found

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
            handle.failure()  # waits, and may be interrupted: then it is not told yet
            self._handle = None
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
