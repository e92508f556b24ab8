"""Log records of the daemon, as text or as one line of JSON, and the texts of errors in them. Without secrets."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import Any, Final

from metastore.errors import MetastoreError
from metastore.redaction import without_secrets

_SUBJECTS: Final = ("run", "request")
"""Attributes of a record with the fields of what it is about."""


def message_of(error: Exception) -> str:
    """Returns the message of an error. If it is not a MetastoreError, its class comes first."""
    return str(error) if isinstance(error, MetastoreError) else without_secrets(f"{type(error).__name__}: {error}")


def unforeseen(error: Exception) -> Exception | None:
    """Returns ``error`` for ``exc_info`` if it is not a MetastoreError, because only its traceback shows the defect."""
    return None if isinstance(error, MetastoreError) else error


class TextLines(logging.Formatter):
    """``LEVEL: message``, followed by the traceback of an unforeseen error; without secrets."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """One line, or more with a traceback."""
        return without_secrets(super().format(record))


class JsonLines(logging.Formatter):
    """time (UTC), level, logger, message.

    Records of a run have ``run``, those of a request ``request``; those of an unforeseen error have ``error`` with the
    traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        time = datetime.fromtimestamp(record.created, tz=timezone.utc)
        document: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
        }
        document |= {name: value for name in _SUBJECTS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            document["error"] = without_secrets(self.formatException(record.exc_info))
        # In ASCII, because standard error may have no code for a character, and would then break the JSON.
        return json.dumps(document, default=str)
