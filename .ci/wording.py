"""Measures plain English: words a sentence, and phrases to avoid in documents, docstrings and messages.

`python .ci/wording.py` exits with 1 if a limit is exceeded; `make lint` runs it. `--list` also prints each file with
its average, worst first. Code blocks, tables, headings, links' targets and comments are not counted.

A sentence ends with a full stop, a question mark or an exclamation mark, or with its paragraph or list item. Code
between backticks is one word.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

WORDS_OF_GUIDES: Final = 18
WORDS_OF_DESIGN_NOTES: Final = 20
WORDS_OF_DOCSTRINGS: Final = 20
"""Most words a sentence on average: per document, and per package for docstrings."""

AVOIDED: Final = {
    phrase: re.compile(rf"(?<![\w-]){pattern}(?![\w-])", re.IGNORECASE)
    for phrase, pattern in {
        "so many": r"so many(?! (?:that|as))",
        "wishes": "wish(?:es)?",
        "is told": r"(?:is|are|was|were) told(?! (?:to|apart))",
        "makes of it": "makes? of (?:it|them)",
        "has its use": "ha(?:s|ve) (?:its|their) use",
        "Nor is": r"(?-i:Nor)",
        "not so": r"not so(?=[.,;])",
        "of which there are": "of which there (?:is|are)",
        "stands in the way": "stands? in the way",
        "thereof": "there(?:of|in|to|upon)",
        "whereof": "where(?:of|in|upon)",
        "lest": "lest",
        "tell of": "tells? of",
        "knows nothing of": "knows? nothing of",
        "come what may": "come what may",
        "be it": "be it",
        "hereby": "hereby",
    }.items()
}
"""Phrases that make a reader read twice, with what finds them."""

AVOIDED_IN_GUIDES: Final = AVOIDED | {
    "a verb of standing for a thing": re.compile(r"\bstands?\b"),
    "a verb of telling for a thing": re.compile(r"\btells?\b"),
    "whoever": re.compile(r"\bwhoever\b"),
}
"""The same for pages that users read."""

AVOIDED_IN_MESSAGES: Final = AVOIDED | {
    phrase: re.compile(rf"(?<![\w-]){phrase}(?![\w-])", re.IGNORECASE)
    for phrase in (
        "it is open whether",
        "is passed over",
        "names nothing",
        "named by nothing",
        "known to nothing",
        "is not served",
        "stands there",
        "stands alone",
        "sign of life",
        "as you wish",
        "cannot be told",
        "cannot be said",
        "cannot be had",
        "are wanted",
        "ask for the other columns",
        "connect with it",
        "it never had",
        "way that is not known here",
        "something else than",
        "written anew",
        "is called .{1,30} now",
        "mend",
    )
}
"""The same for texts in the code that are no docstrings, such as errors, warnings, log lines and help."""


_MOST_CODE: Final = 20
"""A sentence with more pieces of code than this, each with a comma, is a list and is not counted."""


@dataclass(frozen=True)
class Measure:
    """What one file or package has: words, sentences, and the avoided phrases with the place of each."""

    name: str
    words: int
    sentences: int
    avoided: tuple[str, ...]

    @property
    def average(self) -> float:
        """Words a sentence."""
        return self.words / self.sentences if self.sentences else 0.0


def prose(markdown: str) -> Iterator[str]:
    """The paragraphs and list items of a document, each in one line; neither code, tables, headings nor drawings."""
    text = re.sub(r"^( *)```.*?^\1```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    text = (
        re.sub(r"^---\n.*?^---\n", "", text, count=1, flags=re.MULTILINE | re.DOTALL) if text[:4] == "---\n" else text
    )
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.) )", text):
        lines = block.splitlines() if block.lstrip().startswith(tuple("-*+123456789")) else block.split("\n    ")[:1]
        kept = [line.strip() for line in lines if line.strip()]
        kept = [line for line in kept if not line.startswith(("|", "#", "!!!", "???", ":::", "<"))]
        if kept:
            yield re.sub(r"^(?:[-*+>]|\d+\.) ", "", " ".join(kept))


def docstring_prose(docstring: str) -> Iterator[str]:
    """The paragraphs of a docstring, each in one line; neither literal blocks nor their introduction's colons."""
    text = re.sub(r"::\n\n(?:[ \t]+\S.*\n?|\n)+", ".\n\n", docstring)
    for block in re.split(r"\n\s*\n|\n(?=\s*[-*] )", text):
        if block.strip() and not block.startswith((">>>", "    ")):
            yield re.sub(r"^[-*] ", "", " ".join(block.split()))


