"""Print how the house stands: files, levels of imports and imports inside of each package. Facts, not limits.

Run in the root of a checkout: ``python .ci/house.py``. Levels are the longest chain of imports between modules of one
package; a cycle inside of a package is printed by its modules.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

PACKAGE = Path("metastore")
Imports = Mapping[str, frozenset[str]]


def module_of(path: Path) -> str:
    """The dotted name of the module in ``path``."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(path: Path, known: frozenset[str]) -> Iterator[str]:
    """Modules of the package that ``path`` imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name in known)


def levels(imports: Imports) -> tuple[int, list[str]]:
    """The longest chain of modules, and a cycle if there is one."""
    cycle: list[str] = []

    @cache
    def depth(module: str) -> int:
        return 1 + max((depth(other) for other in imports[module]), default=0)

    def visit(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            cycle.extend(path[path.index(module) :])
        elif not cycle and module not in done:
            for other in imports[module]:
                visit(other, (*path, module))
            done.add(module)

    done: set[str] = set()
    for each in imports:
        visit(each, ())
    return (0 if cycle else max(map(depth, imports), default=0)), cycle


def main() -> None:
    """One line a package, then the whole."""
    paths = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    known = frozenset(paths)
    imports = {module: frozenset(imported_by(path, known)) - {module} for module, path in paths.items()}
    rooms: dict[str, list[str]] = {}
    for module, path in paths.items():
        if path.name != "__init__.py":
            rooms.setdefault(".".join(module.split(".")[:2]), []).append(module)
    lines = {module: path.read_text(encoding="utf-8").count("\n") for module, path in paths.items()}
    out = [f"{'package':32}{'files':>6}{'lines':>8}{'levels':>8}{'imports':>9}"]
    for room, modules in sorted(rooms.items()):
        inside = {module: imports[module].intersection(modules) for module in modules}
        deep, cycle = levels(inside)
        size, count = sum(lines[module] for module in modules), sum(map(len, inside.values()))
        out.append(
            f"{room:32}{len(modules):6}{size:8}{deep:8}{count:9}{' cycle: ' + ', '.join(cycle) if cycle else ''}"
        )
    sizes = [lines[module] for module, path in paths.items() if path.name != "__init__.py"]
    out.append(f"{len(sizes)} modules, {sum(lines.values())} lines, median module {statistics.median(sizes):.0f} lines")
    sys.stdout.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
