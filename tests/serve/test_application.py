"""The REST catalog as HTTP: statuses, errors in Iceberg's model, tags, pages, and who may ask."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from support.served_lake import Lake, MakeLake

SHOP = "/v1/lake/namespaces/shop"
ORDERS = f"{SHOP}/tables/orders"
WRITING = {
    "POST": (
        *("/v1/lake/namespaces", f"{SHOP}/properties", f"{SHOP}/tables", ORDERS, f"{SHOP}/register", f"{SHOP}/views"),
        *("/v1/lake/tables/rename", "/v1/lake/views/rename", "/v1/lake/transactions/commit", "/v1/oauth/tokens"),
        *(f"{ORDERS}/plan", f"{ORDERS}/tasks", f"{SHOP}/views/v", "/v1/other/namespaces", "/anything"),
    ),
    "DELETE": (SHOP, ORDERS, f"{ORDERS}?purgeRequested=true", f"{SHOP}/views/v", f"{ORDERS}/plan/1"),
    "PUT": (ORDERS, "/v1/config"),
    "PATCH": (ORDERS,),
    "OPTIONS": (ORDERS,),
}


def test_config_names_the_endpoints_and_the_prefix(lake: Lake) -> None:
    """All of them reads, except the reports, which change nothing; nothing else is overridden, no secret given."""
    document = lake.ask("/v1/config?warehouse=lake").document
    assert (document["defaults"], document["overrides"]) == ({}, {"prefix": "lake"})
    methods = {each.partition(" ")[0] for each in document["endpoints"] if not each.endswith("/metrics")}
    assert methods == {"GET", "HEAD"}


def test_a_warehouse_is_needed_where_there_are_several(lake: Lake, make_lake: MakeLake) -> None:
    """A missing or unknown name is an error that lists the catalogs. A single catalog needs no name."""
    assert lake.ask("/v1/config").error == (400, "BadRequestException")
    assert "folders" in lake.ask("/v1/config").document["error"]["message"]
    assert lake.ask("/v1/config?warehouse=none").error == (404, "NoSuchWarehouseException")
    assert make_lake(catalogs=["lake"]).ask("/v1/config").document["overrides"] == {"prefix": "lake"}


MISSING = {
    "/v1/none/namespaces": "NoSuchWarehouseException",
    "/v1/LAKE/namespaces": "NoSuchWarehouseException",
    "/v1/lake/namespaces?parent=none": "NoSuchNamespaceException",
    "/v1/lake/namespaces/none": "NoSuchNamespaceException",
    "/v1/lake/namespaces/none/tables": "NoSuchNamespaceException",
    "/v1/lake/namespaces/none/views": "NoSuchNamespaceException",
    "/v1/lake/namespaces/none/tables/t": "NoSuchTableException",
    f"{SHOP}/tables/none": "NoSuchTableException",
    f"{SHOP}%1Forders/tables/files": "NoSuchTableException",
    f"{SHOP}/views/none": "NoSuchViewException",
    "/v1/folders/namespaces/none": "NoSuchNamespaceException",
    "/v1/folders/namespaces/shop/tables/none": "NoSuchTableException",
    "/v1/folders/namespaces/shop%1Forders/tables/files": "NoSuchTableException",
    "/v1/metastore/namespaces/none": "NoSuchNamespaceException",
    "/v1/metastore/namespaces/none/tables": "NoSuchNamespaceException",
    "/v1/metastore/namespaces/components/tables/none": "NoSuchTableException",
    "/v1/metastore/namespaces/none/tables/tables": "NoSuchTableException",
    "/v1/metastore/namespaces/components/views/v": "NoSuchViewException",
    "/": "NotFoundException",
    "/v2/config": "NotFoundException",
    f"{ORDERS}/": "NotFoundException",
}


@pytest.mark.parametrize("path", MISSING)
def test_what_does_not_exist_has_its_type(lake: Lake, path: str) -> None:
    """By which clients raise their own error; HEAD says the same without a body."""
    assert lake.ask(path).error == (404, MISSING[path])
    reply = lake.ask(path, "HEAD")
    assert (reply.status, reply.body) == (404, b"")


@pytest.mark.parametrize("path", [SHOP, ORDERS, "/v1/metastore/namespaces/components"])
def test_head_answers_without_a_body(lake: Lake, path: str) -> None:
    """204, as the specification has it."""
    reply = lake.ask(path, "HEAD")
    assert (reply.status, reply.body) == (204, b"")


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, paths in WRITING.items() for path in paths])
def test_every_write_is_refused_with_the_reason(lake: Lake, method: str, path: str) -> None:
    """Whatever its body, and whether or not there is something at the path; every file stays as it is."""
    before = lake.files()
    for body in (None, b"{}", b"\xff"):
        reply = lake.ask(path, method, body, Content_Type="application/json")
        assert reply.error == (403, "ForbiddenException")
        assert "read-only" in reply.document["error"]["message"]
    assert lake.files() == before


def test_a_tag_saves_the_answer(lake: Lake, make_lake: MakeLake) -> None:
    """304 while the table is as it was, for either choice of snapshots; another answer after a commit."""
    own = make_lake()
    own.sql("CREATE SCHEMA folders.a", "CREATE TABLE folders.a.t (id BIGINT)")
    path = "/v1/folders/namespaces/a/tables/t"
    whole, refs = (own.ask(f"{path}{query}").headers["etag"] for query in ("", "?snapshots=refs"))
    assert whole != refs
    assert own.ask(path, If_None_Match=f'"other", W/{whole}').status == 304
    assert own.ask(path, If_None_Match=refs).status == 200
    assert own.ask(path, If_None_Match="*").status == 304
    own.sql("INSERT INTO folders.a.t VALUES (1)")
    changed = own.ask(path, If_None_Match=whole)
    assert (changed.status, len(changed.document["metadata"]["snapshots"])) == (200, 1)
    assert lake.ask(ORDERS).headers["etag"] != whole


def test_a_table_that_was_made_anew_is_another(make_lake: MakeLake) -> None:
    """Also where its first metadata file has the same name: a folder that was removed, and a table made there."""
    own = make_lake()
    path = "/v1/folders/namespaces/a/tables/t"
    own.sql("CREATE SCHEMA folders.a", "CREATE TABLE folders.a.t (id BIGINT)")
    first = own.ask(path)
    folder = own.folder / "folders" / "a" / "t"
    folder.rename(folder.with_name("aside"))
    assert own.ask(path).status == 404
    own.sql("CREATE TABLE folders.a.t (other DATE)")
    second = own.ask(path, If_None_Match=first.headers["etag"])
    assert second.status == 200
    assert second.document["metadata-location"] == first.document["metadata-location"]
    assert second.document["metadata"]["table-uuid"] != first.document["metadata"]["table-uuid"]


def test_refs_are_the_snapshots_of_branches_and_tags(lake: Lake) -> None:
    """All by default; everything else of the metadata stands in both."""
    whole = lake.ask(ORDERS).document
    refs = lake.ask(f"{ORDERS}?snapshots=refs").document
    current = whole["metadata"]["current-snapshot-id"]
    assert len(whole["metadata"]["snapshots"]) > 1
    assert [each["snapshot-id"] for each in refs["metadata"]["snapshots"]] == [current]
    assert {**refs["metadata"], "snapshots": 0} == {**whole["metadata"], "snapshots": 0}
    assert whole["config"] == {}
    assert lake.ask(f"{ORDERS}?snapshots=none").error == (400, "BadRequestException")


def test_engines_are_told_to_delete_no_files(lake: Lake) -> None:
    """By the property that Spark asks before it removes orphans; all else of the metadata is the file's."""
    loaded = lake.ask(ORDERS).document
    stored = json.loads(Path(loaded["metadata-location"].removeprefix("file://")).read_text(encoding="utf-8"))
    assert "gc.enabled" not in stored["properties"]
    stored["properties"]["gc.enabled"] = "false"
    assert loaded["metadata"] == stored


