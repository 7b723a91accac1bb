"""A commit of a Delta table on a local disk, written by us: whole or not at all.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#delta-log-entries
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark.errors import LeftToSparkError


def put_commit(path: str, version: int, actions: Sequence[dict[str, Any]]) -> None:
    """The actions as this version: a link is refused where the name is taken.

    Raises:
        LeftToSparkError: somebody else has committed it meanwhile.
    """
    log = Path(path, "_delta_log")
    log.mkdir(exist_ok=True)
    draft = log / f".{uuid.uuid4().hex}.tmp"
    draft.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
    try:
        os.link(draft, log / f"{version:020}.json")
    except FileExistsError as error:
        raise LeftToSparkError(f"somebody else has committed version {version} of the table meanwhile") from error
    finally:
        draft.unlink()
