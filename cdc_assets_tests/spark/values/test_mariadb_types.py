"""The type torture table, live: MariaDB to Debezium to silver, by snapshot and by stream. MariaDB's own text is the oracle."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets.capture.preflight.capturable_tables import refuse_uncapturable
from cdc_assets.capture.source_columns import source_columns
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import parse_table
from cdc_assets_tests.support.lake.lake import Lake
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.oracles.mariadb_oracle import same, truth
from cdc_assets_tests.support.values.captured import STREAMED, CapturedValues
from cdc_assets_tests.support.values.conversions import converted_leaves
from cdc_assets_tests.support.values.mariadb_values import EXACT, LENIENT, LIMITS, LOST, MODES, UNFIT, ZEROS
from spark.errors import JobRefusedError
from spark.specs import Column
from spark.values.handling_modes import Modes
from spark.values.lake_types import lake_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = {"exact": EXACT, "unfit": UNFIT, "lost": LOST}


@dataclass
class Captured(CapturedValues):
    """As a MariaDB captured them."""

    maria: LiveMariaDb

    def columns(self, table: str, **values: str) -> tuple[Column, ...]:
        """As the product reads them from the catalogue."""
        source = self.maria.source([f"types.{table}"], **values)
        with self.maria.database(source) as database:
            (found,) = database.tables([parse_table(f"types.{table}")]).values()
        return source_columns(source, source.tables[0], found)


@pytest.fixture(scope="module")
def captured(mariadb: LiveMariaDb) -> Captured:
    own = mariadb.renamed("mariatypes")
    server = own.server
    server.execute("CREATE DATABASE types")
    rows: dict[str, dict[int, str]] = {}
    for table, kinds in KINDS.items():
        columns = "".join(f", c{i} {kind} NULL" for i, kind in enumerate(kinds))
        chosen = [(f"c{i}", sql) for i, sqls in enumerate(kinds.values()) for sql in sqls]
        rows[table] = {number: column for number, (column, _) in enumerate(chosen, 1)}
        inserts = [f"INSERT INTO types.{table} (id, {c}) VALUES ({n}, {sql})" for n, (c, sql) in enumerate(chosen, 1)]
        server.execute(LENIENT, f"CREATE TABLE types.{table} (id int PRIMARY KEY{columns})", *inserts)
    server.execute(LENIENT, *ZEROS)
    (before,) = server.query("SELECT @@global.sql_mode")[0]
    # A snapshot in such a session reads the blanks of a char, which the binlog has not.
    server.execute(f"SET GLOBAL sql_mode = '{before},PAD_CHAR_TO_FULL_LENGTH'")
    own.capture([f"types.{table}" for table in (*KINDS, "zeros")])
    own.delivered()
    server.execute(f"SET GLOBAL sql_mode = '{before}'")
    for table, held in rows.items():
        copy = "INSERT INTO types.{0} (id, {1}) SELECT id + {2}, {1} FROM types.{0} WHERE id = {3}"
        server.execute(LENIENT, *(copy.format(table, column, STREAMED, number) for number, column in held.items()))
    server.execute(LENIENT, f"INSERT INTO types.zeros SELECT id + {STREAMED}, a, b, c, d, e FROM types.zeros")
    found = own.delivered()
    texts = {
        table: {
            number: (
                column,
                truth(server, f"types.{table}", {f"c{i}": kind for i, kind in enumerate(KINDS[table])}, number, column),
            )
            for number, column in held.items()
        }
        for table, held in rows.items()
    }
    return Captured(texts, {name: found[f"mariatypes.types.{name}"] for name in (*KINDS, "zeros")}, own)


def test_every_exact_value_arrives(captured: Captured, session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path, form=("debezium-json", "mariadb"))
    found, texts = captured.fold_exact(lake, captured.columns("exact")), captured.texts["exact"]
    kinds = dict(zip((f"c{i}" for i in range(len(EXACT))), EXACT, strict=True))
    wrong = [
        f"{kinds[column]} {'streamed' if number > STREAMED else 'read'}: {row[column]!r} for {text[:100]}"
        for number, row in found.items()
        for column, text in [texts[number % STREAMED]]
        if not same(kinds[column], row[column], text)
    ]
    assert not wrong, "\n".join(wrong)
    others = [
        (n, kinds[c]) for n, r in found.items() for c, v in r.items() if c not in ("id", texts[n % STREAMED][0]) and v is not None
    ]
    assert others == []


def test_no_unfit_value_converts(captured: Captured, session: SparkSession) -> None:
    columns = {c.name: c for c in captured.columns("unfit")}
    converted = converted_leaves(session, columns, list(captured.sent("unfit")))
    assert len(converted) == 2 * len(captured.texts["unfit"])
    assert [c for c in converted if c[0] > STREAMED and c[2] is not None] == []
    kinds, texts = {f"c{i}": kind for i, kind in enumerate(UNFIT)}, captured.texts["unfit"]
    assert [c for c in converted if c[2] is not None and not same(kinds[c[1]], c[2], texts[c[0]][1])] == []


def test_what_is_lost_is_refused(captured: Captured) -> None:
    for column in captured.columns("lost")[1:]:
        with pytest.raises(JobRefusedError, match=rf"column '{column.name}' has type .*Debezium (loses|streams)"):
            lake_type(column)
    sent, texts = list(captured.sent("lost")), captured.texts["lost"]
    exact = {number: str(leaf) == texts[number % STREAMED][1] for number, _, leaf in sent}
    assert not any(exact[number] and exact[number + STREAMED] for number in texts), "Debezium is exact now"


def test_tables_that_would_be_misread_are_not_captured(captured: Captured) -> None:
    maria = captured.maria
    told = [json.loads(record.value or "")["after"] for record in captured.records["zeros"][0]]
    # What Debezium makes of zero dates; once it sends them, they need no refusal.
    assert {row["a"] for row in told} == {None}
    assert {row["b"] for row in told} == {0}
    maria.server.execute("CREATE TABLE types.addresses (id int PRIMARY KEY, ip inet6)")
    source = maria.source(["types.zeros", "types.addresses"])
    with maria.database(source) as database:
        found = database.tables([table.id for table in source.tables])
        before = maria.server.query("SELECT @@global.sql_mode")[0][0]
        try:
            for mode, said in (("STRICT_TRANS_TABLES", "may get zero dates"), ("TRADITIONAL", "holds days")):
                maria.server.execute(f"SET GLOBAL sql_mode = '{mode}'")
                with pytest.raises(DatabaseError, match=said) as refused:
                    refuse_uncapturable(database, source, found, to_read=found)
                lines = str(refused.value).splitlines()
                assert [c for c in "abcde" if any(f"column '{c}'" in line for line in lines)] == list("abcde")
                assert any("'ip' is of a type whose definition Debezium cannot parse" in line for line in lines)
            accepting = maria.source([{"name": "types.zeros", "accept_inexact": list("abcde")}])
            refuse_uncapturable(database, accepting, found, to_read=found)
        finally:
            maria.server.execute(f"SET GLOBAL sql_mode = '{before}'")


@pytest.mark.all
@pytest.mark.parametrize("number", [0, *(pytest.param(number, marks=pytest.mark.all) for number in range(1, len(MODES)))])
def test_other_modes_are_exact_or_refused(captured: Captured, session: SparkSession, number: int) -> None:
    """Never another value: what a mode loses is refused by name, or makes its record unfit."""
    modes = Modes.parse(MODES[number])
    chosen = {name: getattr(modes, name) for name in ("decimal", "temporal", "binary", "unsigned")}
    own = captured.maria.renamed(f"mariamodes{number}")
    own.capture(["types.exact"], **chosen)
    other = Captured(captured.texts, {"exact": own.delivered()[f"{own.name}.types.exact"]}, own)
    readable, refused = {}, set()
    for column in captured.columns("exact", **chosen):
        # Which far timestamps are lost is known; the other values must be right.
        read = replace(column, accepted=modes.temporal == "nanoseconds")
        try:
            lake_type(read)
            readable[column.name] = read
        except JobRefusedError:
            refused.add(column.source_type)
    sent = [row for row in other.sent("exact") if row[1] in readable]
    converted = converted_leaves(session, readable, sent)
    kinds = dict(zip((f"c{i}" for i in range(len(EXACT))), EXACT, strict=True))
    texts = captured.texts["exact"]
    wrong = [
        (kinds[name], texts[n % STREAMED][1][:80], value)
        for n, name, value in converted
        if value is not None and not same(kinds[name], value, texts[n % STREAMED][1])
    ]
    unfit = {kinds[name] for _, name, value in converted if value is None}
    assert wrong == []
    assert (sorted(refused), sorted(unfit)) == LIMITS[number]
