"""Object stores: URLs as TensorStore's specs, set up by the usual environment variables, and errors that tell no secrets.

A spec says where credentials come from and never holds them, and a message of TensorStore is cut before the answer of
the server: S3 answers a wrong signature with the access key and the session token.
"""

import errno
import os
import re
from typing import Any, Final

import tensorstore as ts

from treaty.runtime._errors import StorageError, advice, storage_error
from treaty.runtime._storage.aws_profile import Profile
from treaty.schema import TreatyError

# About a minute and a half until a store that does not answer is given up. TensorStore's own 32 take a quarter of an
# hour, too long for a mistyped endpoint.
RETRIES: Final = {"max_retries": 8, "initial_delay": "1s", "max_delay": "32s"}

FAILURES: Final = (ValueError, OSError, LookupError, RuntimeError)  # what TensorStore raises
_DETAILS: Final = re.compile(r" \[[\w-]+='")
_NUMBER: Final = re.compile(r" \[os_error_code='([0-9]+)'")
_STORAGE: Final = ("ABORTED", "CANCELLED", "DEADLINE", "PERMISSION", "RESOURCE", "UNAUTHENTICATED", "UNAVAILABLE")
_CREDENTIALS: Final = re.compile(r"[a-z0-9+.-]+://[^/]*@", re.IGNORECASE)


def spec_of(url: str) -> dict[str, Any]:
    """TensorStore's spec of a URL, as complete as the environment allows."""
    if _CREDENTIALS.match(url):
        raise TreatyError("expected a URL without credentials, got one with @; give them by environment variables")
    for mark in "?#|":
        if mark in url:
            raise TreatyError(f"expected a URL without {mark}, got {url.partition(mark)[0]}{mark}…")
    try:
        spec: dict[str, Any] = ts.KvStore.Spec(url).to_json()
    except ValueError as error:
        why = reason(error)
    else:
        return {"path": "", **spec, **_SETTINGS.get(spec["driver"], dict)()}
    raise TreatyError(f"expected a URL like s3://bucket/path, gs://bucket/path or file:///path, got {url}: {why}")


def reason(error: BaseException) -> str:
    """What TensorStore says of a failure, without what the server sent."""
    return _DETAILS.split(str(error), maxsplit=1)[0]


def is_of_storage(error: BaseException) -> bool:
    """Whether TensorStore could not read or write; else what it read was no good."""
    found = _NUMBER.search(str(error))
    return str(error).startswith(_STORAGE) if found is None else int(found[1]) not in (errno.ENOENT, errno.ENOTDIR)


def failure(what: str, error: BaseException) -> StorageError:
    """What TensorStore raised as one of our errors, with the number of the system where it tells one."""
    found = _NUMBER.search(str(error))
    number = None if found is None else int(found[1])
    return storage_error(f"cannot {what}: {reason(error)}{advice(number)}", number)


def _s3() -> dict[str, Any]:
    # TensorStore knows the variables of AWS's tools for credentials, but neither their files, endpoint nor region.
    settings: dict[str, Any] = {"use_conditional_write": True, "s3_request_retries": RETRIES}
    profile = Profile.of_environment()
    if os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"):
        # First in the default chain too, which complains on standard error where there is no ~/.aws.
        settings["aws_credentials"] = {"type": "environment"}
    elif (credentials := profile.credentials()) is not None:
        settings["aws_credentials"] = credentials
    endpoint = (
        os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or profile.said.get("endpoint_url")
    )
    if endpoint:
        if _CREDENTIALS.match(endpoint):
            raise TreatyError("expected AWS_ENDPOINT_URL without credentials, got one with @")
        settings["endpoint"] = endpoint
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or profile.said.get("region")
        if region:  # without an endpoint TensorStore asks AWS where the bucket is
            settings["aws_region"] = region
    return settings


def _gcs() -> dict[str, Any]:
    return {"gcs_request_retries": RETRIES}


_SETTINGS: Final = {"s3": _s3, "gcs": _gcs}
