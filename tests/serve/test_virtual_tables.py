"""Virtual tables: folders that were only analyzed are opened by name, and the server says which files a scan reads."""

from __future__ import annotations

import contextlib
import json
import shutil
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import bind, extract_field_ids
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DateType, NestedField, StringType, TimestampType
from services.iceberg_java import IcebergJava
from support.served_lake import Lake, MakeLake
from support.virtual_lake import CONDITIONS, DAYS, FILES, parted, plain, planned, write

from metastore.errors import ConfigError
from metastore.serve.requests import Refusal
from metastore.serve.scan_requests import scan_request, typed_condition


@pytest.mark.parametrize(("condition", "files"), CONDITIONS)
def test_pyiceberg_reads_the_rows_of_the_plain_files(virtual: Lake, condition: str, files: int) -> None:
    """It asks the server for the plan, which has no more files than need be; nothing is stored."""
    before = virtual.files()
    table = virtual.client("dfs").load_table(("w", "t"))
    scan = table.scan(row_filter=condition)
    assert len(list(scan.plan_files())) == files
    assert sorted(scan.to_arrow()["id"].to_pylist()) == plain(virtual, condition)
    assert virtual.files() == before


def test_tables_are_found_by_name(virtual: Lake) -> None:
    """Workspaces are namespaces; what was not analyzed is no table, and nothing is a view."""
    (virtual.folder / "data" / "new").mkdir()
    client = virtual.client("dfs")
    assert client.list_namespaces() == [("w",)]
    assert client.list_tables("w") == [("w", "t")]
    assert client.namespace_exists("w")
    assert (client.namespace_exists("x"), client.table_exists(("w", "new"))) == (False, False)
    assert virtual.ask("/v1/dfs/namespaces/x/tables").error == (404, "NoSuchNamespaceException")
    assert virtual.ask("/v1/dfs/namespaces/w/views").document == {"identifiers": []}
    with pytest.raises(NotImplementedError):
        client.drop_table(("w", "t"))


def test_a_snapshot_is_a_version(virtual: Lake) -> None:
    """A table that was loaded before a file came is planned as it was; loaded anew, it has the file."""
    table = virtual.client("dfs").load_table(("w", "t"))
    version = table.metadata.current_snapshot_id
    pq.write_table(pa.table({"id": [900]}), virtual.folder / "data/t/region=r1/new.parquet")
    virtual.session.analyze("dfs.w.t")
    assert len(list(table.scan(snapshot_id=version).plan_files())) == FILES
    assert len(list(table.refresh().scan().plan_files())) == FILES + 1
    assert planned(virtual, True, **{"snapshot-id": 999_999}).error == (404, "NotFoundException")


def test_a_change_of_another_table_changes_nothing(virtual: Lake) -> None:
    """The tag stays, and a snapshot can be planned although the version in which it was made has expired."""
    path = "/v1/dfs/namespaces/w/tables/t"
    loaded = virtual.ask(path)
    write(virtual, "other")
    assert virtual.ask(path, If_None_Match=loaded.headers["etag"]).status == 304
    assert virtual.session.metastore.tables.expiration.expire().versions
    assert virtual.ask(path, If_None_Match=loaded.headers["etag"]).status == 304
    snapshot = loaded.document["metadata"]["current-snapshot-id"]
    assert len(planned(virtual, True, **{"snapshot-id": snapshot}).document["file-scan-tasks"]) == FILES


def test_a_file_that_went_changes_the_tag(virtual: Lake) -> None:
    """Also if its whole directory went, for which ANALYZE writes no file's metadata."""
    path = "/v1/dfs/namespaces/w/tables/t"
    tag = virtual.ask(path).headers["etag"]
    shutil.rmtree(virtual.folder / "data/t/region=r3")
    virtual.session.analyze("dfs.w.t")
    assert virtual.ask(path, If_None_Match=tag).status == 200
    assert len(planned(virtual, True).document["file-scan-tasks"]) == FILES - FILES // DAYS


def test_a_load_looks_at_the_folder_first(make_lake: MakeLake) -> None:
    """With ``freshness``, a file that came is there without ANALYZE, and one that was overwritten is right."""
    lake = make_lake(virtual_tables=["dfs"], catalogs=[], freshness="0 seconds")
    write(lake)
    pq.write_table(pa.table({"id": [900, 901]}), lake.folder / "data/t/region=r1/0.parquet")
    found = lake.client("dfs").load_table(("w", "t")).scan(row_filter="id >= 900").to_arrow()["id"].to_pylist()
    assert found == plain(lake, "id >= 900") == [900, 901]


def test_a_tag_saves_the_making_of_metadata(virtual: Lake) -> None:
    """unitycatalog#1852: a load that the client knows is 304, and another answer after ANALYZE."""
    path = "/v1/dfs/namespaces/w/tables/t"
    tag = virtual.ask(path).headers["etag"]
    assert virtual.ask(path, If_None_Match=tag).status == 304
    pq.write_table(pa.table({"id": [900]}), virtual.folder / "data/t/region=r1/new.parquet")
    virtual.session.analyze("dfs.w.t")
    assert virtual.ask(path, If_None_Match=tag).status == 200


