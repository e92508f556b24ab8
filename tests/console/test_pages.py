"""Pages of the console: each says what the metastore knows, in markup that no name can change."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.console_pages import BAD, HOSTILE, SALES, document, no_daemon, page, write
from support.served_lake import Lake

from benchmarks.content import Content
from metastore.console.pages import Console
from metastore.overview.document import document as as_document
from metastore.overview.pruning import prune

ORDERS = "name=lake.shop.orders"
PAGES = [
    "/",
    "/?search=sales",
    f"/?search={quote(BAD)}",
    "/?kind=views",
    "/?kind=materialized",
    "/?kind=lake",
    "/?kind=published",
    "/?kind=metastore",
    f"/table?name={SALES}",
    f"/table?name={quote(HOSTILE)}",
    f"/files?name={quote(HOSTILE)}",
    f"/files?name={SALES}&segment=day%3D2026-11-07",
    f"/row-groups?name={SALES}&file=day%3D2026-11-07%2Fpart-1.parquet",
    f"/read?name={SALES}",
    f"/read?name={SALES}&where=id%20%3E%205000",
    f"/read?name={quote(HOSTILE)}&where={quote('dir0 > 1 and ' + BAD)}",
    "/versions",
    "/difference",
    f"/difference?name={SALES}",
    f"/difference?name={quote(HOSTILE)}&before=0",
    f"/iceberg?{ORDERS}",
    *(f"/inspect?{ORDERS}&list={each}" for each in ("manifests", "files", "delete_files", "partitions", "properties")),
    "/iceberg?name=metastore.components.tables",
    "/daemon",
    f"/daemon?search={quote(BAD)}",
    f"/health?{ORDERS}",
    f"/policy?name={SALES}",
    f"/policy?name={quote(HOSTILE)}",
    *(f"/preview?{ORDERS}&action={each}" for each in ("expire_snapshots", "remove_orphan_files", "rewrite_data_files")),
]


@pytest.mark.parametrize("target", PAGES)
def test_no_name_becomes_markup(console: Console, target: str) -> None:
    """Names of tables, columns, files, values, properties and runs stay texts; scripts and styles come from files."""
    seen = page(console, target)
    assert [each.get("src") for tag, each in seen.elements if tag == "script"] == ["/static/console.js"]
    assert not {tag for tag, _ in seen.elements} & {"img", "style", "iframe", "object", "embed", "base"}
    assert not [name for _, each in seen.elements for name in each if name.startswith("on") or name == "style"]
    addresses = [each.get(name) or "" for _, each in seen.elements for name in ("href", "src", "action")]
    assert [each for each in addresses if each and not re.match(r"[/#]", each)] == []


@pytest.mark.parametrize("target", PAGES)
def test_each_page_is_a_document_too(console: Console, target: str) -> None:
    """The link in the footer leads to it, and no id in it is a number that a browser rounds."""
    assert f"{target}{'&' if '?' in target else '?'}format=json" in page(console, target).links
    found = document(console, target)

    def numbers(value: object) -> Iterator[int]:
        match value:
            case bool():
                return
            case int():
                yield value
            case dict():
                for each in value.values():
                    yield from numbers(each)
            case list():
                for each in value:
                    yield from numbers(each)

    assert max(numbers(found), default=0) < 2**53


@pytest.mark.parametrize("target", PAGES)
def test_every_drawing_has_a_title_and_a_text(console: Console, target: str) -> None:
    """Which its label refers to, and no two elements of a page share an id."""
    elements = page(console, target).elements
    ids = [each["id"] for _, each in elements if "id" in each]
    assert len(ids) == len(set(ids))
    for tag, each in elements:
        if tag == "svg":
            assert each["role"] == "img"
            assert set((each["aria-labelledby"] or "").split()) <= set(ids)


def test_hostile_names_are_found_and_led_to(console: Console) -> None:
    """From the search to the table, its segment and its file, by links alone."""
    first = page(console, f"/?search={quote(BAD)}")
    [table] = [each for each in first.links if each.startswith("/table")]
    second = page(console, table)
    assert HOSTILE in second.text
    [segment] = [each for each in second.links if "segment=" in each]
    [groups] = [each for each in page(console, segment).links if each.startswith("/row-groups")]
    assert document(console, groups)["row_groups"][0]["rows"] == 5


def test_a_table_has_the_sizes_of_its_files(console: Console, lake: Lake) -> None:
    """As the file system counts them, whole and by segment, and as pyarrow reads their rows and row groups."""
    root = lake.folder / "data" / "sales"
    sizes = {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*.parquet")}
    rows = sum(pq.read_metadata(path).num_rows for path in root.rglob("*.parquet"))
    [row] = document(console, "/?search=sales")["rows"]
    assert (row["files"], row["bytes"], row["rows"]) == (len(sizes), sum(sizes.values()), rows)
    found = document(console, f"/table?name={SALES}")
    assert sum(each["bytes"] for each in found["segments"]) == sum(sizes.values())
    listed = document(console, f"/files?name={SALES}")
    assert {each["file"]: each["bytes"] for each in listed["files"]} == sizes
    assert sum(listed["sizes"].values()) == len(sizes)
    metadata = pq.read_metadata(root / "day=2026-11-07" / "part-1.parquet")
    groups = document(console, f"/row-groups?name={SALES}&file=day%3D2026-11-07%2Fpart-1.parquet")["row_groups"]
    assert [each["rows"] for each in groups] == [
        metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)
    ]


def test_what_is_wrong_comes_with_the_command_that_mends_it(console: Console, lake: Lake) -> None:
    """The command is one of the command line, for this table; skew is named with the segment."""
    found = document(console, f"/table?name={SALES}")
    assert any("skew: day=2026-11-07" in each for each in found["wrong"])
    lake.session.analyze("dfs.w.sales", level="TABLE")
    try:
        found = document(console, f"/table?name={SALES}")
        assert any("level TABLE" in each for each in found["wrong"])
        assert shlex.split(found["mendings"][0]["command"]) == [
            *("metastore", "analyze", SALES, "--level", "row_group")
        ]
        assert document(console, "/?search=sales")["rows"][0]["files"] is None
    finally:
        lake.session.analyze(SALES, statistics=True)


CONDITIONS = ["id > 5000", "id = 7010 and day = DATE '2026-11-07'", "price < 3 or `day` is null", "tags = 1"]


@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("trust", ["", "&trust=yes"])
def test_what_would_be_read_is_the_answer_of_prune(console: Console, lake: Lake, where: str, trust: str) -> None:
    """As the command prints it with --json; the command that the page shows asks for it."""
    target = f"/read?name={SALES}&where={quote(where)}{trust}"
    asked = prune(lake.session, SALES, where, list_files=not trust, with_files=True)
    assert document(console, f"{target}&files=yes") == as_document(asked)
    assert document(console, target)["kept_files"] is None
    command = next(line for line in page(console, target).text.splitlines() if "metastore prune" in line)
    words = shlex.split(command.partition(": ")[2])
    assert words[:4] == ["metastore", "prune", SALES, where]
    assert ("--no-list" in words) is bool(trust)


def test_a_condition_that_cannot_be_used_is_explained_in_its_form(console: Console) -> None:
    """The form keeps it, so that it can be changed."""
    seen = page(console, f"/read?name={SALES}&where={quote('nope > 1 <')}")
    assert [each["value"] for tag, each in seen.elements if tag == "input" and each.get("id") == "where"] == [
        "nope > 1 <"
    ]
    assert "error" in document(console, f"/read?name={SALES}&where=nope%20%3E%201")


WRONG = {
    "/nope": HTTPStatus.NOT_FOUND,
    "/table": HTTPStatus.BAD_REQUEST,
    "/table?name=dfs.w.none": HTTPStatus.NOT_FOUND,
    "/table?name=dfs.w.sales&at=5": HTTPStatus.NOT_FOUND,
    "/files?name=dfs.w.sales&segment=none": HTTPStatus.NOT_FOUND,
    "/row-groups?name=dfs.w.sales&file=none": HTTPStatus.NOT_FOUND,
    "/?page=x": HTTPStatus.BAD_REQUEST,
    "/?kind=none": HTTPStatus.NOT_FOUND,
    f"/?search={'a' * 5000}": HTTPStatus.BAD_REQUEST,
    "/?search=%FF": HTTPStatus.BAD_REQUEST,
    "/?" + "&".join(f"a{each}=1" for each in range(30)): HTTPStatus.BAD_REQUEST,
    "/difference?before=12&after=13": HTTPStatus.NOT_FOUND,
    "/iceberg?name=none.a.b": HTTPStatus.NOT_FOUND,
    "/iceberg?name=lake.shop.none": HTTPStatus.NOT_FOUND,
    "/iceberg?name=sales": HTTPStatus.BAD_REQUEST,
    f"/inspect?{ORDERS}&list=changes": HTTPStatus.BAD_REQUEST,
    f"/preview?{ORDERS}&action=drop": HTTPStatus.BAD_REQUEST,
    "/static/../pages.py": HTTPStatus.NOT_FOUND,
    "/static/%2e%2e/pages.py": HTTPStatus.NOT_FOUND,
    "/static/": HTTPStatus.NOT_FOUND,
}


@pytest.mark.parametrize("target", WRONG)
def test_what_cannot_be_shown_says_why(console: Console, target: str) -> None:
    """With the status of its kind, in a page of the same form."""
    assert [tag for tag, _ in page(console, target, WRONG[target]).elements].count("h1") == 1


def test_a_page_that_fails_shows_no_inside(console: Console, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the traceback; the page and the document say that it has."""

    def broken() -> dict[str, object]:
        raise ZeroDivisionError("a secret of the inside")

    failing = Console(console._session, broken)
    seen = page(failing, "/daemon", HTTPStatus.INTERNAL_SERVER_ERROR)
    assert "secret" not in seen.text
    assert "secret" in caplog.text
    assert document(failing, "/daemon", HTTPStatus.INTERNAL_SERVER_ERROR) == {
        "error": "the page failed; the log says why"
    }


