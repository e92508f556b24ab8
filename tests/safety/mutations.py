"""Ways in which a text or a file can be broken, drawn by chance."""

from __future__ import annotations

import random
from typing import Final

HOSTILE: Final = (
    "'",
    '"',
    "`",
    "\\",
    "\0",
    "\n",
    "/*",
    "--",
    ";",
    "(" * 500,
    "[" * 500,
    "{" * 500,
    "${a}",
    "${?HOME}",
    "../../",
    "%s%n",
    "\ud7ff",
    "\uffff",
    "𝄞",
    "9" * 400,
    "-1",
    "1e999",
    "NaN",
    "NULL",
    "=>",
    "NOT " * 300,
    "x" * 20_000,
    "include ",
    "\t",
    "1 = 1 OR " * 200,
    "::",
    "@",
    "$",
    "~",
)


def broken_text(text: str, chance: random.Random) -> str:
    """``text`` with up to three wounds: something cut out, doubled, swapped, or hostile put in."""
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        start, end = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        end = min(end, start + chance.choice((1, 5, 40)))
        match chance.randrange(5):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:start]
            case 2:
                text = text[:end] + text[start:]
            case 3:
                text = text[:start] + chance.choice(HOSTILE) + text[start:]
            case _:
                text = text[:start] + chr(chance.choice((0, 9, 34, 39, 92, 123, 0x85, 0x202E, 0xFEFF))) + text[end:]
    return text


def broken_bytes(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    """What was done, and ``content`` cut short, with bits flipped, bytes written over, taken out or put in."""
    at = chance.randrange(len(content) + 1)
    # Headers and footers say how long the rest is.
    if content and chance.random() < 0.5:
        at = chance.choice((min(at, 200), max(0, len(content) - 200) + at % 200)) % (len(content) + 1)
    match chance.randrange(6):
        case 0:
            return f"cut at {at}", content[:at]
        case 1:
            changed = bytearray(content)
            for _ in range(chance.randint(1, 8)):
                if changed:
                    changed[(at + chance.randrange(16)) % len(changed)] ^= 1 << chance.randrange(8)
            return f"bits flipped at {at}", bytes(changed)
        case 2:
            return f"large numbers at {at}", content[:at] + b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + content[at + 9 :]
        case 3:
            return f"eight bytes out at {at}", content[:at] + content[at + 8 :]
        case 4:
            return f"noise at {at}", content[:at] + chance.randbytes(16) + content[at:]
        case _:
            return f"zeros at {at}", content[:at] + bytes(32) + content[at + 32 :]
