"""Secrets: how they are recognized, and how they are removed from every text. This is the package's only list.

A secret is recognized by its name (``fs.s3a.secret.key``, ``token``, ``adls.connection-string``) or by its form
(``scheme://user:password@host``, ``-Dx.password=…``, a SAS token, a private key). Code that reads a configuration calls
:func:`remember`. From then on its secrets appear in no message of this process, even if a library repeats them: each
error of the package passes its text through :func:`without_secrets` when it is created, and so does each log line.

When in doubt, text is hidden. Everyday words (``secret``, ``1234``) are an exception: they are hidden only as whole
words, not inside of other words. Otherwise a password ``drill`` would make every message unreadable.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

HIDDEN: Final = "********"
"""The replacement for a secret."""

_NAME: Final = re.compile(
    r"passw|pwd|passphrase|passcode|(?:^|[._-])(?:pass|pw)$|secret|token|delegation|credential|signature|(?:^|[._-])sig$"
    r"|(?:access|account|private|api|shared|encryption|storage|session|signing|master|hmac|subscription)[._-]?key"
    r"|(?<![a-z])sas(?![a-z])|shared[._-]?access|authorization$|(?:basic|proxy)[._-]?auth$|cookie$|jaas"
    r"|account[._-]json|connection[._-]?string",
    re.IGNORECASE,
)
_HARMLESS_NAME: Final = re.compile(
    r"(?:application[._-]credentials|providers?|provider[._-]type|endpoint|enabled|expir\w*|expires?[._-](?:at|in)(?:[._-]ms)?|class|uri|url"
    r"|key[._-]?file|file|path|algorithm)$",
    re.IGNORECASE,
)
"""Names that look like names of secrets but hold none: locations, providers and expiry times of secrets."""

_FOLDERS_OF_SHELLS: Final = frozenset({"PWD", "OLDPWD"})

_VALUE: Final = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\{[^}]*\}|[^&;\s]+)"""
_ASSIGNED: Final = re.compile(
    rf"""(?<![\w.-])
         (?P<before>(?P<name>[\w.-]+)= | --(?P<option>[\w-]+)[ ] | ["']?(?P<dotted>[\w-]+(?:\.[\w-]+)+)["']?[ ]=[ ]
                    | ["'](?P<quoted>[\w.-]+)["']\s*:\s*)
         (?P<secret>{_VALUE})""",
    re.VERBOSE,
)
_FORMS: Final = tuple(
    re.compile(form, flags)
    for form, flags in (
        # Passwords in URIs may contain slashes and at signs, so everything up to the last at sign is hidden.
        (r"(?P<before>://[^/@\s:]*:)(?P<secret>\S+)(?=@)", 0),
        (r"(?P<before>https?://)(?P<secret>[^/@\s:]+)(?=@)", 0),
        (r"(?P<before>jdbc:oracle:\w+:[^/\s]+/)(?P<secret>[^@\s]+)(?=@)", re.IGNORECASE),
        (
            r"(?P<before>authorization[\"']?\s*[:=]\s*[\"']?(?:(?:basic|bearer)\s+)?)(?P<secret>[^\s\"',;]+)",
            re.IGNORECASE,
        ),
        (r"(?P<before>\bbearer\s+)(?P<secret>(?=\S*\d)[\w.~+/=-]{8,})", re.IGNORECASE),
        (r"(?P<before>)(?P<secret>\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*)", 0),
        (r"(?P<before>-----BEGIN [A-Z ]*PRIVATE KEY-----)(?P<secret>.*?)(?=-----END|$)", re.DOTALL),
    )
)
_SHORTEST: Final = 4
"""Shorter values are not hidden, because that would hide ordinary words."""

_DISTINCT: Final = 8
_LONG_WORD: Final = 16
_ORDINARY: Final = frozenset({"true", "false", "null", "none", "anonymous", "default"})


@lru_cache(maxsize=4096)
def names_secret(name: str) -> bool:
    """Returns whether the value of ``name``, a key of a configuration or an option, must not be shown."""
    return _NAME.search(name) is not None and _HARMLESS_NAME.search(name) is None


def redact_value(name: str, value: Any) -> Any:
    """Returns ``value``, of any plain type, as it may be shown for ``name``: secrets are replaced by asterisks."""
    if isinstance(value, dict):
        return {key: redact_value(f"{name}.{key}", child) for key, child in value.items()}
    if value is None or value == "":
        return value
    if names_secret(name):
        return HIDDEN
    if isinstance(value, list):
        return [redact_value(name, each) for each in value]
    return without_secrets(value) if isinstance(value, str) else value


