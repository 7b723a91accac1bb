"""The type torture table, live: PostgreSQL to Debezium to silver, by snapshot and by stream. PostgreSQL is the oracle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from cdc_assets.capture.preflight.capturable_tables import refuse_uncapturable
from cdc_assets.capture.preflight.inspection import preflight
from cdc_assets.capture.source_columns import source_columns
from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import parse_table
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.support.lake.lake import Lake, values
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.oracles.type_oracle import same
from cdc_assets_tests.support.values.captured import STREAMED, CapturedValues
from cdc_assets_tests.support.values.conversions import converted_leaves
from cdc_assets_tests.support.values.type_values import ACCEPTED, EXACT, LIMITS, LOST, REFUSED, SETUP, UNFIT
from spark.errors import JobRefusedError
from spark.specs import Column
from spark.values.handling_modes import Modes
from spark.values.lake_types import lake_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Values = Mapping[str, tuple[str, ...]]


@dataclass
class Captured(CapturedValues):
    """As PostgreSQL captured them."""

    live: LiveSource

    def columns(self, table: str, *, accept: bool = False) -> tuple[Column, ...]:
        """As the product reads them from the catalogue."""
        source = self.live.source([f"public.{table}"])
        with self.live.settings():
            found = PostgresDatabase(source.database).tables([parse_table(f"public.{table}")])
        (catalogue,) = found.values()
        declared = Table(name=f"public.{table}", accept_inexact=tuple(c.name for c in catalogue.columns) if accept else ())
        return source_columns(source, declared, catalogue)


def _fill(live: LiveSource, table: str, chosen: Values) -> dict[int, tuple[str, str]]:
    """One row per value, in the column of its type: row -> column and the database's own text."""
    texts: dict[int, tuple[str, str]] = {}
    with live.connection() as connection:
        columns = "".join(f", c{i} {kind}" for i, kind in enumerate(chosen))
        connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY{columns})".encode())
        for i, sqls in enumerate(chosen.values()):
            for sql in sqls:
                number = len(texts) + 1
                query = f"INSERT INTO {table} (id, c{i}) VALUES ({number}, {sql}) RETURNING c{i}::text"
                row = connection.execute(query.encode()).fetchone()
                assert row is not None
                texts[number] = (f"c{i}", row[0])
    return texts


@pytest.fixture(scope="module")
def captured(live: LiveSource) -> Captured:
    own = replace(live, name="types")
    with own.connection() as connection:
        for statement in SETUP:
            connection.execute(statement.encode())
        connection.execute(f"CREATE TABLE refused ({', '.join(f'c{i} {kind}' for i, kind in enumerate(REFUSED))})".encode())
    tables: dict[str, Values] = {"exact": EXACT, "unfit": UNFIT, "lost": LOST, "accepted": ACCEPTED}
    texts = {name: _fill(own, name, chosen) for name, chosen in tables.items()}
    own.capture([f"public.{name}" for name in tables])
    own.delivered()
    with own.connection() as connection:
        for name, rows in texts.items():
            for number, (column, _) in rows.items():
                copy = f"INSERT INTO {name} (id, {column}) SELECT id + {STREAMED}, {column} FROM {name} WHERE id = {number}"
                connection.execute(copy.encode())
    found = own.delivered()
    return Captured(texts, {name: found[f"types.public.{name}"] for name in tables}, own)


