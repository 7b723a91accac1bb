"""Small files made one, and rows that are gone taken out: new files, and a commit that changes no data; and the figures
of a table that say whether that is due.

Rows are read and written without the table's lease; only the commit takes it, for a moment. Where a writer has
changed one of the files meanwhile, the new file is thrown away and the writer's commit stands.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark.errors import LeftToSparkError, TableHeldError, quantity
from spark.table.commit_metadata import metadata_text
from spark.table.data_files import FEATURE, AddFile, read_masks, read_rows, remove_action, write_file
from spark.table.delta_rs import open_delta
from spark.table.delta_table import LiveTable, commit_info, table_of, vector_key
from spark.table.needed_versions import KIND
from spark.table.table_folder import LakeFolder, open_folder
from spark.table.write_lease import lend_to_task
from spark.upkeep.log_expiry import LogFiles

SMALL_BYTES = 16 << 20
"""A file below that is small: readers pay for each file."""


@dataclass(frozen=True)
class TableFigures:
    """Of one version: `dead_rows` are rows that deletion vectors take away; `commits` are those that the log still has."""

    version: int
    files: int
    small_files: int
    bytes: int
    rows: int
    dead_rows: int
    commits: int
    since_checkpoint: int
    log_bytes: int

    def to_dict(self) -> dict[str, int]:
        """Each figure by its name."""
        return asdict(self)


def figures_of(live: LiveTable, log: LogFiles) -> TableFigures:
    """Of a table as it is now, from its log alone."""
    files = list(live.files.values())
    rows = sum(rows_of_file(file) for file in files)
    dead = sum(rows_gone(file) for file in files)
    return TableFigures(
        version=live.version,
        files=len(files),
        small_files=sum(is_small_file(file) for file in files),
        bytes=sum(int(file["size"]) for file in files),
        rows=rows - dead,
        dead_rows=dead,
        commits=len(log.commits),
        since_checkpoint=log.since_checkpoint,
        log_bytes=log.bytes,
    )


def is_small_file(file: AddFile) -> bool:
    """Whether the file should be made one with others."""
    return int(file["size"]) < SMALL_BYTES


def rows_of_file(file: AddFile) -> int:
    """Rows that the file holds, gone ones too; 0 where nobody has told."""
    stats_text = file.get("stats")
    stats: Mapping[str, Any] = json.loads(stats_text) if stats_text else {}
    return int(stats.get("numRecords") or 0)


def rows_gone(file: AddFile) -> int:
    """Rows of the file that its deletion vector takes away."""
    vector = file.get("deletionVector")
    return int(vector["cardinality"]) if vector else 0


MOST_SMALL = 16
"""So many small files of a table may stand."""
BIN_BYTES, BIN_BYTES_OF_COLUMNS = 64 << 20, 512 << 20
"""What one new file is made of at most: bytes on disk, and bytes of its columns before compression, which are held in memory."""
GONE_SHARE = 0.2
"""A file of which more is gone is written anew."""
LEASE_SECONDS = 1.0
_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz", FEATURE})
_LATER = frozenset({"timestamp", "position", "_cdc_position"})
_STATS_COLUMNS = "delta.dataSkippingStatsColumns"


@dataclass(frozen=True)
class Rewritten:
    """What a run of rewriting did: files before and after, and why some stayed as they were."""

    commits: int = 0
    files: int = 0
    written: int = 0
    given_up: str = ""

    def then(self, more: Rewritten) -> Rewritten:
        """What both have done, as one."""
        return Rewritten(self.commits + more.commits, self.files + more.files, self.written + more.written, more.given_up)


def only_by_spark(live: LiveTable) -> str:
    """The features of Delta that the table has and that are not written here; empty where it has none."""
    named = {*(live.protocol.get("writerFeatures") or ()), *(live.protocol.get("readerFeatures") or ())}
    others = sorted(named - _FEATURES)
    if others or (not named and int(live.protocol.get("minWriterVersion", 0)) > 2):
        return f"Spark writes it: {', '.join(others) or live.protocol}"
    return "Spark writes it: it has partitions" if live.metadata.get("partitionColumns") else ""


@contextmanager
def turn(path: str) -> Iterator[None]:
    """The table's turn, for a commit.

    Raises:
        LeftToSparkError: a writer has it; nothing of what was to be committed is.
    """
    try:
        with lend_to_task(path, seconds=LEASE_SECONDS):
            yield
    except TableHeldError as error:
        raise LeftToSparkError(str(error)) from error


def plan_bins(files: Sequence[AddFile]) -> list[list[AddFile]]:
    """The files that are made one each time, oldest first: those of which much is gone, and small ones if they are many."""
    many = sum(map(is_small_file, files)) > MOST_SMALL
    chosen = [file for file in files if _is_worn(file) or (many and is_small_file(file))]
    bins: list[list[AddFile]] = []
    room = 0
    for file in sorted(chosen, key=lambda candidate: (int(candidate["modificationTime"]), candidate["path"])):
        if int(file["size"]) > room:
            bins.append([])
            room = BIN_BYTES
        bins[-1].append(file)
        room -= int(file["size"])
    return [files_of_bin for files_of_bin in bins if len(files_of_bin) > 1 or _is_worn(files_of_bin[0])]


def _is_worn(file: AddFile) -> bool:
    return rows_gone(file) > GONE_SHARE * max(1, rows_of_file(file))


def rewrite(path: str, live: LiveTable) -> Rewritten:
    """Make the files of each bin one, in one commit each, until a writer has come before one.

    The rows are read and written without the table's lease. What a writer has come before, the next time does.
    """
    folder = open_folder(path)
    bins = list(_small_enough(folder, plan_bins(list(live.files.values()))))
    has_vectors = any(file.get("deletionVector") for file in live.files.values())
    masks = read_masks(open_delta(path, version=live.version)) if has_vectors else {}
    done = Rewritten()
    for files in bins:
        made = _new_file(folder, live, files, masks)
        try:
            replace_files(path, live, files, [] if made is None else [made], operation="OPTIMIZE")
        except LeftToSparkError as reason:
            if made is not None:
                folder.delete(made["path"])
            return Rewritten(done.commits, done.files, done.written, str(reason))
        done = Rewritten(done.commits + 1, done.files + len(files), done.written + (made is not None))
    return done


def _small_enough(folder: LakeFolder, bins: Sequence[Sequence[AddFile]]) -> Iterator[list[AddFile]]:
    """The bins, cut where their columns would need more memory than they may."""
    for files in bins:
        group: list[AddFile] = []
        room = BIN_BYTES_OF_COLUMNS
        for file in files:
            parquet = pq.read_metadata(unquote(file["path"]), filesystem=folder.filesystem)
            size = sum(parquet.row_group(i).total_byte_size for i in range(parquet.num_row_groups))
            if group and size > room:
                yield group
                group, room = [], BIN_BYTES_OF_COLUMNS
            group.append(file)
            room -= size
        if len(group) > 1 or (group and _is_worn(group[0])):
            yield group


def _new_file(folder: LakeFolder, live: LiveTable, files: Sequence[AddFile], masks: Mapping[str, np.ndarray]) -> AddFile | None:
    """The rows that are there of these files as one file, which no commit names yet; None where no row is.

    They are sorted by the columns that readers skip files by: bronze by table and offset, silver by key.
    """
    schema = schema_of(live)
    rows = pa.concat_tables(read_rows(folder, file, masks.get(unquote(file["path"])), schema) for file in files)
    if not rows.num_rows:
        return None
    bounded = columns_with_bounds(live, schema)
    by = [(name, "ascending") for name in bounded or () if name not in _LATER]
    return write_file(folder, rows.sort_by(by) if by else rows, bounded)


def schema_of(live: LiveTable) -> pa.Schema:
    """The table's columns, by Arrow."""
    from deltalake import Schema

    return pa.schema(Schema.from_json(live.metadata["schemaString"]).to_arrow())


