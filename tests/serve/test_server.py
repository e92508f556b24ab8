"""The server: where it refuses to begin, how it ends, and what it does with connections that are slow or too many."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from support.served_lake import Lake, MakeLake
from typer.testing import CliRunner

from metastore.cli.app import app
from metastore.config import load_text
from metastore.errors import ConfigError, StorageError
from metastore.serve.server import RestServer

BRIEF = {"request": "1 second"}


def refused(lake: Lake, error: type[Exception], said: str) -> None:
    """The server does not begin, and says why."""
    with pytest.raises(error, match=said):
        RestServer(lake.settings.serve, lake.session.catalogs)


def test_beyond_the_loopback_a_token_is_needed(make_lake: MakeLake) -> None:
    """It does not begin without one."""
    for host in ("0.0.0.0", "::", "10.1.2.3", "lake.example"):  # noqa: S104 - refused
        refused(make_lake(host=host), ConfigError, r"drill\.metastore\.serve\.token")


def test_what_cannot_be_served_is_refused(make_lake: MakeLake, tmp_path: Path) -> None:
    """No catalogs, an unknown one, a port that is taken, half of TLS, and files that are no certificate."""
    refused(make_lake(catalogs=[]), ConfigError, "catalogs is empty")
    with pytest.raises(ConfigError, match="did you mean lake"):
        make_lake(catalogs=["lak"])
    with pytest.raises(ConfigError, match=r"tls\.key is missing"):
        make_lake(tls={"certificate": "a.pem"})
    file = tmp_path / "no.pem"
    file.write_text("no certificate")
    refused(make_lake(tls={"certificate": str(file), "key": str(file)}), ConfigError, "tls cannot be used")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(make_lake(port=port), StorageError, f"127.0.0.1:{port}")


def test_the_token_is_shown_nowhere() -> None:
    """Neither among the settings in effect nor in their repr."""
    settings = load_text('drill.metastore.serve.token = "open sesame"')
    assert settings.serve.token == "open sesame"
    assert "open sesame" not in repr(settings)
    assert "open sesame" not in str([(each.key, each.value) for each in settings.explain()])


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pip takes it."""
    monkeypatch.setitem(sys.modules, "starlette", None)
    ran = CliRunner().invoke(app, ["serve"])
    assert ran.exit_code == 1
    assert "lake-metastore[serve]" in ran.stderr


def connected(lake: Lake) -> socket.socket:
    """A connection that nothing was sent on."""
    return socket.create_connection(("127.0.0.1", int(lake.server.url.rpartition(":")[2])), timeout=20)


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    found = b""
    try:
        while chunk := connection.recv(1 << 16):
            found += chunk
    except ConnectionResetError:
        pass
    return found


SLOW = {
    "nothing": b"",
    "half a line": b"GET /v1/con",
    "half of the headers": b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\n",
    "half a body": b"POST /v1/lake/namespaces/s/tables/t/metrics HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 9\r\n\r\n{",
    "half of a second request": b"GET /v1/config?warehouse=lake HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1/con",
}


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW.keys())
def test_a_slow_client_is_not_waited_for(make_lake: MakeLake, sent: bytes) -> None:
    """Wherever it stops, its connection is closed; others are answered meanwhile."""
    lake = make_lake(limits=BRIEF)
    with connected(lake) as connection:
        connection.sendall(sent)
        started = time.monotonic()
        assert lake.ask("/v1/config?warehouse=lake").status == 200
        rest_of(connection)
    assert time.monotonic() - started < 10


def test_a_body_that_nobody_reads_ends_the_connection(make_lake: MakeLake) -> None:
    """After its refusal, however long a client goes on sending."""
    lake = make_lake(limits=BRIEF)
    with connected(lake) as connection:
        connection.sendall(b"DELETE /v1/lake HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 403")
        started = time.monotonic()
        while takes_more(connection):
            assert time.monotonic() - started < 15


def takes_more(connection: socket.socket) -> bool:
    """Whether the server keeps the connection when one more byte comes."""
    try:
        connection.sendall(b"x")
        ready, _, _ = select.select([connection], [], [], 0.2)
        return not ready or connection.recv(1 << 16) != b""
    except OSError:
        return False


