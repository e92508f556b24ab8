"""The whole error tree: what went wrong, grouped by what a caller can do about it.

Everything this package raises on purpose is one of these::

    MetastoreError                    code
    ├── ConfigError                   config.invalid       mend the configuration (key, file and value are named)
    ├── NotFoundError                 not_found            the named thing does not exist
    ├── InvalidRequestError           request.invalid      mend the call; nothing was changed (also a ValueError)
    ├── ConflictError                 commit.conflict      others kept winning; nothing was changed; try again later
    ├── OutcomeUnknownError           commit.unknown       the commit may or may not have landed; look before retrying
    ├── StorageError                  storage.failed       the store refused or failed; nothing was changed
    ├── EngineError                   engine.failed        a task failed, or the engine cannot be started
    ├── FormatError                   format.invalid       a file is not what its name promises; the file is named
    │   └── DamageError               table.damaged        files of a table are lost; nothing was read or changed
    ├── StaleRowIdError               row_id.stale         the partition a row id names was changed; ask for new ids
    └── ProcedureError                procedure.failed     a procedure refused or failed

Guarantees: every error pickles (Spark carries them between processes), keeps its ``code`` for ever, and says in its
text what is wrong, where, and what to do. Foreign exceptions are kept as ``__cause__``. No text of an error holds a
secret that the configuration holds, whoever repeated it (``redaction``): it is taken out when the error is made.
"""

from __future__ import annotations

from typing import ClassVar

from metastore.redaction import without_secrets


class MetastoreError(Exception):
    """Base of all errors raised on purpose; ``code`` is stable and machine-readable."""

    code: ClassVar[str] = "metastore"

    def __init__(self, *args: object) -> None:
        """``args``: the message. Secrets in it are replaced by asterisks."""
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
    """The store failed in a way that leaves open whether the commit landed; no file of it was deleted."""

    code = "commit.unknown"


class StorageError(MetastoreError):
    """The store refused or failed an operation; the state is the one before the call."""

    code = "storage.failed"


class EngineError(MetastoreError):
    """A task failed on the engine, or the engine (Java, Spark) cannot be started."""

    code = "engine.failed"


class FormatError(MetastoreError):
    """A file cannot be read as the format it should have; the message names the file."""

    code = "format.invalid"


class DamageError(FormatError):
    """Files of a table are lost, so that its newest version cannot be told; nothing was read or changed."""

    code = "table.damaged"


class StaleRowIdError(MetastoreError):
    """The partition was changed since the row id was made, or since ANALYZE; the message names it."""

    code = "row_id.stale"


class ProcedureError(MetastoreError):
    """A procedure refused its arguments' meaning or failed while running."""

    code = "procedure.failed"
