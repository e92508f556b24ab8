"""Files of configuration on the local disk: whether they are there, their text, and which ones an include means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from metastore.errors import ConfigError

_SYNTAXES: Final = (".properties", ".json", ".conf")
"""Suffixes that an include may leave out, the weakest first."""

_PROPERTY: Final = re.compile(r"\s*((?:\\.|[^\s:=\\])+)\s*[:=]?\s*(.*)")
_ESCAPED: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def candidates(name: Path) -> Sequence[Path]:
    """Returns the files that an include of ``name`` may mean, the weakest first; all that are there are merged.

    As in Typesafe's library, ``common`` is ``common.conf`` over ``common.json`` over ``common.properties``. A file that
    has the very name is taken, too.
    """
    if name.suffix in _SYNTAXES:
        return [name]
    return [name, *(name.with_name(name.name + suffix) for suffix in _SYNTAXES)]


def properties_in(path: Path) -> Mapping[str, str]:
    """Returns what a Java properties file says. Raises ConfigError if it cannot be read."""
    lines = re.sub(r"(?<!\\)((?:\\\\)*)\\\n[ \t]*", r"\1", read_text(path)).split("\n")
    found = (_PROPERTY.fullmatch(line) for line in lines if line.strip() and line.strip()[0] not in "#!")
    return {_unescape(each[1]): _unescape(each[2]) for each in found if each is not None}


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else _LETTERS.get(found[2], found[2]), text)


def is_file(path: Path) -> bool:
    """Returns whether the file exists. Raises ConfigError if that is unknown, as in a folder without permission."""
    try:
        return path.is_file()
    except OSError as error:
        raise ConfigError(f"the configuration file {path} cannot be looked up: {error.strerror}") from error


def is_present(path: Path) -> bool:
    """Returns whether the file exists. Raises ConfigError also for a directory or a broken link of that name.

    Ignoring these would hide a mistake: containers create such directories for files that are missing when mounted.
    """
    if is_file(path):
        return True
    if path.is_dir():
        raise ConfigError(f"the configuration file {path} is a directory")
    if path.is_symlink() and not path.exists():
        raise ConfigError(f"the configuration file {path} is a symbolic link whose target does not exist")
    return False


def read_text(path: Path) -> str:
    """Returns the text of a configuration file. Raises ConfigError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")  # Windows editors write a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {path} cannot be read: {error}") from error
