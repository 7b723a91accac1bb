"""Models that MariaDB's connector does not find again when it starts: their statements have the GTID of another server id; pure.

Its schema history has a GTID beside each statement, and so has the offset from which it goes on. It takes the statements whose
GTID is within the offset's, by domain and by server id. The offset has one GTID of each domain: that of the server id that wrote
last. So what was altered under another `server_id` (a failover and back, SET GLOBAL server_id) is left out at a start, and rows
are read by the model before it, or by none.
https://github.com/debezium/debezium, BinlogHistoryRecordComparator and MariaDbGtidSet of 3.5.0 (seen with it)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_assets.resources.databases.binlog_position import BinlogPosition
from cdc_assets.resources.table_models import TableModel

_GTID = re.compile(r"(\d+)-(\d+)-(\d+)")


@dataclass(frozen=True)
class LostModel:
    """A table's newest model, its GTID, and that of the offset from which the connector goes on."""

    model: TableModel
    gtid: str
    offset: str

    @property
    def text(self) -> str:
        """For people, without the way to mend it."""
        return (
            f"Debezium loses what it knows of the table since {self.model.since} when its connector starts: that has the GTID "
            f"{self.gtid}, and the connector goes on from {self.offset}, which another server id wrote"
        )


def has_gtids(models: Sequence[TableModel]) -> bool:
    """Whether a model of the table could be lost so."""
    return bool(models) and any(_parts(gtid) for _, gtid in models[-1].written)


def lost_model(models: Sequence[TableModel], offset: Mapping[str, Any]) -> LostModel | None:
    """The newest of a table's models, where a connector that starts at this offset would find an older one in its place.

    Where it would find none, it does not start, or fails at the table's first row.
    """
    at, known = BinlogPosition.of(str(offset["file"]), int(offset["pos"])).in_positions, _parts(str(offset.get("gtids") or ""))
    if not known or not any(_is_found(model, at, known) for model in models[:-1]) or _is_found(models[-1], at, known):
        return None
    return LostModel(models[-1], models[-1].written[-1][1], str(offset["gtids"]))


def _is_found(model: TableModel, at: str, known: Mapping[tuple[str, str], int]) -> bool:
    """By one of its records. What lies behind the offset is read again; one without a GTID is older than any that has one."""
    return any(
        begins >= at or all(number <= known.get(stream, -1) for stream, number in _parts(gtid).items())
        for begins, gtid in model.written
    )


def _parts(gtids: str) -> dict[tuple[str, str], int]:
    """The last number by domain and server id; empty of MySQL's, which has all that was ever written."""
    found = [_GTID.fullmatch(part.strip()) for part in gtids.split(",")]
    return {(each[1], each[2]): int(each[3]) for each in found if each}
