"""Formats of data files: their names in the metastore, the suffixes that tell them, and which one a table has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from metastore.errors import InvalidRequestError
from metastore.formats.source_file import SourceFile

PARQUET: Final = "PARQUET"
ORC: Final = "ORC"
"""The table type of Parquet files, as it stands in the metastore."""

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
"""The suffixes, in lower case, that tell a format."""
_COMPRESSIONS: Final = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}


def format_named(name: str) -> str:
    """The format called ``name``, in any case. InvalidRequestError for another."""
    if name.upper() in FORMATS:
        return name.upper()
    raise InvalidRequestError(f"there is no format {name!r}; known are {', '.join(FORMATS)}")


def format_of_suffix(name: str) -> str | None:
    """What the suffix of a file's name tells, that of a compression aside; None for nothing."""
    return _SUFFIXES.get(suffix_of(name))


def suffix_of(name: str) -> str:
    """The suffix of a file's name in lower case, that of a compression aside; empty for none."""
    stem, _, suffix = name.lower().rpartition(".")
    if stem and suffix in _COMPRESSIONS:
        stem, _, suffix = stem.rpartition(".")
    return suffix if stem else ""


def compression_of_suffix(name: str) -> str | None:
    """How a text file is compressed, by the suffix of its name in any case; Arrow's word for it, None for not."""
    return _COMPRESSIONS.get(name.lower().rpartition(".")[2])


def format_of_files(files: Iterable[SourceFile], configured: Mapping[str, str] | None = None) -> str | None:
    """The one format that the files' suffixes tell; None if no file's does.

    ``configured`` has formats by suffix that come before those known here. InvalidRequestError for files of several
    formats: which are the table's, and which lie there by mistake?
    """
    first: dict[str, str] = {}
    for file in files:
        first.setdefault(suffix_of(file.name), file.path)
    found: dict[str, str] = {}
    for suffix, path in first.items():
        if (format_ := (configured or {}).get(suffix) or _SUFFIXES.get(suffix)) is not None:
            found.setdefault(format_, path)
    if len(found) > 1:
        told = ", ".join(f"{format_} ({path})" for format_, path in sorted(found.items()))
        raise InvalidRequestError(
            f"the table's files are of several formats: {told}; name the format that all of them have"
        )
    return next(iter(found), None)
