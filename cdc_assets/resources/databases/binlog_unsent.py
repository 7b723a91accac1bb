"""Changes of rows that a binlog holds, and of which Debezium sends no event, told by the events' kinds; pure.

| event | who writes it |
|---|---|
| a query that changes rows | a session with binlog_format=STATEMENT or MIXED, a MEMORY table after a restart |
| a query that moves partitions | ALTER TABLE ... DROP, TRUNCATE, EXCHANGE PARTITION and others of its kind |
| Execute_load_query and older ones | LOAD DATA of such a session |
| ..._compressed | MariaDB with log_bin_compress=ON (types 165 to 171) |
| Update_rows_partial | MySQL in a session with binlog_row_value_options=PARTIAL_JSON (type 39) |

Row images with gaps are not told by SHOW BINLOG EVENTS: binlog_images.py.
https://mariadb.com/kb/en/2-binlog-event-header/ , https://dev.mysql.com/doc/refman/9.7/en/replication-formats.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases.binlog_position import BinlogPosition
from cdc_assets.resources.databases.binlog_statements import names_in_definition, read_statement

_MAP = re.compile(r"table_id: (\d+) \((.*)\)$")
_ROWS = re.compile(r"table_id: (\d+)\b")
_XID = re.compile(r" /\* xid=\d+ \*/$")
_LOADS = ("Load", "New_load", "Execute_load_query")
_STATEMENTS = ("Annotate_rows", "Rows_query")
_LONGEST = 300


@dataclass(frozen=True)
class UnsentChange:
    """A change of a table's rows without an event of Debezium's: its kind, where it begins, and its statement if it is known."""

    table: TableId
    at: BinlogPosition
    kind: str
    statement: str = ""


class TableMaps:
    """Which table an event's table id means: it holds within a file, from the Table_map event on."""

    def __init__(self, ids: Iterable[TableId]) -> None:
        self._names = {f"{i.schema}.{i.table}": i for i in ids}
        self._maps: dict[tuple[str, str], TableId | None] = {}

    def table_of(self, row: Sequence[Any]) -> TableId | None:
        """The table of a row event, where it is one of ours; a Table_map is noted, and is no change by itself."""
        file, _, kind, _, _, info = row
        if kind == "Table_map" and (named := _MAP.match(info)):
            self._maps[file, named[1]] = self._names.get(named[2])
        elif is_row_event(kind) and (told := _ROWS.match(info)):
            return self._maps.get((file, told[1]))
        return None


def is_row_event(kind: str) -> bool:
    """Whether an event of this kind holds rows of a table."""
    lower = kind.lower()
    return "rows" in lower and kind not in _STATEMENTS


class UnsentReader:
    """Reads events in their order, and tells the changes of these tables that Debezium passes over."""

    def __init__(self, ids: Iterable[TableId]) -> None:
        self._tables = list(ids)
        self._by_name = {(i.schema.casefold(), i.table.casefold()): i for i in self._tables}
        self._maps = TableMaps(self._tables)
        self._statement = ""
        self._payload = 0

    def changes(self, rows: Iterable[Sequence[Any]]) -> Iterator[UnsentChange]:
        """Those of the next events; a statement that writes several events of a table is told by each of them."""
        for row in rows:
            file, begin, kind, _, end, info = row
            if kind == "Transaction_payload":
                self._payload = begin
            # What is compressed begins where its payload ends.
            at = BinlogPosition.of(file, begin if begin < end else self._payload or begin)
            if kind in _STATEMENTS:
                self._statement = info.removeprefix("# ")
            elif kind.startswith("Query") or kind in _LOADS:
                self._statement = ""
                yield from self._of_query(at, kind, info)
            elif kind == "Xid":
                self._statement = ""
            elif (table := self._maps.table_of(row)) and ("compressed" in kind.lower() or "partial" in kind.lower()):
                yield UnsentChange(table, at, kind, shorten_statement(self._statement))

    def _of_query(self, at: BinlogPosition, kind: str, info: str) -> Iterator[UnsentChange]:
        if info in ("BEGIN", "COMMIT"):
            return
        found = read_statement(info)
        names, told = (found.tables, found.kind) if found else (frozenset(), "")
        if kind == "Query_compressed":
            # Debezium passes over it, whatever it says: a TRUNCATE too, or a definition.
            names, told = names or names_in_definition(info), kind
        for name in sorted(names):
            if table := self._by_name.get(name):
                yield UnsentChange(table, at, told, shorten_statement(_XID.sub("", info)))


def shorten_statement(text: str) -> str:
    """A statement in one line of some hundred characters at most."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
