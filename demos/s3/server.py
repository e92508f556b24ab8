"""``python -m demos.s3.server``: an S3 server on loopback that logs its requests and adds latency.

It is moto's server behind a log. It prints its port as one line, and serves until standard input ends: it never
outlives the process that started it, however that one ends. Objects are kept in memory.

Two addresses below ``/-/``, which is no bucket's name, control it. ``POST /-/requests`` returns the log as JSON
(see :class:`~demos.s3.cost.Request`) and empties it. ``POST /-/latency/0.03`` delays every later answer
by 30 ms.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from demos.s3.cost import Request, operation_of

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication  # types that exist only in the stubs

_CONTROL: Final = "/-/"
_CONDITIONS: Final = frozenset({"HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"})
_AT_ONCE: Final = 256
"""Length of the queue of connections: a first commit opens 64 at once."""


class LoggingServer:
    """The WSGI application ``served``, behind a log of requests and a latency."""

    def __init__(self, served: WSGIApplication) -> None:
        self._served = served
        self._latency_s = 0.0
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._log: list[Request] = []

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request. It is logged before its answer is sent, so a client's own requests are always there."""
        path = environ["PATH_INFO"]
        if path.startswith(_CONTROL):
            return self._control(path.removeprefix(_CONTROL), start_response)
        began = time.monotonic()
        time.sleep(self._latency_s)
        operation = operation_of(environ["REQUEST_METHOD"], path, environ.get("QUERY_STRING", ""))
        # moto looks whether an object exists, and puts it afterwards; S3 does both in one step.
        with self._turn if _CONDITIONS & environ.keys() else nullcontext():
            body = b"".join(self._served(environ, start_response))
        sent = 0 if operation == "HEAD" else len(body)
        with self._lock:
            self._log.append(Request(operation, path, sent, began, time.monotonic()))
        return [body]

    def _control(self, command: str, start_response: StartResponse) -> Iterable[bytes]:
        name, _, value = command.partition("/")
        answer: list[dict[str, Any]] = []
        if name == "latency":
            self._latency_s = float(value)
        else:
            with self._lock:
                answer, self._log = [asdict(request) for request in self._log], []
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]


def main() -> None:
    """Serve until standard input ends."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = LoggingServer(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    server.socket.listen(_AT_ONCE)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()
    thread.join()


if __name__ == "__main__":
    main()
