"""Random files over three tiers say what Typesafe's library, by which Drill reads its own, says that they do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from services.typesafe_config import Judge

from metastore.config.hocon import read_document
from metastore.config.resolution import Node, Resolution, Unresolvable, overlay
from metastore.errors import ConfigError

pytestmark = pytest.mark.drill

NAMES = ("a", "b", "c", '"d.e"', "f")
INCLUDED = ("common", "other.conf", "third")


class Writer:
    """Writes random files of configuration."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)  # noqa: S311 - a seed for repeatable tests

    def path(self) -> str:
        """A key of one or two names."""
        return ".".join(self.draw.choices(NAMES, k=self.draw.choice((1, 1, 2))))

    def part(self) -> str:
        """A part of a value that is a text."""
        path = self.path()
        return self.draw.choice(("x", '"y z"', "7", "1.50", "true", f"${{?{path}}}", f"${{{path}}}", '"""q"r"""'))

    def value(self, depth: int) -> str:
        """A value: text, number, null, list, object or substitution, or some of a kind one after the other."""
        kind = self.draw.randrange(10 if depth else 6)
        if kind < 3:
            return " ".join(self.part() for _ in range(self.draw.choice((1, 1, 1, 2))))
        if kind < 5:
            return f"${{{'?' if kind == 3 else ''}{self.path()}}}"
        if kind == 5:
            return self.draw.choice(("null", "[]", "{}", "false", "-3"))
        if kind == 6:
            return f"[{', '.join(self.value(0) for _ in range(self.draw.randrange(3)))}]"
        body = self.body(depth - 1)
        return f"{{ {body} }}" if kind < 9 else f"${{?{self.path()}}} {{ {body} }}"

    def field(self, depth: int) -> str:
        """A statement."""
        kind = self.draw.randrange(12)
        if kind == 0 and depth:
            return f'include "{self.draw.choice(INCLUDED)}"'
        if kind == 1:
            return f"{self.path()} += {self.value(0)}"
        if kind < 4 and depth:
            return f"{self.path()} {{ {self.body(depth - 1)} }}"
        return f"{self.path()} {self.draw.choice('=:')} {self.value(depth)}"

    def body(self, depth: int) -> str:
        """Some statements."""
        between = self.draw.choice((", ", "\n", "\n  # said\n", " // said\n"))
        return between.join(self.field(depth) for _ in range(self.draw.randrange(1, 4))) + "\n"


def written(folder: Path, seed: int) -> Iterator[Path]:
    """Write three tiers and what they include; yields the tiers, the lowest first."""
    writer = Writer(seed)
    for name in ("common.conf", "common.json", "common.properties", "other.conf", "third.properties"):
        if name.endswith("json"):
            text = '{"a": {"json": 1}, "j": [1, "2"]}'
        elif name.endswith("properties"):
            text = "# said\na.p = 1\nb.q: two words\n"
        else:
            text = writer.body(0)
        (folder / name).write_text(text)
    for tier in ("default", "module", "override"):
        path = folder / f"{tier}.conf"
        path.write_text(writer.body(2))
        yield path


def ours(tiers: list[Path]) -> Any:
    """The values as this package resolves them, or the error's text."""
    try:
        merged: Node = reduce(overlay, (read_document(path).root for path in tiers), {})
        return plain(Resolution(merged, {}, lambda key: ".".join(key)).get(()))
    except ConfigError as error:
        return f"error: {error}"


def plain(value: Any) -> Any:
    """The value with every scalar as text: a number's spelling is kept here, and Typesafe's writes its own.

    Raises the error of a value that cannot be resolved.
    """
    if isinstance(value, Unresolvable):
        raise value.error
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return str(float(value)) if str(value).replace(".", "", 1).lstrip("-").isdecimal() else str(value)


@pytest.mark.parametrize("block", range(20))
def test_random_tiers(typesafe: Judge, tmp_path: Path, block: int) -> None:
    """Both have the same values, or both refuse them."""
    agreed = 0
    for seed in range(100 * block, 100 * (block + 1)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        tiers = list(written(folder, seed))
        expected, found = typesafe(tiers), ours(tiers)
        texts = "\n---\n".join(path.read_text() for path in [*tiers, folder / "common.conf", folder / "other.conf"])
        if isinstance(expected, str):
            assert isinstance(found, str), (seed, expected, found, texts)
        else:
            assert found == plain(expected), (seed, texts)
            agreed += 1
    assert agreed > 10