def test_no_answer_vends_a_credential(make_lake: MakeLake) -> None:
    """Those of the catalog stay here, whatever a client asks for; so do secrets in properties."""
    own = make_lake()
    secret = "open-sesame-0123456789"
    own.settings.catalogs["lake"].properties["s3.secret-access-key"] = secret  # type: ignore[index] # a plain dict
    catalog = own.session.catalogs.open("lake")
    catalog.create_namespace("a", {"password": secret, "owner": "ann"})
    own.sql("CREATE TABLE lake.a.t (id BIGINT)")
    with catalog.load_table("a.t").transaction() as change:
        change.set_properties({"s3.secret-access-key": secret, "note": f"jdbc:x?password={secret}", "open": "yes"})
    for path in ("/v1/config?warehouse=lake", "/v1/lake/namespaces/a", "/v1/lake/namespaces/a/tables/t"):
        reply = own.ask(path, X_Iceberg_Access_Delegation="vended-credentials")
        assert reply.status == 200
        assert secret not in reply.body.decode()
    assert own.ask("/v1/lake/namespaces/a/tables/t").document["metadata"]["properties"]["open"] == "yes"
    assert own.ask("/v1/lake/namespaces/a").document["properties"]["owner"] == "ann"


REPORT = {"report-type": "scan-report", "filter": {"type": "eq", "term": "name", "value": "Smith"}, "metrics": {}}


