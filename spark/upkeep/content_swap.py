"""What a table holds, replaced by one commit: its files, columns, properties and protocol; and its quarantine, made to
agree.

Path and id of the table stay, and its older versions too: time travel and an undo read them. Files of another folder
are moved in before; killed in between, no commit names them, and maintenance removes them. What the shadow could not
fold comes into quarantine before silver is replaced, and what is folded now is marked behind it: each can be done
again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.silver import quarantine_table
from spark.silver.column_ledger import PROPERTY, TRACKED
from spark.specs import SilverSpec
from spark.table.data_files import remove_action
from spark.table.delta_table import LiveTable, commit_info, table_of, vector_key
from spark.table.identifiers import table_at
from spark.table.spark_session import compute_once, execute
from spark.table.table_folder import LakeFolder, open_folder
from spark.upkeep.log_expiry import files_of
from spark.upkeep.replay_spec import SILVER, ReplaySpec

_NAMED_READERS, _NAMED_WRITERS = 3, 7
"""The versions from which on features are named one by one."""
_BY_WRITER = {2: ("appendOnly", "invariants"), 3: ("checkConstraints",), 4: ("changeDataFeed", "generatedColumns")}
_BY_WRITER |= {5: ("columnMapping",), 6: ("identityColumns",)}
_BY_READER = {2: ("columnMapping",)}


def join_protocols(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The lowest protocol that covers both; an empty one is that of no table.

    Features are those of both:
    https://github.com/delta-io/delta/blob/master/PROTOCOL.md#valid-feature-names-in-table-features
    """
    if not one or not other:
        return dict(one or other)
    reader, writer = (max(int(protocol[name]) for protocol in (one, other)) for name in ("minReaderVersion", "minWriterVersion"))
    joined: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    if writer < _NAMED_WRITERS:
        return joined
    readers = _features(one, "reader", _BY_READER) | _features(other, "reader", _BY_READER)
    writers = _features(one, "writer", _BY_WRITER) | _features(other, "writer", _BY_WRITER) | readers
    if reader >= _NAMED_READERS:
        joined["readerFeatures"] = sorted(readers)
    joined["writerFeatures"] = sorted(writers)
    same = next((protocol for protocol in (one, other) if _as_sets(protocol) == _as_sets(joined)), joined)
    return dict(same)


def _features(protocol: Mapping[str, Any], who: str, by_version: Mapping[int, tuple[str, ...]]) -> set[str]:
    named = protocol.get(f"{who}Features")
    if named is not None:
        return set(named)
    version = int(protocol[f"min{who.title()}Version"])
    return {feature for since, features in by_version.items() if since <= version for feature in features}


def _as_sets(protocol: Mapping[str, Any]) -> dict[str, Any]:
    return {name: set(value) if isinstance(value, list) else value for name, value in protocol.items()}


_OF_COLUMNS = frozenset({"delta.dataSkippingStatsColumns", PROPERTY, TRACKED})
_MAPPING = "delta.columnMapping."


def move_files(source: str, target: str, content: LiveTable) -> None:
    """The files of a table's content from its folder into another one of the same store."""
    above, below = _common_folder(source, target)
    folder = open_folder(above)
    names = sorted({name for file in content.files.values() for name in files_of(file)})
    folder.map(lambda name: _move(folder, f"{below[0]}/{name}", f"{below[1]}/{name}"), names)


def _move(folder: LakeFolder, source: str, target: str) -> None:
    # A file that is there already was moved by an attempt before this one.
    from pyarrow.fs import FileType

    if folder.filesystem.get_file_info(target).type == FileType.NotFound:
        folder.filesystem.create_dir(target.rpartition("/")[0], recursive=True)
        folder.filesystem.move(source, target)


def _common_folder(one: str, other: str) -> tuple[str, tuple[str, str]]:
    """The deepest folder that holds both, and their places below it."""
    folders = [one.split("/"), other.split("/")]
    depth = next(i for i, (a, b) in enumerate(zip(*folders, strict=False)) if a != b)
    return "/".join(folders[0][:depth]), ("/".join(folders[0][depth:]), "/".join(folders[1][depth:]))


def put_content(path: str, content: LiveTable, user_metadata: str) -> int:
    """One commit after which the table holds just this; its files are in the table's folder. The version of the commit.

        remove every file of now ─┐
        metaData, protocol        ├▶ one JSON file of the log
        add every file of then   ─┘

    Nobody reads anything between.

    Raises:
        LeftToSparkError: somebody else has committed meanwhile; nothing has changed.
    """
    now = table_of(path).snapshot() if table_of(path).commits(1) else LiveTable()
    table_of(path).put(now.version + 1, actions(now, content, user_metadata))
    return now.version + 1


