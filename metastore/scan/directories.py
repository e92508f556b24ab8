"""Directory columns: the values that a file's directories give its rows, in the types that the metastore has.

``year=2024`` gives column ``year``; a plain directory gives ``dir0``, ``dir1`` … by its level. A file in fewer
directories than others has nulls. A directory that does not fit its column's type is an error that names both, because
the column's type is then unclear. This happens if the directory is newer than ANALYZE, or if the files have a column of
the same name and another type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from metastore.errors import InvalidRequestError
from metastore.lake.formats.arrow_schema import ARROW_TYPES
from metastore.model.drill_types import DrillType
from metastore.model.identity import TableInfo
from metastore.sources.directories import directories_of, key_of, named_values
from metastore.sources.directory_values import is_null, value_of

LEVEL: Final = re.compile(r"dir(\d+)")
"""The name of a column for the directories of one level."""


class DirectoryValues:
    """The directory columns of one table at ``location``: the columns of ``schema`` in ``keys``."""

    def __init__(
        self, table: TableInfo, location: str, keys: Iterable[str], schema: pa.Schema, *, case_sensitive: bool = False
    ) -> None:
        names = set(keys)
        self._case_sensitive = case_sensitive
        self._types = {f.name: f.type for f in schema if f.name in names}
        self._table = table
        self._location = location
        self._of = cache(self._values)

    def of(self, path: str) -> Mapping[str, Any]:
        """Return the value of each directory column for the file at ``path``."""
        return self._of(path.rpartition("/")[0])

    def _values(self, folder: str) -> Mapping[str, Any]:
        """The values of ``folder`` in their types; null where it has no such directory. A misfit raises an error."""
        directories = directories_of(f"{folder}/", self._location)
        named = named_values(directories, case_sensitive=self._case_sensitive)
        values: dict[str, Any] = {}
        for name, type_ in self._types.items():
            text = named.get(key_of(name, case_sensitive=self._case_sensitive))
            level = LEVEL.fullmatch(name)
            if text is None and level is not None:
                depth = int(level.group(1))
                values[name] = directories[depth] if depth < len(directories) else None
                # Directories are pruned as text, whose order differs from that of numbers.
                if values[name] is not None and not pa.types.is_string(type_):
                    raise self._misfit(folder, name, directories[depth])
            elif text is None or is_null(text):
                values[name] = None
            else:
                try:
                    values[name] = _parse_value(unquote(text), type_)
                except (pa.ArrowException, ValueError) as error:
                    raise self._misfit(folder, name, unquote(text)) from error
        return values

    def _misfit(self, folder: str, name: str, text: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"the directories of {folder} do not fit the columns that {self._table} had when it was analyzed: "
            f"{name} is {self._types[name]}, and {text!r} is not; run ANALYZE, or rename the column where files have "
            "it too"
        )


def _parse_value(text: str, type_: pa.DataType) -> Any:
    """Return ``text`` as a value of ``type_``; times, which only partitions of catalogs have, are parsed by Arrow."""
    if (name := _NAMED.get(type_)) is not None:
        return value_of(text, DrillType(name))
    return pa.scalar(text).cast(type_).as_py()


_NAMED: Final = {arrow: name for name, arrow in ARROW_TYPES.items()}
