"""The rules of every HTTP endpoint: who may reach its address, what a request must carry, and which Host it may name.

All are pure. An address beyond this machine requires a token. A Host that is a name must be configured, so that no web
page can reach the endpoint by a name of its own that resolves to this machine (DNS rebinding).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import re
from collections.abc import Collection
from typing import Final

from metastore.errors import ConfigError

BROWSERS: Final = 'Basic realm="metastore", charset="UTF-8"'
"""Value of ``WWW-Authenticate`` by which a browser asks its user for the token."""

_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@\s]+)(?::\d{0,5})?")


def require_protection(key: str, host: str, token: str | None) -> None:
    """Raise ConfigError for a host beyond this machine without a token; ``key`` is the section of both settings."""
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"{key}.host = {host} can be reached from other machines, and there is no {key}.token: set one, or set the "
            "host to 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # A host name may later resolve to another address, so the address is used.
        return host == "localhost"


def carries(authorization: bytes, token: str | None) -> bool:
    """Returns whether the header ``Authorization`` has the token, compared in constant time. Without a token: True.

    A browser sends it as the password of any user, for which ``WWW-Authenticate`` must have asked (:data:`BROWSERS`).
    """
    if token is None:
        return True
    scheme, _, given = authorization.partition(b" ")
    if scheme.lower() == b"basic":
        try:
            authorization = b"Bearer " + base64.b64decode(given, validate=True).partition(b":")[2]
        except binascii.Error:
            return False
    return hmac.compare_digest(authorization, f"Bearer {token}".encode())


def names_this(host: str, names: Collection[str]) -> bool:
    """Returns whether the header ``Host`` is an IP address, ``localhost`` or one of ``names``, whatever its port."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found["name"].strip("[]").lower().rstrip(".")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name in {each.lower() for each in names}
    return True


def address_of(scheme: str, host: str, port: int) -> str:
    """Returns the URL of an endpoint."""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
