"""An open MessagePack file: arrays are views of the map of it, or of memory where it is compressed."""

from typing import Any

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError, show_keys
from treaty.runtime._restore.source import Source
from treaty.runtime._storage.files import read_buffer
from treaty.runtime._storage.overtaken import Known
from treaty.runtime._trees import Path
from treaty.runtime.formats.msgpack.decode import decode
from treaty.runtime.formats.msgpack.files import write_file
from treaty.runtime.formats.msgpack.runs import Runs
from treaty.runtime.formats.shared.format import Writing
from treaty.schema import Schema, TreatyError


class MessagePackSource(Source):
    is_mapped = True
    has_runs = True

    def __init__(self, path: str, known: Known) -> None:
        super().__init__(path)
        self._mapped: dict[bool, tuple[Any, Runs]] = {}

    def whole(self, schema: Schema | None) -> Any:
        """Arrays in parts are lazy ones."""
        return as_tree(decode(read_buffer(self.where, self.scratch), lazy=True), self.where)

    def mapped(self, schema: Schema, *, alike: bool = False) -> tuple[Any, Runs]:
        """Read once for all revisions that it may be of. What becomes of the runs is the caller's matter."""
        if alike not in self._mapped:
            runs: Runs = {}
            self._mapped[alike] = decode(read_buffer(self.where), runs if alike else None), runs
        state, runs = self._mapped[alike]
        return state, dict(runs)


def write_tree(path: str, tree: dict[str, Any], writing: Writing) -> None:
    try:
        write_file(path, tree)
    except TreatyError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"expected what MessagePack can hold, got {error}") from error


def as_tree(decoded: Any, where: object) -> dict[str, Any]:
    """The state dict of what a file held: sequences become dicts with the keys "0", "1", …"""
    tree = _state_dict(decoded, (), where)
    if type(tree) is not dict:
        raise CorruptCheckpointError(f"expected a tree, got {type(tree).__name__} in {where}")
    return tree


def _state_dict(node: Any, path: Path, where: object) -> Any:
    if type(node) is list:
        node = {str(index): one for index, one in enumerate(node)}
    if type(node) is not dict:
        return node
    for key in node:
        if type(key) is not str:
            raise CorruptCheckpointError(f"expected text as keys, got {key!r} at {show_keys(path)} in {where}")
    return {key: _state_dict(one, (*path, key), where) for key, one in node.items()}
