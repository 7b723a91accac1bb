"""Which tables the lake has under which names of SQL, and what a statement over them answers.

`bronze.shop` is the source's change log, `bronze.shop.orders` its rows of one table, `silver.shop.orders` the current
state. Columns that are sensitive are told here, so that every engine hides the same ones. An unknown name is refused with
the names that are near it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cdc_assets.recovery.cut_manifest import CutEntry, CutManifest
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.table.log_reader import LOG
from spark.table.table_folder import open_folder

LAYERS = ("silver", names.NOW, "history", "bronze", "quarantine", "ledger", "windows", "cuts")
RAW = ("key", "value")
"""A record's bytes, which hold the values of every column."""
QUARANTINE_RAW = (*RAW, "row_key", "message")
_NOT_CODE = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class LakeTable:
    """One table: `parts` are its name's. Of `only` those rows whose column `table` says so; None: all rows. `at`: the table as a
    cut names it."""

    parts: tuple[str, ...]
    path: str
    source: BaseSource
    table: Table | None = None
    sensitive: tuple[str, ...] = ()
    only: str | None = None
    at: CutEntry | None = None

    @property
    def name(self) -> str:
        """As a statement names it: a part that is no plain word of SQL stands in quotes."""
        return names.quote_parts(self.parts)

    @property
    def is_now(self) -> bool:
        """Whether it is silver together with what bronze holds beyond it."""
        return self.parts[0] == names.NOW

    @property
    def is_there(self) -> bool:
        """Whether the lake has it; of a lake in an object store by one listing."""
        return open_folder(self.path).has_files(LOG)


def lake_tables(sources: Iterable[BaseSource], lake: str) -> list[LakeTable]:
    """Every table that the lake may have of these sources, by layer and name."""
    tables = [table for source in sources for table in _of_source(source, lake)]
    return sorted(tables, key=lambda each: (LAYERS.index(each.parts[0]), each.parts))


def at_cut(tables: Iterable[LakeTable], lake: str, cut: CutManifest) -> list[LakeTable]:
    """The tables that the cut names, as they were at it: silver and histories of its source."""
    entries = {(entry.layer, f"{lake.rstrip('/')}/{entry.path}"): entry for entry in cut.entries}
    at_entries = [(table, entries.get((table.parts[0], table.path))) for table in tables]
    return [replace(table, at=entry) for table, entry in at_entries if entry is not None]


def _of_source(source: BaseSource, lake: str) -> Iterator[LakeTable]:
    bronze = names.bronze_path(lake, source)
    raw = RAW if any(table.sensitive for table in source.tables) else ()
    yield LakeTable(names.sql_name("bronze", source), bronze, source, sensitive=raw)
    yield LakeTable(names.sql_name("ledger", source), names.ledger_path(lake, source), source)
    yield LakeTable(names.sql_name("cuts", source), names.cuts_path(lake, source), source)
    for table in source.tables:
        yield from _of_table(source, table, lake, bronze)


def _of_table(source: BaseSource, table: Table, lake: str, bronze: str) -> Iterator[LakeTable]:
    def entry(layer: str, path: str, sensitive: tuple[str, ...] = table.sensitive, only: str | None = None) -> LakeTable:
        return LakeTable(names.sql_name(layer, source, table), path, source, table, sensitive, only)

    silver, hidden = names.silver_path(lake, source, table), bool(table.sensitive)
    yield entry("silver", silver)
    yield entry(names.NOW, silver if Path(silver, "_delta_log").is_dir() else bronze)
    if table.history == "scd2":
        yield entry("history", names.history_path(lake, source, table))
    yield entry("bronze", bronze, RAW if hidden else (), names.table_name(table))
    for windows in table.windows:
        parts = ("windows", source.name, names.windows_name(table, windows.name))
        yield LakeTable(parts, names.windows_path(lake, source, table, windows.name), source, table)
    yield entry("quarantine", names.quarantine_path(lake, source, table), QUARANTINE_RAW if hidden else ())