def test_no_page_shows_a_secret(console: Console) -> None:
    """Properties whose names are those of secrets are masked, in lists as in documents."""
    for target in PAGES:
        assert b"open-sesame" not in console.answer(target).body
        assert b"open-sesame" not in console.answer(f"{target}{'&' if '?' in target else '?'}format=json").body


def test_versions_and_their_difference(make_own: Callable[[], Lake]) -> None:
    """Segments, files and columns that one ANALYZE changed, and no others; the table is among those that changed."""
    own = make_own()
    root = own.folder / "data" / "sales"
    for day in range(1, 5):
        write(root, day, 0, 10)
    own.session.analyze(SALES)
    before = own.session.metastore.tables.metadata.version
    write(root, 2, 0, 11, note="new")
    write(root, 9, 0, 5)
    os.remove(root / "day=2026-11-04" / "part-0.parquet")
    own.session.analyze(SALES)
    console = Console(lambda: own.session, no_daemon)
    whole = document(console, "/difference")
    assert (whole["before"], whole["tables"]["changed"]) == (str(before), [SALES])
    found = document(console, f"/difference?name={SALES}")
    assert found["segments"] == {
        "added": ["day=2026-11-09"], "removed": ["day=2026-11-04"], "changed": ["day=2026-11-02"], "more": 0,
    }  # fmt: skip
    assert found["files"] == {
        "added": ["day=2026-11-09/part-0.parquet"],
        "removed": ["day=2026-11-04/part-0.parquet"],
        "changed": ["day=2026-11-02/part-0.parquet"],
        "more": 0,
    }
    assert found["columns"]["added"] == ["note"]
    versions = document(console, "/versions")["versions"]
    assert versions[0]["parent"] == str(before)
    assert f"/difference?after={versions[0]['version']}" in page(console, "/versions").links


