"""The line between a client and a server, which a test cuts at one request."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Literal


class Wire:
    """A relay to the server at ``address`` that breaks the line at one request: before it is sent, or its answer is."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.cut: tuple[bytes, Literal["request", "answer"]] | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        self._address = address
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._lines: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    server = socket.create_connection(self._address)
                except OSError:
                    _hang_up(client)
                    continue
                self._lines += [client, server]
                broken = threading.Event()
                threading.Thread(target=self._requests, args=(client, server, broken), daemon=True).start()
                threading.Thread(target=self._answers, args=(client, server, broken), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, broken: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 20):
                if self.cut and self.cut[0] in data:
                    (_, lost), self.cut = self.cut, None
                    if lost == "request":
                        self.meanwhile()
                        break
                    broken.set()
                server.sendall(data)
        _hang_up(client, server)

    def _answers(self, client: socket.socket, server: socket.socket, broken: threading.Event) -> None:
        with suppress(OSError):
            while (data := server.recv(1 << 20)) and not broken.is_set():
                client.sendall(data)
        _hang_up(client, server)

    def close(self) -> None:
        """Hang up all lines."""
        _hang_up(self._listening, *self._lines)


def _hang_up(*lines: socket.socket) -> None:
    for line in lines:
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        line.close()
