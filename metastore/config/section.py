"""Typed reading of one object of the configuration. Every error names the key, the value, and the file.

Place in the flow: ``settings`` opens a section for each object and reads typed values. A ``ConfigReading`` records each
key that was read. These are the keys in effect; all other keys in the files are unknown.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from metastore.config.loader import Configuration, Origin, absolute
from metastore.config.resolution import KeyPath, Unresolvable
from metastore.config.units import parse_duration, parse_period, parse_size
from metastore.errors import ConfigError
from metastore.ground.suggestions import did_you_mean
from metastore.redaction import redact_value

_T = TypeVar("_T")
_FILE_URI = re.compile(r"^file:(//(localhost(?=/))?)?")
_HOST = re.compile(r"file://([^/]+)")
_LAST_PORT = 65_535
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Setting:
    """One effective key with its value for people; the value of a secret key is redacted."""

    key: str
    value: object
    origin: Origin


class ConfigReading:
    """One pass over a configuration: records the keys that were read, and so finds the unknown ones."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self._asked: dict[KeyPath, Any] = {}

    def section(self, *key: str) -> Section:
        """Returns the object at ``key``; an empty one if it is absent or null."""
        value = self.configuration.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.refusal(key, value, "an object is expected")
        return Section(self, key, value or {})

    def note(self, key: KeyPath, value: Any) -> None:
        """Record ``key`` as known, with its value."""
        self._asked[key] = value

    def refusal(self, key: KeyPath, value: Any, reason: str) -> ConfigError:
        """Returns the error for an invalid value."""
        text = json.dumps(redact_value(join_key(key), value), ensure_ascii=False, default=str)
        return ConfigError(f"{join_key(key)} = {text}: {reason} ({self.configuration.origin(key)})")

    def effective(self) -> tuple[Setting, ...]:
        """Returns all keys that were read, in alphabetical order."""
        return tuple(
            Setting(join_key(key), redact_value(join_key(key), value), self.configuration.origin(key))
            for key, value in sorted(self._asked.items())
        )

    def unknown(self, section: Section, ignored: Collection[str] = ()) -> Iterator[str]:
        """Returns a sentence for every unknown key below ``section``, except ``ignored`` names."""
        known = [join_key(key) for key in self._asked]
        for key, _ in _entries(section.key, section.values):
            if key[len(section.key)] in ignored or any(key[:length] in self._asked for length in range(len(key) + 1)):
                continue
            hint = did_you_mean(join_key(key), known, most=1, cutoff=0.8)
            yield f"unknown key {_quote_key(key)} ({self.configuration.origin(key)}){hint}"

    def find_misplaced(self, *key: str) -> Iterator[str]:
        """Returns a sentence for every name that would belong to ``key`` if its dots were not quoted."""
        for depth in range(len(key)):
            for name in self.configuration.names(key[:depth]):
                if "." in name and f"{name}.".startswith(f"{join_key(key[depth:])}."):
                    found = (*key[:depth], name)
                    yield (
                        f"unknown key {_quote_key(found)} ({self.configuration.origin(found)}); "
                        f"in quotes it is one name that contains dots: did you mean {join_key(found)}?"
                    )


