"""Operations as the libraries' own in-memory ends receive them: spans of OpenTelemetry, run events of OpenLineage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from metastore.config.settings import Settings
from metastore.engines import telemetry
from metastore.errors import MetastoreError
from metastore.session import Session, connect


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """What receives all spans of this process."""
    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A workspace with the table ``sales`` of one file, and a catalog."""
    (tmp_path / "data" / "sales").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "data" / "sales" / "a.parquet")
    keys = {
        "drill.metastore.iceberg.location.base_path": f"{tmp_path}/m",
        "drill.metastore.storage.dfs.workspaces.shop": {"location": f"{tmp_path}/data", "writable": True},
        "drill.metastore.catalogs.lake": {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/c.db",
            "warehouse": f"file://{tmp_path}/wh",
        },
    }
    with connect(Settings.from_mapping(keys, environ={})) as session:
        yield session


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that OpenLineage's own transport writes events to, as its variables configure it."""
    path = tmp_path / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(path), "append": True}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    telemetry._lineage.cache_clear()
    yield path
    telemetry._lineage.cache_clear()


def read(path: Path) -> list[dict[str, Any]]:
    """The events."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """What a span says."""
    return dict(span.attributes or {})


def test_spans(ms: Session, exporter: InMemorySpanExporter) -> None:
    """One for each operation, within that of its statement; an error is recorded."""
    exporter.clear()
    ms.analyze("dfs.shop.sales")
    ms.sql("SELECT count(*) FROM dfs.shop.sales")
    with pytest.raises(MetastoreError):
        ms.sql("CALL lake.system.expire_snapshots(table => 'no.such')")
    analyze, select, call, statement = exporter.get_finished_spans()
    assert (analyze.name, select.name) == ("metastore.analyze", "metastore.select")
    assert attributes(analyze)["metastore.reads"] == ("dfs.shop.sales",)
    assert (attributes(analyze)["metastore.files"], attributes(analyze)["metastore.rows"]) == (1, 3)
    assert {"metastore.requests", "metastore.received", "metastore.sent"} <= {*attributes(analyze)}
    assert (call.name, statement.name) == ("metastore.system.expire_snapshots", "metastore.call")
    assert call.parent is not None
    assert call.parent.span_id == statement.context.span_id
    assert not call.status.is_ok
    assert [event.name for event in call.events] == ["exception"]


def test_run_events(ms: Session, events: Path) -> None:
    """ANALYZE, publication, REFRESH: the tables by name, START and COMPLETE of one run, with counts."""
    ms.analyze("dfs.shop.sales")
    ms.catalogs.open("lake").create_namespace("db")
    ms.publish("dfs.shop.sales", "lake.db.sales")
    ms.sql("CREATE MATERIALIZED VIEW dfs.shop.totals AS SELECT sum(id) AS n FROM dfs.shop.sales")
    ms.materialized_views.refresh("dfs.shop.totals")
    found = read(events)
    runs = [each["run"]["runId"] for each in found]
    states = [(each["eventType"], each["job"]["name"]) for each in found]
    name, publication, view = "analyze.dfs.shop.sales", "system.publish_table.lake.db.sales", "refresh.dfs.shop.totals"
    assert states == [(state, job) for job in (name, publication, view) for state in ("START", "COMPLETE")]
    assert runs[::2] == runs[1::2]
    assert len({*runs}) == 3
    tables = [[[each["name"] for each in event[side]] for side in ("inputs", "outputs")] for event in found[1::2]]
    assert tables == [
        [["dfs.shop.sales"], []],
        [["dfs.shop.sales"], ["lake.db.sales"]],
        [["dfs.shop.sales"], ["dfs.shop.totals"]],
    ]
    assert {event["job"]["namespace"] for event in found} == {ms.settings.iceberg.base_location}
    [facet] = [each["inputFacets"]["dataQualityMetrics"] for each in found[1]["inputs"]]
    assert (facet["rowCount"], facet["fileCount"]) == (3, 1)


def test_a_failed_run(ms: Session, events: Path) -> None:
    """Its last event is FAIL, with the error."""
    ms.sql("CREATE SCHEMA lake.db")
    with pytest.raises(MetastoreError):
        ms.analyze("dfs.shop.nothing")
    with pytest.raises(MetastoreError):
        ms.call("lake.system.rewrite_data_files", table="db.nothing")
    *_, first, last = read(events)
    assert (first["eventType"], last["eventType"]) == ("START", "FAIL")
    assert "db.nothing" in last["run"]["facets"]["errorMessage"]["message"]


def test_a_transport_that_fails_stops_nothing(
    ms: Session, events: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The operation has its result, and a warning says what is missing."""
    transport = {"type": "file", "log_file_path": str(events / "no" / "such"), "append": True}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    assert ms.analyze("dfs.shop.sales").rows == 3
    assert "OpenLineage did not get the START event of analyze" in caplog.text


def test_without_configuration_there_are_no_events(ms: Session, tmp_path: Path) -> None:
    """Nothing is sent, and nothing is written."""
    ms.analyze("dfs.shop.sales")
    assert not (tmp_path / "events.jsonl").exists()