def test_reports_are_taken_and_dropped(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """204, and no line about them, unless the settings say so."""
    with caplog.at_level(logging.INFO, "metastore.serve.handlers"):
        reply = lake.ask(f"{ORDERS}/metrics", "POST", json.dumps(REPORT).encode(), Content_Type="application/json")
    assert (reply.status, reply.body) == (204, b"")
    assert not [each for each in caplog.records if each.name == "metastore.serve.handlers"]


def test_reports_are_kept_without_literals(make_lake: MakeLake, caplog: pytest.LogCaptureFixture) -> None:
    """One line of JSON each, with the table's name and the filter's shape."""
    own = make_lake(metrics_reports="log")
    own.sql("CREATE SCHEMA lake.a", "CREATE TABLE lake.a.t (id BIGINT)")
    with caplog.at_level(logging.INFO, "metastore.serve.handlers"):
        body = json.dumps(REPORT).encode()
        path = "/v1/lake/namespaces/a/tables/t/metrics"
        assert own.ask(path, "POST", body, Content_Type="application/json").status == 204
    [record] = [each for each in caplog.records if each.name == "metastore.serve.handlers"]
    kept = json.loads(record.getMessage().removeprefix("report "))
    assert (kept["table"], kept["filter"]["type"], kept["filter"]["term"]) == ("lake.a.t", "eq", "name")
    assert "Smith" not in record.getMessage()


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"{}", "text/plain", 400),
        (b" " * (1 << 20) + b"{}", "application/json", 413),
    ],
)
def test_a_report_that_is_none_is_refused(lake: Lake, body: bytes, kind: str, status: int) -> None:
    """As is a body that is too large, and one that a web page could have sent."""
    reply = lake.ask(f"{ORDERS}/metrics", "POST", body, Content_Type=kind)
    assert reply.error == (status, "BadRequestException")
    missing = lake.ask(f"{SHOP}/tables/none/metrics", "POST", b"{}", Content_Type="application/json")
    assert missing.error == (404, "NoSuchTableException")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8181", "127.0.0.1.evil.example", "localhost.evil.example", "a@localhost", "[::1"],
)
def test_another_host_is_refused(lake: Lake, host: str) -> None:
    """So that no web page reads tables by a name of its own that leads here."""
    reply = lake.ask("/v1/config?warehouse=lake", Host=host)
    assert reply.error == (403, "ForbiddenException")
    assert "host_names" in reply.document["error"]["message"]


def test_configured_hosts_are_served(make_lake: MakeLake) -> None:
    """As are addresses and localhost, with or without a port, in any case of letters."""
    own = make_lake(host_names=["Lake.example"], catalogs=["metastore"])
    for host in ("lake.example", "LAKE.example:443", "lake.example.", "localhost:1", "10.1.2.3:80", "[::1]:8181"):
        assert own.ask("/v1/config", Host=host).status == 200, host
    assert own.ask("/v1/config", Host="other.lake.example").status == 403


@pytest.mark.parametrize("said", ["", "Bearer", "Bearer sesam", "Bearer sesame!", "sesame", "Basic sesame", "Bearer é"])
def test_without_the_token_nothing_is_answered(make_lake: MakeLake, said: str) -> None:
    """The same for every path, and for writes; nothing of the configuration is in it."""
    own = make_lake(token="sesame")
    answers = {
        own.ask(path, method, Authorization=said.encode().decode("latin-1")).body
        for method, path in (("GET", "/v1/config"), ("GET", "/nothing"), ("DELETE", ORDERS))
    }
    [body] = answers
    assert json.loads(body)["error"]["type"] == "NotAuthorizedException"
    assert own.ask("/v1/config?warehouse=lake", Authorization="Bearer sesame").status == 200


