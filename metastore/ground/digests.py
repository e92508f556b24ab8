"""Makes a few bytes or a number from content, to tell two contents apart. They are stored: never change them.

No other module makes digests. A digest protects from accidents, not from forgery.
"""

from __future__ import annotations

from hashlib import blake2b


def digest(content: str | bytes, size: int = 16) -> bytes:
    """Returns ``size`` bytes that differ when ``content`` differs. Text may be invalid UTF-8, because paths can be."""
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    return blake2b(data, digest_size=size).digest()


def number_of(content: str | bytes, size: int) -> int:
    """Returns the digest of ``size`` bytes as a number of 8 * ``size`` bits."""
    return int.from_bytes(digest(content, size), "big")
