"""The console in a real Chromium: what people and screen readers meet, in light and dark, by mouse and by keyboard."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from support.console_pages import BAD, HOSTILE, SALES, no_daemon
from support.served_lake import Lake

from metastore.console.pages import Console
from metastore.serve.server import RestServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = [pytest.mark.browser]

ORDERS = "name=lake.shop.orders"
PAGES = [
    "/",
    f"/?search={quote(BAD)}",
    "/?kind=views",
    "/?kind=lake",
    f"/table?name={SALES}",
    f"/table?name={quote(HOSTILE)}",
    f"/files?name={SALES}",
    f"/row-groups?name={SALES}&file=day%3D2026-11-07%2Fpart-1.parquet",
    f"/read?name={SALES}&where=id%20%3E%205000",
    f"/read?name={SALES}&where=nope",
    "/versions",
    f"/difference?name={SALES}",
    f"/iceberg?{ORDERS}",
    f"/inspect?{ORDERS}&list=files",
    f"/inspect?{ORDERS}&list=properties",
    "/daemon",
    f"/policy?name={SALES}",
    f"/health?{ORDERS}",
    f"/preview?{ORDERS}&action=expire_snapshots",
    "/nope",
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser that asks nobody but the page's own server."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - comes with the service

    program = shutil.which("chromium")
    assert program is not None, "these tests need Chromium: on Debian, install the package chromium"
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--headless", "--disable-gpu", *quiet]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def url(lake: Lake) -> Iterator[str]:
    """The address of the console."""
    console = Console(lambda: lake.session, no_daemon)
    with RestServer(lake.settings.serve, lake.session.catalogs, console) as server:
        yield server.url


@pytest.fixture
def open_page(chromium: Browser, url: str) -> Iterator[Callable[[str], Page]]:
    """Opens an address of the console; fails in the end if a script said anything or a request went elsewhere."""
    said: list[str] = []
    contexts: list[BrowserContext] = []

    def go(target: str) -> Page:
        context = chromium.new_context(viewport={"width": 1200, "height": 800})
        contexts.append(context)
        page = context.new_page()
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(url) else said.append(asked.url))
        page.on("console", lambda line: said.append(line.text) if "404" not in line.text else None)
        page.goto(f"{url}{target}")
        return page

    yield go
    for context in contexts:
        context.close()
    assert said == []


@pytest.mark.parametrize("target", PAGES)
def test_axe_finds_nothing(open_page: Callable[[str], Page], target: str) -> None:
    """In light and in dark, with every part open that can be folded; and the page is no wider than a phone."""
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - comes with the service

    page = open_page(target)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    backgrounds = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page).response
        assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
        assert len(found["passes"]) > 10
        backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(backgrounds) == 2
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_from_the_search_to_what_would_be_read(open_page: Callable[[str], Page]) -> None:
    """A person finds a table, asks a condition, and shares the address, which answers the same as JSON."""
    page = open_page("/")
    page.get_by_label("Search tables").fill("sales")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=SALES).click()
    page.get_by_label("Condition in SQL").fill("id > 9100 and day = DATE '2026-11-09'")
    page.get_by_role("button", name="Show").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="files", exact=True))
    assert row.get_by_role("cell").all_inner_texts()[:2] == ["1", "20"]
    shown = page.locator("code.command").inner_text()
    assert shlex.split(shown)[:4] == ["metastore", "prune", SALES, "id > 9100 and day = DATE '2026-11-09'"]
    shared = page.context.request.get(f"{page.url}&format=json").json()
    assert shared["files"] == {"total": 20, "kept": 1}
    page.get_by_role("button", name=re.compile("Copy the command")).click()


def test_by_the_keyboard_alone(open_page: Callable[[str], Page]) -> None:
    """The first key leads past the head; a slash finds the search; what has the focus is seen."""
    page = open_page("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("/")
    page.keyboard.type("sales")
    page.keyboard.press("Enter")
    page.wait_for_url("**search=sales")
    page.keyboard.press("/")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == SALES:
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url("**/table?name=dfs.w.sales")
    assert page.title() == f"{SALES} – metastore"


def test_hostile_names_are_texts(open_page: Callable[[str], Page]) -> None:
    """No element comes of them; the pages that have them say them."""
    for target in (f"/table?name={quote(HOSTILE)}", "/?kind=views", "/daemon", f"/inspect?{ORDERS}&list=properties"):
        page = open_page(target)
        assert page.locator("img").count() == 0
        assert BAD in page.inner_text("main")


def test_a_hundred_thousand_tables_have_pages(chromium: Browser, make_own: Callable[[], Lake]) -> None:
    """From the first to the last, and by search; only the tables of a page are loaded."""
    own = make_own()
    own.sql("CREATE SCHEMA lake.shop", "CREATE TABLE lake.shop.t (id BIGINT)")
    own.session.catalogs.close()
    with sqlite3.connect(own.folder / "lake.db") as database:
        rows = "SELECT x + 1 FROM n WHERE x < 99999"
        database.execute(
            f"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL {rows}) INSERT INTO iceberg_tables SELECT catalog_name, "
            "table_namespace, printf('t%06d', x), metadata_location, previous_metadata_location, iceberg_type "
            "FROM iceberg_tables, n"
        )
    database.close()
    console = Console(lambda: own.session, no_daemon)
    with RestServer(own.settings.serve, own.session.catalogs, console) as server:
        page = chromium.new_page()
        page.goto(f"{server.url}/?kind=lake")
        assert "100,000 tables" in page.inner_text("main")
        page.get_by_role("link", name="Last").click()
        assert page.get_by_role("rowheader").last.inner_text() == "lake.shop.t099999"
        page.goto(f"{server.url}/?kind=lake&search=T004243")
        assert page.get_by_role("rowheader").all_inner_texts() == ["lake.shop.t004243"]
        page.close()