NAMES = ["a b", "a/b", "a+b", "a%b", "a%2Fb", "ä", "日本", "a;b", "a?b#c", "'; DROP TABLE iceberg_tables; --", "-", "~"]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_are_names(make_lake: MakeLake, name: str) -> None:
    """Listed, loaded and found by PyIceberg and in the escapes of forms, as Iceberg for Java sends them."""
    own = make_lake()
    catalog = own.session.catalogs.open("lake")
    catalog.create_namespace(name)
    catalog.create_table((name, name), Schema(), f"file://{own.folder}/odd", PartitionSpec(), SortOrder())
    client = own.client("lake")
    assert client.list_namespaces() == [(name,)]
    assert client.list_tables((name,)) == [(name, name)]
    assert client.list_namespaces((name,)) == []
    assert client.load_table((name, name)).metadata.location == f"file://{own.folder}/odd"
    escaped = quote(name, safe="").replace("%20", "+")
    assert own.ask(f"/v1/lake/namespaces/{escaped}/tables/{escaped}").status == 200


def test_a_hundred_thousand_names_are_paged(make_lake: MakeLake) -> None:
    """The catalog lists them once for all pages, and each name comes once, also while others are added."""
    own = make_lake()
    catalog: Any = own.session.catalogs.open("lake")
    catalog.create_namespace("many")
    listed: list[Any] = []
    names = [("many", f"t{number:06}") for number in range(100_000)]

    def list_tables(namespace: Any) -> list[Any]:
        listed.append(namespace)
        return names

    catalog.list_tables = list_tables
    found, token = [], ""
    while True:
        document = own.ask(f"/v1/lake/namespaces/many/tables?pageToken={quote(token)}&pageSize=5000").document
        assert len(document["identifiers"]) <= 1000
        found += [each["name"] for each in document["identifiers"]]
        if "next-page-token" not in document:
            break
        token = document["next-page-token"]
    assert found == [name for _, name in names]
    assert len(listed) == 1
    whole = own.ask("/v1/lake/namespaces/many/tables").document
    assert (len(whole["identifiers"]), "next-page-token" in whole) == (100_000, False)


@pytest.mark.parametrize(
    "query", ["pageToken=x", "pageToken=W10=", "pageSize=0", "pageSize=-1", "pageSize=x", "pageSize=1.5"]
)
def test_a_page_that_was_not_given_is_refused(lake: Lake, query: str) -> None:
    """It is the caller's mistake, and says so."""
    assert lake.ask(f"{SHOP}/tables?{query}").error == (400, "BadRequestException")


def test_one_catalog_that_hangs_keeps_no_other_waiting(make_lake: MakeLake) -> None:
    """Its requests end with 503 after their time, however many there are; the others are answered meanwhile."""
    own = make_lake(limits={"request": "1 second"})
    own.sql("CREATE SCHEMA folders.a")
    stuck = threading.Event()

    def hang(*_: object) -> list[Any]:
        stuck.wait(60)
        return []

    catalog: Any = own.session.catalogs.open("lake")
    catalog.list_namespaces = hang
    waiting = [threading.Thread(target=own.ask, args=("/v1/lake/namespaces",)) for _ in range(12)]
    own.server  # noqa: B018 - it starts once
    for each in waiting:
        each.start()
    assert own.ask("/v1/folders/namespaces").document == {"namespaces": [["a"]]}
    assert any(each.is_alive() for each in waiting)
    assert own.ask("/v1/lake/namespaces").error == (503, "ServiceUnavailableException")
    stuck.set()
    for each in waiting:
        each.join()


def test_a_damaged_table_is_its_own_trouble(make_lake: MakeLake) -> None:
    """Loading it names the file; the others are loaded."""
    own = make_lake()
    own.sql("CREATE SCHEMA folders.a", "CREATE TABLE folders.a.t (id BIGINT)", "CREATE TABLE folders.a.u (id BIGINT)")
    (own.folder / "folders" / "a" / "t" / "metadata" / "v1.metadata.json").write_text("no JSON")
    reply = own.ask("/v1/folders/namespaces/a/tables/t")
    assert reply.error == (500, "InternalServerError")
    assert "v1.metadata.json" in reply.document["error"]["message"]
    assert own.ask("/v1/folders/namespaces/a/tables/u").status == 200


def test_a_defect_is_told_without_its_text(make_lake: MakeLake, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the traceback, the caller only that there was one."""
    own = make_lake()

    def fail(*_: object) -> Any:
        raise RuntimeError("inner workings")

    catalog: Any = own.session.catalogs.open("lake")
    catalog.list_namespaces = fail
    reply = own.ask("/v1/lake/namespaces")
    assert reply.error == (500, "InternalServerError")
    assert b"inner workings" not in reply.body
    assert "inner workings" in caplog.text