def test_a_client_that_plans_by_itself_fails(virtual: Lake) -> None:
    """It finds no manifests, instead of no rows."""
    client = virtual.client("dfs", **{"scan-planning-mode": "client"})
    client.properties["scan-planning-mode"] = "client"
    with pytest.raises(FileNotFoundError):
        client.load_table(("w", "t")).scan().to_arrow()


def test_what_engines_read_wrong_is_refused_by_name(virtual: Lake) -> None:
    """As by ``publish_table``."""
    pq.write_table(pa.table({"id": ["text"]}), virtual.folder / "data/t/region=r1/odd.parquet")
    virtual.session.analyze("dfs.w.t")
    answer = virtual.ask("/v1/dfs/namespaces/w/tables/t")
    assert answer.error == (400, "BadRequestException")
    assert "odd.parquet" in answer.document["error"]["message"]


@pytest.mark.parametrize("level", ["table", "segment", "partition"])
def test_metadata_without_files_is_refused(virtual: Lake, level: str) -> None:
    """A plan of it would read no file."""
    virtual.session.drop_metadata("dfs.w.t")
    virtual.session.analyze("dfs.w.t", level=level)
    assert virtual.ask("/v1/dfs/namespaces/w/tables/t").error == (400, "BadRequestException")
    assert planned(virtual, True).error == (400, "BadRequestException")


def test_tables_of_catalogs_are_planned_by_clients(virtual: Lake) -> None:
    """Their configuration does not say otherwise, and the server has no plan."""
    virtual.sql("CREATE SCHEMA lake.shop", "CREATE TABLE lake.shop.t (id BIGINT)")
    lists = [virtual.ask(f"/v1/config?warehouse={name}").document for name in ("lake", "dfs")]
    assert [any(each.endswith("/plan") for each in listed["endpoints"]) for listed in lists] == [False, True]
    body = json.dumps({"filter": True}).encode()
    answer = virtual.ask("/v1/lake/namespaces/shop/tables/t/plan", "POST", body, Content_Type="application/json")
    assert answer.error == (403, "ForbiddenException")


HOSTILE = [
    {"type": "eq", "term": "nothing", "value": 1},
    {"type": "eq", "term": "id", "value": {"a": 1}},
    {"type": "eq", "term": "id", "value": "text"},
    {"type": "sql", "term": "1 = 1 OR id", "value": 1},
    {"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "id"}, "value": 1},
    {"type": "and", "left": {"type": "eq"}, "right": True},
    {"type": "in", "term": "id", "values": 7},
    [[]],
    "id = 1",
]


@pytest.mark.parametrize("filter_", HOSTILE)
def test_a_condition_that_is_not_understood_is_refused(virtual: Lake, filter_: Any) -> None:
    """The client believes that a plan honours all of it."""
    assert planned(virtual, filter_).error == (400, "BadRequestException")


def test_a_condition_that_is_too_deep_is_refused(virtual: Lake) -> None:
    """And the server goes on."""
    leaf = '{"type":"eq","term":"id","value":1}'
    body = b'{"filter":' + ('{"type":"not","child":' * 5000 + leaf + "}" * 5000).encode() + b"}"
    path = "/v1/dfs/namespaces/w/tables/t/plan"
    assert virtual.ask(path, "POST", body, Content_Type="application/json").error == (400, "BadRequestException")
    assert virtual.ask(path, "POST", b"{}", Content_Type="text/plain").error == (400, "BadRequestException")
    assert len(planned(virtual, True).document["file-scan-tasks"]) == FILES


@pytest.mark.parametrize("value", [10**18, -(10**18), 10**30])
def test_a_moment_beyond_the_calendar_excludes_nothing_wrongly(virtual: Lake, value: int) -> None:
    """Iceberg has years of six digits, and Python has four."""
    filter_ = {"type": "lt-eq" if value > 0 else "gt-eq", "term": "moment", "value": value}
    assert len(planned(virtual, filter_).document["file-scan-tasks"]) == FILES


def test_a_condition_on_directories_is_decided_by_the_plan(make_lake: MakeLake) -> None:
    """Also where pruning knows no value of the literal: clients test no row for such a condition."""
    lake = make_lake(virtual_tables=["dfs"], catalogs=[])
    write(lake, days="day=2026-11-0{day}")
    counts = [
        len(planned(lake, {"type": kind, "term": "day", "value": 10**8}).document["file-scan-tasks"])
        for kind in ["lt", "gt"]
    ]
    assert counts == [FILES, 0]


def test_changes_between_snapshots_are_refused(virtual: Lake) -> None:
    """They would need files that went."""
    more = {"start-snapshot-id": 1, "end-snapshot-id": 1}
    assert planned(virtual, True, **more).error == (400, "BadRequestException")


SCHEMA = Schema(
    NestedField(1, "day", DateType(), required=False),
    NestedField(2, "at", TimestampType(), required=False),
    NestedField(3, "code", BinaryType(), required=False),
    NestedField(4, "text", StringType(), required=False),
)


@pytest.mark.parametrize(
    ("filter_", "wanted"),
    [
        (
            {"type": "eq", "term": "day", "value": 20_000},
            "EqualTo(term=Reference(name='day'), literal=DateLiteral(20000))",
        ),
        (
            {"type": "lt", "term": "AT", "value": 86_400_000_000},
            "LessThan(term=Reference(name='at'), literal=TimestampLiteral(86400000000))",
        ),
        ({"type": "not", "child": {"type": "eq", "term": "code", "value": "FF"}}, repr(AlwaysTrue())),
    ],
)
def test_literals_have_the_types_of_their_columns(filter_: Any, wanted: str) -> None:
    """Java writes dates and times as numbers; bytes exclude nothing."""
    request = scan_request({"filter": filter_, "case-sensitive": False})
    assert repr(typed_condition(request, SCHEMA)) == wanted


TERMS = st.sampled_from(["day", "at", "code", "text", "x", ""])
LEAVES = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["eq", "lt", "gt-eq", "in", "not-in", "is-null", "starts-with", "is-nan", "not-eq", "x"]
        ),
        "term": TERMS,
    },
    optional={
        "value": st.none() | st.integers() | st.text() | st.floats() | st.booleans(),
        "values": st.lists(st.integers() | st.text(), max_size=3),
    },
)
FILTERS = st.recursive(
    LEAVES | st.booleans(),
    lambda inner: (
        st.fixed_dictionaries({"type": st.sampled_from(["and", "or"]), "left": inner, "right": inner})
        | st.fixed_dictionaries({"type": st.just("not"), "child": inner})
    ),
    max_leaves=6,
)