def actions(now: LiveTable, content: LiveTable, user_metadata: str) -> list[dict[str, Any]]:
    """The actions that lead from `now` to the content."""
    protocol, metadata = join_protocols(now.protocol, content.protocol), _metadata(now, content)
    same = {path for path, file in content.files.items() if path in now.files and vector_key(now.files[path]) == vector_key(file)}
    gone = [file for path, file in now.files.items() if path not in same]
    come = [file for path, file in content.files.items() if path not in same]
    rows = sum(json.loads(file["stats"])["numRecords"] for file in come if file.get("stats"))
    metrics = {"numOutputRows": rows, "numAddedFiles": len(come), "numRemovedFiles": len(gone)}
    return [
        commit_info("REPLAY", user_metadata, metrics),
        *([{"protocol": protocol}] if protocol != now.protocol else []),
        *([{"metaData": metadata}] if metadata != now.metadata else []),
        *(remove_action(file) for file in gone),
        *({"add": {**file, "dataChange": True}} for file in come),
    ]


def _metadata(now: LiveTable, content: LiveTable) -> dict[str, Any]:
    # Id and properties stay the live table's, so that time travel and readers go on; but for those that are of its columns.
    if not now.metadata:
        return content.metadata
    own = now.metadata.get("configuration") or {}
    kept = {name: value for name, value in own.items() if name not in _OF_COLUMNS and not name.startswith(_MAPPING)}
    configuration = {**(content.metadata.get("configuration") or {}), **kept}
    return {**content.metadata, "id": now.metadata["id"], "configuration": configuration}


_SAME = " AND ".join(f"t.{name} = s.{name}" for name in quarantine_table.IDENTITY)
_TOLD = tuple(name for name in quarantine_table.UPDATED if name != "built_on")


def count_open(session: SparkSession, replay: ReplaySpec) -> int:
    """The records that the shadow could not fold."""
    shadow = _shadow(replay)
    return (
        quarantine_table.table(session, shadow).where(quarantine_table.OPEN).count()
        if quarantine_table.exists(session, shadow)
        else 0
    )


def add_found(session: SparkSession, replay: ReplaySpec, *, built_on: int) -> None:
    """Put the shadow's open records into the live quarantine; `built_on` is the version of silver that is to be replaced.

    Written before silver, as by an ordinary run; it can be done again.
    """
    shadow, live = _shadow(replay), replay.silver
    if not count_open(session, replay):
        return
    records = quarantine_table.table(session, shadow).where(quarantine_table.OPEN)
    records = records.withColumn("built_on", sf.lit(built_on).cast("bigint")).select(*quarantine_table.COLUMNS)
    if not quarantine_table.exists(session, live):
        records.coalesce(1).write.format("delta").mode("error").options(**quarantine_table.PROPERTIES).save(live.quarantine)
        return
    changed = ", ".join(f"t.{name} = s.{name}" for name in _TOLD)
    inserted = ", ".join(f"s.{name}" for name in quarantine_table.COLUMNS)
    sql = (
        f"MERGE INTO {table_at(live.quarantine)} t USING {{view}} s ON {_SAME} "
        f"WHEN MATCHED AND t.dropped_at IS NULL THEN UPDATE SET {changed} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(quarantine_table.COLUMNS)}) VALUES ({inserted})"
    )
    view = f"cdc_replayed_{uuid.uuid4().hex}"
    execute(session, sql.format(view=view), view=view, rows=records.transform(compute_once))


def no_longer_open(session: SparkSession, replay: ReplaySpec) -> DataFrame:
    """The identities of the open records that the shadow has folded."""
    shadow, live = _shadow(replay), replay.silver
    if not quarantine_table.exists(session, live):
        return session.range(0)
    rows = quarantine_table.table(session, live).where(quarantine_table.OPEN).select(*quarantine_table.IDENTITY)
    if not quarantine_table.exists(session, shadow):
        return rows
    still = quarantine_table.table(session, shadow).where(quarantine_table.OPEN).select(*quarantine_table.IDENTITY)
    return rows.join(sf.broadcast(still), list(quarantine_table.IDENTITY), "left_anti")


def mark_folded(session: SparkSession, replay: ReplaySpec) -> None:
    """Say of those records that they are folded."""
    rows = no_longer_open(session, replay).transform(compute_once)
    if rows.isEmpty():
        return
    view = f"cdc_replayed_{uuid.uuid4().hex}"
    sql = (
        f"MERGE INTO {table_at(replay.silver.quarantine)} t USING {view} s ON {_SAME} "
        "WHEN MATCHED THEN UPDATE SET t.redriven_at = current_timestamp()"
    )
    execute(session, sql, view=view, rows=rows)


def _shadow(replay: ReplaySpec) -> SilverSpec:
    return replay.shadow_of(replay.silver, SILVER)