@dataclass(frozen=True)
class Section:
    """One object of the configuration and its key path."""

    reading: ConfigReading
    key: KeyPath
    values: Mapping[str, Any]

    def section(self, name: str) -> Section:
        """Returns the object ``name``; an empty one if it is absent or null."""
        if name in self.values and self.values[name] is None:
            self.reading.note((*self.key, name), None)  # The key is known, and null removes it.
        return self.reading.section(*self.key, name)

    def sections(self) -> dict[str, Section]:
        """Returns the objects with free names; null removes one."""
        found = {name: self.section(name) for name in self.values}
        return {name: section for name, section in found.items() if self.values[name] is not None}

    def require(self, name: str, value: _T | None) -> _T:
        """Returns ``value``. Raises ConfigError if it is absent or null."""
        if value is None:
            key, configuration = (*self.key, name), self.reading.configuration
            raise ConfigError(
                f"{join_key(key)} is missing or null ({configuration.origin(key)}); looked in {configuration.sources}"
            )
        return value

    def text(self, name: str) -> str:
        """Returns a required string; numbers and booleans are taken as they are written."""
        return self.require(name, self.optional_text(name))

    def optional_text(self, name: str) -> str | None:
        """Returns a string; None if the key is absent or null."""
        return self._convert(name, _text)

    def texts(self, name: str) -> list[str]:
        """Returns a list of strings; empty if the key is absent or null."""
        return self._convert(name, _list_of_texts) or []

    def choice(self, name: str, options: Mapping[str, _T]) -> _T:
        """Returns the value of one of the ``options``, chosen by name."""
        value = self.text(name)
        if value not in options:
            raise self.refusal(name, f"one of {', '.join(options)} is expected")
        return options[value]

    def flag(self, name: str, *, default: bool) -> bool:
        """Returns a boolean; yes, no, on and off are accepted."""
        value = self._convert(name, _boolean)
        return default if value is None else value

    def whole(self, name: str, *, least: int) -> int | None:
        """Returns an integer of at least ``least``, written as a number or a string; None if absent."""
        value = self._convert(name, _integer)
        if value is not None and value < least:
            raise self.refusal(name, f"at least {least} is expected")
        return value

    def port(self, name: str) -> int:
        """Returns a required port; 0 is any free one."""
        return self.require(name, self.optional_port(name))

    def optional_port(self, name: str) -> int | None:
        """Returns a port; None if the key is absent or null."""
        value = self.whole(name, least=0)
        if value is not None and value > _LAST_PORT:
            raise self.refusal(name, f"a port is at most {_LAST_PORT}")
        return value

    def size(self, name: str) -> int | None:
        """Returns a number of bytes, written as a number or with a unit, such as ``256 MB``."""
        return self._convert(name, lambda value: parse_size(_text(value)))

    def duration(self, name: str) -> timedelta | None:
        """Returns a duration, written as text, such as ``10 days``, or as a period."""
        if isinstance(self.values.get(name), dict):
            return self.period(name)
        return self._convert(name, lambda value: parse_duration(_text(value)))

    def period(self, name: str) -> timedelta | None:
        """Returns the sum of an object of units, such as ``{ days = 7, hours = 12 }``; None if absent or empty."""
        units = self.section(name)
        if not units.values:
            self.reading.note(units.key, None)
        amounts = {unit: units.whole(unit, least=-(2**63)) for unit in units.values}
        given = {unit: amount for unit, amount in amounts.items() if amount is not None}
        try:
            return parse_period(given.items()) if given else None
        except ValueError as error:
            raise self.refusal(name, str(error)) from error

    def properties(self, name: str) -> dict[str, str | None]:
        """Returns a map of free keys to strings, None for null. ``a.b = 1`` and ``"a.b" = 1`` are the same."""
        values = self.section(name).values
        return {join_key(key): self._property(name, key, value) for key, value in _entries((), values)}

    def _property(self, name: str, key: KeyPath, value: Any) -> str | None:
        full = (*self.key, name, *key)
        self.reading.note(full, value)
        try:
            return None if value is None else _text(value)
        except ValueError as error:
            raise self.reading.refusal(full, value, str(error)) from error

    def _convert(self, name: str, convert: Callable[[Any], _T]) -> _T | None:
        value = self.values.get(name)
        self.reading.note((*self.key, name), value)
        try:
            return None if value is None else convert(value)
        except ValueError as error:
            raise self.refusal(name, str(error)) from error

    def local_path(self, name: str, location: str, cwd: Path | None) -> str:
        """Returns the absolute path of ``location``, the path or ``file:`` URI at ``name``. Raises ConfigError.

        A relative path starts at ``cwd``, or at the working directory if that is None; ``~`` is the user's home.
        """
        self.require_no_host(name, location)
        path = _FILE_URI.sub("", location)
        return os.path.normpath(absolute(os.path.expanduser(path), cwd))

    def require_no_host(self, name: str, location: str) -> None:
        """Raise ConfigError for a ``file:`` URI with a host, such as ``file://srv/drill``."""
        host = _HOST.match(location)
        if host is not None and host[1] != "localhost":
            raise self.refusal(
                name,
                f"{host[1]} is the name of a host there, and files of other hosts cannot be reached: a local folder is "
                f"file:///path or a plain path. Did you mean file:///{location[len('file://') :]}?",
            )

    def refusal(self, name: str, reason: str) -> ConfigError:
        """Returns the error for the invalid value of ``name``."""
        return self.reading.refusal((*self.key, name), self.values.get(name), reason)


def is_local(location: str) -> bool:
    """Returns whether ``location`` is a URI of the local disk."""
    return location.startswith("file:")


def join_key(key: KeyPath) -> str:
    """Returns a key path with dots between its names."""
    return ".".join(key)


def _quote_key(key: KeyPath) -> str:
    """Returns a key path, with quotes around names that contain dots."""
    return ".".join(f'"{name}"' if "." in name else name for name in key)


def _entries(key: KeyPath, values: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _entries((*key, name), value)
        else:
            yield (*key, name), value


def _text(value: Any) -> str:
    if isinstance(value, Unresolvable):
        raise value.error
    if isinstance(value, dict | list):
        raise ValueError("a single value is expected")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list_of_texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError('a list is expected, such as ["first", "second"]')
    return [_text(each) for each in value]


def _boolean(value: Any) -> bool:
    found = _BOOLEANS.get(_text(value).lower())
    if found is None:
        raise ValueError("true or false is expected")
    return found


def _integer(value: Any) -> int:
    try:
        return int(_text(value))
    except ValueError as error:
        raise ValueError("a whole number is expected") from error
