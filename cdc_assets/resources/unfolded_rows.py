"""Events of a topic between two places of its source's log: how many silver has folded, and how many it has not; no Spark."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.resources import delta_rows
from cdc_assets.resources.delta_log import bronze_committed, open_table, silver_positions
from spark.delta.commits import Folded
from spark.delta.identifiers import text_literal


@dataclass(frozen=True)
class RowsBetween:
    """Numbers of events in bronze."""

    folded: int = 0
    unfolded: int = 0


def rows_between(bronze: str, topic: str, folded: Folded | None, places: tuple[str, str]) -> RowsBetween | None:
    """Of the topic's newest epoch; a place is a position without its epoch, the second one is not among them.

    An epoch begins with the whole table: what lies below it is folded no more. None: delta-rs cannot count bronze's rows.
    """
    from spark.positions.layout import epoch_prefix

    committed, table = bronze_committed(bronze), open_table(bronze)
    state = committed.topics.get(topic) if committed else None
    if state is None or table is None:
        return RowsBetween()
    low, high = (text_literal(epoch_prefix(state.epoch) + place) for place in places)
    within = f"topic = {text_literal(topic)} AND position >= {low} AND position < {high}"
    total = delta_rows.count_where(table, within)
    if total is None:
        return None
    known = folded.topics.get(topic) if folded else None
    if not total or known is None or known.epoch < state.epoch:
        return RowsBetween(0, total)
    behind = " OR ".join(f'(partition = {p} AND "offset" < {at})' for p, at in silver_positions(folded, topic).items()) or "FALSE"
    done = delta_rows.count_where(table, f"{within} AND ({behind})")
    return None if done is None else RowsBetween(done, total - done)
