"""What the daemon's log says of errors, and its records: as text, or as JSON of one line. None holds a secret."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone

from metastore.errors import MetastoreError
from metastore.redaction import without_secrets


def told(error: Exception) -> str:
    """What an error says; one that is not ours with its kind, without which many of them say nothing."""
    return str(error) if isinstance(error, MetastoreError) else without_secrets(f"{type(error).__name__}: {error}")


def unforeseen(error: Exception) -> Exception | None:
    """``error`` when it is not ours, to be logged as ``exc_info``: where a defect arose, its traceback alone says."""
    return None if isinstance(error, MetastoreError) else error


class TextLines(logging.Formatter):
    """``LEVEL: message``, and below it the traceback of an error that nobody foresaw; without secrets."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """One line, or more with a traceback."""
        return without_secrets(super().format(record))


class JsonLines(logging.Formatter):
    """time (UTC), level, logger, message.

    ``run`` with the whole run where a record is of one; ``error`` with the traceback of one that nobody foresaw.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        time = datetime.fromtimestamp(record.created, tz=timezone.utc)
        document = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
        }
        run = getattr(record, "run", None)
        if run is not None:
            document["run"] = run
        if record.exc_info:
            document["error"] = without_secrets(self.formatException(record.exc_info))
        # In ASCII: what standard error has no code for would be written in a way that is not JSON's.
        return json.dumps(document, default=str)
