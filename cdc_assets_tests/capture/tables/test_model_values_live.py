"""Two columns of one type, read by a snapshot's words and by those of a statement: their values differ where their readings do.

So `model_difference` misses nothing of these words, and calls nothing wrong that is right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pytest

from cdc_assets.capture.model_differences import model_difference
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.schema_history import with_schema_history
from cdc_assets.registry import names
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import MARIADB, MYSQL, Kind
from cdc_assets_tests.support.live.live_binlog import LiveBinlog
from cdc_assets_tests.support.models.recorded_models import BENT, BENT_OF_MYSQL, UNPARSED, recorded

pytestmark = [pytest.mark.service, pytest.mark.all]

NAME = "mwords"
# By what a column's type begins with, the longest that fits: a value whose reading shows.
VALUES = {
    **{"tinyint": "-1", "smallint": "-1", "mediumint": "-1", "int": "-1", "bigint": "-1"},
    **{"tinyint unsigned": "255", "smallint unsigned": "65535", "mediumint unsigned": "16777215"},
    **{"int unsigned": "4294967295", "bigint unsigned": "18446744073709551615"},
    **{"decimal": "12.75", "float": "1.2345678", "double": "3.141592653589793", "double(": "12345678.91", "float(": "3.14"},
    **{"char": "'aé'", "varchar": "'aé'", "tinytext": "'aé'", "text": "'aé'", "mediumtext": "'aé'", "longtext": "'\"aé\"'"},
    **{"binary": "x'ff'", "varbinary": "x'ff00'", "tinyblob": "x'ff00'", "blob": "x'ff00'", "mediumblob": "x'ff00'"},
    **{
        "longblob": "x'ff00'",
        "enum": "'b'",
        "set": "'b'",
        "enum('a')": "'a'",
        "year": "2001",
        "bit": "b'1'",
        "bit(8)": "b'10000001'",
    },
    **{"date": "'1582-10-04'", "time": "'-12:34:56.789012'", "datetime": "'2024-02-29 12:34:56.789012'"},
    **{"timestamp": "'2024-02-29 12:34:56.789012'", "uuid": "'123e4567-e89b-12d3-a456-426655440001'"},
    **{"point": "ST_GeomFromText('POINT(1.5 -2.25)')", "geometry": "ST_GeomFromText('POINT(1 2)')"},
    **{
        "geometrycollection": "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1))')",
        "multipoint": "ST_GeomFromText('MULTIPOINT(1 1)')",
    },
    **{"polygon": "ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')", "linestring": "ST_GeomFromText('LINESTRING(0 0,1 1)')"},
}
_WITHOUT_VALUES = ("AS (", "SERIAL", "UNIQUE")


def value_of(kind: str) -> str:
    plain = kind if kind.startswith(("enum('a')", "bit(8)")) else re.sub(r"\(\d+\)", "", kind).replace(" zerofill", "")
    return next(VALUES[begin] for begin in sorted(VALUES, key=len, reverse=True) if plain.startswith(begin))


def words(kind: Kind) -> dict[str, str]:
    told = dict.fromkeys(recorded()[2].values())
    left = {"UUID", "INET4", "INET6"} if kind is MYSQL else UNPARSED
    kept = [word for word in told if word not in left and not any(part in word for part in _WITHOUT_VALUES)]
    return {f"w{number}": word for number, word in enumerate(kept)}


def played(own: LiveBinlog, listed: Mapping[str, str]) -> None:
    """A row in each table `s…`, which the snapshot has found, and in each `n…`, which a statement has made."""
    with own.server.connect(database=NAME) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        for name, word in listed.items():
            cursor.execute(f"CREATE TABLE n{name} (id int PRIMARY KEY, c {word})")
            at = "table_schema = DATABASE() AND table_name = %s AND column_name = 'c'"
            cursor.execute(f"SELECT column_type FROM information_schema.columns WHERE {at}", [f"n{name}"])
            value = value_of(str(cursor.fetchone()[0]))
            for table in (f"s{name}", f"n{name}"):
                cursor.execute(f"INSERT INTO {table} (id, c) VALUES (1, {value})")


@pytest.mark.parametrize(
    ("kind", "bent"), [(MARIADB, BENT), (MYSQL, BENT_OF_MYSQL)], ids=lambda value: getattr(value, "name", "")
)
def test_values_differ_where_readings_do(request: pytest.FixtureRequest, kind: Kind, bent: set[str]) -> None:
    live: LiveBinlog = request.getfixturevalue(kind.name)
    own, listed = live.renamed(NAME), words(kind)
    tables = [f"{part}{name}" for name in listed for part in "sn"]
    own.server.execute(f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4")
    own.server.execute(
        "SET SESSION sql_mode = ''", *(f"CREATE TABLE {NAME}.s{n} (id int PRIMARY KEY, c {w})" for n, w in listed.items())
    )
    own.capture([f"{NAME}.{table}" for table in tables])
    own.delivered()
    played(own, listed)
    events, source = own.delivered(), own.source([f"{NAME}.{table}" for table in tables])
    values = {
        table.id.table: json.loads(events[names.topic(source, table)][0][-1].value or "")["after"]["c"] for table in source.tables
    }
    with own.database(source) as database:
        catalogue = database.tables_in_own_types([table.id for table in source.tables])
    topic = names.schema_history_topic(source)
    found = with_schema_history(KafkaCluster(own.bootstrap), topic, catalogue)

    def differs(table: str) -> bool:
        modelled = found[TableId(NAME, table)]
        assert modelled.model is not None, table
        return model_difference(modelled.model, modelled, kind.signed_words) is not None

    assert {listed[name] for name in listed if differs(f"n{name}")} == bent
    assert not {listed[name] for name in listed if differs(f"s{name}")}
    by_value = {listed[name]: (values[f"s{name}"], values[f"n{name}"]) for name in listed}
    assert {word: both for word, both in by_value.items() if both[0] != both[1] and word not in bent} == {}
    assert {word for word, both in by_value.items() if both[0] == both[1]} & bent == set()
