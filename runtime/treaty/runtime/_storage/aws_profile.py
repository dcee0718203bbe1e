"""A profile of AWS's tools: the files in ~/.aws, which TensorStore finds only if it is told all three names."""

import os
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from typing import Any, Final

from attrs import frozen

from treaty.schema import TreatyError

_KEYS: Final = "aws_access_key_id"
_ROLE: Final = "role_arn"


@frozen
class Profile:
    """What is said of one profile in the file of credentials and in that of settings."""

    name: str
    is_asked_for: bool  # by AWS_PROFILE; else it is "default", which need not be there
    credentials_file: str
    config_file: str
    said: Mapping[str, str]

    @classmethod
    def of_environment(cls) -> "Profile":
        asked = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
        name = asked or "default"
        credentials = _file("AWS_SHARED_CREDENTIALS_FILE", "credentials")
        config = _file("AWS_CONFIG_FILE", "config")
        section = name if name == "default" else f"profile {name}"
        said = {**_section(config, section), **_section(credentials, name)}
        return cls(name, asked is not None, credentials, config, said)

    def credentials(self) -> dict[str, Any] | None:
        """TensorStore's spec, which names the files; None where there are none, for the rest of AWS's chain."""
        if _KEYS in self.said or _ROLE in self.said:
            files = {"credentials_file": self.credentials_file, "config_file": self.config_file}
            return {"type": "profile", "profile": self.name, **files}
        if self.is_asked_for:
            found = ", ".join(sorted(self.said)) or "nothing"
            raise TreatyError(
                f"expected {_KEYS} or {_ROLE} in the profile {self.name!r}, got {found} in {self.credentials_file} and "
                f"{self.config_file}; for others run `aws configure export-credentials --format env`"
            )
        return None


def _file(variable: str, name: str) -> str:
    """The path of a file that can be read; TensorStore complains on standard error of one that is not there."""
    path = os.path.expanduser(os.environ.get(variable) or f"~/.aws/{name}")
    return path if os.access(path, os.R_OK) else os.devnull


def _section(path: str, name: str) -> Mapping[str, str]:
    parser = ConfigParser(interpolation=None, strict=False, default_section="\0", allow_no_value=True)
    try:
        parser.read(path, encoding="utf-8")
        return {key: value for key, value in parser.items(name) if value} if parser.has_section(name) else {}
    except (ConfigError, UnicodeDecodeError, OSError) as error:  # of which the message may hold a line of the file
        kind = type(error).__name__
    raise TreatyError(f"expected a file of AWS's tools, got {kind} in {path}")