def test_an_iceberg_table_shows_snapshots_refs_schemas_and_what_is_due(console: Console, lake: Lake) -> None:
    """As PyIceberg has them, with ids in full; the policy's reason why nothing is due."""
    found = document(console, f"/iceberg?{ORDERS}")
    metadata = lake.session.catalogs.open("lake").load_table("shop.orders").metadata
    assert {each["id"] for each in found["snapshots"]} == {str(each.snapshot_id) for each in metadata.snapshots}
    [tagged] = [each for each in found["snapshots"] if "first (tag)" in each["refs"]]
    assert tagged["rows"] == 2
    assert [each["id"] for each in found["schemas"]] == [1, 0]
    assert [len(each["added"]) for each in found["schemas"]] == [1, 2]
    assert {each["reason"] for each in found["upkeep"]["actions"]} == {"not enabled"}
    text = page(console, f"/iceberg?{ORDERS}").text
    assert all(str(each.snapshot_id) in text for each in metadata.snapshots)


def test_published_tables_say_whether_they_are_behind(make_own: Callable[[], Lake]) -> None:
    """After an ANALYZE that found a new file; the catalog's list names the source, too."""
    own = make_own()
    pq.write_table(pq.read_table(_one(own)), own.folder / "data" / "plain" / "b.parquet")
    own.session.analyze("dfs.w.plain")
    own.sql("CREATE SCHEMA lake.shop")
    own.session.publish("dfs.w.plain", "lake.shop.plain")
    _one(own, "c.parquet")
    own.session.analyze("dfs.w.plain")
    console = Console(lambda: own.session, no_daemon)
    [row] = document(console, "/?kind=published")["rows"]
    assert (row["what"], row["published_from"], row["files"]) == ("behind", "dfs.w.plain", 2)
    [listed] = document(console, "/?kind=lake")["rows"]
    assert listed["published_from"] == "dfs.w.plain"