def test_there_are_no_more_connections_than_allowed(make_lake: MakeLake) -> None:
    """Those beyond are closed at once; when one goes, the next is served."""
    lake = make_lake(limits={"connections": 3})
    assert lake.ask("/v1/config?warehouse=lake").status == 200
    request = b"GET /v1/config?warehouse=lake HTTP/1.1\r\nHost: localhost\r\n\r\n"
    held = []
    for _ in range(3):
        held.append(connected(lake))
        held[-1].sendall(request)
        assert held[-1].recv(1 << 16).startswith(b"HTTP/1.1 200")
    with connected(lake) as fourth:
        assert rest_of(fourth) == b""
    for each in held:
        each.close()
    assert lake.ask("/v1/config?warehouse=lake").status == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /v1/config HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /v1/config HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"400"),
        (b"GET /v1/config HTTP/1.0\r\n\r\n", b"403"),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"404"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: x\r\n\r\n", b"400"),
        (
            b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n",
            b"400",
        ),
    ],
)
def test_what_is_no_request_is_refused(make_lake: MakeLake, sent: bytes, status: bytes) -> None:
    """As is one that names no host or two, is too long, or asks for another protocol."""
    lake = make_lake(limits=BRIEF)
    with connected(lake) as connection:
        connection.sendall(sent)
        answer = rest_of(connection)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert lake.ask("/v1/config?warehouse=lake").status == 200


def certificate(folder: Path) -> dict[str, str]:
    """A certificate of localhost and its key, as the settings name them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(tz=timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return {"certificate": str(folder / "cert.pem"), "key": str(folder / "key.pem")}


def test_tls_is_spoken_where_there_is_a_certificate(make_lake: MakeLake, tmp_path: Path) -> None:
    """And nothing else: a request in plain text gets no answer."""
    files = certificate(tmp_path)
    lake = make_lake(tls=files, catalogs=["lake"])
    assert lake.server.url.startswith("https://")
    trusting = ssl.create_default_context(cafile=files["certificate"])
    with trusting.wrap_socket(connected(lake), server_hostname="localhost") as connection:
        connection.sendall(b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert rest_of(connection).startswith(b"HTTP/1.1 200")
    with connected(lake) as plain:
        plain.sendall(b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" not in rest_of(plain)


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """One line says the address, each request is a line of JSON with its parts, and the exit code is 0."""
    conf = tmp_path / "site.conf"
    location = f'location {{ base_path = "{tmp_path}", relative_path = m }}'
    conf.write_text(f"drill.metastore {{ iceberg {{ {location} }}, serve.port = 0 }}")
    command = [sys.executable, "-m", "metastore", "--conf", str(conf), "serve", "--log-format", "json"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
    assert process.stderr is not None
    with process:
        first = json.loads(process.stderr.readline())
        found = re.search(r"at http://127\.0\.0\.1:(\d+), with metastore", first["message"])
        assert found, first
        with socket.create_connection(("127.0.0.1", int(found[1])), timeout=20) as connection:
            connection.sendall(b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            process.send_signal(number)
            rest = [json.loads(line) for line in process.stderr]
        assert process.wait(20) == 0
    [request] = [each["request"] for each in rest if "request" in each]
    assert {name: request[name] for name in ("method", "path", "status")} == {
        "method": "GET",
        "path": "/v1/config",
        "status": 200,
    }
    assert rest[-1]["message"] == "the Iceberg REST catalog ends"


def test_the_first_line_of_a_log_is_for_people(make_lake: MakeLake, caplog: pytest.LogCaptureFixture) -> None:
    """A request's line in text says method, path, status and time, and no query."""
    lake = make_lake()
    with caplog.at_level("INFO", "metastore.serve"):
        lake.ask("/v1/config?warehouse=lake")
        lake.server.close()
    [line] = [each.getMessage() for each in caplog.records if hasattr(each, "request")]
    assert re.fullmatch(r"GET /v1/config: 200 in [\d.]+ ms", line)
