"""Small state under CDC_HOME: files that are whole, old or new, after a crash at any moment.

State as JSON stands behind the number of its format: `{"cdc_assets": 1, "state": …}`.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import IO, Any

from cdc_assets.registry.errors import CdcAssetsError
from spark.errors import other_format

FORMAT = 1


def replace_json(path: Path, state: Any, *, durable: bool = True) -> None:
    """`replace_bytes` with the state as JSON."""
    replace_bytes(path, json.dumps({"cdc_assets": FORMAT, "state": state}, indent=2).encode() + b"\n", durable=durable)


def read_json(path: Path) -> Any:
    """The state that `replace_json` has written; None where there is no file yet.

    Raises:
        ValueError: the file is no JSON.
        CdcAssetsError: it has another format.
    """
    if not path.is_file():
        return None
    document = json.loads(path.read_text(encoding="utf-8"))
    number = document.get("cdc_assets") if isinstance(document, dict) else None
    if refusal := other_format(str(path), "state", number, FORMAT):
        raise CdcAssetsError(refusal)
    return document["state"]


def replace_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """`replace_file` in a folder that is made."""
    make_private_folder(path.parent)
    replace_file(path, data, durable=durable)


def make_private_folder(folder: Path) -> None:
    """Make the folder, and those above it that are not there, mode 0700."""
    # One by one: `parents=True` gives those above the usual mode.
    for parent in reversed((folder, *folder.parents)):
        if not parent.exists():
            parent.mkdir(mode=0o700, exist_ok=True)


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