def sentences(paragraph: str) -> list[str]:
    """The sentences of one paragraph. Code and links are shortened to one word each."""
    text = re.sub(r"``.+?``|`[^`]+`", "code", paragraph)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r":(?:class|mod|func|meth|attr):", "", text)
    text = re.sub(r"\b(?:e\.g|i\.e|etc|vs)\.", "abbreviation", text)
    return [each for each in re.split(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9`])", text) if re.search(r"\w", each)]


def measure(name: str, paragraphs: Iterator[str], phrases: Mapping[str, re.Pattern[str]] = AVOIDED) -> Measure:
    """Count the words, sentences and avoided ``phrases`` of ``paragraphs``."""
    words = total = 0
    avoided = []
    for paragraph in paragraphs:
        for sentence in sentences(paragraph):
            if sentence.split().count("code,") > _MOST_CODE:
                continue
            words += sum(1 for word in sentence.split() if re.search(r"\w", word))
            total += 1
            avoided += [f"{phrase!r}: {sentence[:90]}" for phrase, found in phrases.items() if found.search(sentence)]
    return Measure(name, words, total, tuple(avoided))


def docstrings(path: Path) -> Iterator[str]:
    """The paragraphs of all docstrings of a module, attributes' among them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines = node.value.value.expandtabs().splitlines()
            margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
            yield from docstring_prose("\n".join([lines[0] if lines else "", *(line[margin:] for line in lines[1:])]))


def messages(path: Path) -> Iterator[str]:
    """The texts of a module that may be shown, each in one line: all but docstrings. An expression in one is X."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    hidden = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    hidden |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in hidden:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def avoided_in_messages() -> list[str]:
    """Each phrase to avoid that a message of the package has, with its module."""
    return [
        f"{path.relative_to(ROOT).as_posix()}: avoid {phrase!r} in the message: {text[:90]}"
        for path in sorted((ROOT / "metastore").rglob("*.py"))
        for text in messages(path)
        for phrase, found in AVOIDED_IN_MESSAGES.items()
        if found.search(text)
    ]


def documents(pattern: str, phrases: Mapping[str, re.Pattern[str]] = AVOIDED_IN_GUIDES) -> list[Measure]:
    """A measure for each document that ``pattern`` finds below the checkout."""
    return [
        measure(path.relative_to(ROOT).as_posix(), prose(path.read_text(encoding="utf-8")), phrases)
        for path in sorted(ROOT.glob(pattern))
    ]


def packages() -> list[Measure]:
    """A measure for each package and each module at the top of ``metastore``."""
    parts: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "metastore").rglob("*.py")):
        parts.setdefault(path.relative_to(ROOT / "metastore").parts[0], []).append(path)
    return [
        measure(f"metastore/{part}", (each for path in paths for each in docstrings(path)))
        for part, paths in parts.items()
    ]


def main(arguments: list[str]) -> int:
    """Print what exceeds a limit; 1 if anything does."""
    groups = (
        (
            WORDS_OF_GUIDES,
            [
                *documents("[!C]*.md"),
                *documents("CONTRIBUTING.md"),
                *documents("docs/*.md"),
                *documents("docs/[!d]*/**/*.md"),
            ],
        ),
        (WORDS_OF_DESIGN_NOTES, [*documents("docs/design/*.md", AVOIDED), *documents("CHANGELOG.md", AVOIDED)]),
        (WORDS_OF_DOCSTRINGS, packages()),
    )
    failed = False
    for limit, found in groups:
        for each in sorted(found, key=lambda each: -each.average):
            if "--list" in arguments:
                print(f"{each.average:5.1f}  {each.sentences:5}  {len(each.avoided):3}  {each.name}")
            if each.average > limit:
                failed = True
                print(f"{each.name}: {each.average:.1f} words a sentence, at most {limit}; make long sentences two")
            for phrase in each.avoided:
                failed = True
                print(f"{each.name}: avoid {phrase}")
    for phrase in avoided_in_messages():
        failed = True
        print(phrase)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
