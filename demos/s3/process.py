"""The S3 server of the demo as a process of its own: started, asked for its log, and ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

from obstore.store import S3Store

from demos.s3.cost import Cost, Request
from metastore.errors import NotFoundError, StorageError
from metastore.ground.distribution import install_command

REGION: Final = "us-east-1"
ACCESS_KEY: Final = "demo"
SECRET_KEY: Final = "demo-secret"  # noqa: S105 - the server checks no key

_END_WITHIN_S: Final = 10


@dataclass(frozen=True)
class S3Server:
    """The server at ``endpoint``, as ``http://host:port``."""

    endpoint: str

    def hadoop(self) -> Mapping[str, str]:
        """Return the keys of Hadoop's S3A for the server."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
            "fs.s3a.path.style.access": "true",
        }

    def create_bucket(self, name: str) -> S3Store:
        """Create an empty bucket, and open it."""
        with urlopen(HttpRequest(f"{self.endpoint}/{name}", data=b"", method="PUT")):  # noqa: S310 - loopback
            return S3Store(
                name,
                endpoint=self.endpoint,
                region=REGION,
                access_key_id=ACCESS_KEY,
                secret_access_key=SECRET_KEY,
                client_options={"allow_http": True},
            )

    def add_latency(self, seconds: float) -> None:
        """Delay every later answer by ``seconds``, in place of the latency before."""
        self._control(f"latency/{seconds}")

    def cost(self) -> Cost:
        """Return the cost of all requests since the last call."""
        return Cost.of([Request(**request) for request in self._control("requests")])

    def _control(self, command: str) -> Any:
        with urlopen(HttpRequest(f"{self.endpoint}/-/{command}", data=b"")) as answer:  # noqa: S310 - loopback
            return json.load(answer)


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Start the server, and end it with the block.

    Ctrl-C reaches this process alone, so the server still answers while the block ends. Raises NotFoundError if moto
    is not installed, StorageError if the server does not start.
    """
    if find_spec("moto") is None or find_spec("flask") is None:
        raise NotFoundError(f"the demo's S3 server is not installed: {install_command('demo-s3')}")
    command = [sys.executable, "-m", "demos.s3.server"]
    with subprocess.Popen(  # noqa: S603 - our own module
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            if not port:
                raise StorageError(f"the demo's S3 server did not start; its error is above. Try: {' '.join(command)}")
            yield S3Server(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            try:
                process.wait(_END_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
