"""The steps that a page of the documentation shows, and how to type them in: nothing here imports the package.

`sh` blocks are run as they are, `console` blocks command by command with the output that is shown, `python` blocks as
programs whose output is the `text` block after it. A comment before a block, `<!-- not run: why -->`, leaves it out.

`python pages.py PAGE …` types the pages in, each in an empty folder; exit code 1 if one does not do what it shows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(
    r"(?P<left>^<!-- not run: [^\n]+ -->\n)?^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
RUN = {"sh", "console", "python"}
TYPED_ELSEWHERE = re.compile(r"^<!-- typed in by tests/\w+ -->$", re.MULTILINE)
"""In a page that needs programs which a test of its own brings."""
VARIES = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.\d]*|\b\d{15,19}\b|[\d.,]+ (?:ms|s|k?B|MB)\b|\d\d\.\d%|\d\.\d+\.\d+\S*|─+"
)
"""What differs from run to run, or by library and machine: times, versions, sizes, the width of a table."""


@dataclass(frozen=True)
class Step:
    """One command or program of a page, and the output that the page shows; None where it shows none."""

    command: list[str]
    text: str
    output: str | None

    def difference(self, folder: Path, environment: Mapping[str, str]) -> str | None:
        """Run it in ``folder``; how what happens differs from what is shown, or None. `…` stands for any lines."""
        environment = {**environment, "PWD": str(folder)}
        ran = subprocess.run(
            self.command, input=self.text, capture_output=True, check=False, cwd=folder, env=environment, text=True
        )
        if ran.returncode:
            return f"{self.text}\nended with {ran.returncode}: {ran.stdout}{ran.stderr}"
        return self.missing(ran.stdout, folder)

    def missing(self, output: str, folder: Path) -> str | None:
        """The first shown line that ``output`` lacks, or None."""
        printed = iter(normal(output, folder))
        for line in normal(self.output or "", folder):
            if line != "…" and line not in printed:
                return f"{self.text}\nprinted no line {line!r}, or not in this place:\n{output}"
        return None


def steps(page: str) -> Iterator[Step]:
    """What a reader types, in its order."""
    for block in BLOCK.finditer(page):
        text, language = block["text"], block["language"]
        if block["left"] or language not in RUN:
            continue
        if language == "python":
            yield Step(["python", "-"], text, block["output"])
        elif language == "sh":
            yield Step(["bash", "-e"], text, None)
        else:
            for command, output in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                yield Step(["bash", "-e"], command, output)


def normal(text: str, folder: Path) -> list[str]:
    """The lines of an output without what varies, blank ones left out."""
    lines = (VARIES.sub("•", line.replace(str(folder), "/data")) for line in text.splitlines())
    return [" ".join(line.split()) for line in lines if line.strip()]


def main(pages: list[str]) -> int:
    """Type ``pages`` in with the Python that runs this, and the commands beside it."""
    failed = 0
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
            environment = {"PATH": path, "HOME": folder, "COLUMNS": "80", "NO_COLOR": "1"}
            found = steps(Path(page).read_text(encoding="utf-8"))
            differences = (step.difference(Path(folder), environment) for step in found)
            wrong = next((each for each in differences if each is not None), None)
            sys.stdout.write(f"{page}: {'as shown' if wrong is None else wrong}\n")
            failed |= wrong is not None
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
