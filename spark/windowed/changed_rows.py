"""Which windows have other rows in a newer version of silver, from the files that came and went between the two.

    rows in these files of the older version ─┐
    rows in these files of the newer version ─┴▶ what only one of them has ─▶ keys and windows

A file that is in both versions as it was holds the same rows. Whoever has written (a fold, a MERGE with deletion vectors,
OPTIMIZE, RESTORE), the log names the files. A row that was only written anew is in both, and takes itself out.
"""

from __future__ import annotations

import hashlib
import json
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.delta.identifiers import quote
from spark.delta.local_log import LOG
from spark.errors import SpecError
from spark.lake.folder import open_folder
from spark.lake.place import is_reached
from spark.specs import DELETED
from spark.windowed.aggregate import WINDOW, with_windows
from spark.windowed.declared_windows import START, WindowedSpec

MOST_FILES = 5_000
"""Of more, all rows are looked at."""


def silver_rows(session: SparkSession, spec: WindowedSpec, version: int) -> DataFrame:
    """The rows of one version that are not marked as deleted, in the columns that results depend on, and their file.

    Raises:
        SpecError: silver has not all of these columns.
    """
    rows = session.read.format("delta").option("versionAsOf", version).load(spec.silver_path)
    if missing := [name for name in spec.read if name not in rows.columns]:
        what = f"windows {spec.name} of {spec.source}/{spec.table}: silver has no column {', '.join(missing)}"
        raise SpecError(f"{what}; it has {', '.join(rows.columns)}")
    if DELETED in rows.columns:
        rows = rows.where(~sf.coalesce(sf.col(DELETED), sf.lit(False)))
    # The table itself may have a column of that name.
    file = sf.element_at(sf.split(rows.metadataColumn("_metadata").getField("file_path"), "/"), -1)
    return rows.select(*[sf.col(quote(name)) for name in spec.read], file.alias("_cdc_file"))


def file_changes(spec: WindowedSpec, after: int, upto: int) -> list[str] | None:
    """The names of the files that came or went; None where the log does not tell, or tells of too many."""
    if not is_reached(spec.silver_path) or upto < after:
        return None
    folder, found = open_folder(spec.silver_path), set[str]()
    try:
        for version in range(after + 1, upto + 1):
            for line in folder.lines(f"{LOG}/{version:020}.json"):
                action = json.loads(line)
                for told in (action.get("add"), action.get("remove")):
                    if told is not None:
                        found.add(unquote(told["path"]).rpartition("/")[2])
    except FileNotFoundError:
        return None
    return sorted(found) if len(found) <= MOST_FILES else None


def version_mark(spec: WindowedSpec, version: int) -> str:
    """What tells a version from the one of that number of a table made again; empty where its commit is not to be read."""
    if not is_reached(spec.silver_path):
        return ""
    try:
        content = open_folder(spec.silver_path).read(f"{LOG}/{version:020}.json")
    except FileNotFoundError:
        return ""
    return hashlib.sha256(content).hexdigest()[:16]


def window_changes(session: SparkSession, spec: WindowedSpec, files: list[str], *, after: int, upto: int) -> DataFrame:
    """Keys and starts of the windows whose rows are others: each once."""
    names = [quote(name) for name in spec.read]

    def of(version: int) -> DataFrame:
        rows = silver_rows(session, spec, version)
        return rows.where(sf.col("_cdc_file").isin(files)).select(*names)

    before, now = of(after), of(upto)
    either = before.exceptAll(now).unionByName(now.exceptAll(before))
    begins = sf.col(WINDOW).alias(START)
    return with_windows(either, spec).select(*[quote(name) for name in spec.by], begins).distinct()
