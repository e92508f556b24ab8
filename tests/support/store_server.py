"""What the servers of object stores in tests/services have in common."""

from __future__ import annotations

from typing import Protocol

from obstore.store import AzureStore, GCSStore, S3Store


class StoreServer(Protocol):
    """A server of one kind of store; keys are those of Hadoop's connector."""

    endpoint: str

    def hadoop(self, endpoint: str) -> dict[str, str]:
        """The keys of a client that reaches the server at ``endpoint``."""

    def hadoop_with_open_headers(self, endpoint: str) -> dict[str, str]:
        """The same, without a signature over headers that a proxy changes."""

    def root(self, name: str) -> str:
        """The location of the bucket ``name``."""

    def create(self, name: str) -> AzureStore | GCSStore | S3Store:
        """Make the bucket ``name``, and open it."""
