"""Processes that write to, read, expire and clean one component at the same time, each for as long as it is told.

Each is a function for a process of its own, and returns what it saw. None of them may meet an error.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from safety.worlds import unit

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.errors import ConflictError
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.session import Session

OLD_S: Final = timedelta(days=4).total_seconds()


def session_at(folder: Path, **expiration: Any) -> Session:
    """A session on the real clock, without an expiration of its own unless it is given."""
    location = {"base_path": str(folder), "relative_path": "metastore"}
    given = {"location": location, "expiration": expiration}
    return Session(Metastore.open(Settings.from_mapping({"drill.metastore.iceberg": given}, environ={})))


def write(folder: str, writer: int, commits: int, seconds: float, kept: int) -> dict[str, Any]:
    """Commits that replace the writer's own table, add another, and replace one that all share.

    Returns versions in order, when each commit ended, and the longest that one took.
    """
    versions: list[int] = []
    ends: list[float] = []
    longest = 0.0
    start = time.monotonic()
    with session_at(Path(folder), period={"millis": 300}, min_age={"seconds": kept}) as session:
        while len(versions) < commits or time.monotonic() - start < seconds:
            n = len(versions)
            begin = time.monotonic()
            units = [unit(f"own{writer}", str(n)), unit(f"t{writer}-{n % 50}", str(n)), unit("shared", f"{writer}-{n}")]
            versions.append(session.tables.modify().overwrite(units).execute())
            ends.append(time.time())
            longest = max(longest, time.monotonic() - begin)
        session.metastore.tables.expiration_worker.join()
        assert session.metastore.tables.expiration_worker.failures == 0
    return {"versions": versions, "ends": ends, "longest": longest}


def write_once(folder: str, units: list[TableMetadataUnit]) -> int:
    """One commit by a process that has seen nothing yet; its version."""
    with session_at(Path(folder)) as session:
        return session.tables.modify().overwrite(units).execute()


def read(folder: str, until: str) -> dict[str, Any]:
    """Whole versions until the file ``until`` stands.

    Each of a writer's commits writes its own table and another together, so that both are there or neither; and what
    was seen of a writer once is never older later.
    """
    seen: dict[str, int] = {}
    reads = 0
    with session_at(Path(folder)) as session:
        while not os.path.exists(until):
            units = session.tables.read().metadata_types(MetadataType.ALL).execute()
            found = {u.table_name or "": u.owner or "" for u in units}
            assert len(found) == len(units)
            for name, owner in found.items():
                if name.startswith("own"):
                    number = int(owner)
                    assert number >= seen.get(name, 0), f"{name} went back from {seen[name]} to {number}"
                    seen[name] = number
                    assert found[f"t{name[3:]}-{number % 50}"] == owner, f"half of a commit: {name} at {owner}"
            reads += 1
    return {"reads": reads}


def expire(folder: str, until: str, kept: int) -> dict[str, Any]:
    """Expirations, one after another, of what is older than ``kept`` seconds.

    On a machine that is busy enough writers may come first ten times in a row: then it is told so, and comes again.
    """
    runs = gone = beaten = 0
    with session_at(Path(folder), min_age={"seconds": kept}) as session:
        while not os.path.exists(until):
            try:
                expired = session.tables.expiration.expire()
            except ConflictError:
                beaten += 1
                continue
            assert expired.failed == ()
            gone += len(expired.versions)
            runs += 1
            # Versions that may go come by their age: there is nothing to be told of.
            threading.Event().wait(0.05)
    return {"runs": runs, "versions": gone, "beaten": beaten}


def clean(folder: str, until: str) -> dict[str, Any]:
    """Leaves an old orphan, and removes orphans: just this one goes, again and again."""
    runs = 0
    with session_at(Path(folder)) as session:
        table = Path(session.tables.initialize())
        (table / "dfs/tmp").mkdir(parents=True, exist_ok=True)
        while not os.path.exists(until):
            stray = table / f"dfs/tmp/stray-{runs}.parquet"
            stray.write_bytes(b"stray")
            os.utime(stray, (time.time() - OLD_S, time.time() - OLD_S))
            removed = session.call("metastore.system.remove_orphan_files", schema="components", table_name="tables")
            assert removed["orphan_file_location"].to_pylist() == [str(stray)]
            assert not stray.exists()
            runs += 1
    return {"runs": runs}