def _one(lake: Lake, name: str = "a.parquet") -> Path:
    path = lake.folder / "data" / "plain" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [1, 2]}), path)
    return path


def test_a_preview_changes_nothing(console: Console, lake: Lake) -> None:
    """Every file and every pointer stays as it was, whatever action is looked at."""
    before = lake.files()
    for action in (
        "expire_snapshots",
        "remove_orphan_files",
        "rewrite_data_files",
        "rewrite_manifests",
        "old_metadata",
    ):
        assert "status" in document(console, f"/preview?{ORDERS}&action={action}")
    assert lake.files() == before


def test_the_page_of_the_daemon_shows_failures(console: Console) -> None:
    """The action that failed, how many times, and its error as text."""
    found = document(console, "/daemon")
    assert found["unknown"] == "no daemon answers"
    assert found["failing"] == [["lake.shop.orders", "expire_snapshots", 1]]
    assert BAD in page(console, "/daemon?search=failed").text
    assert json.dumps(found).count("2099-01-01") == 1


def test_a_part_of_the_list_opens_the_tables_that_it_shows(make_own: Callable[[], Lake]) -> None:
    """The stored units of all others can be gone; the part that shows those tables says that a file is missing."""
    own = make_own()
    own.session.metastore.tables.modify().overwrite(Content(7).tables(range(60))).execute()
    stored = {path for path in own.folder.rglob("*.parquet") if re.search(r"orders_0000(5\d)", str(path))}
    assert len(stored) > 50
    for path in stored:
        path.unlink()
    console = Console(lambda: own.session, no_daemon)
    first = document(console, "/")
    assert (first["part"], len(first["rows"])) == ({"page": 1, "pages": 2, "total": 60}, 50)
    assert {each["files"] for each in first["rows"]} == {18}
    document(console, "/?page=2", HTTPStatus.SERVICE_UNAVAILABLE)


def test_a_wide_table_shows_a_part_of_its_columns(make_own: Callable[[], Lake]) -> None:
    """By address, with the segments' own part beside it; the document has all columns."""
    own = make_own()
    folder = own.folder / "data" / "wide"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({f"c{n:04}": [n] for n in range(1234)}), folder / "a.parquet")
    own.session.analyze("dfs.w.wide")
    console = Console(lambda: own.session, no_daemon)
    first, last = (page(console, f"/table?name=dfs.w.wide&columns={n}") for n in (1, 13))
    assert "c0099" in first.text
    assert "c0100" not in first.text
    assert "/table?name=dfs.w.wide&columns=2" in first.links
    assert "c1233" in last.text
    assert "c1199" not in last.text
    found = document(console, "/table?name=dfs.w.wide")
    assert (len(found["columns"]), found["columns_part"]) == (100, {"page": 1, "pages": 13, "total": 1234})
    assert len(found["table"]["columns"]) == 1234
