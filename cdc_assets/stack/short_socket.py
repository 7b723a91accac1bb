"""Where a Unix socket of the stack lies: below CDC_HOME, or where that path is too long, in a folder of 0700 in /tmp.

A socket's path has at most 107 bytes (sun_path in unix(7)); gRPC reads `%` in it as an escape. Whoever may not enter the folder
cannot connect: https://man7.org/linux/man-pages/man7/unix.7.html, "Pathname socket ownership and permissions".
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from cdc_assets.stack.errors import StackError
from cdc_assets.stack.home import Home, private_folder, write_private

LONGEST = 107
_SOCKET, _SHORT = "grpc.sock", "short_folder"


def socket_of(home: Home, component: str) -> Path:
    """The socket's path; its folder exists, and nobody else may enter it.

    Raises:
        StackError: also the system's folder of temporary files has a path that is too long.
    """
    own = private_folder(home.run(component))
    path = own / _SOCKET
    if _fits(path):
        return path
    short = own / _SHORT
    kept = Path(short.read_text(encoding="utf-8")) if short.exists() else None
    if kept is None or not _is_ours(kept):
        kept = Path(tempfile.mkdtemp(prefix="cdc-"))
        write_private(short, str(kept))
    path = kept / _SOCKET
    if not _fits(path):
        reason = f"{path} is no path for a Unix socket: it has more than {LONGEST} bytes, or a %; so has {own}"
        raise StackError(component, reason, "TMPDIR=/tmp ./cdc up, or a CDC_HOME with a shorter path")
    return path


def remove_short_folders(home: Home) -> None:
    """What lies outside of the home, before that is removed."""
    for short in (home.root / "run").glob(f"*/{_SHORT}"):
        if _is_ours(folder := Path(short.read_text(encoding="utf-8"))):
            (folder / _SOCKET).unlink(missing_ok=True)
            folder.rmdir()


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= LONGEST and "%" not in str(path)


def _is_ours(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
