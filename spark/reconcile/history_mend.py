"""A damaged history put right: the versions of its damaged keys, from all of bronze, in one commit.

Before the commit nothing has changed, and behind it everything has: killed anywhere, it can be run again. The history's place
in the log stays as it was. What bronze does not hold any more cannot be made again, so nothing is touched then.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from spark.delta.cluster import compute_once
from spark.delta.commits import silver_metadata
from spark.delta.conflicts import run_again
from spark.delta.identifiers import table_at
from spark.delta.lease import lend_to_spark
from spark.delta.log import silver_folded
from spark.delta.statement import execute
from spark.errors import NotComparableError
from spark.history.versions import VersionMerge
from spark.reconcile import history_proof
from spark.reconcile.history_again import Again, as_folded, versions_again
from spark.silver.fold import of_keys
from spark.specs import SilverSpec


def run(session: SparkSession, asked: Again) -> int:
    """How many keys were folded again, of all keys; `asked.folded` is what the history was seen to have folded.

    Raises:
        NotComparableError: bronze does not hold all that the history was made of, or the history has gone on since.
    """
    with lend_to_spark(asked.spec.path):
        return run_again(lambda: _run(session, replace(asked, part=0, parts=1)))


def _run(session: SparkSession, asked: Again) -> int:
    before = silver_folded(session, asked.spec.path)
    if before is None or before.topics != asked.folded.topics:
        raise NotComparableError(f"{asked.spec.path} has gone on since it was looked at: run it again")
    spec, _ = as_folded(session, asked.spec)
    again = replace(asked, spec=spec, folded=before)
    if why := history_proof.why_not_folded(session, again):
        raise NotComparableError(f"{why}; what is left of the history is kept as it is")
    newest = session.sql(f"DESCRIBE HISTORY {table_at(spec.path)} LIMIT 1").first()
    assert newest is not None
    there = history_proof.versions_there(session, again, newest.version).transform(compute_once)
    made = versions_again(session, again).transform(compute_once)
    keys = history_proof.wrong_keys(session, again, there, made).transform(compute_once)
    count = keys.count()
    if count:
        metadata = silver_metadata(uuid.uuid4().hex, before, {"refolded": count})
        _replace(session, spec, keys, of_keys(made, keys, spec), metadata)
    return count


def _replace(session: SparkSession, spec: SilverSpec, keys: DataFrame, made: DataFrame, metadata: str) -> None:
    """All that the history has of these keys goes, and what was made comes: one MERGE."""
    merge, view = VersionMerge(spec), f"cdc_mended_{uuid.uuid4().hex}"
    on = f"s.gone AND {merge.same_key}"
    sql = f"MERGE INTO {table_at(spec.path)} t USING {view} s ON {on} WHEN MATCHED THEN DELETE {merge.insert}"
    execute(session, sql, view=view, rows=merge.rows(made, keys).transform(compute_once), metadata=metadata)
