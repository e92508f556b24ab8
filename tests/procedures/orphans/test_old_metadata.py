"""remove_old_metadata: what fell out of the log goes, oldest first, and nothing else does."""

from __future__ import annotations

import json
import os
import re
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from support.descriptors import full_path
from support.procedures_site import Site

from metastore.errors import InvalidRequestError, ProcedureError

KEEP = {"write.metadata.previous-versions-max": "2"}


def folder(site: Site) -> Path:
    """Where the table's metadata is."""
    return Path(site.table.metadata.location.removeprefix("file://")) / "metadata"


def versions(site: Site) -> list[Path]:
    """Metadata files, oldest first."""
    numbered = [(re.match(r"v?(\d+)", path.name), path) for path in folder(site).glob("*.metadata.json")]
    return [path for _, path in sorted((int(match[1]), path) for match, path in numbered if match)]


def make_old(*paths: Path) -> None:
    """As if they were written ten days ago."""
    then = time.time() - timedelta(days=10).total_seconds()
    for path in paths:
        os.utime(path, (then, then))


@pytest.fixture
def written(site: Site) -> Site:
    """Seven versions, of which the log names two; all are old. Nobody has deleted any."""
    with site.table.transaction() as change:
        change.set_properties(KEEP)
    for each in range(5):
        site.append(each)
    assert len(versions(site)) == 7
    make_old(*versions(site))
    return site


def test_what_the_log_names_no_more_goes(written: Site) -> None:
    """In both kinds of catalogs; the current file and those of the log stay, and so do all rows and versions."""
    expected = [(str(path), path.stat().st_size) for path in versions(written)[:4]]
    before = written.table.metadata
    dry = written.call("remove_old_metadata", dry_run=True)
    assert len(versions(written)) == 7
    assert [row["deleted"] for row in dry] == [False] * 4
    done = written.call("remove_old_metadata")
    for rows in (dry, done):
        assert [(row["metadata_file"].removeprefix("file://"), row["file_size_in_bytes"]) for row in rows] == expected
    assert [(row["deleted"], row["error"]) for row in done] == [(True, None)] * 4
    assert len(versions(written)) == 3
    assert written.table.metadata == before
    assert written.ids() == list(range(5))
    assert all(Path(entry.metadata_file.removeprefix("file://")).exists() for entry in before.metadata_log)
    assert written.call("remove_old_metadata") == []
    written.append(5)
    assert written.ids() == list(range(6))


def test_young_files_stay_and_all_that_came_after_them(written: Site) -> None:
    """Ages count from the oldest on, so that none goes before an older one."""
    second = versions(written)[1]
    os.utime(second)
    [row] = written.call("remove_old_metadata")
    assert not row["metadata_file"].endswith(second.name)
    assert versions(written)[0] == second
    assert len(versions(written)) == 6


@pytest.mark.parametrize("strange_json", [{}, [], {"properties": None}])
def test_files_of_others_stay(written: Site, strange_json: Any) -> None:
    """Metadata of another table, what is no metadata, and what a writer made for a version that is still to come."""
    first, second = versions(written)[:2]
    other = json.loads(first.read_text()) | {"table-uuid": "00000000-0000-4000-8000-000000000000"}
    first.write_text(json.dumps(other))
    second.write_text(json.dumps({**other, **strange_json} if strange_json else strange_json))
    ahead = folder(written) / "00999-00000000-0000-4000-8000-000000000000.metadata.json"
    strange = folder(written) / "notes.metadata.json"
    for path in (ahead, strange):
        path.write_text(versions(written)[2].read_text())
    make_old(first, second, ahead, strange)
    gone = written.call("remove_old_metadata")
    assert len(gone) == 2
    assert all(path.exists() for path in (first, second, ahead, strange))


@pytest.mark.parametrize("site", ["folder"], indirect=True)
def test_what_will_not_go_ends_the_run(written: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a catalog of version files none goes before an older one."""
    stuck = versions(written)[1]
    real = os.unlink

    def unlink(path: Any, **more: Any) -> None:
        if full_path(path, more) == str(stuck):
            raise PermissionError(13, "it will not go", str(path))
        real(path, **more)

    monkeypatch.setattr(os, "unlink", unlink)
    monkeypatch.setattr(os, "remove", unlink)
    rows = written.call("remove_old_metadata")
    assert [row["deleted"] for row in rows] == [True, False, False, False]
    assert "will not go" in rows[1]["error"]
    assert "older files must be deleted first" in rows[2]["error"]
    assert len(versions(written)) == 6


def test_refusals(written: Site) -> None:
    """A bound that is too near, files that may be others', and the metastore's own tables."""
    with pytest.raises(InvalidRequestError, match="Cannot remove files with an interval less than"):
        written.call("remove_old_metadata", older_than=datetime.now(tz=timezone.utc))
    written.session.tables.initialize()
    with pytest.raises(ProcedureError, match="own table"):
        written.session.call("metastore.system.remove_old_metadata", schema="components", table_name="tables")
    with written.table.transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    with pytest.raises(ProcedureError, match="GC is disabled"):
        written.call("remove_old_metadata")
    assert len(versions(written)) == 8
