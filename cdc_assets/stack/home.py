"""The one folder that holds all local state (`CDC_HOME`): folders 0700, files 0600, nothing outside it but the jar cache.

config.json   ports, number of brokers: remembered between starts     stack.json  addresses of the running stack
state.json    what the supervisor sees                                supervisor.lock  held by the running one
secrets/      passwords of the sources (Connect may read these)       private/    the stack's own passwords
source-state/ what is remembered of each source (cdc_assets.registry.source_state)
logs/ data/ run/ dagster/ lake/

Also who holds the home now, and where a Unix socket lies: below it, or in a folder of 0700 in /tmp where that path is longer
than the 107 bytes of sun_path in unix(7); gRPC reads `%` in it as an escape. Whoever may not enter the folder cannot connect.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_assets.registry import durable_file
from cdc_assets.registry.durable_file import flush, replace_file
from cdc_assets.stack.stack_errors import StackError


@dataclass(frozen=True)
class Home:
    """Paths below one CDC_HOME."""

    root: Path

    @property
    def config(self) -> Path:
        """What was chosen at the first start."""
        return self.root / "config.json"

    @property
    def state(self) -> Path:
        """Health of every component, written by the supervisor."""
        return self.root / "state.json"

    @property
    def stack(self) -> Path:
        """Addresses for clients, read by `cdc_assets.registry.settings`."""
        return self.root / "stack.json"

    @property
    def lock(self) -> Path:
        """Held (flock) by the running supervisor."""
        return self.root / "supervisor.lock"

    @property
    def spark_names(self) -> Path:
        """That names in Spark's catalog were asked for; not there where they were not (reading.spark_catalog)."""
        return self.root / "spark_names.json"

    @property
    def secrets(self) -> Path:
        """Passwords of source databases: the folder that the core Connect worker may read."""
        return self.root / "secrets"

    @property
    def lake(self) -> Path:
        """The folder of the Delta tables."""
        return self.root / "lake"

    def data(self, component: str) -> Path:
        """What a component keeps over restarts."""
        return self.root / "data" / component

    def run(self, component: str) -> Path:
        """What is generated anew at each start."""
        return self.root / "run" / component

    @property
    def loaded(self) -> Path:
        """What the code server has loaded: copies of the registry, and a note on the user's own definitions."""
        return self.run("dagster-code") / "registry"

    def log(self, component: str) -> Path:
        """The component's log file."""
        return self.root / "logs" / f"{component}.log"

    def create(self) -> Home:
        """Make the folders, private to this user."""
        for folder in (
            self.root,
            self.secrets,
            *(self.root / name for name in ("private", "logs", "data", "run", "dagster", "lake")),
        ):
            private_folder(folder)
        return self

    def secret(self, name: str) -> str:
        """A source's password, generated on first use."""
        return _generate_once(self.secrets / name)

    def private(self, name: str) -> str:
        """A password of the stack itself, generated on first use."""
        return _generate_once(self.private_file(name))

    def private_file(self, name: str) -> Path:
        """Where that password is, once it was generated."""
        return self.root / "private" / name


def private_folder(folder: Path) -> Path:
    """The folder, existing, 0700."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def write_private(file: Path, text: str, *, durable: bool = True) -> None:
    """As `replace_file`, of a text."""
    replace_file(file, text.encode(), durable=durable)


def read_json(file: Path) -> dict[str, Any]:
    """The object in a state file; empty where there is no file.

    Raises:
        CdcAssetsError: the file has another format.
    """
    return dict(durable_file.read_json(file) or {})


def write_once(file: Path, text: str) -> str:
    """The file's text: this one if there was none, whoever else is writing it at the same time."""
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            flush(stream)
        with contextlib.suppress(FileExistsError):
            # Unlike a rename, a link never replaces what the other writer has made.
            os.link(name, file)
    finally:
        Path(name).unlink(missing_ok=True)
    return file.read_text(encoding="utf-8")


def _generate_once(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        # Letters, digits, - and _ only, and no newline: Connect's provider hands the file on byte for byte.
        return write_once(file, secrets.token_urlsafe(24))


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


LONGEST = 107
_SOCKET, _SHORT = "grpc.sock", "short_folder"


def socket_of(home: Home, component: str) -> Path:
    """The socket's path; its folder exists, and nobody else may enter it.

    https://man7.org/linux/man-pages/man7/unix.7.html, "Pathname socket ownership and permissions".

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
        status = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
