"""All errors of this package, grouped by the reaction of a caller.

Everything this package raises on purpose is one of these::

    MetastoreError                    code
    ├── ConfigError                   config.invalid       correct the configuration (key, file and value are named)
    ├── NotFoundError                 not_found            the named object does not exist
    ├── InvalidRequestError           request.invalid      correct the call; nothing was changed (also a ValueError)
    ├── ConflictError                 commit.conflict      other writers won; nothing was changed; try again later
    ├── OutcomeUnknownError           commit.unknown       the commit may or may not have landed; check before retrying
    ├── StorageError                  storage.failed       the store refused or failed; nothing was changed
    ├── EngineError                   engine.failed        a task failed, or the engine cannot be started
    ├── FormatError                   format.invalid       a file does not have its expected format; the file is named
    │   └── DamageError               table.damaged        files of a table are lost; nothing was read or changed
    ├── StaleRowIdError               row_id.stale         the partition of a row id was changed; read new ids
    └── ProcedureError                procedure.failed     a procedure refused or failed

Guarantees: every error pickles (Spark carries them between processes), keeps its ``code`` for ever, and has a text with
the problem, the place and the next step. Foreign exceptions are kept as ``__cause__``. No text of an error contains a
secret of the configuration, even if a library repeats it: the secret is removed when the error is created
(:mod:`metastore.redaction`).
"""

from __future__ import annotations

from typing import ClassVar

from metastore.redaction import without_secrets


class MetastoreError(Exception):
    """Base of all errors raised on purpose; ``code`` is stable and machine-readable."""

    code: ClassVar[str] = "metastore"

    def __init__(self, *args: object) -> None:
        """``args`` is the message. Secrets in it are replaced by asterisks."""
        super().__init__(*(without_secrets(each) if isinstance(each, str) else each for each in args))


class ConfigError(MetastoreError):
    """A configuration key is missing, unknown where it must be known, or has a wrong value."""

    code = "config.invalid"


class NotFoundError(MetastoreError):
    """The named table, version, workspace, plugin or file does not exist."""

    code = "not_found"


class InvalidRequestError(MetastoreError, ValueError):
    """The call itself is wrong; nothing was changed."""

    code = "request.invalid"


class ConflictError(MetastoreError):
    """Other writers kept winning until the configured time was over, or ``if_version`` no longer holds."""

    code = "commit.conflict"


class OutcomeUnknownError(MetastoreError):
    """The store failed during a commit, so its outcome is unknown; none of its files was deleted."""

    code = "commit.unknown"


class StorageError(MetastoreError):
    """The store refused or failed an operation; the state is as before the call."""

    code = "storage.failed"


class EngineError(MetastoreError):
    """A task failed on the engine, or the engine (Java, Spark) cannot be started."""

    code = "engine.failed"


class FormatError(MetastoreError):
    """A file cannot be read in its expected format; the message names the file."""

    code = "format.invalid"


class DamageError(FormatError):
    """Files of a table are lost, so its newest version is unknown; nothing was read or changed."""

    code = "table.damaged"


class StaleRowIdError(MetastoreError):
    """The partition was changed after the row id was made, or after ANALYZE; the message names it."""

    code = "row_id.stale"


class ProcedureError(MetastoreError):
    """A procedure refused the values of its arguments, or failed while running."""

    code = "procedure.failed"
