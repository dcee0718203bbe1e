"""Paths in Google Cloud Storage."""

import os

from treaty.runtime._errors import InvalidArgumentError


def is_gcs_path(path: str | os.PathLike[str]) -> bool:
    """Whether a path, or the text of a path object, starts with `gs://`."""
    return str(path).startswith("gs://")


def parse_gcs_path(gcs_path: str | os.PathLike[str]) -> tuple[str, str]:
    """`"gs://bucket/a/b"` -> `("bucket", "a/b")`; the second is empty for a bucket alone."""
    bucket, _, name = str(gcs_path).removeprefix("gs://").partition("/")
    if not is_gcs_path(gcs_path) or not bucket:
        raise InvalidArgumentError(f"expected gs://bucket/name, got {str(gcs_path)!r}")
    return bucket, name
