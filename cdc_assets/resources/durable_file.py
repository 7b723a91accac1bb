"""Small state under CDC_HOME: files that are whole, old or new, after a crash at any moment."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def replace_json(path: Path, data: Any) -> None:
    """`replace_bytes` with the data as JSON."""
    replace_bytes(path, json.dumps(data, indent=2).encode())


def read_json(path: Path) -> Any:
    """The data of such a file; None where there is none yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def replace_bytes(path: Path, data: bytes) -> None:
    """Replace the file. Its folder is made, as those above it, mode 0700; the file is 0600."""
    # One by one: `parents=True` gives those above the usual mode.
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        # Renamed without it, a file may be empty after the machine has lost its power.
        os.fsync(stream.fileno())
    Path(name).replace(path)
