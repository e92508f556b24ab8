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


_BASE = "\nz { text = t, list = [1], object { o = 1, a { deep = 2 } } }\n"


class Writer:
    """Writes random files of configuration, whose values refer to ``z``, to later names, and to what they override.

    Left out is what the library itself gives two answers to: objects that contain themselves, ``+=`` below the top, and
    substitutions of a key inside an object that is not resolved yet.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.later: tuple[str, ...] = ()
        self.own = ""

    def path(self) -> str:
        """A key of one or two names."""
        return ".".join(self.draw.choices(NAMES, k=self.draw.choice((1, 1, 2))))

    def reference(self) -> str:
        """A substitution that refers to no object around it."""
        name = self.draw.choice(["z.text", "z.list", "z.object", "z.none", *filter(None, (*self.later, self.own))])
        return f"${{{'' if name in ('z.text', 'z.list', 'z.object') else '?'}{name}}}"

    def part(self) -> str:
        """A part of a value that is a text."""
        return self.draw.choice(("x", '"y z"', "7", "1.50", "true", "${z.text}", "${?z.none}", '"""q"r"""'))

    def value(self, depth: int) -> str:
        """A value: text, number, null, list, object or substitution, or some of a kind one after the other."""
        kind = self.draw.randrange(10 if depth else 6)
        if kind < 3:
            return " ".join(self.part() for _ in range(self.draw.choice((1, 1, 1, 2))))
        if kind < 5:
            return self.reference()
        if kind == 5:
            return self.draw.choice(("null", "[]", "{}", "false", "-3"))
        if kind == 6:
            return f"[{', '.join(self.part() for _ in range(self.draw.randrange(3)))}]"
        if kind == 7:
            return f"{self.draw.choice((self.own and f'${{?{self.own}}}', '${z.list}', '${?z.none}'))} [{self.part()}]"
        self.own = ""  # what is inside would refer to the object around it
        body = self.body(depth - 1)
        return f"{{ {body} }}" if kind == 8 else f"${{z.object}} {{ {body} }}"

    def field(self, depth: int) -> str:
        """A statement."""
        kind = self.draw.randrange(12)
        if kind == 0 and depth:
            return f'include "{self.draw.choice(INCLUDED)}"'
        path = self.path()
        if kind < 4 and depth:
            return f"{path} {{ {self.body(depth - 1)} }}"
        self.own = self.own if depth == 2 else ""
        return f"{path} {self.draw.choice('=:')} {self.value(depth)}"

    def body(self, depth: int) -> str:
        """Some statements."""
        between = self.draw.choice((", ", "\n", "\n  # said\n", " // said\n"))
        return between.join(self.field(depth) for _ in range(self.draw.randrange(1, 4))) + "\n"

    def included(self) -> str:
        """The statements of an included file."""
        return "\n".join(f"{name} = {self.value(0)}" for name in self.draw.sample(NAMES, 2))

    def object(self) -> str:
        """An object, in which nothing refers to itself."""
        self.own = ""
        return f"{{ {self.body(1)} }}"

    def tier(self) -> str:
        """Statements, each of which may refer to names that come later."""
        lines = []
        for _ in range(self.draw.randrange(1, 6)):
            place = self.draw.randrange(len(NAMES))
            self.later, self.own = NAMES[place + 1 :], NAMES[place]
            own, assigns = self.own, self.draw.choice(("=", ":", "+=", ""))
            value = self.part() if assigns == "+=" else self.value(2) if assigns else self.object()
            lines.append(f"{own} {assigns} {value}")
        return "\n".join(lines)


def written(folder: Path, seed: int) -> Iterator[Path]:
    """Write three tiers and what they include; yields the tiers, the lowest first."""
    writer = Writer(seed)
    for name in ("common.conf", "common.json", "common.properties", "other.conf", "third.properties"):
        if name.endswith("json"):
            text = '{"a": {"json": 1}, "j": [1, "2"]}'
        elif name.endswith("properties"):
            text = "# said\na.p = 1\nb.q: two words\n"
        else:
            text = writer.included()
        (folder / name).write_text(text)
    for tier in ("default", "module", "override"):
        path = folder / f"{tier}.conf"
        path.write_text(writer.tier() + ("" if tier != "default" else _BASE))
        yield path


def ours(tiers: list[Path]) -> Any:
    """The values as this package resolves them, or the error's text."""
    try:
        merged: Node = reduce(overlay, (read_document(path).root for path in tiers), {})
        return plain(Resolution(merged, {}, ".".join).get(()))
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
    """What the library reads is read here, with the same values."""
    agreed = 0
    for seed in range(100 * block, 100 * (block + 1)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        tiers = list(written(folder, seed))
        expected, found = typesafe(tiers), ours(tiers)
        texts = "\n---\n".join(path.read_text() for path in [*tiers, folder / "common.conf", folder / "other.conf"])
        # What the library refuses may be read here: only keys that are asked for are resolved.
        if not isinstance(expected, str):
            assert found == plain(expected), (seed, texts)
            agreed += 1
    assert agreed > 20


@pytest.mark.parametrize(
    "tiers",
    [
        ('o { include "inner" }', "z.text = outer", ""),
        ('o { include "inner" }', "z.text = outer", "o.z.text = late"),
        ('o.p { include "inner" }\no.z.text = middle', "z.text = outer", ""),
        ('include "inner"', "z.text = outer", ""),
        ("base { a = 1 }\no = ${base}", "o { b = 2 }", "base.c = 3"),
        ("base { a = 1 }", "o = ${base} { b = 2 }", "o.b = 3"),
        ("o { a = 1 }", "o = 5", "o { b = 2 }"),
        ("o = [1]", "o = ${o} [2]", "o += 3"),
        ('a = ${?none} x, b = "q" ${?none}, c = ${?none}${?none}', "c = 1", "c = ${?none}"),
        ('include "common"', "a.q = ${a.p} ${a.json}", 'include "third"'),
    ],
)
def test_chosen_tiers(typesafe: Judge, tmp_path: Path, tiers: tuple[str, ...]) -> None:
    """Includes in objects, objects that are extended after a substitution or hidden, and blanks, as in the library."""
    (tmp_path / "inner.conf").write_text("x = ${z.text}, own = ${?y}, y = 7\nlist += ${?z.text}")
    (tmp_path / "common.json").write_text('{"a": {"json": 1, "p": 2}}')
    (tmp_path / "common.properties").write_text("a.p = weak\na.only\\ here = \\u0041\\\n  b\n! said\n")
    (tmp_path / "third.properties").write_text("a.p: late\n")
    paths = [tmp_path / f"{number}.conf" for number in range(3)]
    for path, text in zip(paths, tiers, strict=True):
        path.write_text(text)
    assert ours(paths) == plain(typesafe(paths))
