"""Any request at all: each gets an answer in Iceberg's model, reaches nothing outside of the lake, changes nothing."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.served_lake import Lake

from metastore.config.serve import ServeLimits
from metastore.serve.application import Application

CODES = {200, 204, 304, 400, 403, 404, 405, 413}
"""What callers can bring about; 500 and 503 are defects here."""

OUTSIDE = "outside"
"""A table beside the warehouse; whoever loads it has left the lake."""

TRAPS = [
    r"metastore",
    r"lake",
    r"folders",
    r"shop",
    r"orders",
    r"components",
    r"tables",
    r"views",
    r"v",
    r"config",
    r"outside",
    r"metadata",
    r"v1.metadata.json",
    r"shop+orders",
    r"..",
    r".",
    r"%2e%2e",
    r"%2E%2E%2Foutside",
    r"..%2Foutside",
    r"..%5Coutside",
    r"%252e%252e%252foutside",
    r"%C0%AE%C0%AE",
    r"..%1Foutside",
    r"shop%1F..",
    r"%00",
    r"%1F",
    r"%1f%1F",
    r"%ff",
    r"%",
    r"%zz",
    r"shop%1Forders",
    r"%F0%9F%8D%8E",
    r"*",
    r"%2A",
    r"\\host\share",
    r"file:%2F%2F%2Fetc%2Fpasswd",
    r"%25s%25n",
    r"%27;%20DROP%20TABLE%20iceberg_tables;%20--",
    r"%27%20OR%20%271%27%3D%271",
]
NAMES = st.one_of(
    st.sampled_from([*TRAPS, "", "a" * 2000]),
    st.text(max_size=30).map(lambda text: quote(text.encode("utf-8", "surrogatepass"), safe="")),
)
PATHS = st.one_of(
    st.builds("/v1/{}/namespaces".format, NAMES),
    st.builds("/v1/{}/namespaces/{}".format, NAMES, NAMES),
    st.builds("/v1/{}/namespaces/{}/{}".format, NAMES, NAMES, st.sampled_from(["tables", "views", "properties"])),
    st.builds("/v1/{}/namespaces/{}/{}/{}".format, NAMES, NAMES, st.sampled_from(["tables", "views"]), NAMES),
    st.builds("/v1/folders/namespaces/{}/tables/{}{}".format, NAMES, NAMES, st.sampled_from(["", "/metrics", "/plan"])),
    st.builds("/v1/lake/namespaces/shop/tables/{}".format, NAMES),
    st.lists(NAMES, max_size=8).map(lambda parts: "/" + "/".join(parts)),
    st.just("/v1/config"),
    st.builds("{}{}".format, st.just("/v1/dfs/namespaces/w/tables/flat"), st.sampled_from(["", "/plan", "/tasks"])),
    st.builds("/v1/dfs/namespaces/{}/tables/{}/plan/{}".format, NAMES, NAMES, NAMES),
)
PARAMETERS = ["warehouse", "parent", "pageToken", "pageSize", "snapshots", "purgeRequested", "x"]
QUERIES = st.lists(st.tuples(st.sampled_from(PARAMETERS), NAMES), max_size=4).map(
    lambda pairs: "&".join(f"{name}={value}" for name, value in pairs)
)
METHODS = st.sampled_from(["GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(
            [b"if-none-match", b"authorization", b"content-type", b"x-iceberg-access-delegation", b"cookie"]
        ),
        st.one_of(st.binary(max_size=40), st.sampled_from([b"*", b'"', b'W/""', b"application/json", b"Bearer x"])),
    ),
    max_size=4,
)
BODIES = st.one_of(
    st.binary(max_size=200),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["filter", "metrics", "type", "term", "value", "report-type"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    ).map(lambda document: json.dumps(document).encode()),
    st.builds(
        lambda filter_, snapshot, ends: json.dumps({"plan-task": _token(filter_, snapshot, ends)}).encode(),
        st.one_of(st.booleans(), st.integers(), st.text(max_size=5)),
        st.one_of(st.none(), st.integers(), st.text(max_size=5)),
        st.lists(st.lists(st.text(max_size=5) | st.integers(), max_size=3), max_size=3),
    ),
    st.builds(
        lambda kind, term, value: json.dumps({"filter": {"type": kind, "term": term, "value": value}}).encode(),
        st.sampled_from(["eq", "lt", "starts-with", "in"]),
        st.sampled_from(["id", "k", "x", "id.y", ""]),
        st.none() | st.integers() | st.text(max_size=5) | st.floats(),
    ),
)


def _token(filter_: object, snapshot: object, ends: object) -> str:
    whole = {"request": {"filter": filter_, "snapshot-id": snapshot}, "part": ends}
    return base64.urlsafe_b64encode(json.dumps(whole).encode()).decode()


@pytest.fixture(scope="module")
def application(lake: Lake) -> Iterator[Application]:
    """The application without its server, over the lake, with a table of folders beside the warehouse.

    Virtual tables are planned in parts of one file.
    """
    lake.session.catalogs.open("folders").create_namespace(OUTSIDE)
    lake.sql(f"CREATE TABLE folders.{OUTSIDE}.t (id BIGINT)")
    (lake.folder / "folders" / OUTSIDE).rename(lake.folder / OUTSIDE)
    for k in ("a", "b"):
        place = lake.folder / "data" / "flat" / f"k={k}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2]}), place / "f.parquet")
    lake.session.analyze("dfs.w.flat")
    settings = replace(lake.settings.serve, virtual_tables=("dfs",), limits=replace(ServeLimits(), plan=1))
    application = Application(settings, lake.session.catalogs)
    yield application
    application.close()


def ask(
    application: Application, method: str, target: str, headers: Sequence[tuple[bytes, bytes]], body: bytes
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body of the answer to one request, as a server passes it on."""
    path, _, query = target.partition("?")
    sent: list[Any] = []
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "root_path": "",
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "server": None,
        "client": None,
        "headers": [(b"host", b"localhost"), *headers],
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(application(scope, receive, send))
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), content


