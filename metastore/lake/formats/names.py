"""Formats of data files: their names in the metastore, their suffixes, and the format of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from metastore.errors import InvalidRequestError
from metastore.lake.formats.source_file import SourceFile

PARQUET: Final = "PARQUET"
ORC: Final = "ORC"
"""The table types of Parquet and ORC files, as they are stored in the metastore."""

FORMATS: Final = (PARQUET, ORC, "AVRO", "CSV", "TSV", "PSV", "JSON")

_SUFFIXES: Final = {
    "parquet": PARQUET,
    "parq": PARQUET,
    "orc": "ORC",
    "avro": "AVRO",
    "csv": "CSV",
    "csvh": "CSV",
    "tsv": "TSV",
    "psv": "PSV",
    "tbl": "PSV",
    "json": "JSON",
    "jsonl": "JSON",
    "ndjson": "JSON",
}
SUFFIXES: Final = frozenset(_SUFFIXES)
"""The suffixes, in lower case, that determine a format."""
ANY_SUFFIX: Final = "*"
"""Stands among configured suffixes for all that determine no format."""
PROSE: Final = frozenset(("txt", "text", "log", "doc", "docx", "odt", "rtf", "xls", "xlsx", "xml"))
"""Suffixes of texts for people, which are data only if the configuration says so or nothing else is there."""
_COMPRESSIONS: Final = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}


def format_named(name: str) -> str:
    """Returns the format called ``name``, in any case. Raises InvalidRequestError for an unknown one."""
    if name.upper() in FORMATS:
        return name.upper()
    raise InvalidRequestError(f"there is no format {name!r}; known are {', '.join(FORMATS)}")


def format_of_suffix(name: str) -> str | None:
    """Returns the format of a file name's suffix, ignoring a compression suffix; None if it determines none."""
    return _SUFFIXES.get(suffix_of(name))


def suffix_of(name: str) -> str:
    """Returns a file name's suffix in lower case, ignoring a compression suffix; empty for none."""
    stem, _, suffix = name.lower().rpartition(".")
    if stem and suffix in _COMPRESSIONS:
        stem, _, suffix = stem.rpartition(".")
    return suffix if stem else ""


def compression_of_suffix(name: str) -> str | None:
    """Returns Arrow's name of a text file's compression, by the suffix of its name in any case.

    Returns None for no compression.
    """
    return _COMPRESSIONS.get(name.lower().rpartition(".")[2])


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
