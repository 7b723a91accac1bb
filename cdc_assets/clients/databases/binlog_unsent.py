"""Changes of rows that a binlog holds, and of which Debezium sends no event, told by the events' kinds; pure.

| event | who writes it |
|---|---|
| a query that changes rows | a session with binlog_format=STATEMENT or MIXED, a MEMORY table after a restart |
| a query that moves partitions | ALTER TABLE ... DROP, TRUNCATE, EXCHANGE PARTITION and others of its kind |
| Execute_load_query and older ones | LOAD DATA of such a session |
| ..._compressed | MariaDB with log_bin_compress=ON (types 165 to 171) |
| Update_rows_partial | MySQL in a session with binlog_row_value_options=PARTIAL_JSON (type 39) |
| a second row event of a table in a Transaction_payload | MySQL in a session with binlog_transaction_compression=ON |

The last one Debezium sends. All events of such a transaction have one place, so of a table without a key silver takes rows of
the second for a replay of the first (spark.events.source_positions). A statement of some thousand bytes writes several events.

Row images with gaps are not told by SHOW BINLOG EVENTS: binlog_events.py.
https://mariadb.com/kb/en/2-binlog-event-header/ , https://dev.mysql.com/doc/refman/9.7/en/replication-formats.html

A statement's words tell its kind and its tables. Strings are passed over, and so are comments, but for what a server executes
of them. A double quote may begin a string or a name (ANSI_QUOTES), which the binlog does not show: where a table's name is
expected it is a name. What a statement changes by a trigger, by a view or by a function of the database is not in its text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.registry.field_types import TableId

Name = tuple[str, str]
"""Database and table, without case."""

_USE = re.compile(r"use `((?:[^`]|``)*)`; ", re.IGNORECASE)
_TOKEN = re.compile(
    r"""(?P<blank>\s+|/\*(?!M?!).*?\*/|--(?=\s|$)[^\n]*|\#[^\n]*|/\*M?!\d*|\*/)
    |(?P<name>`(?:[^`]|``)*`)
    |(?P<quoted>"(?:[^"\\]|\\.|"")*")
    |(?P<text>'(?:[^'\\]|\\.|'')*')
    |(?P<word>[\w$@]+)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
# Words beside tables' names that are no names, unless they are quoted.
_KEYWORDS = {"LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE", "INTO", "IF", "NOT", "EXISTS"}
_KEYWORDS |= {"FROM", "USING", "JOIN", "ON", "AS"}
_PARTITION_VERBS = {"DROP", "TRUNCATE", "EXCHANGE", "CONVERT", "DISCARD", "IMPORT"}
_DEFINITION_VERBS = {"ALTER", "CREATE", "DROP", "TRUNCATE", "RENAME"}
# Behind these words of an UPDATE and a DELETE no table is named that the statement changes.
_END_OF_TABLES = {"UPDATE": {"SET"}, "DELETE": {"WHERE", "ORDER", "LIMIT", "RETURNING"}}


@dataclass(frozen=True)
class RowStatement:
    """A statement that changes rows, in a word or two, and the tables that it may change."""

    kind: str
    tables: frozenset[Name]


@dataclass(frozen=True)
class _Token:
    """A part of a statement; the text of a name is without its quotes, `word`: in capitals where it can be a keyword."""

    text: str
    word: str = ""
    is_name: bool = True


def read_statement(info: str) -> RowStatement | None:
    """What SHOW BINLOG EVENTS tells of a query, `use` and all; None where the statement leaves rows alone, or has row events."""
    used = _USE.match(info)
    schema = used[1].replace("``", "`") if used else ""
    tokens = _behind_prefix(list(_tokens(info[used.end() :] if used else info)))
    verb = tokens[0].word if tokens else ""
    if verb in ("INSERT", "REPLACE"):
        return RowStatement(verb, frozenset(_names(tokens[1:], schema)[:1]))
    if verb in _END_OF_TABLES:
        return RowStatement(verb, frozenset(_names(_until(tokens[1:], _END_OF_TABLES[verb]), schema)))
    if verb == "LOAD":
        into = next((tokens[n + 2 :] for n, (a, b) in enumerate(pairwise(tokens)) if (a.word, b.word) == ("INTO", "TABLE")), [])
        return RowStatement("LOAD DATA", frozenset(_names(into, schema)[:1])) if into else None
    if verb == "ALTER":
        return _alteration(tokens, schema)
    if verb == "CREATE":
        return _creation(tokens, schema)
    return None