JSON = [(b"content-type", b"application/json")]
WHOLE = json.dumps({"plan-task": _token(True, None, [["", ""], ["z", ""]])}).encode()


@given(METHODS, PATHS, QUERIES, st.builds(list.__add__, HEADERS, st.sampled_from([[], JSON])), BODIES)
@example("GET", "/v1/folders/namespaces/..%1Foutside/tables/t", "", [], b"")
@example("GET", "/v1/folders/namespaces/..%2Foutside/tables/t", "", [], b"")
@example("GET", "/v1/folders/namespaces/%252e%252e/tables/outside%252ft", "", [], b"")
@example("GET", "/v1/folders/namespaces", "parent=..", [], b"")
@example("GET", "/v1/folders/namespaces", "parent=%252e%252e", [], b"")
@example("POST", "/v1/dfs/namespaces/w/tables/flat/tasks", "", JSON, WHOLE)
@example("POST", "/v1/dfs/namespaces/w/tables/flat/plan", "", JSON, b'{"filter": true}')
@example("POST", "/v1/lake/namespaces/shop/tables/orders/metrics", "", [(b"content-type", b"application/json")], b"{}")
def test_any_request_is_answered_and_harmless(
    lake: Lake,
    application: Application,
    method: str,
    path: str,
    query: str,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
) -> None:
    """Never a failure, never a table or folder from outside of a warehouse, and only reads and reports get 2xx."""
    before = lake.files()
    status, answered, content = ask(application, method, f"{path.partition('?')[0]}?{query}", headers, body)
    assert status in CODES
    assert status != 204 or method == "HEAD" or path.endswith("/metrics")
    assert method in {"GET", "HEAD"} or status != 200 or path.endswith(("/plan", "/tasks"))
    assert all(b"\r" not in value and b"\n" not in value for value in answered.values())
    document = json.loads(content) if content else {}
    if status >= 400 and method != "HEAD":
        assert document["error"]["code"] == status
        assert str(lake.folder) not in document["error"]["message"]
    assert "t" not in {each.get("name") for each in document.get("identifiers", ())}
    location = document.get("metadata", {}).get("location", str(lake.folder / "m"))
    files = [task["data-file"]["file-path"] for task in document.get("file-scan-tasks", ())]
    assert len(files) <= 1
    assert all(path.startswith(f"file://{lake.folder}/data/flat/k=") for path in files)
    inside = [lake.folder / each for each in ("m", "lake", "folders")]
    assert any(Path(location.removeprefix("file://")).is_relative_to(each) for each in inside), location
    assert OUTSIDE not in str(document.get("namespaces", ""))
    assert lake.files() == before
