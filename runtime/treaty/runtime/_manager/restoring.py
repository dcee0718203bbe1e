"""Which step is restored: the same one by all processes, and no older one where that would hide an error."""

import errno
from collections.abc import Collection
from typing import Any, Final

from treaty.runtime._checkpoint.restore import restore
from treaty.runtime._errors import (
    CorruptCheckpointError,
    IncompleteCheckpointError,
    MissingCheckpointError,
    StorageError,
)
from treaty.runtime._manager.listing import Listing, no_step
from treaty.runtime._manager.steps import Steps
from treaty.runtime._process.council import Council
from treaty.runtime._process.watching import log
from treaty.runtime._restore.options import RestoreOptions
from treaty.runtime.formats.directory.steps import StepName
from treaty.schema import TreatyError

_SKIPPED: Final = (IncompleteCheckpointError, CorruptCheckpointError)


class Restoring:
    """The steps of one class, as all processes restore them together."""

    def __init__(self, steps: Steps, listing: Listing, council: Council, cls: Any) -> None:
        self._steps = steps
        self._listing = listing
        self._council = council
        self._cls = cls

    def given(self, step: int, options: RestoreOptions) -> tuple[StepName, Any]:
        """This step, or an error of all."""
        name = self._newest(step, ())
        if name is None:
            raise no_step(self._steps.where, step)
        return name, self._tried_by_all(name, options, is_only=True)[0]

    def newest_whole(self, options: RestoreOptions) -> tuple[StepName, Any]:
        skipped: dict[StepName, str] = {}
        while (name := self._newest(None, skipped)) is not None:
            state, told = self._tried_by_all(name, options, is_only=False)
            if not told:
                return name, state
            skipped[name] = f"step {name}: {told}"
            log.warning("step %s of %s is skipped: %s", name, self._steps.where, told)
        if skipped:
            raise CorruptCheckpointError(
                "\n".join([f"expected a whole step in {self._steps.where}, got:", *skipped.values()])
            )
        raise MissingCheckpointError(f"expected a step, got none that was committed in {self._steps.where}")

    def _newest(self, step: int | None, skipped: Collection[StepName]) -> StepName | None:
        """Looked up by process 0, and for each try: meanwhile a writer may have deleted what was tried, and saved another."""
        found = self._council.agreed(
            lambda: next(
                (list(name) for name in self._listing.committed() if name not in skipped and step in (None, name.step)),
                None,
            )
        )
        return None if found is None else StepName(*found)

    def _tried_by_all(self, name: StepName, options: RestoreOptions, *, is_only: bool) -> tuple[Any, str]:
        """A state, and why this step is no good for one of them; what is final for one is an error of all."""
        state, problem, error = self._tried(name, options, is_only)
        problems = self._council.problems(None if problem is None else [problem, error is not None])
        if error is not None:
            raise error
        final = [f"process {peer}: {text}" for peer, (text, is_final) in sorted(problems.items()) if is_final]
        if final:
            raise TreatyError(f"expected step {name} of {self._steps.where} for all processes, got {'; '.join(final)}")
        return state, "; ".join(text for _, (text, _) in sorted(problems.items()))

    def _tried(
        self, name: StepName, options: RestoreOptions, is_only: bool
    ) -> tuple[Any, str | None, BaseException | None]:
        """A state, or why this step is no good for this process, and the error where no other step would be better."""
        try:
            return restore(self._steps.path_of(name), self._cls, **options), None, None
        except BaseException as error:
            of_the_step = isinstance(error, _SKIPPED) or (isinstance(error, StorageError) and error.errno == errno.EIO)
            text = str(error) if isinstance(error, TreatyError) else f"{type(error).__name__}: {error}"
            return None, text, None if of_the_step and not is_only else error
