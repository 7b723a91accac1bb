"""Small state under CDC_HOME, one JSON file each."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def replace_json(path: Path, data: Any) -> None:
    """Replace the file; it is whole, old or new, after a crash at any moment. Its folder is made, mode 0700."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(data, stream, indent=2)
        stream.flush()
        os.fsync(stream.fileno())
    Path(name).replace(path)
