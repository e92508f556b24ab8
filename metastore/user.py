"""Who runs this: owner of what is made, and the user that clusters see if no configuration names another."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """The user's name; the number of one that has none, as containers often give it. Never raises."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
