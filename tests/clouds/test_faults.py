"""When the store or another save gets in the way, the last committed checkpoint stays."""

import re
import threading
import traceback
from collections.abc import Callable

import pytest

from tests.clouds.conftest import BUCKET, SECRETS, Cloud
from tests.clouds.faults import Answer, Gone, Heedless
from tests.clouds.s3 import S3Server
from tests.runtime.directory.states import Linear, bits, linear
from treaty.runtime import CorruptCheckpointError, IncompleteCheckpointError
from treaty.runtime.directory import inspect, restore, save, save_async, verify
from treaty.runtime.formats.directory import remote as _remote
from treaty.schema import TreatyError

WRITE = "(PUT|POST) .*"
MANIFEST = WRITE + r"/treaty\.json"
CHUNK = WRITE + r"/c\.\d"
LIST = "GET .*(list-type|startOffset)"
EVERYTHING = ""
FORBIDDEN = Answer(
    403,
    b"<Error><Code>SignatureDoesNotMatch</Code><Message>The signature does not match.</Message>"
    b"<AWSAccessKeyId>AKIAKEYOFTHETESTS</AWSAccessKeyId>"
    b"<CanonicalRequest>x-amz-security-token:sessionofthetests</CanonicalRequest></Error>",
)


def value(seed: int) -> Linear:
    """A kernel of two chunks, and a small bias."""
    return linear(16, 8, seed)


def still_there(cloud: Cloud, seed: int) -> None:
    """The checkpoint of a seed is whole, and the next save leaves no trace of what went wrong."""
    cloud.faults.clear()
    assert bits(restore(cloud.url, Linear)) == bits(value(seed))
    verify(cloud.url)
    save(cloud.url, value(9))
    assert bits(restore(cloud.url, Linear)) == bits(value(9))
    assert len(cloud.names) == 2


@pytest.mark.parametrize("skip", [0, 1])
def test_a_server_that_dies_while_arrays_are_written(skip: int, cloud: Cloud) -> None:
    save(cloud.url, value(1))
    cloud.faults.on(CHUNK, lambda: cloud.faults.on(EVERYTHING, Gone()), skip=skip, times=1)
    with pytest.raises(TreatyError, match=r"cannot write .*: .*All 4 retry attempts failed"):
        save(cloud.url, value(2))
    still_there(cloud, 1)


def test_a_server_that_dies_before_the_commit(cloud: Cloud) -> None:
    save(cloud.url, value(1))
    cloud.faults.on(MANIFEST, Gone())
    with pytest.raises(TreatyError, match=r"cannot write .*/treaty\.json: .*All 4 retry attempts failed"):
        save(cloud.url, value(2))
    still_there(cloud, 1)


def test_a_first_save_that_fails_leaves_no_checkpoint(cloud: Cloud) -> None:
    cloud.faults.on(MANIFEST, Gone(), skip=1)  # after the mark
    with pytest.raises(TreatyError):
        save(cloud.url, value(1))
    assert len(cloud.names) == 2
    with pytest.raises(IncompleteCheckpointError):
        restore(cloud.url, Linear)
    cloud.faults.clear()
    save(cloud.url, value(2))
    still_there(cloud, 2)


def test_a_commit_whose_answer_is_lost_is_recognised(cloud: Cloud) -> None:
    """It is sent again, and refused: by then the manifest is its own."""
    save(cloud.url, value(1))
    cloud.faults.on(MANIFEST, Gone(is_done=True), times=1)
    save(cloud.url, value(2))
    still_there(cloud, 2)


def test_a_commit_that_may_have_arrived_keeps_its_data(cloud: Cloud) -> None:
    save(cloud.url, value(1))
    cloud.faults.on(MANIFEST, Gone(is_done=True), times=1)
    cloud.faults.on(MANIFEST, Gone())
    with pytest.raises(TreatyError, match=r"cannot write .*/treaty\.json"):
        save(cloud.url, value(2))
    still_there(cloud, 2)