def names_in_definition(info: str) -> frozenset[Name]:
    """The names in a statement that changes definitions or truncates; none in another statement."""
    used = _USE.match(info)
    tokens = list(_tokens(info[used.end() :] if used else info))
    if not tokens or tokens[0].word not in _DEFINITION_VERBS:
        return frozenset()
    return frozenset(_names(tokens[1:], used[1].replace("``", "`") if used else ""))


def _alteration(tokens: list[_Token], schema: str) -> RowStatement | None:
    """An ALTER TABLE by which rows go or come."""
    behind = _behind_word(tokens, "TABLE")
    before = {token.word for token in tokens[1 : len(tokens) - len(behind) - 1]}
    if not behind or not before <= {"ONLINE", "IGNORE"}:
        return None
    table = _names(behind, schema)[:1]
    for verb, what in pairwise(behind):
        if verb.word in _PARTITION_VERBS and what.word in ("PARTITION", "TABLESPACE"):
            other = _names(_behind_word(behind, "TABLE"), schema)[:1]
            return RowStatement(f"{verb.word} {what.word}", frozenset(table + other))
        if verb.word == "CONVERT" and what.word == "TABLE":
            return RowStatement("CONVERT TABLE", frozenset(table + _names(_behind_word(behind, "TABLE"), schema)[:1]))
    if "IGNORE" in before and {"UNIQUE", "PRIMARY"} & {token.word for token in behind}:
        return RowStatement("ALTER IGNORE TABLE", frozenset(table))
    return None


def _creation(tokens: list[_Token], schema: str) -> RowStatement | None:
    """A CREATE TABLE that takes its rows from a query, or replaces a table."""
    behind = _behind_word(tokens, "TABLE")
    before = [token.word for token in tokens[1 : len(tokens) - len(behind) - 1]]
    if not behind or not set(before) <= {"OR", "REPLACE"}:
        return None  # TEMPORARY, or no table at all
    table = frozenset(_names(behind, schema)[:1])
    words = [token.word for token in behind]
    if "SELECT" in words or "TABLE" in words or ("VALUES", "ROW") in pairwise(words):
        return RowStatement("CREATE TABLE ... SELECT", table)
    return RowStatement("CREATE OR REPLACE TABLE", table) if before else None


def _behind_prefix(tokens: list[_Token]) -> list[_Token]:
    """Without `SET STATEMENT ... FOR` and the tables of a WITH."""
    if [token.word for token in tokens[:2]] == ["SET", "STATEMENT"]:
        tokens = _behind_word(tokens, "FOR")
    if tokens and tokens[0].word == "WITH":
        depth = 0
        for n, token in enumerate(tokens):
            depth += {"(": 1, ")": -1}.get(token.text if not token.is_name else "", 0)
            if depth == 0 and token.word in ("INSERT", "REPLACE", "UPDATE", "DELETE", "SELECT"):
                return tokens[n:]
    return tokens


def _behind_word(tokens: list[_Token], word: str) -> list[_Token]:
    return next((tokens[n + 1 :] for n, token in enumerate(tokens) if token.word == word), [])


def _until(tokens: list[_Token], ends: set[str]) -> list[_Token]:
    depth = 0
    for n, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.text if not token.is_name else "", 0)
        if depth == 0 and token.word in ends:
            return tokens[:n]
    return tokens


def _names(tokens: list[_Token], schema: str) -> list[Name]:
    """Names in their order, `a.b` as such, `a` as a table of the database in use; keywords and aliases among them."""
    names, n = [], 0
    while n < len(tokens):
        if not tokens[n].is_name or tokens[n].word in _KEYWORDS:
            n += 1
        elif n + 2 < len(tokens) and tokens[n + 1].text == "." and not tokens[n + 1].is_name and tokens[n + 2].is_name:
            names.append((tokens[n].text.casefold(), tokens[n + 2].text.casefold()))
            n += 3
        else:
            names.append((schema.casefold(), tokens[n].text.casefold()))
            n += 1
    return names


