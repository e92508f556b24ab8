"""The client without a service: what it is told, and answers that are none."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from metastore.errors import InvalidRequestError, OutcomeUnknownError, StorageError
from metastore.sources.hive.client import HiveClient


@pytest.mark.parametrize("uri", ["", "http://h:1", "thrift://", "thrift://h:abc", "thrift://h:99999", "thrift://[::1"])
def test_what_is_no_uri(uri: str) -> None:
    """It is refused by name, whatever is wrong with it."""
    with pytest.raises(InvalidRequestError, match="thrift://host:port is expected"):
        HiveClient(uri)


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run under numbers that nobody has entered: a client is made all the same."""

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert HiveClient("thrift://h").uri == "thrift://h"


@contextmanager
def answering(body: bytes, calls: int = 8) -> Iterator[str]:
    """The URI of a service that answers each call, under its name, with ``body``."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(calls):
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    while asked := connection.recv(1 << 16):
                        (length,) = struct.unpack(">i", asked[4:8])
                        head = struct.pack(">I", 0x80010002) + asked[4 : 8 + length] + asked[8 + length : 12 + length]
                        if b"getStatus" in asked[: 8 + length]:
                            connection.sendall(head + b"\x08\0\0" + struct.pack(">i", 2) + b"\0")
                            continue
                        connection.sendall(head + body)
                        break

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"thrift://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)


LIST = b"\x0f\0\0"
"""Of a result's struct: the answer itself, field 0, is a list."""


def names(*given: bytes) -> bytes:
    """Of a result's struct: a list of texts, and the end."""
    return (
        LIST + b"\x0b" + struct.pack(">i", len(given)) + b"".join(struct.pack(">i", len(x)) + x for x in given) + b"\0"
    )


def test_an_interrupted_call_leaves_its_answer_to_nobody() -> None:
    """The answer that comes after Ctrl-C would be read as that of the next call."""
    calls = iter([(True, b"of the first call"), (False, b"of the second call")])
    interrupted = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection:
            while asked := connection.recv(1 << 16):
                (length,) = struct.unpack(">i", asked[4:8])
                head = struct.pack(">I", 0x80010002) + asked[4 : 8 + length] + asked[8 + length : 12 + length]
                interrupts, name = next(calls)
                if interrupts:
                    os.kill(os.getpid(), signal.SIGINT)
                    interrupted.wait(60)
                with suppress(OSError):
                    connection.sendall(head + names(name))

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        with HiveClient(f"thrift://127.0.0.1:{server.getsockname()[1]}") as client:
            with pytest.raises(KeyboardInterrupt):
                client.databases()
            interrupted.set()
            assert client.databases() == ["of the second call"]
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "body",
    [
        LIST + b"\x0b" + struct.pack(">ii", 1, 0x7FFFFFFF),
        LIST + b"\x0b" + struct.pack(">ii", 1, -5),
        b"\x0f\0\0\x0c" + struct.pack(">i", 1) + b"\0\0",
        LIST + b"\x0b" + struct.pack(">i", 0x7FFFFFFF),
        b"\x63garbage",
        b"",
    ],
)
def test_an_answer_that_is_none(body: bytes) -> None:
    """Lengths and types that cannot be: the connection is given up, and the error names the service."""
    with answering(body) as uri, HiveClient(uri) as client, pytest.raises(StorageError, match=f"{uri} failed to "):
        client.databases()


def test_an_answer_that_is_none_to_a_change() -> None:
    """Whether it was made is unknown, as where there is no answer."""
    with (
        answering(LIST + b"\x0b" + struct.pack(">ii", 1, 0x7FFFFFFF)) as uri,
        HiveClient(uri) as client,
        pytest.raises(OutcomeUnknownError, match="check before you try again"),
    ):
        client.drop_table("shop", "sales")


def test_a_name_that_cannot_be_sent() -> None:
    """Half a surrogate, of a file name that is no UTF-8: an error of ours, and the connection is not used again."""
    with answering(b"") as uri, HiveClient(uri) as client, pytest.raises(StorageError, match="failed to"):
        client.tables("a\udc80")
