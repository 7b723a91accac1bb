"""What the catalogue of another database says of a column besides a type that is written as PostgreSQL would write it.

A `datetime2(7)` of SQL Server is `timestamp(6) without time zone`, of kind `ticks`: its seventh digit has no place in the lake.
These words are kept in schema ledgers. What is told of them stands here too, so that it can change.
"""

from __future__ import annotations

from collections.abc import Mapping

TICKS, ZONE, MOMENT_TICKS, ZONE_TICKS, SIX_DIGITS = "ticks", "zone", "moment_ticks", "zone_ticks", "six_digits"
UNREAD, LOBS = "unread", "lobs"
_BEYOND = "digits of a second beyond the sixth, for which Delta has no place"
_ZONE = "the offset from UTC, since Delta keeps the moment alone"

LOSES: Mapping[str, str] = {
    TICKS: _BEYOND,
    ZONE: _ZONE,
    MOMENT_TICKS: _BEYOND,
    ZONE_TICKS: f"{_ZONE}; {_BEYOND}",
    SIX_DIGITS: "what a snapshot reads beyond six digits (the server writes no more of a float as text)",
}
"""Kinds whose columns are refused until `accept_inexact` names them."""
REFUSED: Mapping[str, str] = {
    UNREAD: "Debezium does not send it, or what it sends for it is not documented",
    LOBS: "the connector reads no CLOB, BLOB or XML unless the source declares database.lobs",
}
"""Kinds whose columns have no exact form."""