def _tokens(statement: str) -> Iterator[_Token]:
    """Of an INSERT only what stands before its rows is read: they may be megabytes."""
    only_head = None
    for match in _TOKEN.finditer(statement):
        kind, text = match.lastgroup, match[0]
        if kind == "word":
            only_head = text.upper() in ("INSERT", "REPLACE") if only_head is None else only_head
            yield _Token(text, text.upper())
        elif kind in ("name", "quoted"):
            yield _Token(text[1:-1].replace(text[0] * 2, text[0]))
        elif kind == "mark":
            if text == "(" and only_head:
                return
            yield _Token(text, is_name=False)


_MAP = re.compile(r"table_id: (\d+) \((.*)\)$")
_ROWS = re.compile(r"table_id: (\d+)\b")
_XID = re.compile(r" /\* xid=\d+ \*/$")
_LOADS = ("Load", "New_load", "Execute_load_query")
_STATEMENTS = ("Annotate_rows", "Rows_query")
_LONGEST = 300
SAME_PLACE = "second row event of a compressed transaction"


@dataclass(frozen=True)
class UnsentChange:
    """A change of a table's rows without an event of Debezium's, or of `SAME_PLACE`: its kind, where it begins, its statement.

    The statement is empty where it is not known.
    """

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
        elif "rows" in kind.lower() and kind not in _STATEMENTS and (match := _ROWS.match(info)):
            return self._maps.get((file, match[1]))
        return None


class UnsentReader:
    """Reads events in their order, and tells the changes of these tables that Debezium passes over."""

    def __init__(self, ids: Iterable[TableId]) -> None:
        self._tables = list(ids)
        self._by_name = {(i.schema.casefold(), i.table.casefold()): i for i in self._tables}
        self._maps = TableMaps(self._tables)
        self._statement = ""
        self._payload = 0
        self._events_in_payload: Counter[TableId] = Counter()

    def changes(self, rows: Iterable[Sequence[Any]]) -> Iterator[UnsentChange]:
        """Those of the next events; a statement that writes several events of a table is told by each of them."""
        for row in rows:
            file, begin, kind, _, end, info = row
            if kind == "Transaction_payload":
                self._payload, self._events_in_payload = begin, Counter()
            # What is compressed begins where its payload ends.
            at = BinlogPosition.of(file, begin if begin < end else self._payload or begin)
            if kind in _STATEMENTS:
                self._statement = info.removeprefix("# ")
            elif kind.startswith("Query") or kind in _LOADS:
                self._statement = ""
                yield from self._of_query(at, kind, info)
            elif kind == "Xid":
                self._statement = ""
            elif table := self._maps.table_of(row):
                yield from self._of_rows(table, at, kind, is_packed=begin == end)

    def _of_rows(self, table: TableId, at: BinlogPosition, kind: str, *, is_packed: bool) -> Iterator[UnsentChange]:
        statement = shorten_statement(self._statement)
        if "compressed" in kind.lower() or "partial" in kind.lower():
            yield UnsentChange(table, at, kind, statement)
        elif is_packed:
            self._events_in_payload[table] += 1
            if self._events_in_payload[table] == 2:
                yield UnsentChange(table, at, SAME_PLACE, statement)

    def _of_query(self, at: BinlogPosition, kind: str, info: str) -> Iterator[UnsentChange]:
        if info in ("BEGIN", "COMMIT"):
            return
        statement = read_statement(info)
        names, change_kind = (statement.tables, statement.kind) if statement else (frozenset(), "")
        if kind == "Query_compressed":
            # Debezium passes over it, whatever it says: a TRUNCATE too, or a definition.
            names, change_kind = names or names_in_definition(info), kind
        for name in sorted(names):
            if table := self._by_name.get(name):
                yield UnsentChange(table, at, change_kind, shorten_statement(_XID.sub("", info)))


def shorten_statement(text: str) -> str:
    """A statement in one line of some hundred characters at most."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
