"""``inspect``: a metadata table of one table, such as ``iceberg.default.t$files``; without ``$``, their names."""

from __future__ import annotations

from datetime import datetime

from metastore.errors import InvalidRequestError
from metastore.lake.inspection import METADATA_TABLES, metadata_table, resolve_version
from metastore.overview.results import Rows
from metastore.overview.time_travel import moment
from metastore.session import Session


def inspect(session: Session, name: str, at: str | None) -> Rows:
    """Returns the rows of ``catalog.schema.table$name`` at ``at``: a snapshot id, a branch or tag, or a time.

    Raises InvalidRequestError for a wrong name, NotFoundError if the table or version does not exist.
    """
    table, _, kind = name.partition("$")
    catalog, _, rest = table.partition(".")
    schema, _, last = rest.rpartition(".")
    if not (catalog and schema and last):
        raise InvalidRequestError(f"{name!r} is no table of a catalog: catalog.schema.table$snapshots is expected")
    target = session.catalogs.table(catalog, schema, last)
    if not kind:
        return Rows(("table",), tuple((f"{target}${each}",) for each in METADATA_TABLES))
    version = None if at is None else resolve_version(target.load(), _version(at))
    found = metadata_table(target, kind, version)
    return Rows.of(found, maps_as_pydicts="strict")


def _version(at: str) -> int | str | datetime:
    """Parses ``at``: a number is a snapshot id, a time is a time, and any other text is a branch or tag."""
    if at.isdecimal():
        return int(at)
    return moment(at) if at[:1].isdecimal() else at
