"""Typesafe's library for HOCON, which judges what a configuration says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from services.maven import class_path

from metastore.engines.java import find_java

SOURCES: Final = Path(__file__).with_name("typesafe")
VERSION: Final = "1.4.3"

Judge = Callable[[Sequence[Path]], Any]
"""Returns the resolved values of files, lowest tier first; a text that begins with ``error`` if there are none."""


@pytest.fixture(scope="session")
def typesafe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """The judge, in one process of Java."""
    home = find_java().home
    jar = class_path(SOURCES / "pom.xml", tmp_path_factory.mktemp("typesafe") / "classpath", home, config=VERSION)
    command = [str(home / "bin/java"), "-cp", jar, str(SOURCES / "Resolve.java")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def judge(files: Sequence[Path]) -> Any:
            asked.write("\t".join(map(str, files)) + "\n")
            asked.flush()
            return json.loads(answers.readline())

        yield judge
        asked.close()
