"""The reference page of all procedures, with their arguments and result columns, generated from the declarations.

python -m metastore.procedures.framework.reference > docs/guide/procedures-reference.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator

from metastore.procedures.framework.arguments import Argument
from metastore.procedures.framework.builtin import MODULES, declared_in
from metastore.procedures.framework.model import BaseProcedure

_HEADER = """\
# Procedures: reference

Each is called as `CALL catalog.system.name(...)`, or `ms.call("catalog.system.name", ...)`: [how](procedures.md).
An argument without a default must be given. This page is made from the declarations in the code.
"""


def page(procedures: Iterable[BaseProcedure]) -> str:
    """Returns the page in Markdown, sorted by procedure name."""
    return "\n".join([_HEADER, *(line for each in sorted(procedures, key=str) for line in _section(each))])


def _section(procedure: BaseProcedure) -> Iterator[str]:
    yield f"## {procedure.name}"
    yield ""
    yield procedure.description + (" Its work is distributed." if procedure.is_distributed else "")
    yield ""
    yield "| argument | type | default |"
    yield "|---|---|---|"
    for argument in procedure.arguments:
        yield f"| `{argument.name}` | `{argument.type}` | {_default(argument)} |"
    yield ""
    yield "Returns " + ", ".join(f"`{field.name}` {field.type}" for field in procedure.result) + "."
    yield ""


def _default(argument: Argument) -> str:
    if argument.required:
        return ""
    return "`NULL`" if argument.default is None else f"`{json.dumps(argument.default, default=str)}`"


if __name__ == "__main__":
    sys.stdout.write(page(declared_in(MODULES)))
