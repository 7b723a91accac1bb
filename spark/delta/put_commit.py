"""A commit of a Delta table, written by us: whole or not at all.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#delta-log-entries
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from spark.errors import CommitUncertainError, LakeStoreError, LeftToSparkError
from spark.lake.folder import LakeFolder, open_folder
from spark.lake.object_lease import refuse_lost

_TRIES, _SECONDS = 3, 0.5


def put_commit(path: str, version: int, actions: Sequence[dict[str, Any]]) -> None:
    """The actions as this version, which nobody else has made. One of them has to be ours alone, as a commitInfo with an
    operation id is: an object store may answer late or not at all, and then the log tells whose commit is there.

    Raises:
        LeftToSparkError: somebody else has committed it meanwhile.
        CommitUncertainError: the store does not say.
    """
    folder, name = open_folder(path), f"_delta_log/{version:020}.json"
    content = "".join(json.dumps(action) + "\n" for action in actions).encode()
    refuse_lost(path)
    if not _is_put(folder, name, content):
        raise LeftToSparkError(f"somebody else has committed version {version} of the table meanwhile")


def commit_info(
    operation: str, user_metadata: str, metrics: Mapping[str, object], parameters: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The first action of a commit of ours; its figures as texts, as Delta has them."""
    return {
        "commitInfo": {
            "timestamp": int(time.time() * 1000),
            "operation": operation,
            "operationParameters": dict(parameters or {}),
            "operationMetrics": {name: str(figure) for name, figure in metrics.items()},
            "engineInfo": "cdc_assets",
            "userMetadata": user_metadata,
        }
    }


def _is_put(folder: LakeFolder, name: str, content: bytes) -> bool:
    """Whether the file is there with this content. The same put again is refused by one that came through, and is safe."""
    for left in reversed(range(_TRIES)):
        try:
            return folder.put_if_absent(name, content) or folder.read(name) == content
        except (LakeStoreError, FileNotFoundError) as error:
            if not left:
                raise CommitUncertainError(f"{folder.path}: nobody says whether {name} is written: {error}") from error
            time.sleep(_SECONDS)
    raise AssertionError("unreachable")
