"""What became of each record of a small slice, as spark.ledger.fates tells it, of what is plain: a table with a key, nothing of
it ever in quarantine, no event late, no TRUNCATE. All else is left to Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark.envelopes.arrow_rows import leave_any
from spark.envelopes.known_envelopes import envelope
from spark.ledger.folds import FoldsToCount, highest
from spark.ledger.table_slice import TableSlice
from spark.positions.source_kinds import connector
from spark.small_tables.decode import OPS, decode_keys
from spark.specs import SilverSpec


def is_plain(part: TableSlice) -> bool:
    """Whether no record of the slice can have another fate than applied, superseded, older and ignored."""
    silver, cut = part.table.silver, part.cut
    if part.aside or cut.again or cut.last.quarantined or any(fold.late_events for fold in cut.folds):
        return False
    keyed = bool(silver.keys) and not silver.partial
    return keyed and not _is_truncated(silver, cut) and not _is_deleted_by_tombstone(silver)


def _is_truncated(silver: SilverSpec, cut: FoldsToCount) -> bool:
    return silver.truncate == "apply" and any(fold.truncated for fold in cut.folds)


def _is_deleted_by_tombstone(silver: SilverSpec) -> bool:
    return envelope(silver.envelope).tombstones_delete(connector(silver.connector))


def plain_fates(part: TableSlice, records: pa.Table) -> list[str]:
    """The fate of each record; `records` have `key, op, is_tombstone, position, place` and `fold`, from 0 on.

    Raises:
        LeftToSparkError: one of them is not plain.
    """
    op, silent = records["op"], pc.or_(records["is_tombstone"], pc.equal(records["op"], "m").fill_null(False))
    if part.table.silver.truncate == "ignore":
        silent = pc.or_(silent, pc.equal(op, "t").fill_null(False))
    is_event = pc.invert(silent)
    leave_any(pc.and_(is_event, pc.invert(pc.is_in(op, value_set=pa.array(OPS)))), "a record that is no c, u, d or r")
    leave_any(pc.and_(is_event, pc.is_null(records["position"])), "a record without a position")
    fates = np.full(records.num_rows, "ignored", object)
    fates[is_event.to_numpy()] = _of_events(part, records.filter(is_event))
    return list(fates)


def _of_events(part: TableSlice, events: pa.Table) -> list[str]:
    keys = decode_keys(events["key"], part.table.silver)
    for values in keys:
        # Spark's NaN is one value, Python's is none; and an array cannot be looked up.
        leave_any(pa.array([pa.types.is_floating(values.type) or pa.types.is_nested(values.type)]), "a key of floating point")
    known = highest(part.cut)
    folds, positions = events["fold"].to_pylist(), events["position"].to_pylist()
    rows = list(zip(folds, *(values.to_pylist() for values in keys), strict=True))
    newest: dict[tuple[object, ...], str] = {}
    for row, position in zip(rows, positions, strict=True):
        newest[row] = max(position, newest.get(row, ""))
    fates = []
    for row, position, place in zip(rows, positions, events["place"].to_pylist(), strict=True):
        if position <= (known[place][row[0]] or ""):
            fates.append("older")
        else:
            fates.append("applied" if position == newest[row] else "superseded")
    return fates
