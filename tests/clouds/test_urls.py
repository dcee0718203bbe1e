"""What a URL means, and how the environment says where the store is."""

import os
from pathlib import Path

import pytest

from tests.runtime.directory.states import Linear, bits, linear
from treaty.runtime._storage.clouds import RETRIES, spec_of
from treaty.runtime.directory import inspect, restore, save, verify
from treaty.schema import TreatyError


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of AWS is set."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


def test_a_file_url_is_a_directory(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/a%20run"
    save(url, linear(2, 3))
    assert (tmp_path / "a run" / "treaty.json").exists()
    assert bits(restore(url, Linear)) == bits(linear(2, 3))
    assert verify(url).path == inspect(tmp_path / "a run").path


@pytest.mark.parametrize("url", ["file://run/1", "file://localhost/run"])
def test_a_file_url_has_no_host(url: str) -> None:
    with pytest.raises(TreatyError, match=f"expected file:///path, with three slashes, got {url}"):
        save(url, linear(2, 3))


@pytest.mark.parametrize("url", ["s3://bucket/run", "gs://bucket/run", "file:///run"])
def test_a_path_made_of_a_url_is_refused(url: str) -> None:
    with pytest.raises(TreatyError, match=r"expected a URL as a str, got PosixPath\(.*a Path makes one slash of two"):
        save(Path(url), linear(2, 3))


@pytest.mark.parametrize("url", ["s3://key:hidden@bucket/run", "gs://hidden@bucket", "s3://bucket/a?token=hidden"])
def test_secrets_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(TreatyError, match="expected a URL without") as raised:
        save(url, linear(2, 3))
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize("url", ["s3://bucket/a#1", "s3://bucket/a.zip|zip:"])
def test_a_url_names_a_prefix_and_nothing_else(url: str) -> None:
    with pytest.raises(TreatyError, match="expected a URL without"):
        inspect(url)


@pytest.mark.parametrize("url", ["ftp://bucket/a", "S3://bucket/a", "s3://B_/a", "gs:///a"])
def test_other_urls_are_refused_with_the_reason(url: str) -> None:
    with pytest.raises(TreatyError, match=r"expected a URL like s3://bucket/path, .*, got .*: Parsing spec"):
        inspect(url)


def test_s3_without_settings_is_left_to_tensorstore() -> None:
    assert spec_of("s3://bucket/a/") == {
        "driver": "s3",
        "bucket": "bucket",
        "path": "a/",
        "use_conditional_write": True,
        "s3_request_retries": RETRIES,
    }


def test_s3_takes_the_variables_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "hidden")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store.example")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    spec = spec_of("s3://bucket/a/")
    assert spec["aws_credentials"] == {"type": "environment"}
    assert (spec["endpoint"], spec["aws_region"]) == ("https://store.example", "eu-west-1")
    assert "hidden" not in str(spec)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3.example")
    monkeypatch.setenv("AWS_REGION", "eu-west-2")
    spec = spec_of("s3://bucket/a/")
    assert (spec["endpoint"], spec["aws_region"]) == ("https://s3.example", "eu-west-2")


def test_a_region_alone_does_not_say_where_the_bucket_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert "aws_region" not in spec_of("s3://bucket/a/")


def test_an_endpoint_with_credentials_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://key:hidden@store.example")
    with pytest.raises(TreatyError, match="expected AWS_ENDPOINT_URL without credentials") as raised:
        spec_of("s3://bucket/a/")
    assert "hidden" not in str(raised.value)
