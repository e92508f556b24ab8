"""Hooks of the documentation's site: references of docstrings become code, links to files beside docs become text."""

from __future__ import annotations

import re
from typing import Any, Final

_ROLE: Final = re.compile(r":(?:class|mod|func|meth|attr):(?=<code>)")
_BESIDE_DOCS: Final = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:benchmarks|conf|tests|metastore)/[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links into the checkout have no page on the site: their text stays."""
    return _BESIDE_DOCS.sub(r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """``:class:`x``` of a docstring is shown as code."""
    return _ROLE.sub("", html)