def tables_in(statement: str, tables: Sequence[LakeTable]) -> list[LakeTable]:
    """The tables that a statement names: `bronze.shop.orders` is not `bronze.shop`."""
    code, tables_named = _NOT_CODE.sub(" ", statement), list[LakeTable]()
    for table in sorted(tables, key=lambda each: -len(each.parts)):
        without = pattern_of(table).sub(" ", code)
        tables_named += [table] if without != code else []
        code = without
    return [table for table in tables if table in tables_named]


def pattern_of(table: LakeTable) -> re.Pattern[str]:
    """Its name in a statement, with quotes or without, in any case, as SQL has it."""
    dotted = r"\s*\.\s*".join(rf'["`]?{re.escape(name)}["`]?' for name in table.parts)
    return re.compile(rf'(?<![\w."`]){dotted}(?![\w"`])', re.IGNORECASE)


def code_and_texts(statement: str) -> list[tuple[str, bool]]:
    """A statement's pieces, and whether each is code: else it is a text or a comment."""
    pieces, at = list[tuple[str, bool]](), 0
    for quoted in _NOT_CODE.finditer(statement):
        pieces += [(statement[at : quoted.start()], True), (quoted[0], False)]
        at = quoted.end()
    return [*pieces, (statement[at:], True)]


def unknown_names(statement: str, tables: Sequence[LakeTable]) -> list[str]:
    """What a statement writes like a table of the lake, and is none."""
    dotted = re.compile(rf"(?<![\w.])(?:{'|'.join(LAYERS)})(?:\.\w+){{1,2}}(?!\w)", re.IGNORECASE)
    code = re.sub(r'["`]', "", _NOT_CODE.sub(" ", statement))
    names_of_tables = {".".join(table.parts).lower() for table in tables}
    unknown = [name for name in dotted.findall(code) if name.lower() not in names_of_tables]
    return [name for name in dict.fromkeys(unknown) if name.lower().rpartition(".")[0] not in names_of_tables]


def near_names(name: str, tables: Sequence[LakeTable]) -> list[str]:
    """The tables whose names are most like it, at most five."""
    plain = re.sub(r'["`]', "", name).lower()
    by_name = {".".join(table.parts).lower(): table.name for table in tables}
    same_end = [key for key in by_name if key.rpartition(".")[2] == plain.rpartition(".")[2]]
    near = difflib.get_close_matches(plain, by_name, n=5, cutoff=0.6)
    return [by_name[key] for key in dict.fromkeys([*near, *same_end])][:5]


@dataclass(frozen=True)
class Answer:
    """Rows by column, at most as many as were asked for; `more`: there are others. `hidden`: columns shown as hashes."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    more: bool
    hidden: Sequence[str]


def answer(columns: Sequence[str], rows: Sequence[Sequence[Any]], limit: int, hidden: Sequence[str]) -> Answer:
    """At most `limit` of the rows, by column. Engines are asked for one row more, which tells whether there are others."""
    names_shown = distinct_names(columns)
    rows_shown = [dict(zip(names_shown, map(_printable, row), strict=True)) for row in rows[:limit]]
    return Answer(names_shown, rows_shown, len(rows) > limit, hidden)


def distinct_names(columns: Sequence[str]) -> list[str]:
    """`a, a_2` for two columns that are both called `a`."""
    taken: list[str] = []
    for name in columns:
        own, number = name, 1
        while own in taken:
            number += 1
            own = f"{name}_{number}"
        taken.append(own)
    return taken


def _printable(value: Any) -> Any:
    return f"\\x{bytes(value).hex()}" if isinstance(value, (bytes, bytearray, memoryview)) else value


def hidden_columns(named: Sequence[LakeTable]) -> list[str]:
    """`silver.shop.orders.email`: what of these tables is sensitive."""
    return [f"{table.name}.{column}" for table in named for column in table.sensitive]


def statement_refusal(statement: str, reason: str, tables: Sequence[LakeTable], *, missing: Sequence[str] = ()) -> RefusalError:
    """An engine's reason; where it does not know names (`missing`, and what looks like a table's), the tables near to them."""
    reasons = []
    for name in dict.fromkeys([*unknown_names(statement, tables), *missing]):
        near = near_names(name, tables)
        reasons.append(f"no table {name}" + (f"; near: {', '.join(near)}" if near else "") + "; cdc sql lists all")
    return RefusalError("; ".join(reasons) or reason)
