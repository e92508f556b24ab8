"""The user of this process: owner of new objects, and the user that clusters see if the configuration names none."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Returns the user's name, or the user's number if it has no name, as often in containers. Never raises."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
