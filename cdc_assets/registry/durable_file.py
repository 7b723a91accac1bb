"""Small state under CDC_HOME: files that are whole, old or new, after a crash at any moment."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import IO, Any


def replace_json(path: Path, data: Any) -> None:
    """`replace_bytes` with the data as JSON."""
    replace_bytes(path, json.dumps(data, indent=2).encode())


def read_json(path: Path) -> Any:
    """The data of such a file; None where there is none yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def replace_bytes(path: Path, data: bytes) -> None:
    """`replace_file` in a folder that is made, as those above it, mode 0700."""
    # One by one: `parents=True` gives those above the usual mode.
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    replace_file(path, data)


def replace_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace the file in one step; 0600 from its first byte on. What is not `durable` may be empty after a power cut."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            if durable:
                flush(stream)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def flush(stream: IO[Any]) -> None:
    """Without it a file that is renamed may be empty after the machine has lost its power."""
    stream.flush()
    os.fsync(stream.fileno())
