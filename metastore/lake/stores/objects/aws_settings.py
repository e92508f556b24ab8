"""S3 settings from the environment of the process, for keys that the configuration does not set.

The client of an object store reads the variables ``AWS_…`` and the roles of machines and containers itself. It does not
read the files of the AWS command line, ``~/.aws/credentials`` and ``~/.aws/config``; this module reads keys and the
region of a profile there. It does not support keys that a profile obtains elsewhere (SSO, a process, another role).
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_KEYS: Final = {
    "aws_access_key_id": "s3.access-key-id",
    "aws_secret_access_key": "s3.secret-access-key",
    "aws_session_token": "s3.session-token",
}
_CREDENTIALS: Final = ("s3.access-key-id", "client.access-key-id", "s3.anonymous", "s3.role-arn", "client.role-arn")
_CREDENTIAL_VARIABLES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_REGIONS: Final = ("s3.region", "client.region")
_REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


def with_profile(properties: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``properties`` with keys and region of the profile in ``environ``, each if nothing else sets it.

    The profile is that of ``AWS_PROFILE``, else ``default``. A file that is missing or not in INI format adds nothing.
    """
    profile = environ.get("AWS_PROFILE") or "default"
    home = Path(environ.get("HOME") or "~").expanduser()
    found: dict[str, str] = {}
    kept = _section(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws/credentials", profile)
    if not says_any(_CREDENTIALS, properties) and not says_any(_CREDENTIAL_VARIABLES, environ):
        found = {_KEYS[name]: value for name, value in kept.items() if name in _KEYS and value}
    if not says_region(properties, environ):
        name = profile if profile == "default" else f"profile {profile}"
        configured = _section(environ.get("AWS_CONFIG_FILE") or home / ".aws/config", name)
        region = kept.get("region") or configured.get("region")
        found.update({"s3.region": region} if region else {})
    return {**properties, **found}


def says_region(properties: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """Whether properties or environment variables set the region."""
    return says_any(_REGIONS, properties) or says_any(_REGION_VARIABLES, environ)


def says_any(names: tuple[str, ...], values: Mapping[str, str]) -> bool:
    """Whether one of ``names`` has a non-empty value."""
    return any(values.get(name) for name in names)


def _section(path: str | Path, name: str) -> Mapping[str, str]:
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return {}
    return parser[name] if parser.has_section(name) else {}
