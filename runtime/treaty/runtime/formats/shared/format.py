"""What a format is: one object, made by its package and listed in `table`. Whoever has it can do everything with it.

A package's `__init__` names its other modules as text, and `later` imports them when they are called: whoever saves
or restores has all formats in the table, and loads the modules of one.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from treaty.runtime._storage.overtaken import Known

if TYPE_CHECKING:
    from treaty.runtime._process.background import SaveHandle, Then
    from treaty.runtime._process.team import Team
    from treaty.runtime._process.watching import Measure
    from treaty.runtime._restore.source import Source
    from treaty.runtime._state.registry import Codec
    from treaty.schema import Schema

Owns: TypeAlias = Callable[[str], bool]  # of the name of a file below a directory: is it the checkpoint's?


class Writing(NamedTuple):
    """What goes with a state dict that is written."""

    schema: "Schema | None" = None  # of the state dict, which fits it
    metadata: Mapping[str, Any] = {}
    max_shard_bytes: int | None = None
    ordered: Collection[tuple[str, ...]] | None = None  # the dicts whose order counts; None: all of them
    team: "Team | None" = None  # the processes that save together, for a format that is `shared`
    revisions: Mapping[str, int] = {}  # of its classes, by symbol, as far as they are locked
    base: str | None = None  # a checkpoint of the same format, whose files may be linked where they are the same
    compress: str | None = None  # how, where it is wanted
    step: Mapping[str, Any] = {}  # what a manager notes of a step
    measure: "Measure | None" = None  # of the call that this is for
    then: "Then | None" = None  # called when a save in the background has ended, well or not


class StoredStep(NamedTuple):
    """A committed step of a run that another library's manager saved, and what that noted of it."""

    number: int
    path: str
    items: tuple[str, ...]  # the trees in it; none where the step is one itself
    metrics: Mapping[str, float]
    metadata: Mapping[str, Any]
    time: float  # when its save began
    others: tuple[str, ...]  # what else is in it, and is not read


class StoredRun(NamedTuple):
    """A directory of such steps, the newest first."""

    steps: list[StoredStep]
    left_out: Mapping[str, str]  # names that are no committed steps, and why
    damaged: Mapping[int, str]


def itself(path: str) -> list[Path]:
    """A checkpoint that is one file or one directory."""
    return [Path(path)]


def itself_if_there(place: Path) -> list[Path]:
    return [place] if place.is_symlink() or place.exists() else []


def nothing(path: Path) -> list[Owns]:
    """Of a file nobody asks."""
    return []


class Format(NamedTuple):
    """How checkpoints of one format are known, read and written."""

    name: str
    suffixes: tuple[str, ...]  # of the files that it writes; none where it writes a directory
    is_at: Callable[[str], bool]  # whether what lies at a path is of this format; may look inside
    look: Callable[[str, ExitStack], Known]  # what a reader remembers of it, to notice a replacement
    open: Callable[[str, Known], "Source"]
    # A state dict, lazy arrays among its leaves; whole or not at all.
    write: Callable[[str, dict[str, Any], Writing], None]
    takes: frozenset[str] = frozenset()  # the options of `save` that it has room for
    text_metadata: bool = False  # whether its metadata is text by name
    keeps_schema: bool = False  # whether a checkpoint says of which schema it is
    shared: bool = False  # whether several processes save one checkpoint together
    members: Callable[[str], list[Path]] = itself  # the files or directories that a checkpoint is
    replaces: Callable[[Path], list[Path]] = itself_if_there  # what lies there that one of this name takes the place of
    owns: Callable[[Path], list[Owns]] = nothing  # which files below a directory are a checkpoint's own
    # Where there is a better way than the general one:
    write_instance: "Callable[[str, Codec[Any], Any], None] | None" = None
    # Of a directory of no format: what is wrong with it, if it is nearly one.
    hint: Callable[[str], str | None] | None = None
    write_later: "Callable[[str, dict[str, Any], Writing], SaveHandle] | None" = None  # in the background
    inspect: Callable[[str, Known], Any] | None = None
    verify: Callable[[str, Known, bool | None], Any] | None = None
    remove: Callable[[str], bool] | None = None  # False where the general way is right for this path
    step_path: Callable[[str, int], str] | None = None  # where a step of a directory of steps is
    run: Callable[[str], StoredRun] | None = None  # of a directory of steps that is not a manager's of ours
    # Finished files to the place, for a lone writer or not:
    move: Callable[[Path, list[Path], bool], None] | None = None


def later(where: str) -> Callable[..., Any]:
    """The function `module:name`, imported when it is called."""
    module, _, name = where.partition(":")

    def call(*args: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*args, **options)

    return call
