"""The plan of a scan of many files comes in parts: each is bounded, and no server keeps anything of it."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.rest import RestCatalog
from support.served_lake import Lake, MakeLake
from support.virtual_lake import CONDITIONS, FILES, parted, plain, planned, write

from metastore.serve.server import RestServer


def asked_of(server: RestServer, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    """Status and document of one answer."""
    connection = http.client.HTTPConnection(server.url.partition("://")[2], timeout=30)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


PLAN, TASKS = "/v1/dfs/namespaces/w/tables/t/plan", "/v1/dfs/namespaces/w/tables/t/tasks"


def paths_of(document: Any) -> list[str]:
    """The files of an answer with tasks."""
    return [task["data-file"]["file-path"] for task in document["file-scan-tasks"]]


def fetched(server: RestServer, document: Any) -> list[str]:
    """All files of a plan, with those of its parts, which have at most three each."""
    found = paths_of(document)
    assert len(found) <= 3
    for token in document.get("plan-tasks", ()):
        status, part = asked_of(server, TASKS, "POST", {"plan-task": token})
        assert (status, "status" in part, len(part["file-scan-tasks"]) <= 3) == (200, False, True)
        found += fetched(server, part)
    return found


@pytest.mark.parametrize(("condition", "files"), CONDITIONS)
def test_pyiceberg_fetches_the_parts_of_a_plan(virtual: Lake, condition: str, files: int) -> None:
    """Its rows are those of the plain files, and no file comes twice."""
    client = RestCatalog("parted", uri=parted(virtual, 3).url, warehouse="dfs")
    scan = client.load_table(("w", "t")).scan(row_filter=condition)
    paths = [task.file.file_path for task in scan.plan_files()]
    assert (len(paths), len({*paths})) == (files, files)
    assert sorted(scan.to_arrow()["id"].to_pylist()) == plain(virtual, condition)
    client.close()


@pytest.mark.parametrize("days", ["region=r{day}", "."])
def test_parts_are_of_the_snapshot_of_their_plan(make_lake: MakeLake, days: str) -> None:
    """A file that comes meanwhile is in none of them. Any server of the metastore answers them, until it is expired."""
    lake = make_lake(virtual_tables=["dfs"], catalogs=[])
    write(lake, days=days)
    first, second = parted(lake, 3), parted(lake, 3)
    _, document = asked_of(first, PLAN, "POST", {"filter": True})
    assert len(document["plan-tasks"]) == -(-FILES // 3) - 1
    new = lake.folder / "data/t" / days.format(day=1) / "new.parquet"
    pq.write_table(pa.table({"id": [900]}), new)
    lake.session.analyze("dfs.w.t")
    found = fetched(second, document)
    assert (len(found), len({*found})) == (FILES, FILES)
    assert not any(path.endswith("new.parquet") for path in found)
    lake.session.metastore.tables.expiration.expire()
    status, answer = asked_of(second, TASKS, "POST", {"plan-task": document["plan-tasks"][0]})
    assert (status, answer["error"]["type"]) == (404, "NoSuchPlanTaskException")


def test_a_part_that_nobody_gave_has_no_more_files_than_others(virtual: Lake) -> None:
    """Whatever a token says, an answer is bounded; what is no token is no part."""
    server = parted(virtual, 3)
    whole = {"request": {"filter": True}, "part": [["", ""], ["\uffff", ""]]}
    token = base64.urlsafe_b64encode(json.dumps(whole).encode()).decode()
    status, document = asked_of(server, TASKS, "POST", {"plan-task": token})
    assert (status, sorted(fetched(server, document))) == (200, sorted(paths_of(planned(virtual, True).document)))
    bad: list[Any] = ["", "x", "W10=", "e30=", "bnVsbA==", token[:-8], "é"]
    bad += [encoded for part in ([["", ""]], [[""], [""]], [1, 2], "ab", None) for encoded in [_encoded(whole, part)]]
    for each in bad:
        status, document = asked_of(server, TASKS, "POST", {"plan-task": each})
        assert (status, document["error"]["type"]) == (404, "NoSuchPlanTaskException"), each
    assert asked_of(server, TASKS, "POST", {"plan-task": 1})[0] == 400
    assert asked_of(server, TASKS, "POST", {})[0] == 400


def _encoded(whole: Any, part: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps({**whole, "part": part}).encode()).decode()


def test_a_plan_of_a_long_condition_has_one_part(virtual: Lake) -> None:
    """Each token would repeat it."""
    filter_ = {"type": "in", "term": "id", "values": list(range(5_000))}
    status, document = asked_of(parted(virtual, 3), PLAN, "POST", {"filter": filter_})
    assert (status, len(document["file-scan-tasks"]), "plan-tasks" in document) == (200, FILES, False)


def test_the_four_endpoints_of_plans_are_served(virtual: Lake) -> None:
    """iceberg-go#1738, gravitino#11583: a client may call each of them. No plan is kept by an id."""
    every = virtual.ask("/v1/config?warehouse=dfs").document["endpoints"]
    listed = [each for each in every if each.partition("{table}")[2].startswith(("/plan", "/tasks"))]
    table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    of_a_plan = [f"{method} {table}/plan/{{plan-id}}" for method in ("GET", "DELETE")]
    assert listed == [f"POST {table}/plan", *of_a_plan, f"POST {table}/tasks"]
    for method in ("GET", "DELETE"):
        assert virtual.ask(f"{PLAN}/abc", method).error == (404, "NoSuchPlanIdException")
        assert virtual.ask("/v1/dfs/namespaces/w/tables/none/plan/abc", method).error == (404, "NoSuchTableException")
        assert virtual.ask("/v1/lake/namespaces/w/tables/t/plan/abc", method).error == (403, "ForbiddenException")
    assert not [each for each in virtual.ask("/v1/config?warehouse=lake").document["endpoints"] if "/plan" in each]
