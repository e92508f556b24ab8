"""The site of the documentation: every page has its place in it, and no link leads nowhere. `make docs` builds it."""

from __future__ import annotations

import re
import runpy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import metastore
from metastore import errors

ROOT = Path(metastore.__file__).parents[1]
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = [*PAGES, *ROOT.glob("*.md")]


def anchors(page: Path) -> set[str]:
    """The anchors that headings of a page get."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", each.lower()).strip()) for each in headings}


def test_every_page_has_its_place() -> None:
    """Once."""
    named = re.findall(r"\S+\.md$", NAV, re.MULTILINE)
    assert sorted(named) == [page.relative_to(ROOT / "docs").as_posix() for page in PAGES]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    """To a file that is there, and to one of its headings."""
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        page = document.parent / target if target else document
        assert page.exists(), (target, anchor)
        assert not anchor or anchor in anchors(page), (target, anchor)


def test_every_error_is_explained() -> None:
    """By its code and its class, with cause and remedy."""
    page = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `([\w.]+)`<br>`(\w+)` \| \S.+ \| \S.+ \| .+ \|$", page, re.MULTILINE)
    raised = [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.MetastoreError)
    ]
    assert sorted(explained) == sorted((each.code, each.__name__) for each in raised)


def test_every_public_name_of_spark_and_procedures_that_is_shown_exists() -> None:
    """The page of the API names objects by their modules; each is there, and has a docstring."""
    page = (ROOT / "docs/reference/python-api.md").read_text(encoding="utf-8")
    shown = re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)
    for name in shown:
        if name != errors.__name__:
            module, _, attribute = name.rpartition(".")
            assert getattr(import_module(module), attribute).__doc__, name
    assert len(shown) == len(set(shown)) > 20


def test_commands_are_copied_without_prompts_and_output() -> None:
    """Blocks that begin with a prompt are consoles on the site, and its style hides all but commands from the copy."""
    lexers: Any = import_module("pygments.lexers")
    classes_of: Any = import_module("pygments.token").STANDARD_TYPES
    script = runpy.run_path(str(ROOT / ".ci/site.py"))
    style = (ROOT / "docs/site.css").read_text(encoding="utf-8")
    [hidden] = re.findall(r"\[data-md-copying\] :is\(([^)]*)\) \{ display: none; \}", style)
    classes = {each.strip(" .") for each in hidden.split(",")}
    blocks = [
        block
        for page in DOCUMENTS
        for block in re.findall(
            r"^```([^\n]*)\n(.*?)^```",
            script["on_page_markdown"](page.read_text(encoding="utf-8")),
            re.DOTALL | re.MULTILINE,
        )
        if re.search(r"^\$ ", block[1], re.MULTILINE)
    ]
    assert len(blocks) > 40
    for language, text in blocks:
        tokens = lexers.get_lexer_by_name(language).get_tokens(text)
        copied = "".join(value for kind, value in tokens if classes_of[kind] not in classes)
        shown = re.findall(r"^\$ (.+)$", text, re.MULTILINE)
        assert [line for line in copied.splitlines() if line.strip()] == shown