def columns_with_bounds(live: LiveTable, schema: pa.Schema) -> list[str] | None:
    """The columns of which the table's files tell bounds, as its property says."""
    names = (live.metadata.get("configuration") or {}).get(_STATS_COLUMNS)
    if not names:
        return None
    return [name for name_text in names.split(",") if (name := name_text.strip().strip("`")) in schema.names]


def replace_files(
    path: str, live: LiveTable, files: Sequence[AddFile], added: Sequence[AddFile], *, operation: str, also: Sequence[Any] = ()
) -> None:
    """One commit: `added` for `files`, which `live` has, and the actions `also`; `live` is as new as that afterwards.

    Raises:
        LeftToSparkError: a writer has changed one of them, or the table itself, or writes just now; nothing is committed.
    """
    changes = operation != "OPTIMIZE"
    removed = [remove_action(file, changes=changes) for file in files]
    with turn(path):
        metadata, protocol = live.metadata, live.protocol
        table_of(path).catch_up(live)
        if (live.metadata, live.protocol) != (metadata, protocol):
            raise LeftToSparkError("the table itself was changed meanwhile")
        for file in files:
            now = live.files.get(file["path"])
            if now is None or vector_key(now) != vector_key(file):
                raise LeftToSparkError(f"a writer has changed {quantity(1, 'file')} meanwhile")
        metrics = {"numRemovedFiles": len(files), "numAddedFiles": len(added)}
        info = own_commit_info(operation, metrics, {"predicate": "[]"})
        table_of(path).put(
            live.version + 1, [info, *also, *removed, *({"add": {**file, "dataChange": changes}} for file in added)]
        )
        table_of(path).catch_up(live)


def own_commit_info(operation: str, metrics: Mapping[str, int], parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The first action of a commit of maintenance, which says nothing of what the table holds."""
    return commit_info(operation, metadata_text(KIND, {"operation_id": uuid.uuid4().hex}), metrics, parameters)
