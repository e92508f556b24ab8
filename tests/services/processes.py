"""Servers as processes of their own on loopback: a free port, a log, and an end with the tests."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

READY_WITHIN_S = 120
BRIEFLY: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a Java process that lives for some tests: it does not get to use what the second compiler makes."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(command: Sequence[str], port: int, folder: Path, *, user: str | None = None) -> Iterator[None]:
    """``command`` as a process in ``folder``, once it listens on ``port``; what it prints is the file ``log`` there."""
    log = folder / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, user=user)
    try:
        _wait(server, port, log)
        yield
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        threading.Event().wait(0.05)
    raise RuntimeError(f"{server.args!r} does not answer on port {port}: {log.read_text(errors='replace')[-2000:]}")
