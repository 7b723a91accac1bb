"""The one folder that holds all local state (`CDC_HOME`): folders 0700, files 0600, nothing outside it but the jar cache.

config.json   ports, number of brokers: remembered between starts     stack.json  addresses of the running stack
state.json    what the supervisor sees                                supervisor.lock  held by the running one
secrets/      passwords of the sources (Connect may read these)       private/    the stack's own passwords
logs/ data/ run/ dagster/ lake/
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_assets.durable_file import flush, replace_file


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
        """Addresses for clients, read by `cdc_assets.settings`."""
        return self.root / "stack.json"

    @property
    def lock(self) -> Path:
        """Held (flock) by the running supervisor."""
        return self.root / "supervisor.lock"

    @property
    def spark_names(self) -> Path:
        """That names in Spark's catalog were asked for; not there where they were not (lake_sql.kept_names)."""
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


def write_json(file: Path, value: Any, *, durable: bool = True) -> None:
    """As `write_private`, as JSON."""
    write_private(file, json.dumps(value, indent=2) + "\n", durable=durable)


def read_json(file: Path) -> dict[str, Any]:
    """A JSON file's object; empty where there is no file."""
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


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
