"""The formats of data files, by name and by suffix, and the format of a table.

A new format is a module with its record, and one line here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from metastore.errors import InvalidRequestError
from metastore.lake.formats.avro.avro_files import AVRO_FILES
from metastore.lake.formats.file_format import FileFormat
from metastore.lake.formats.orc.orc_files import ORC_FILES
from metastore.lake.formats.source_file import SourceFile, suffix_of
from metastore.lake.formats.text.csv_files import DELIMITED_FILES
from metastore.lake.formats.text.json_files import JSON_FILES

KNOWN: Final = (
    FileFormat("PARQUET", ("parquet", "parq"), title="Parquet", has_footers=True),
    ORC_FILES,
    AVRO_FILES,
    *DELIMITED_FILES,
    JSON_FILES,
)
"""Each format once. What else is said about a format stands in its record."""

_BY_NAME: Final = {each.name: each for each in KNOWN}
_SUFFIXES: Final = {suffix: each.name for each in KNOWN for suffix in each.suffixes}
PARQUET: Final = "PARQUET"
FORMATS: Final = tuple(_BY_NAME)
"""The names of the formats, which are stored as the table's type."""
WITH_FOOTERS: Final = tuple(each.name for each in KNOWN if each.has_footers)
"""Formats whose footers have statistics, so a user chooses where bounds come from."""
SUFFIXES: Final = frozenset(_SUFFIXES)
"""The suffixes, in lower case, that determine a format."""
ANY_SUFFIX: Final = "*"
"""Stands among configured suffixes for all that determine no format."""
PROSE: Final = frozenset(("txt", "text", "log", "doc", "docx", "odt", "rtf", "xls", "xlsx", "xml"))
"""Suffixes of texts for people, which are data only if the configuration says so or nothing else is there."""


def format_named(name: str) -> str:
    """Returns the format called ``name``, in any case. Raises InvalidRequestError for an unknown one."""
    if name.upper() in FORMATS:
        return name.upper()
    raise InvalidRequestError(f"there is no format {name!r}; known are {', '.join(FORMATS)}")


def format_record(name: str) -> FileFormat:
    """Returns the record of a stored format. Raises KeyError for a name that is not in :data:`FORMATS`."""
    return _BY_NAME[name]


def format_of_suffix(name: str) -> str | None:
    """Returns the format of a file name's suffix, ignoring a compression suffix; None if it determines none."""
    return _SUFFIXES.get(suffix_of(name))


def format_of_files(files: Iterable[SourceFile], configured: Mapping[str, str] | None = None) -> str | None:
    """Returns the one format that the files' suffixes determine; None if no file's does.

    ``configured`` has formats by suffix that take precedence over those known here, and at :data:`ANY_SUFFIX` the
    format of files whose suffix determines none. Raises InvalidRequestError for files of several formats, because some
    of them may be in the directory by mistake.
    """
    first: dict[str, str] = {}
    for file in files:
        first.setdefault(suffix_of(file.name), file.path)
    found: dict[str, str] = {}
    known = {ANY_SUFFIX: None, **_SUFFIXES, **(configured or {})}
    for suffix, path in first.items():
        if (format_ := known.get(suffix, known[ANY_SUFFIX])) is not None:
            found.setdefault(format_, path)
    if len(found) > 1:
        formats = ", ".join(f"{format_} ({path})" for format_, path in sorted(found.items()))
        raise InvalidRequestError(
            f"the table's files are of several formats: {formats}; name the format that all of them have"
        )
    return next(iter(found), None)
