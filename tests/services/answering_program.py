"""A program that answers questions, one a line of JSON: ``[number, …]`` goes in, ``{"number": …, …}`` comes out."""

from __future__ import annotations

import json
import subprocess
from typing import Any


class AnsweringProgram:
    """The other side of ``process``. An answer that an earlier test stopped waiting for is skipped."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._asked = 0

    def ask(self, *question: object) -> dict[str, Any]:
        """The answer to ``question``; RuntimeError with the program's ``error``, or if it has died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asked += 1
        self._process.stdin.write(json.dumps([self._asked, *question]) + "\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            if answer["number"] == self._asked:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer
        raise RuntimeError("the program died")
