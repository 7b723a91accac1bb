"""One property of a Delta table, from the log's own files where they are reached.

`SHOW TBLPROPERTIES` plans and runs a job of Spark, 50 to 120 ms, and each fold asks. What was read once is kept by this process,
and only commits after it are looked at: a commit that changes properties has an action `metaData`, as the protocol has it
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#change-metadata).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.delta.delta_rs import open_delta
from spark.delta.identifiers import table_at
from spark.delta.local_log import LOG, names_after
from spark.lake.folder import LakeFolder, open_folder
from spark.lake.place import is_reached

_CHANGE = b'{"metaData":'


class _Known(NamedTuple):
    """The properties at a version. `mark` tells its commit from one of another table, which took this one's place."""

    version: int
    mark: str
    properties: Mapping[str, str]


_KNOWN: dict[str, _Known] = {}


def read_property(session: SparkSession, path: str, name: str) -> str | None:
    """Its text by now; None where the table has none."""
    if is_reached(path):
        from deltalake.exceptions import DeltaError

        try:
            _KNOWN[path] = known = _catch_up(open_folder(path), _KNOWN.get(path))
        except (OSError, DeltaError):
            # Not here, cleaned up meanwhile, or of a feature that delta-rs does not read.
            _KNOWN.pop(path, None)
        else:
            return known.properties.get(name)
    found = session.sql(f"SHOW TBLPROPERTIES {table_at(path)}").where(sf.col("key") == name).first()
    return None if found is None else str(found.value)


def _catch_up(folder: LakeFolder, known: _Known | None) -> _Known:
    if known is None or not _is_same(folder, known):
        table = open_delta(folder.path)
        known = _Known(table.version(), _mark(_commit(folder, table.version())), table.metadata().configuration)
    for name in names_after(folder, known.version):
        content = folder.read(f"{LOG}/{name}")
        changed = [line for line in content.splitlines() if line.startswith(_CHANGE)]
        properties = json.loads(changed[-1])["metaData"].get("configuration", {}) if changed else known.properties
        known = _Known(int(name[:20]), _mark(content), properties)
    return known


def _is_same(folder: LakeFolder, known: _Known) -> bool:
    try:
        return _mark(_commit(folder, known.version)) == known.mark
    except FileNotFoundError:
        return False


def _commit(folder: LakeFolder, version: int) -> bytes:
    return folder.read(f"{LOG}/{version:020}.json")


def _mark(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
