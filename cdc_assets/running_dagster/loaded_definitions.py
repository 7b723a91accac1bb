"""Which definitions of the user's own the embedded code server has loaded, as it notes itself; is that what is named now?

{"named": "/home/me/gold.py", "file": "/home/me/gold.py", "digest": "3f…", "assets": ["gold/cities"], "error": ""}
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from cdc_assets import settings

_NOTE = "definitions.json"


@dataclass(frozen=True)
class LoadedDefinitions:
    """`named` as CDC_DEFINITIONS had it, empty: none. `file` and its `digest`, the `assets` that came, or an `error`."""

    named: str = ""
    file: str = ""
    digest: str = ""
    assets: tuple[str, ...] = ()
    error: str = ""

    @property
    def is_newest(self) -> bool:
        """The file holds what was loaded."""
        return self.digest == digest_of(self.file)


def digest_of(file: str) -> str:
    """Of what the file holds; empty where there is none."""
    path = Path(file)
    return hashlib.sha256(path.read_bytes()).hexdigest() if file and path.is_file() else ""


def note_loaded(folder: Path, loaded: LoadedDefinitions) -> None:
    """Leave it where the command line finds it; `folder` is the server's own."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = folder / f".{_NOTE}"
    draft.write_text(json.dumps(asdict(loaded)), encoding="utf-8")
    draft.replace(folder / _NOTE)


def read_loaded(folder: Path) -> LoadedDefinitions | None:
    """None: no server has noted anything."""
    try:
        noted = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return LoadedDefinitions(**{**noted, "assets": tuple(noted["assets"])})


def definitions_news(folder: Path) -> str:
    """What CDC_DEFINITIONS names and the server has not loaded, as one clause; empty where they agree."""
    loaded, named = read_loaded(folder), settings.user_definitions() or ""
    if loaded is None:
        return ""
    if loaded.named != named:
        has = f"Dagster has {loaded.named}" if loaded.named else "Dagster has no definitions of yours"
        return f"CDC_DEFINITIONS={named} is not loaded, {has}"
    if not loaded.is_newest:
        return f"{loaded.file} has changed since Dagster loaded it"
    return loaded.error
