"""Steps in threads give what they would one after another, also where no thread can be started."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from metastore.lake.stores.threads import for_each

COMMIT_LAST = """
import sys, threading
from metastore.config.settings import Settings
from metastore.metastore import Metastore
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

location = {"base_path": sys.argv[1], "relative_path": "metastore"}
metastore = Metastore.open(Settings.from_mapping({"drill": {"metastore": {"iceberg": {"location": location}}}}))

def commit():
    threading.main_thread().join()
    for name in "ab":
        unit = TableMetadataUnit("dfs", "tmp", name, metadata_key="GENERAL_INFO", metadata_type="TABLE")
        metastore.tables.modify().overwrite([unit]).execute()
    print(sorted(unit.table_name for unit in metastore.tables.read().metadata_types(MetadataType.ALL).execute()))

threading.Thread(target=commit).start()
"""


def test_results_stand_in_order_and_errors_pass() -> None:
    """As of the builtin ``map``."""
    assert for_each(range(100), str) == [str(number) for number in range(100)]
    assert for_each([], str) == []
    with pytest.raises(ZeroDivisionError):
        for_each([1, 0], lambda number: 1 / number)


def test_without_threads_it_is_done_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that fails still raises its own error."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert for_each([1, 2], str) == ["1", "2"]
    with pytest.raises(ZeroDivisionError):
        for_each([0], lambda number: 1 / number)


def test_a_thread_that_outlives_the_main_one_commits(tmp_path: Path) -> None:
    """An interpreter that ends starts no thread any more, and waits for this one."""
    program = [sys.executable, "-c", COMMIT_LAST, str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("['a', 'b']\n", "", 0)
