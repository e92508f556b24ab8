"""Azurite, Microsoft's own emulator of Azure's blob storage, for the session and on loopback: from npm's registry."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from obstore.store import AzureStore
from services.processes import free_port, serving
from services.programs import installed

RELEASE = "3.35.0"
INSTALL = (
    *("npm", "install", "--prefix", "{}", f"azurite@{RELEASE}"),
    *("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"),
)
ACCOUNT = "metastore"
ACCOUNT_KEY = base64.b64encode(b"made up for loopback, 32 bytes..").decode()
_API = "2021-12-02"


@dataclass(frozen=True)
class AzureServer:
    """The server at ``endpoint``, below which the account is a folder."""

    endpoint: str

    def hadoop(self, endpoint: str) -> dict[str, str]:
        """ABFS's keys for the server, or for what stands before it at ``endpoint``."""
        return {**_place(endpoint), f"fs.azure.account.key.{ACCOUNT}.dfs.core.windows.net": ACCOUNT_KEY}

    def hadoop_with_open_headers(self, endpoint: str) -> dict[str, str]:
        """Keys by which a request's headers may be changed on its way: a token signs none, the account's key does."""
        return {**_place(endpoint), f"fs.azure.sas.fixed.token.{ACCOUNT}.dfs.core.windows.net": self.sas_token()}

    def root(self, name: str) -> str:
        """The location of the container."""
        return f"abfs://{name}@{ACCOUNT}.dfs.core.windows.net"

    def create(self, name: str) -> AzureStore:
        """A new empty container, to look at directly."""
        url = f"{self.endpoint}/{ACCOUNT}/{name}?restype=container&{self.sas_token()}"
        with urlopen(Request(url, data=b"", method="PUT", headers={"x-ms-version": _API})):  # noqa: S310 - loopback
            return AzureStore(
                name,
                account_name=ACCOUNT,
                account_key=ACCOUNT_KEY,
                endpoint=f"{self.endpoint}/{ACCOUNT}",
                client_options={"allow_http": True},
            )

    def sas_token(self, permissions: str = "rwdlac") -> str:
        """A signature for all blobs of the account, as Azure's portal makes it."""
        given = {
            "sp": permissions,
            "ss": "b",
            "srt": "sco",
            "st": "2020-01-01T00:00:00Z",
            "se": "2099-01-01T00:00:00Z",
            "sip": "",
            "spr": "https,http",
            "sv": _API,
            "ses": "",
        }
        signed = "".join(f"{line}\n" for line in (ACCOUNT, *given.values()))
        signature = hmac.digest(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256)
        present = {name: value for name, value in given.items() if value}
        return urlencode({**present, "sig": base64.b64encode(signature).decode()})


def _place(endpoint: str) -> dict[str, str]:
    return {"fs.azure.abfs.endpoint": endpoint.rpartition("://")[2], "fs.azure.always.use.https": "false"}


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """The server, with an account of our own."""
    folder, port = tmp_path_factory.mktemp("azurite"), free_port()
    program = installed(f"azurite-{RELEASE}", INSTALL, hint="apt-get install nodejs npm")
    command = ["env", f"AZURITE_ACCOUNTS={ACCOUNT}:{ACCOUNT_KEY}", str(program / "node_modules/.bin/azurite-blob")]
    command += ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--silent", "--disableTelemetry"]
    with serving(command, port, folder):
        yield AzureServer(f"http://127.0.0.1:{port}")