def test_every_exact_value_arrives(captured: Captured, session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    found, texts = captured.fold_exact(lake, captured.columns("exact")), captured.texts["exact"]
    types = dict(zip((f"c{i}" for i in range(len(EXACT))), EXACT, strict=True))
    assert not (wrong := untrue(captured, found)), "\n".join(wrong)
    other = [(n, types[c], v) for n, row in found.items() for c, v in row.items() if c not in ("id", texts[n % STREAMED][0])]
    assert [where for where in other if where[2] is not None] == []


def untrue(captured: Captured, found: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Rows of the exact types whose value is not PostgreSQL's own."""
    texts = captured.texts["exact"]
    types = dict(zip((f"c{i}" for i in range(len(EXACT))), EXACT, strict=True))
    with captured.live.connection() as connection:
        return [
            f"{types[column]} {'streamed' if number > STREAMED else 'read'}: {row[column]!r} for {text[:100]}"
            for number, row in found.items()
            for column, text in [texts[number % STREAMED]]
            if not same(connection, types[column], row[column], text)
        ]


@pytest.mark.all
def test_every_type_is_part_of_a_key(captured: Captured, session: SparkSession, tmp_path: Path) -> None:
    """A key of a boolean, of bytes or an array never reached silver: DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE."""
    lake, (records,) = Lake(session, tmp_path), captured.records["exact"].values()
    columns = captured.columns("exact")
    spec = lake.spec("exact", columns, [c.name for c in columns])
    # What was read makes the table, what was streamed is merged into it, and again: each finds the row with its key.
    read = [record for record in records if json.loads(record.value or "")["after"]["id"] < STREAMED]
    for round_, batch in enumerate((read, records[len(read) :])):
        lake.put("exact", *batch)
        lake.append(lake.all_of("exact"))
        lake.fold(spec)
        assert len(values(spec.path)) == (1 + round_) * len(read)
    found = {row["id"]: row for row in values(spec.path)}
    assert not (wrong := untrue(captured, found)), "\n".join(wrong)


def test_no_unfit_value_converts(captured: Captured, session: SparkSession) -> None:
    kinds = {c.name: c for c in captured.columns("unfit")}
    converted = converted_leaves(session, kinds, list(captured.sent("unfit")))
    assert [c for c in converted if c[2] is not None] == []
    assert len(converted) == 2 * len(captured.texts["unfit"])


def test_what_is_lost_is_refused_unless_accepted(captured: Captured, session: SparkSession) -> None:
    for column in captured.columns("lost")[1:]:
        if column.source_type != "interval":
            with pytest.raises(JobRefusedError, match="Debezium loses .*accept_inexact"):
                lake_type(column)
    kinds = {c.name: c for c in captured.columns("lost", accept=True)}
    converted = converted_leaves(session, kinds, list(captured.sent("lost")))
    with captured.live.connection() as connection:
        for number, name, value in converted:
            text = captured.texts["lost"][number % STREAMED][1]
            assert not same(connection, kinds[name].source_type, value, text), f"{kinds[name].source_type} {text} is exact now"


@pytest.mark.all
def test_the_other_values_of_accepted_columns_are_exact(captured: Captured, session: SparkSession) -> None:
    kinds = {c.name: c for c in captured.columns("accepted", accept=True)}
    converted = converted_leaves(session, kinds, list(captured.sent("accepted")))
    assert len([c for c in converted if c[2] is not None]) == 2 * len(captured.texts["accepted"])
    with captured.live.connection() as connection:
        for number, name, value in converted:
            column, text = captured.texts["accepted"][number % STREAMED]
            if name == column:
                assert same(connection, kinds[name].source_type, value, text), f"{kinds[name].source_type} {text}: {value}"


def test_refused_by_name(captured: Captured) -> None:
    for column in captured.columns("refused", accept=True):
        with pytest.raises(JobRefusedError, match=rf"column '{column.name}' has type .*except_column_list"):
            lake_type(column)


@pytest.mark.all
def test_a_connector_is_not_started_on_what_it_would_misread(captured: Captured) -> None:
    live = captured.live
    with live.connection() as connection:
        connection.execute("CREATE TABLE days (id int PRIMARY KEY, fine date, gone date, old date, at timetz)")
        connection.execute(
            "INSERT INTO days VALUES (1, 'infinity', '1582-10-05', '0001-01-01 BC'), (2, '1582-10-15', NULL, NULL)"
        )
    source = live.source(["public.days"])
    with live.settings():
        database = PostgresDatabase(source.database)
        found = database.tables([parse_table("public.days")])
        with pytest.raises(DatabaseError) as refused:
            refuse_uncapturable(database, source, found, to_read=found)
        named = [word for word in ("'fine'", "'gone'", "'old'", "'at'") if word in str(refused.value)]
        assert named == ["'gone'", "'old'", "'at'"]
        accepting = live.source([{"name": "public.days", "accept_inexact": ["gone", "old", "at"]}])
        refuse_uncapturable(database, accepting, found, to_read=found)


@pytest.mark.all
def test_an_array_that_is_sent_as_null_stops_a_connector_and_is_no_key(captured: Captured) -> None:
    live, checked = replace(captured.live, name="stopped"), "CHECK (array_position(v, NULL) IS NULL)"
    with live.connection() as connection:
        connection.execute("CREATE TABLE keyed (k positive[] PRIMARY KEY, v int)")
        connection.execute(f"CREATE TABLE needed (id int PRIMARY KEY, v positive[] NOT NULL {checked})".encode())
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("INSERT INTO needed VALUES (1, '{1,NULL}')")
        connection.execute("ALTER TABLE needed DROP CONSTRAINT needed_v_check")
        connection.execute("INSERT INTO needed VALUES (1, '{1,NULL}')")
    live.capture(["public.needed"])
    with pytest.raises(AssertionError, match='null used for required field: "v"'):
        live.delivered()
    live.connect.delete("stopped-capture")
    source = live.source([{"name": "public.keyed", "accept_inexact": ["k"]}, "public.needed"])
    with live.settings():
        database = PostgresDatabase(source.database)
        found = database.tables([table.id for table in source.tables])
        with pytest.raises(DatabaseError) as refused:
            refuse_uncapturable(database, source, found, to_read=found)
        _, key, value = str(refused.value).splitlines()
        stops = "stops the connector, and every table of the source with it"
        assert "column 'k' has type positive[] and is part of the key: Debezium sends arrays with a NULL element as NULL" in key
        assert (stops in key, "accept_inexact" in key) == (True, False)
        assert (f"in a NOT NULL column one of them {stops}" in value, "accept_inexact" in value) == (True, True)
        told = [f.message for f in preflight(Chain(Platform(), source)).failures if f.check == "columns"]
        assert [f"public.{table} {sentence}" for table, sentence in zip(("keyed", "needed"), told, strict=True)] == [key, value]


MODES = [
    "decimal=precise,temporal=adaptive,binary=base64,interval=numeric,hstore=map",
    "decimal=double,temporal=nanoseconds,binary=hex,unknown=omit",
    "temporal=isostring,binary=base64-url-safe",
    "temporal=connect",
    "temporal=adaptive_time_microseconds",
]
OPTIONS = {
    "decimal": "decimal.handling.mode",
    "temporal": "time.precision.mode",
    "binary": "binary.handling.mode",
    "interval": "interval.handling.mode",
    "hstore": "hstore.handling.mode",
}


@pytest.mark.all
@pytest.mark.parametrize("number", [0, *(pytest.param(number, marks=pytest.mark.all) for number in range(1, 5))])
def test_other_modes_are_exact_or_refused(captured: Captured, session: SparkSession, number: int) -> None:
    """Never another value: what a mode loses is refused by name, or makes its record unfit."""
    modes = Modes.parse(MODES[number])
    own = replace(captured.live, name=f"modes{number}")
    chosen = {option: getattr(modes, name) for name, option in OPTIONS.items()}
    chosen["include.unknown.datatypes"] = str(modes.unknown == "include").lower()
    own.capture(["public.exact", "public.unfit"], **chosen)
    found = own.delivered()
    for table in ("exact", "unfit"):
        other = Captured(captured.texts, {table: found[f"{own.name}.public.{table}"]}, own)
        readable, refused = {}, set()
        for column in captured.columns(table):
            # What NaN and far timestamps become is known; the other values must be right.
            accepted = column.source_type.startswith(("numeric", "timestamp"))
            read = replace(column, modes=MODES[number], accepted=accepted)
            try:
                lake_type(read)
                readable[column.name] = read
            except JobRefusedError:
                refused.add(column.source_type)
        texts = captured.texts[table]
        sent = [row for row in other.sent(table) if row[1] in readable and row[0] < STREAMED]
        with own.connection() as connection:
            converted = converted_leaves(session, readable, sent)
            wrong = [
                (readable[name].source_type, texts[n][1][:80], value)
                for n, name, value in converted
                if value is not None
                and not same(connection, readable[name].source_type, value, texts[n][1])
                # Nanoseconds end in 1677: an older element is sent as NULL, which the column had to accept.
                and not (
                    modes.temporal == "nanoseconds" and isinstance(value, list) and None in value and readable[name].accepted
                )
            ]
            wrong += [(readable[c].source_type, n, None) for n, c, leaf in sent if leaf is None and not readable[c].accepted]
            unfit = {readable[name].source_type for _, name, value in converted if value is None}
        assert wrong == []
        if table == "exact":
            assert (sorted(refused), sorted(unfit)) == LIMITS[number]
