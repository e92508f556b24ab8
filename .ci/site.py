"""Hooks of the documentation's site, for code, links and consoles.

References of docstrings become code. Links to files beside docs become text. Blocks of commands become consoles, of
which the button for copying takes the commands alone (docs/site.css).
"""

from __future__ import annotations

import re
from typing import Any, Final

_ROLE: Final = re.compile(r":(?:class|mod|func|meth|attr):(?=<code>)")
_BESIDE_DOCS: Final = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:benchmarks|conf|tests|metastore)/[^)]*\)")
_COMMANDS: Final = re.compile(r"^```\n(?=\$ )", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links into the checkout have no page on the site: their text stays. Blocks with a prompt are consoles."""
    return _COMMANDS.sub("```console\n", _BESIDE_DOCS.sub(r"\1", markdown))


def on_page_content(html: str, **_: Any) -> str:
    """``:class:`x``` of a docstring is shown as code."""
    return _ROLE.sub("", html)