@given(FILTERS)
def test_every_condition_is_understood_or_refused(filter_: Any) -> None:
    """No other error reaches the server."""
    with contextlib.suppress(Refusal):
        names = extract_field_ids(bind(SCHEMA, typed_condition(scan_request({"filter": filter_}), SCHEMA), True))
        assert names <= {1, 2, 3, 4}


def test_a_name_that_is_no_plugin_is_refused(make_lake: MakeLake) -> None:
    """As is one that a served catalog has."""
    with pytest.raises(ConfigError, match=r"serve.virtual_tables.*there is no storage plugin of folders dfx"):
        make_lake(virtual_tables=["dfx"])
    own = {"dfs": {"type": "filesystem", "warehouse": "/nowhere"}}
    with pytest.raises(ConfigError, match=r"serve.virtual_tables.*that of a served catalog"):
        make_lake(own=own, catalogs=["dfs"], virtual_tables=["dfs"])


@pytest.mark.iceberg
@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
def test_iceberg_for_java_reads_the_rows_of_the_plain_files(
    make_lake: MakeLake, iceberg_java: IcebergJava, caplog: pytest.LogCaptureFixture
) -> None:
    """Directories of dates, and plans in parts, too. It leaves conditions on directories to the plan."""
    lake = make_lake(virtual_tables=["dfs"], catalogs=["lake"], metrics_reports="log")
    write(lake, days="day=2026-11-0{day}")
    for name, server in (("virtual", lake.server), ("parts", parted(lake, 3))):
        iceberg_java.run(f"SET spark.sql.catalog.{name}=org.apache.iceberg.spark.SparkCatalog")
        for key, value in (("type", "rest"), ("uri", server.url), ("warehouse", "dfs")):
            iceberg_java.run(f"SET spark.sql.catalog.{name}.{key}={value}")
    dates = [(condition.replace("region", "day").replace("'r", "DATE '2026-11-0"), n) for condition, n in CONDITIONS]
    asked = [(condition.replace("moment >= '", "moment >= TIMESTAMP '"), n) for condition, n in dates]
    asked += [("day > DATE '2026-11-03' AND born < DATE '2000-02-01'", 1), ("true", FILES)]
    for condition, files in asked:
        caplog.clear()
        with caplog.at_level("INFO", "metastore.serve.handlers"):
            found = iceberg_java.rows(f"SELECT id FROM virtual.w.t WHERE {condition} ORDER BY id")
        assert found["id"].to_pylist() == plain(lake, condition), condition
        texts = [each.getMessage() for each in caplog.records if each.getMessage().startswith("plan ")]
        counts = {json.loads(text.removeprefix("plan "))["result-data-files"] for text in texts}
        assert counts == {files}, condition
        found = iceberg_java.rows(f"SELECT id FROM parts.w.t WHERE {condition} ORDER BY id")
        assert found["id"].to_pylist() == plain(lake, condition), condition
    counted = iceberg_java.rows("SELECT count(*) AS n FROM virtual.w.t WHERE day = DATE '2026-11-02'")
    assert counted["n"].to_pylist() == [40]
