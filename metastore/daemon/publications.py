"""Renews a published table: what changed in its folder is analyzed, and the difference is published.

Place in the flow: the daemon's action ``publish`` and the REST catalog's freshness both end here. It does what ANALYZE
with PUBLISH does, for a table that says itself what it publishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from metastore.analyze.reading import Progress
from metastore.model.identity import TableInfo
from metastore.procedures.framework.calls import Procedures
from metastore.scan.pruning.stored_units import require_stored
from metastore.session import Session


def renew(
    session: Session,
    source: str,
    name: str | None,
    procedures: Procedures | None = None,
    on_progress: Progress | None = None,
) -> Mapping[str, Any]:
    """Bring the published table ``name`` up to date with the files of ``source``, as its property names it.

    Returns the row of ``publish_table``. Without a ``name``, it only analyzes, and returns nothing. A table without
    metadata is not analyzed: a property that another program has written leads to no folder. Raises NotFoundError for
    it, and the errors of ``analyze`` and ``publish_table``.
    """
    info = TableInfo.parse(source)
    require_stored(session.metastore.tables, info, session.no_metadata)
    session.analyze(info, on_progress=on_progress)
    if name is None:
        return {}
    calls = session.procedures if procedures is None else procedures
    [row] = calls.call("metastore.system.publish_table", table=source, to=name).to_pylist()
    found: Mapping[str, Any] = row
    return found
