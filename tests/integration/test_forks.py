"""A process with an open metastore may fork at any moment: the children use it as if they had opened it themselves."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from support.forked import SECONDS_AT_MOST, in_child

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.ground.forks import imported_when_needed
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]

CHILDREN = 12

pytestmark = pytest.mark.integration


EVERYTHING = """
import sys
from metastore import MetadataType, Metastore, TableMetadataUnit
from metastore.config.settings import Settings
from metastore.predicates.expressions import EqualTo

def table(name):
    return TableMetadataUnit(
        storage_plugin="dfs", workspace="tmp", table_name=name,
        metadata_key="GENERAL_INFO", metadata_type="TABLE", metadata_identifier="GENERAL_INFO",
    )

given = {"drill.metastore.iceberg": {"location": {"base_path": sys.argv[1], "relative_path": "metastore"}}}
settings = Settings.from_mapping(given, environ={})
with Metastore.open(settings) as one, Metastore.open(settings) as other:
    known = set(sys.modules)
    for name in ("a", "b"):
        one.tables.modify().overwrite([table(name)]).execute()
        other.tables.read().metadata_types(MetadataType.ALL).filter(EqualTo("tableName", "a")).execute()
        other.tables.modify().overwrite([table("other")]).delete(EqualTo("tableName", "b"), MetadataType.ALL).execute()
        one.tables.metadata.version
    one.tables.modify().purge()
    print(*sorted(set(sys.modules) - known))
"""


def test_reading_and_committing_import_nothing(tmp_path: Path) -> None:
    """A child forked while another thread imports a module would wait for it for ever."""
    ran = subprocess.run([sys.executable, "-c", EVERYTHING, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("\n", "")


def test_a_fork_waits_for_a_module_that_is_imported_on_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the child has it whole: such as the parser of filters, which is loaded with the first text."""
    (tmp_path / "its_events.py").write_text("import threading\nbegun, go_on = threading.Event(), threading.Event()\n")
    (tmp_path / "slow_to_import.py").write_text("import its_events\nits_events.begun.set()\nits_events.go_on.wait()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    events = import_module("its_events")
    importing = threading.Thread(target=imported_when_needed, args=("slow_to_import",))
    importing.start()
    assert events.begun.wait(SECONDS_AT_MOST)
    threading.Timer(0.2, events.go_on.set).start()
    end = in_child(partial(imported_when_needed, "slow_to_import"))
    importing.join()
    assert end() == 0


def test_children_forked_while_threads_read_and_commit_do_both(tmp_path: Path, unit: MakeUnit) -> None:
    """No child inherits a lock or a queue, and no update of parent or children is lost."""
    location = {"base_path": str(tmp_path), "relative_path": "metastore"}
    settings = Settings.from_mapping({"drill.metastore.iceberg": {"location": location}}, environ={})
    with Metastore.open(settings) as metastore:
        metastore.tables.modify().overwrite([unit("first")]).execute()
        stop = threading.Event()
        written = [0, 0]

        def names() -> set[str | None]:
            rows = metastore.tables.read().metadata_types(MetadataType.ALL).columns("tableName").to_arrow()
            return set(rows["tableName"].to_pylist())

        def write(thread: int) -> None:
            while not stop.is_set():
                metastore.tables.modify().overwrite([unit(f"thread{thread}-{written[thread]}")]).execute()
                names()
                written[thread] += 1

        def child(number: int) -> None:
            assert "first" in names()
            metastore.tables.modify().overwrite([unit(f"child{number}")]).execute()
            assert f"child{number}" in names()

        threads = [threading.Thread(target=write, args=(number,)) for number in range(len(written))]
        for thread in threads:
            thread.start()
        try:
            children = [in_child(partial(child, number)) for number in range(CHILDREN)]
            ends = [end() for end in children]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert ends == [0] * CHILDREN
        expected = {f"child{number}" for number in range(CHILDREN)} | {"first"}
        expected |= {f"thread{thread}-{n}" for thread, count in enumerate(written) for n in range(count)}
        assert names() == expected
        assert min(written) > 0


def test_a_cached_property_that_another_thread_was_making_is_free_in_the_child() -> None:
    """Its lock, where Python has one, was held at the moment of the fork by a thread that the child does not have."""
    inside, leave = threading.Event(), threading.Event()

    class Slow(tuple[SchemaColumn, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[SchemaColumn]:
            inside.set()
            leave.wait()
            return super().__iter__()

    column = SchemaColumn("a", "INT")
    made: list[object] = []
    thread = threading.Thread(target=lambda: made.append(TupleSchema(Slow((column,))).by_name))
    thread.start()
    assert inside.wait(SECONDS_AT_MOST)

    def child() -> None:
        assert TupleSchema((column,)).by_name == {"a": column}

    end = in_child(child)()
    leave.set()
    thread.join()
    assert end == 0
    assert made == [{"a": column}]
