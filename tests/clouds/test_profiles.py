"""Profiles of AWS's tools: the files in ~/.aws, and the variables that name others."""

import os
from pathlib import Path

import pytest

from tests.clouds.conftest import BUCKET, Servers
from tests.clouds.faults import Faults
from tests.runtime.directory.states import Linear, bits, linear
from treaty.runtime import restore, save
from treaty.runtime._storage.clouds import spec_of
from treaty.schema import TreatyError

CREDENTIALS = """
[default]
aws_access_key_id = AKIADEFAULT
aws_secret_access_key = hidden

[prod]
aws_access_key_id = AKIAPROD
aws_secret_access_key = hidden
"""
CONFIG = """
[default]
region = eu-north-1
[profile prod]
region = eu-west-3
endpoint_url = https://store.example
[profile sso]
sso_session = company
[profile role]
role_arn = arn:aws:iam::1:role/x
source_profile = default
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(CREDENTIALS)
    (tmp_path / ".aws" / "config").write_text(CONFIG)
    return tmp_path


def test_the_default_profile_is_found(home: Path) -> None:
    spec = spec_of("s3://bucket/a/")
    files = {"credentials_file": f"{home}/.aws/credentials", "config_file": f"{home}/.aws/config"}
    assert spec["aws_credentials"] == {"type": "profile", "profile": "default", **files}
    assert "aws_region" not in spec  # on AWS the bucket's own is found out
    assert "hidden" not in str(spec)


def test_a_profile_is_asked_for_by_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "prod")
    spec = spec_of("s3://bucket/a/")
    assert spec["aws_credentials"]["profile"] == "prod"
    assert (spec["endpoint"], spec["aws_region"]) == ("https://store.example", "eu-west-3")
    monkeypatch.setenv("AWS_PROFILE", "role")
    assert spec_of("s3://bucket/a/")["aws_credentials"]["profile"] == "role"


def test_variables_come_before_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "hidden")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("AWS_PROFILE", "prod")
    monkeypatch.setenv("AWS_REGION", "us-west-1")
    spec = spec_of("s3://bucket/a/")
    assert (spec["aws_credentials"], spec["aws_region"]) == ({"type": "environment"}, "us-west-1")


@pytest.mark.parametrize("name", ["sso", "missing"])
def test_a_profile_without_keys_is_refused_with_what_to_do(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", name)
    with pytest.raises(TreatyError, match=f"in the profile '{name}', got .* run `aws configure export-credentials"):
        spec_of("s3://bucket/a/")


def test_without_files_the_rest_of_the_chain_is_left_to_tensorstore(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home / "none"))
    assert "aws_credentials" not in spec_of("s3://bucket/a/")


def test_a_file_that_is_none_is_not_repeated(home: Path) -> None:
    (home / ".aws" / "credentials").write_text("hidden secret\n[")
    with pytest.raises(TreatyError, match="expected a file of AWS's tools, got MissingSectionHeaderError") as told:
        spec_of("s3://bucket/a/")
    assert "hidden" not in str(told.value)


@pytest.mark.parametrize(
    ("variables", "key"),
    [
        ({}, "AKIADEFAULT"),
        ({"AWS_PROFILE": "prod"}, "AKIAPROD"),
        ({"AWS_SHARED_CREDENTIALS_FILE": "other"}, "AKIAOTHER"),
        ({"AWS_CONFIG_FILE": "none"}, "AKIADEFAULT"),
    ],
)
def test_requests_are_signed_with_the_keys_of_the_profile(
    variables: dict[str, str], key: str, home: Path, running: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "other").write_text(CREDENTIALS.replace("AKIADEFAULT", "AKIAOTHER"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value if name == "AWS_PROFILE" else str(home / value))
    monkeypatch.setenv("AWS_ENDPOINT_URL", running["s3"].url)
    faults: Faults = running["s3"].faults
    faults.clear()
    url = f"s3://{BUCKET}/profiles/{key}-{'-'.join(variables)}"
    save(url, linear(2, 3))
    assert bits(restore(url, Linear)) == bits(linear(2, 3))
    if "AWS_CONFIG_FILE" in variables:  # and so without a region, for which TensorStore asks unsigned
        signers = {sent.split("/")[0] for sent in faults.signed}
        assert signers - {"nobody"} == {f"AWS4-HMAC-SHA256 Credential={key}"}
    else:
        region = "eu-west-3" if "AWS_PROFILE" in variables else "eu-north-1"
        signers = {"/".join(sent.split("/")[:3:2]) for sent in faults.signed}
        assert signers == {f"AWS4-HMAC-SHA256 Credential={key}/{region}"}
