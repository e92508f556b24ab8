"""Every operation on files of a folder, numbered; one of them goes wrong in a way of the test's choice.

Patched are the doors by which this package reaches the disk, below FileIO and pointer store, so that nothing that
writes, flushes, links, replaces, deletes, lists or reads passes by. Files are written in two halves with a step between
them: a full disk, or a death, in the middle of a file. Threads take turns, so that number N is the same moment in
every run.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final

from support.descriptors import full_path

from metastore.ground.threads import Threads


class Fault(Enum):
    """What happens at the chosen operation."""

    FAILS = "fails"
    """It is not done, and an OSError is raised."""
    LIES = "succeeds and reports failure"
    """It is done, and an OSError is raised."""
    MISSES = "succeeds and reports a missing file"
    """It is done, and a FileNotFoundError is raised: a network disk's answer to a request that it was sent again."""
    HANGS = "hangs while others write and expire"
    """Others have time to do what they want; then it is done."""
    EXPIRES = "hangs while others expire"
    """The same, but they have nothing to write."""
    DIES = "kills the process"
    """The process ends before it, by SIGKILL."""


CHANGING: Final = ("link", "unlink", "replace", "mkdir", "fsync")
READING: Final = ("stat", "scandir")


class InTurn(Threads):
    """One thread for all."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__(1)


class Steps:
    """Operations on files below ``folder``, by name in ``seen``; ``fault`` happens at number ``at``, from 1 (0: none).

    ``meanwhile`` is what others do while one hangs; their own operations are not counted.
    """

    def __init__(
        self, folder: str, at: int = 0, fault: Fault = Fault.FAILS, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        self.folder, self.at, self.fault, self.meanwhile = folder, at, fault, meanwhile
        self.seen: list[str] = []
        self.active = True

    def step(self, name: str, operation: Callable[[], Any]) -> Any:
        """Do one operation, or what goes wrong instead."""
        if not self.active:
            return operation()
        self.seen.append(name)
        if len(self.seen) != self.at:
            return operation()
        if self.fault is Fault.DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault is Fault.FAILS:
            raise OSError(errno.EIO, f"injected: {name}")
        if self.fault in (Fault.HANGS, Fault.EXPIRES):
            self.active = False
            self.meanwhile()
            self.active = True
            return operation()
        done = operation()
        if hasattr(done, "close"):
            done.close()
        number = errno.ENOENT if self.fault is Fault.MISSES else errno.EIO
        raise OSError(number, f"injected after it was done: {name}")

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Count, until the end of the block."""
        patched: list[tuple[Any, str, Any]] = [(os, name, getattr(os, name)) for name in (*CHANGING, *READING)]
        patched += [(builtins, "open", builtins.open), (io, "open", io.open)]
        for name, module in sorted(sys.modules.items()):
            for pool in (ThreadPoolExecutor, Threads):
                if name.startswith("metastore.") and getattr(module, pool.__name__, None) is pool:
                    patched.append((module, pool.__name__, pool))
        for owner, name, real in patched:
            match name:
                case "ThreadPoolExecutor" | "Threads":
                    setattr(owner, name, InTurn)
                case "open":
                    setattr(owner, name, self._opening(real))
                case _:
                    setattr(owner, name, self._counting(name, real))
        try:
            yield
        finally:
            for owner, name, real in patched:
                setattr(owner, name, real)

    def _concerns(self, path: Any, options: dict[str, Any]) -> bool:
        return not isinstance(path, int) and self.folder in full_path(path, options)

    def _counting(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            def operation() -> Any:
                return real(*arguments, **options)

            # What is flushed is known by its number alone.
            counted = name == "fsync" or (arguments and self._concerns(arguments[0], options))
            return self.step(name, operation) if counted else operation()

        return call

    def _opening(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if not self._concerns(path, options):
                return real(path, mode, *arguments, **options)
            writes = bool(set(mode) & set("wxa"))
            name = "create" if writes else "open"
            stream = self.step(name, lambda: real(path, mode, *arguments, **options))
            return Halving(stream, self) if writes else stream

        return call


class Halving:
    """A stream with a step between the halves of what it is given."""

    def __init__(self, stream: Any, steps: Steps) -> None:
        self._stream, self._steps = stream, steps

    def write(self, content: Any) -> int:
        """Two halves."""
        view = memoryview(content)
        half = len(view) // 2
        self._stream.write(view[:half])
        self._stream.flush()
        self._steps.step("write", lambda: self._stream.write(view[half:]))
        return len(view)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> Halving:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
