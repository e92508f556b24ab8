"""Identity of a table, and of one piece of a table's metadata.

A table is ``plugin.workspace.name``. The name may be a relative path (``a/b``), since a directory can be queried by its
path. A piece of metadata is (type, key, identifier): the key is the top-level segment, the identifier the full name
below it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from metastore.errors import InvalidRequestError
from metastore.model.vocabulary import DEFAULT_SEGMENT, GENERAL_INFO, IDENTIFIER_SEPARATOR, MetadataType

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


@dataclass(frozen=True, order=True)
class TableInfo:
    """Identity of one table in the metastore; a leading slash in the name is dropped, as in Drill."""

    storage_plugin: str
    workspace: str
    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name.lstrip("/"))
        parts = {"storage plugin": self.storage_plugin, "workspace": self.workspace, "table": self.name}
        for label, value in parts.items():
            if not value:
                raise InvalidRequestError(f"the {label} of a table name is empty")

    @classmethod
    def parse(cls, text: str) -> TableInfo:
        """Parses ``plugin.workspace.name``; parts with dots or slashes may be in backquotes.

        Everything after the second dot belongs to the name. Raises InvalidRequestError for fewer than three parts.
        """
        parts: list[str] = []
        position = 0
        while len(parts) < 2:
            match = _PART.match(text, position)
            if match is None or match.end() >= len(text) or text[match.end()] != ".":
                raise InvalidRequestError(f"a table is named plugin.workspace.table, not {text!r}")
            parts.append(_unquote(match))
            position = match.end() + 1
        quoted = _PART.fullmatch(text, position)
        name = _unquote(quoted) if quoted and quoted.group(1) is not None else text[position:]
        return cls(parts[0], parts[1], name)

    @classmethod
    def of(cls, name: TableInfo | str) -> TableInfo:
        """The table ``name``; a text is parsed."""
        return name if isinstance(name, TableInfo) else cls.parse(name)

    def __str__(self) -> str:
        return f"{self.storage_plugin}.{self.workspace}.{self.name}"


def _unquote(match: re.Match[str]) -> str:
    quoted, plain = match.groups()
    return plain if quoted is None else quoted.replace("``", "`")


@dataclass(frozen=True, order=True)
class MetadataInfo:
    """Identity of a piece of metadata: its type, its key (top-level segment), and its identifier."""

    type: MetadataType
    key: str
    identifier: str

    @classmethod
    def general(cls) -> MetadataInfo:
        """The table itself."""
        return cls(MetadataType.TABLE, GENERAL_INFO, GENERAL_INFO)


def segment_identifier(directories: Sequence[str]) -> str:
    """Identifier of the segment with the path ``directories`` below the table."""
    return IDENTIFIER_SEPARATOR.join(directories) if directories else DEFAULT_SEGMENT


def metadata_key(directories: Sequence[str]) -> str:
    """Metadata key of everything below ``directories``: the first of them, or DEFAULT_SEGMENT if there are none."""
    return directories[0] if directories else DEFAULT_SEGMENT


def file_identifier(directories: Sequence[str], file_name: str) -> str:
    """Identifier of a file: its directories and its name; only its name if it is in no directory."""
    return IDENTIFIER_SEPARATOR.join((*directories, file_name))


def row_group_identifier(directories: Sequence[str], file_name: str, index: int) -> str:
    """Identifier of a row group: the identifier of its file, and its index."""
    return IDENTIFIER_SEPARATOR.join((*directories, file_name, str(index)))


def partition_identifier(directories: Sequence[str], value: str | None) -> str:
    """Identifier of a partition: the identifier of its segment, and its value; ``null`` for None."""
    return IDENTIFIER_SEPARATOR.join((*directories, "null" if value is None else value))
