"""An open MessagePack file: arrays are views of the map of it, or of memory where it is compressed."""

from typing import Any

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError, show_keys
from treaty.runtime._restore.source import Source
from treaty.runtime._storage.files import map_contents, read_buffer
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
        """Sequences become dicts with the keys "0", "1", …, as in every state dict; arrays in parts are lazy ones."""
        contents = read_buffer(self.where) if self.scratch is None else map_contents(self.where, self.scratch)
        tree = _state_dict(decode(contents, lazy=True), ())
        if type(tree) is not dict:
            raise CorruptCheckpointError(f"expected a tree, got {type(tree).__name__} in {self.where}")
        return tree

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


def _state_dict(node: Any, path: Path) -> Any:
    if type(node) is list:
        node = {str(index): one for index, one in enumerate(node)}
    if type(node) is not dict:
        return node
    for key in node:
        if type(key) is not str:
            raise CorruptCheckpointError(f"expected text as keys, got {key!r} at {show_keys(path)}")
    return {key: _state_dict(one, (*path, key)) for key, one in node.items()}
