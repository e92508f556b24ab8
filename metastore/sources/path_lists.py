"""Reads the paths of changed objects from lists of paths, event notifications and inventories.

Place in the flow: ``metastore analyze --paths FILE`` and ``Session.analyze(paths=…)`` read their input here. Only an
object's location is used. The store is asked whether it exists, and for its size and time, so events may be late, in
any order, or repeated.

Entries are paths (URIs, absolute, or relative to the table), or JSON: ``{"path": …}``; notifications of S3 with
``Records``, also through EventBridge (``detail``); notifications of Google Cloud Storage (``bucket`` and ``name``).
Lines of an S3 Inventory in CSV begin with bucket and key. S3 encodes keys as in URLs.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

from metastore.errors import InvalidRequestError, StorageError


def paths_in(file: str) -> Iterator[str]:
    """Yields the paths in a local text ``file`` of one entry a line: JSON, CSV of bucket and key, or paths.

    Raises InvalidRequestError with the line's number, StorageError if the file cannot be read.
    """
    try:
        with Path(file).open(encoding="utf-8-sig", newline="") as lines:
            for number, line in enumerate(lines, start=1):
                if text := line.strip():
                    yield from _of_line(text, f"{file}, line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"the list of paths {file} cannot be read: {error}") from error


def paths_of(entries: Iterable[str | Mapping[str, Any]]) -> Iterator[str]:
    """Yields the paths of ``entries``, which are paths or events as decoded JSON. Raises InvalidRequestError."""
    for number, entry in enumerate(entries, start=1):
        yield from _of_entry(entry, f"entry {number} of the paths")


def _of_line(text: str, where: str) -> Iterator[str]:
    if text[0] in '{["' and not _is_quoted_csv(text):
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidRequestError(f"{where} is no JSON: {error}; one entry a line is expected") from error
        for each in entry if isinstance(entry, list) else [entry]:
            yield from _of_entry(each, where)
        return
    if not _is_quoted_csv(text):
        yield text
        return
    bucket, key, *_ = next(csv.reader([text]))
    yield f"s3://{bucket}/{unquote_plus(key)}"


def _is_quoted_csv(text: str) -> bool:
    """Returns whether the line comes from an inventory: S3 quotes every field."""
    return text.startswith('"') and '","' in text


def _of_entry(entry: Any, where: str) -> Iterator[str]:
    """The paths in one entry, whatever kind of notification it is; keys of S3's own are decoded."""
    match entry:
        case str():
            yield entry
        case {"path": str(path)}:
            yield path
        case {"Records": list(records)}:
            for record in records:
                yield from _of_entry(record, where)
        case {"s3": {"bucket": {"name": str(bucket)}, "object": {"key": str(key)}}}:
            yield f"s3://{bucket}/{unquote_plus(key)}"
        case {"detail": {"bucket": {"name": str(bucket)}, "object": {"key": str(key)}}}:
            yield f"s3://{bucket}/{key}"  # EventBridge does not encode keys
        case {"bucket": str(bucket), "name": str(name)}:
            yield f"gs://{bucket}/{name}"
        case _:
            raise InvalidRequestError(
                f'{where} names no object: a path, {{"path": …}} or a notification of S3 or Google Cloud Storage is '
                "expected"
            )
