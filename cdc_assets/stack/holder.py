"""Who holds a home: asked by every verb, so nothing of the components is loaded for it."""

from __future__ import annotations

import fcntl

from cdc_assets.stack.home import Home


def supervisor_pid(home: Home) -> int | None:
    """The pid of the supervisor that holds this home, if there is one."""
    try:
        with home.lock.open("r", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or 0) or None
    except FileNotFoundError:
        return None
    return None
