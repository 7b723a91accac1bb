"""Change events as Debezium 3.7 sends them for a table of pgbench's accounts: generated, so that no run needs a database.

A test compares their fields, and their order, with records that a real Debezium sent.
"""

from __future__ import annotations

SCHEMA = {"aid": "integer not null", "bid": "integer", "abalance": "integer", "filler": "character(84)"}
"""The table's columns, as PostgreSQL writes their types; its key is `aid`."""
_FILLER = " " * 84
_MS = 1_790_000_000_000


def key_text(aid: int) -> str:
    """The record's key, as JSON."""
    return f'{{"aid":{aid}}}'


_UNSENT = "__debezium_unavailable_value"
_AT = 128
"""Bytes of the log from one event to the next."""


def event_text(op: str, aid: int, balance: int, number: int, *, filler: str = _FILLER, early: bool = False) -> str:
    """The record's value, as JSON: op `r` (a snapshot's row), `c`, `u` or `d`; `number` is its place in the log, `early` a
    place between that and the one before.

    Eight changes share a transaction; all rows of a snapshot stand at the one place where it was taken. As text: half a million
    events take seconds this way, and half a minute through json.
    """
    number = 0 if op == "r" else number
    row = "null" if op == "d" else f'{{"aid":{aid},"bid":1,"abalance":{balance},"filler":"{filler}"}}'
    before = f'{{"aid":{aid},"bid":null,"abalance":null,"filler":null}}' if op == "d" else "null"
    lsn, at = 1_000_000 + _AT * number - early * _AT // 2, _MS + number // 8
    snapshot = '"true"' if op == "r" else "null"
    commit = "null" if op == "r" else f'\\"{lsn}\\"'
    return f'{{"before":{before},"after":{row},{_source(snapshot, commit, lsn, at, number)},{_tail(op, at)}}}'


def unsent_text(aid: int, balance: int, number: int) -> str:
    """An update that does not carry `filler`: PostgreSQL does not send an unchanged value that lies out of line (TOAST)."""
    return event_text("u", aid, balance, number, filler=_UNSENT)


def truncate_text(number: int) -> str:
    """A TRUNCATE of the table: op `t` without a row, and without a key."""
    lsn, at = 1_000_000 + _AT * number, _MS + number // 8
    source = _source("null", f'\\"{lsn}\\"', lsn, at, number)
    return f'{{"before":null,"after":null,{source},{_tail("t", at)}}}'


def _source(snapshot: str, commit: str, lsn: int, at: int, number: int) -> str:
    return (
        f'"source":{{"version":"3.7.0.Final","connector":"postgresql","name":"bench",'
        f'"ts_ms":{at},"snapshot":{snapshot},"db":"bench","sequence":"[{commit},\\"{lsn}\\"]",'
        f'"ts_us":{at}000,"ts_ns":{at}000000,"schema":"public","table":"accounts","txId":{700 + number // 8},"lsn":{lsn},'
        f'"xmin":null,"origin":null,"origin_lsn":null}},"transaction":null'
    )


def _tail(op: str, at: int) -> str:
    return f'"op":"{op}","ts_ms":{at + 5},"ts_us":{at + 5}000,"ts_ns":{at + 5}000000'
