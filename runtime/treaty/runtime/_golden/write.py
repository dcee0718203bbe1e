"""Writing golden checkpoints: of one revision, in each format that it is not in yet, as a save of its time would have."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from treaty.runtime._errors import InvalidArgumentError, LeafError, StateMismatchError
from treaty.runtime._golden.checksums import checksums
from treaty.runtime._golden.index import NAME, Golden
from treaty.runtime._golden.replay import replay
from treaty.runtime._golden.values import made_up
from treaty.runtime._lazy import host
from treaty.runtime._save.check import ordered_dicts
from treaty.runtime._state.explain import explain
from treaty.runtime._storage.files import write_pieces
from treaty.runtime._trees import map_leaves
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.table import DEFAULT, FORMATS, reading
from treaty.schema.evolution.history import Revision

# Treaty's own first: it holds every state, so that a format that comes later is written from it.
FORMATS_WRITTEN: Final = (DEFAULT, "msgpack", "safetensors", "npz", "orbax")


def missing_formats(golden: Golden) -> list[str]:
    known = {**golden.checkpoints, **golden.without}
    return [name for name in FORMATS_WRITTEN if name not in known]


def write_missing(golden: Golden, revision: Revision, cls: Any, symbol: str, present: int) -> tuple[Golden, list[str]]:
    """Adds the missing formats if each restores correctly. Otherwise returns the problems and writes nothing."""
    with _beside(golden.folder) as scratch:
        tree = _state(golden, revision)
        new, without = _write(scratch, tree, revision, missing_formats(golden))
        restored = dict(golden.restored)
        if revision.number == present:
            restored.setdefault(present, checksums(tree))
        made = evolve(golden, folder=scratch, checkpoints=new, restored=restored)
        made, wrong = replay(made, cls, symbol, present)
        if wrong:
            return golden, wrong
        whole = evolve(
            golden,
            checkpoints={**golden.checkpoints, **new},
            without={**golden.without, **without},
            restored=made.restored,
        )
        _move(scratch, golden.folder, new.values())
        write_index(whole)
    return whole, []


def write_index(golden: Golden) -> None:
    golden.folder.mkdir(parents=True, exist_ok=True)
    write_pieces(golden.folder / NAME, [golden.text().encode()])


def _state(golden: Golden, revision: Revision) -> dict[str, Any]:
    """What the checkpoints of a revision hold: what those hold that are there, or a state that is made up."""
    if DEFAULT in golden.checkpoints:
        path = golden.folder / golden.checkpoints[DEFAULT]
        there: dict[str, Any] = reading(path, lambda source: map_leaves(host, source.tree()))
        return there
    tree = made_up(revision.schema)
    if mismatches := explain(revision.schema, tree):
        raise StateMismatchError(mismatches, [f"no state of revision {revision.number} could be made up"])
    return tree


def _write(
    folder: Path, tree: dict[str, Any], revision: Revision, formats: Iterable[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The checkpoints that were written by format, and why the others could not be."""
    schema = revision.schema.as_stored
    known = {**revision.uses, schema.root_class.symbol: revision.number}
    revisions = {cls.symbol: known[cls.symbol] for cls in schema.classes if cls.symbol in known}
    writing = Writing(schema=schema, ordered=ordered_dicts(schema, tree), revisions=revisions)
    written, without = {}, {}
    for name in formats:
        format = FORMATS[name]
        file = f"checkpoint{format.suffixes[0]}" if format.suffixes else name
        try:
            format.write(str(folder / file), tree, writing)
        except (InvalidArgumentError, LeafError) as error:
            without[name] = str(error)
        else:
            written[name] = file
    return written, without


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A folder for what may turn out wrong, from which things are renamed to their place."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as scratch:
        (Path(scratch) / folder.name).mkdir()
        yield Path(scratch) / folder.name


def _move(scratch: Path, folder: Path, names: Iterable[str]) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        place = folder / name
        if os.path.lexists(place):
            raise InvalidArgumentError(f"expected a golden checkpoint in the index, got another at {place}; delete it")
        shutil.move(scratch / name, place)
