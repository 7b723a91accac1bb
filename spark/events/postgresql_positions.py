"""PostgreSQL's positions: one fixed-width string whose plain order is the order of truth for a key.

    0000.000000000198a350.1.000000000198a3b8.0000000000000010
    epoch  anchor          |  lsn              offset in the topic partition     (each part hexadecimal)
                           kind: 0 snapshot row, 1 streamed change

Each part is a number of fixed width, so comparing positions as strings compares every part as a number.

Why not simply the LSN. What Debezium 3.7 sends for PostgreSQL (observed on real events, ADR 0003), where
`source.sequence` is `[end of the last commit streamed before this transaction, lsn of this change]`:

    event                                          lsn           sequence
    row of the initial snapshot, taken at S        S             [null, S]
    first transaction streamed after it            any, may < S  [null, lsn]
    every later transaction                        lsn           [C, lsn]      C grows in commit order
    row of an incremental snapshot                 null          [C, C]
    row of a blocking snapshot, taken at S         S             [S, S]
    first transaction streamed after that          may be < S    [S, lsn]

The LSN of a change is where it was written, not where its transaction committed. Among streamed changes of one key
row locks make both orders agree. But a transaction that was open when a snapshot was taken has its changes *below*
S and commits *after* it: the snapshot does not contain them, so they must beat the snapshot's rows. Hence:

* `anchor` is a log position at or before the event's commit, and at or after every commit that precedes it:
  C for streamed changes, S for rows of a snapshot, C for rows of an incremental one.
* `kind` puts a snapshot's rows below all changes streamed after it (same anchor) and above all earlier ones (lower
  anchor): a snapshot row never overwrites a newer change nor revives a row that was deleted later; a later
  re-snapshot supersedes what was streamed before it. The rows of an incremental snapshot are emitted behind the
  commit C and reflect at least everything up to it; a change of the same key streamed afterwards wins, and it holds
  the same state or a newer one.
* the changes of the one transaction that carries no C (`[null, lsn]`) are anchored at the newest snapshot seen
  before them *in their topic partition*: max(lsn, S). All rows of a key are in that partition, so there is nothing
  else they could be compared with; without any snapshot row there, their own lsn is above every earlier commit that
  touched the key (row locks), which is all that the anchor promises. `S` per partition travels in bronze's commit
  metadata, so the position does not depend on how the log was cut into batches, and so does the `S` that such a transaction
  had when it first came: delivered again behind a later snapshot, it stays below that (spark.bronze.batch_records).
* rows of a temporary connector (onboarding) carry in a header the commit from which the source's own connector streams
  their table on, and are anchored there (spark.bronze.batch_records).
* `lsn` orders the changes of one transaction, `offset` the rows that share an LSN (COPY, multi-row INSERT).

A replayed stretch (at-least-once delivery) repeats anchor and lsn with higher offsets: an older change that comes
again stays below the newer one, whatever its offset. `epoch` comes first, for log positions that start again (restore,
failover, recreated topic).

Not covered: rows that vanished while no connector was watching leave no event, and a re-snapshot has no row for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark.events.positions import EPOCH_WIDTH, NUMBER_WIDTH, Connector, Field, Place, hexadecimal, join_parts, kind


def last_commit(sequence: Column) -> Column:
    """The first part of `source.sequence`: the end of the last commit streamed before; null where there is none."""
    # NULL where there is none: a try_cast that fails builds an exception for each row of a snapshot (ADR 71).
    return sf.nullif(sf.regexp_extract(sequence, r'^\["?(\d+)', 1), sf.lit("")).try_cast("bigint")


def change_lsn(sequence: Column) -> Column:
    """The second part of `source.sequence`: where the change was written."""
    return sf.nullif(sf.regexp_extract(sequence, r'"?(\d+)"?\]$', 1), sf.lit("")).try_cast("bigint")


def of_source(field: Field, op: Column) -> Place:
    """What the place follows from: `place(anchor=coalesce(last_commit, lsn))`, which holds for every event but the changes of
    the first transaction after an initial snapshot."""
    commit = last_commit(field("sequence"))
    lsn = sf.coalesce(field("lsn"), change_lsn(field("sequence")), commit)
    return Place(last_commit=commit, lsn=lsn)


def place(*, anchor: Column, op: Column, lsn: Column) -> Column:
    """Null where any part is."""
    return join_parts(hexadecimal(anchor, NUMBER_WIDTH), kind(op), hexadecimal(lsn, NUMBER_WIDTH))


@dataclass(frozen=True)
class RecordPlace:
    """Columns of a record: where it is in Kafka, and its transaction; where `tx_id` is null, the event stands for itself."""

    topic: Column
    partition: Column
    offset: Column
    tx_id: Column


def anchor(
    lsn: Column,
    of: RecordPlace,
    *,
    snapshots: Mapping[tuple[str, int], list[tuple[int, int]]],
    openings: Mapping[tuple[str, int], Mapping[str, int]],
) -> Column:
    """max(lsn, newest snapshot before the event's transaction in its partition), for a change without a last commit.

    Args:
        lsn: of the change.
        of: the change's record.
        snapshots: per (topic, partition) the snapshots as (first offset, LSN).
        openings: per (topic, partition) and transaction the LSN of the snapshot, 0 for none.
    """
    rules = []
    for (name, number), seen in snapshots.items():
        highest = 0
        for first_offset, snapshot_lsn in sorted(seen):
            highest = max(highest, snapshot_lsn)
            rules.append((first_offset, _is_in(of, name, number) & (of.offset > first_offset), highest))
    # The first condition that holds decides: the newest snapshot before the event.
    newest = sf.when(sf.lit(False), sf.lit(0).cast("bigint"))
    for (name, number), transactions in openings.items():
        for tx, snapshot_lsn in transactions.items():
            newest = newest.when(_is_in(of, name, number) & (of.tx_id == tx), sf.lit(snapshot_lsn).cast("bigint"))
    for _, here, highest in sorted(rules, key=lambda rule: rule[0], reverse=True):
        newest = newest.when(here, sf.lit(highest).cast("bigint"))
    return sf.when(lsn.isNotNull(), sf.greatest(lsn, newest))


def _is_in(of: RecordPlace, topic: str, partition: int) -> Column:
    return (of.topic == topic) & (of.partition == partition)


def write(position: Column) -> Column:
    """Epoch and LSN: the anchor depends on what the change's partition held before."""
    return sf.concat(sf.substring(position, 1, EPOCH_WIDTH), sf.regexp_extract(position, r"\.1\.([0-9a-f]+)\.[0-9a-f]+$", 1))


POSTGRESQL = Connector(
    name="postgresql",
    source={"lsn": "bigint", "sequence": "string", "txId": "string"},
    needs="source.lsn, source.sequence",
    place=of_source,
    tx_id=lambda field: field("txId"),
    write=write,
    places=((EPOCH_WIDTH + 2, NUMBER_WIDTH), (EPOCH_WIDTH + 5 + NUMBER_WIDTH, NUMBER_WIDTH)),  # anchor and LSN
    null_may_mean_unchanged=True,
)