def test_a_server_that_dies_after_the_commit_leaves_work_for_the_next_save(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    save(cloud.url, value(1))
    cloud.faults.on(MANIFEST, lambda: cloud.faults.on("DELETE", Gone()), times=1)
    save(cloud.url, value(2))
    assert re.search(r"saved .*, but cannot remove .*; the next save tries again", caplog.text)
    assert len(cloud.names) == 3
    still_there(cloud, 2)


def test_a_background_save_tells_of_a_dead_server(cloud: Cloud) -> None:
    cloud.faults.on(CHUNK, Gone())
    handle = save_async(cloud.url, value(1))
    with pytest.raises(TreatyError, match="cannot write"):
        handle.result(60)


def test_a_flaky_server_is_asked_again(cloud: Cloud) -> None:
    for pattern in (CHUNK, MANIFEST, LIST, r"GET .*\.msgpack", "DELETE"):
        cloud.faults.on(pattern, Answer(503), skip=1, times=3)
    save(cloud.url, value(1))
    save(cloud.url, value(2))
    assert bits(restore(cloud.url, Linear)) == bits(value(2))
    still_there(cloud, 2)


@pytest.mark.parametrize("pattern", [CHUNK, MANIFEST])
def test_a_save_that_is_not_allowed_to_write(pattern: str, cloud: Cloud) -> None:
    save(cloud.url, value(1))
    cloud.faults.on(pattern, FORBIDDEN)
    with pytest.raises(TreatyError, match="PERMISSION_DENIED"):
        save(cloud.url, value(2))
    still_there(cloud, 1)


@pytest.mark.parametrize("look", [inspect, verify, lambda url: restore(url, Linear)])
@pytest.mark.parametrize("pattern", ["GET", r"GET .*/treaty\.json"])
def test_a_checkpoint_that_may_not_be_read_is_not_called_damaged(
    pattern: str, look: Callable[[str], object], cloud: Cloud
) -> None:
    save(cloud.url, value(1))
    cloud.faults.on(pattern, FORBIDDEN)
    with pytest.raises(TreatyError, match=r"cannot (read|list) .*: PERMISSION_DENIED") as raised:
        look(cloud.url)
    assert not isinstance(raised.value, (CorruptCheckpointError, IncompleteCheckpointError))


def test_a_bucket_that_is_not_there(cloud: Cloud) -> None:
    url = cloud.url.replace(BUCKET, "no-such-bucket")
    with pytest.raises(TreatyError, match=r"NOT_FOUND: .*bucket does not exist"):
        save(url, value(1))
    with pytest.raises(TreatyError):
        restore(url, Linear)


def test_a_port_where_nothing_listens(monkeypatch: pytest.MonkeyPatch, cloud: Cloud) -> None:
    gone = S3Server(BUCKET)
    gone.close()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", gone.url)
    with pytest.raises(TreatyError, match=r"cannot list s3://bucket/a/: ABORTED: .*Could not connect to server"):
        save("s3://bucket/a", value(1))


def test_of_two_saves_at_once_the_second_to_finish_fails(cloud: Cloud) -> None:
    save(cloud.url, value(1))
    cloud.faults.on(MANIFEST, lambda: save(cloud.url, value(2)), times=1)
    with pytest.raises(TreatyError, match=r"expected the manifest at .* as it was, got another save that finished"):
        save(cloud.url, value(3))
    assert len(cloud.names) == 2
    still_there(cloud, 2)


@pytest.mark.parametrize("skip", [0, 1])
def test_of_two_first_saves_at_once_the_second_to_finish_fails(skip: int, cloud: Cloud) -> None:
    """The other one saves before the mark of this one is there, or after that."""
    cloud.faults.on(MANIFEST, lambda: save(cloud.url, value(2)), skip=skip, times=1)
    with pytest.raises(TreatyError, match="got another save that finished meanwhile"):
        save(cloud.url, value(3))
    still_there(cloud, 2)


def test_a_manifest_that_anything_else_changed_is_not_overwritten(cloud: Cloud) -> None:
    save(cloud.url, value(1))
    cloud.faults.on(MANIFEST, lambda: cloud.write("treaty.json", b"by hand"), times=1)
    with pytest.raises(TreatyError, match="got another save that finished meanwhile"):
        save(cloud.url, value(2))
    assert cloud.read("treaty.json") == b"by hand"


def test_a_save_that_begins_while_another_cleans_up_keeps_its_data(cloud: Cloud) -> None:
    save(cloud.url, value(1))
    cloud.faults.on(MANIFEST, lambda: cloud.faults.on(LIST, lambda: save(cloud.url, value(3)), times=1), times=1)
    save(cloud.url, value(2))
    still_there(cloud, 3)


def test_many_saves_at_once_leave_one_whole_checkpoint(cloud: Cloud) -> None:
    ready = threading.Barrier(4)
    outcomes: dict[int, str] = {}

    def one(seed: int) -> None:
        ready.wait()
        try:
            save(cloud.url, value(seed))
            outcomes[seed] = ""
        except TreatyError as error:
            outcomes[seed] = str(error)

    threads = [threading.Thread(target=one, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    restored = bits(restore(cloud.url, Linear))
    (committed,) = (seed for seed in range(4) if bits(value(seed)) == restored)
    assert outcomes[committed] == ""
    assert all(message == "" or "another save that finished meanwhile" in message for message in outcomes.values())
    still_there(cloud, committed)


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_a_store_that_ignores_conditions_is_refused(cloud: Cloud) -> None:
    cloud.faults.on("PUT", Heedless())
    with pytest.raises(TreatyError, match="expected a store that honours If-Match and If-None-Match"):
        save(cloud.url, value(1))
    assert cloud.keys == []


def test_credentials_are_not_told(cloud: Cloud, capfd: pytest.CaptureFixture[str]) -> None:
    cloud.faults.on(CHUNK, FORBIDDEN)
    with pytest.raises(TreatyError) as raised:
        save(cloud.url, value(1))
    told = (
        "".join(traceback.format_exception(raised.value)) + repr(raised.value.__context__) + "".join(capfd.readouterr())
    )
    assert "PERMISSION_DENIED" in told
    assert [secret for secret in SECRETS.values() if secret in told] == []


def test_credentials_are_not_stored(cloud: Cloud) -> None:
    save(cloud.url, value(1))
    stored = b"".join(cloud.read(key) for key in cloud.keys) + "".join(cloud.keys).encode()
    assert b"treaty" in stored
    assert [secret for secret in SECRETS.values() if secret.encode() in stored] == []
    assert [secret for secret in SECRETS.values() if secret in str(_remote.Remote(cloud.url).kvstore)] == []