def without_secrets(text: str) -> str:
    """Returns ``text`` with remembered values, and text in the form of a secret, replaced by asterisks."""
    for pattern in _remembered.patterns:
        text = pattern.sub(HIDDEN, text)
    for form in _FORMS:
        text = form.sub(lambda found: found["before"] + HIDDEN, text)
    return _ASSIGNED.sub(_hide_secret, text)


def is_free_of_secrets(error: BaseException) -> bool:
    """Returns whether ``error`` can be shown, including the causes that its traceback shows."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        text = f"{each} {each!r}"
        if without_secrets(text) != text:
            return False
        each = each.__cause__ or each.__context__
    return True


def showable(error: BaseException) -> BaseException | None:
    """Returns ``error`` for use as the cause of another error, or None if it contains a secret."""
    return error if is_free_of_secrets(error) else None


def secrets_in(properties: Mapping[str, Any]) -> Iterator[str]:
    """Yields the secrets in ``properties``, including nested ones: whole values, and secret parts of values."""
    for name, value in properties.items():
        yield from _secrets_of(name, value)


def remember(properties: Mapping[str, Any]) -> None:
    """Hide the secrets of ``properties`` from now on, in every text of this process."""
    _remembered.add(secrets_in(properties))


def remember_environment(environ: Mapping[str, str]) -> None:
    """Hide the secrets of environment variables. ``PWD`` and ``OLDPWD`` are folders, and no passwords."""
    remember({name: value for name, value in environ.items() if name not in _FOLDERS_OF_SHELLS})


def _secrets_of(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _secrets_of(f"{name}.{key}", child)
    elif isinstance(value, list):
        for child in value:
            yield from _secrets_of(name, child)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        text = str(value)
        if names_secret(name):
            yield text
            yield from (part for part in text.partition(":")[2:] if "credential" in name.lower())
        yield from _parts(text)


def _parts(text: str) -> Iterator[str]:
    """Yields the parts of ``text`` that have the form of a secret."""
    for form in _FORMS:
        yield from (found["secret"] for found in form.finditer(text))
    for found in _ASSIGNED.finditer(text):
        if _assigns_secret(found):
            yield found["secret"].strip("\"'{}")


def _hide_secret(match: re.Match[str]) -> str:
    if not _assigns_secret(match):
        return match[0]
    mark = match["secret"][0] if match["secret"][0] in "\"'" else ""
    return f"{match['before']}{mark}{HIDDEN}{mark}"


def _assigns_secret(match: re.Match[str]) -> bool:
    name = match["name"] or match["dotted"] or match["quoted"] or match["option"]
    return match["secret"].strip("\"'") != HIDDEN and names_secret(name)


class _KnownSecrets:
    """The secrets of this process, as patterns that find them. Threads share it."""

    def __init__(self) -> None:
        self.patterns: tuple[re.Pattern[str], ...] = ()
        self._spellings: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def add(self, secrets: Iterable[str]) -> None:
        found = {spelling for secret in secrets for spelling in _spellings(secret)}
        with self._lock:
            if found <= self._spellings:
                return
            self._spellings |= found
            inside = [re.escape(each) for each in self._by_length() if _is_distinct(each)]
            alone = [re.escape(each) for each in self._by_length() if not _is_distinct(each)]
            patterns = []
            if inside:
                patterns.append("|".join(inside))
            if alone:
                patterns.append(rf"(?<![\w./-])(?:{'|'.join(alone)})(?![\w/-]|\.\w)")
            self.patterns = tuple(map(re.compile, patterns))

    def _by_length(self) -> list[str]:
        """Returns the longest first, because one secret may contain another."""
        return sorted(self._spellings, key=lambda each: (-len(each), each))


def _spellings(secret: str) -> Iterator[str]:
    """Yields the spellings of a secret: unchanged, in URIs, in JSON, and on one line."""
    plain = secret.strip()
    with suppress(UnicodeEncodeError):
        spellings = {plain, unquote(plain), quote(plain, safe=""), quote_plus(plain), json.dumps(plain)[1:-1]}
        spellings |= {" ".join(plain.split()), repr(plain)[1:-1]}
        yield from (each for each in spellings if len(each) >= _SHORTEST and each.lower() not in _ORDINARY)


def _is_distinct(secret: str) -> bool:
    """Returns whether a text that contains the secret is unlikely to contain it by accident."""
    is_word = secret.isalpha() or secret.isdecimal()
    return len(secret) >= (_LONG_WORD if is_word else _DISTINCT) and secret != HIDDEN


_remembered: Final = _KnownSecrets()
