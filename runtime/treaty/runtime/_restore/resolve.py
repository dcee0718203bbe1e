"""From the writer's schema to the reader's. Both are the same today: a state dict passes as it is."""

from typing import Any

from treaty.schema import Schema


def resolve(tree: Any, writer: Schema | None, reader: Schema) -> Any:
    """The state dict of the writer as one of the reader. `writer` is None where the format keeps no schema."""
    return tree
