"""The file that makes a directory a checkpoint of eformer. By itself, since whoever only looks for it loads nothing else."""

from typing import Final

INDEX: Final = "tensorstore_index.json"
