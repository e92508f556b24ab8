"""The one way to a short text or number that tells two contents apart. It is stored: it must never change.

It protects from accidents, not from forgery.
"""

from __future__ import annotations

from hashlib import blake2b


def digest(content: str | bytes, size: int = 16) -> bytes:
    """``size`` bytes that differ when ``content`` does. A text may be one that is no UTF-8, as paths can be."""
    said = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    return blake2b(said, digest_size=size).digest()


def number_of(content: str | bytes, size: int) -> int:
    """The same as a number, of 8 bits for each of ``size``."""
    return int.from_bytes(digest(content, size), "big")
