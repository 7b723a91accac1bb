"""What a connector's schema history topic tells of each table: Debezium's model of its columns, and where it was dropped.

A connector of a binlog reads each DDL statement's text, and the rows behind it by the model that it makes of that. A record
holds the statement, the place where its transaction begins, and the tables as they are from then on. Debezium writes a
statement down before it sends a row behind it. A CREATE is written down only where there was no such table (so after DROP
DATABASE too, which is not), a RENAME as an ALTER. MariaDB's catalogue has no number that survives ALTER and changes with DROP
alone.

A reading is a short text; two columns whose readings are equal give the same values. So many words are one reading (INT3,
MIDDLEINT, MEDIUMINT), and what changes no value is in none: a text's length, a number's display width, defaults, collations
(`BinlogValueConverters` of Debezium 3.5.0 and 3.6.1, and statements that were played; https://mariadb.com/kb/en/data-types/).

A connector goes on from its offset with the definitions that its history holds at or before it. One of a table that it did not
capture is not among them (`store.only.captured.tables.ddl`), and Debezium has no way to add one to a connector that keeps its
offset. So a record is written as Debezium writes those of a snapshot, and read back by AbstractSchemaHistory.recover (3.5.0).
https://debezium.io/documentation/reference/3.5/connectors/mariadb.html#mariadb-schema-history-topic
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.field_types import TableId
from spark.errors import quantity
from spark.table.identifiers import double_quote

_SHOWN = 300
"""Characters of a statement; those of a wide table have thousands."""


@dataclass(frozen=True)
class ModelColumn:
    """One column as Debezium holds it: the type's words as they were written, in capitals, and what stood beside them."""

    name: str
    type: str
    nullable: bool
    length: int | None = None
    scale: int | None = None
    charset: str = ""
    labels: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Name and type, for people."""
        sizes = ",".join(str(size) for size in (self.length, self.scale) if size is not None)
        # Debezium gives an enum a length of 1, and a set that of all its labels.
        sizes = ",".join(self.labels) or sizes
        return f"{self.name} {self.type}" + (f"({sizes})" if sizes else "") + (f" {self.charset}" if self.charset else "")


@dataclass(frozen=True)
class TableModel:
    """A table's columns in order, and the statement by which it came to have them.

    `place` is the statement's place in the binlog; empty where the server was asked for the definition, as a snapshot does.
    `begins` is the place from which on it holds, either way, as the lake's positions have it. `written` has such a place, and
    the GTID beside it, of each record with these columns.
    """

    columns: tuple[ModelColumn, ...]
    statement: str
    place: str = ""
    begins: str = ""
    written: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def text(self) -> str:
        """The columns, for people."""
        return ", ".join(column.text for column in self.columns)

    @property
    def since(self) -> str:
        """From which statement on it holds, for people."""
        words = " ".join(self.statement.split())
        shown = words if len(words) <= _SHOWN else words[:_SHOWN] + "…"
        return f"{shown} (at {self.place})" if self.place else "the snapshot"


def newest_models(records: Iterable[Mapping[str, Any]], tables: Collection[TableId]) -> dict[TableId, TableModel]:
    """The last model of each table; one that was dropped, or is not among the records, is left out."""
    return {table: models[-1] for table, models in models_in_order(records, tables).items()}


def models_in_order(records: Iterable[Mapping[str, Any]], tables: Collection[TableId]) -> dict[TableId, tuple[TableModel, ...]]:
    """Each table's models since it was last made, oldest first; a record that changes no column adds none."""
    ids = {double_quote(*table): table for table in tables}
    models: dict[TableId, tuple[TableModel, ...]] = {}
    for record in records:
        for change in record.get("tableChanges") or ():
            table = ids.get(change["id"])
            if table is None:
                continue
            if change["type"] == "DROP":
                models.pop(table, None)
                continue
            model, before = _model(record, change["table"]), models.get(table, ())
            if not before or before[-1].columns != model.columns:
                models[table] = (*before, model)
            else:
                models[table] = (*before[:-1], replace(before[-1], written=before[-1].written + model.written))
    return models


def _model(record: Mapping[str, Any], table: Mapping[str, Any]) -> TableModel:
    position = record.get("position") or {}
    at = BinlogPosition.of(position["file"], position["pos"]) if position.get("file") else None
    statement_at = at.text if at and not position.get("snapshot") else ""
    begins = at.in_positions if at else ""
    written = ((begins, str(position.get("gtids") or "")),)
    return TableModel(tuple(map(_column, table["columns"])), str(record.get("ddl") or ""), statement_at, begins, written)


def _column(column: Mapping[str, Any]) -> ModelColumn:
    return ModelColumn(
        name=column["name"],
        type=str(column["typeName"]).upper(),
        nullable=bool(column["optional"]),
        length=column.get("length"),
        scale=column.get("scale"),
        charset=str(column.get("charsetName") or ""),
        labels=tuple(column.get("enumValues") or ()),
    )


_INTEGERS = {
    **dict.fromkeys(("TINYINT", "INT1"), "tinyint"),
    **dict.fromkeys(("SMALLINT", "INT2"), "smallint"),
    **dict.fromkeys(("MEDIUMINT", "INT3", "MIDDLEINT"), "mediumint"),
    **dict.fromkeys(("INT", "INT4", "INTEGER"), "int"),
    **dict.fromkeys(("BIGINT", "INT8"), "bigint"),
}
_DECIMALS = ("DECIMAL", "DEC", "FIXED", "NUMERIC")
_DOUBLES = ("DOUBLE", "DOUBLE PRECISION", "FLOAT8")
# REAL is the server's double, unless its sql_mode has REAL_AS_FLOAT; Debezium's parser makes seven digits of it. FLOAT4 is none
# of these: its converter does not know the word, and sends NULL for each value.
_FLOATS = ("FLOAT", "REAL")
_FLOAT_BITS = 24
_BYTES = ("VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "LONG VARBINARY", "BINARY VARYING")
_TEXTS = re.compile(
    r"(NATIONAL )?(N?CHAR|CHARACTER|N?VARCHAR|VARCHARACTER|(N?CHAR|CHARACTER) (VARYING|VARCHAR))( BINARY)?"
    r"|(TINY|MEDIUM|LONG)?TEXT( BINARY)?|LONG( (VARCHAR|CHAR VARYING|CHARACTER VARYING|VARCHARACTER))?"
)
_WITH_DIGITS = ("TIME", "DATETIME", "TIMESTAMP")
_SAME_NAMES = {"GEOMCOLLECTION": "GEOMETRYCOLLECTION"}
_UTF8 = ("", "utf8", "utf8mb3", "utf8mb4")
"""One encoding for Java; it is also what Debezium takes where it knows of none."""
_CATALOGUE = re.compile(r"(?P<name>[a-z0-9]+)\s*(?:\((?P<args>.*)\))?(?P<flags>[a-z ]*)", re.DOTALL)
# A model has a label as it was written, and a server's text may stand in either quotes.
_LABEL = re.compile(r"""'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*\"""", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "b": "\b", "Z": "\x1a"}


def reading_of_model(column: ModelColumn, signed: Collection[str] = ()) -> str:
    """What Debezium makes of its values; `signed`: words of integers that its connector takes for signed (kinds.Kind)."""
    words = [word for word in column.type.split() if word not in ("UNSIGNED", "ZEROFILL", "SIGNED")]
    name = " ".join(words)
    if name in _INTEGERS:
        unsigned = column.type != name and "UNSIGNED" in column.type and name not in signed
        return _INTEGERS[name] + (" unsigned" if unsigned else "")
    if name in ("ENUM", "SET"):
        return f"{name.lower()}({_labels(','.join(column.labels))})"
    if _TEXTS.fullmatch(name):
        return f"text {_charset(column.charset)}"
    return _by_name(name, column.length, column.scale)


def reading_of_catalogue(column: CatalogueColumn) -> str:
    """What the server writes."""
    shape = _CATALOGUE.match(column.type)
    if shape is None:
        return column.type
    name, args = shape["name"].upper(), shape["args"] or ""
    if name in _INTEGERS:
        return _INTEGERS[name] + (" unsigned" if "unsigned" in shape["flags"] or "zerofill" in shape["flags"] else "")
    if name in ("ENUM", "SET"):
        return f"{name.lower()}({_labels(args)})"
    if _TEXTS.fullmatch(name):
        return f"text {_charset(column.kind)}"
    sizes = [int(size) for size in args.split(",") if size.strip().isdigit()]
    return _by_name(name, sizes[0] if sizes else None, sizes[1] if len(sizes) > 1 else None)


def _by_name(name: str, length: int | None, scale: int | None) -> str:
    """The reading of a type that has no charset, sign or labels."""
    if name in _DECIMALS:
        return f"decimal({length or 10},{scale or 0})"
    if name in _DOUBLES:
        return "double"
    if name in _FLOATS:
        return "double" if name == "FLOAT" and scale is None and (length or 0) > _FLOAT_BITS else "float"
    if name in _BYTES:
        return "bytes"
    if name in ("BINARY", "BIT"):
        return f"{name.lower()}({length or 1})"
    if name in _WITH_DIGITS:
        return f"{name.lower()}({length or 0})"
    return _SAME_NAMES.get(name, name).lower()


def is_json_in_text(model: str, server: str) -> bool:
    """MariaDB's JSON is a longtext, and Debezium sends the text as it is."""
    return (model, server) == ("json", "text utf8")


def _charset(name: str) -> str:
    return "utf8" if name.lower() in _UTF8 else name.lower()


def _labels(text: str) -> str:
    """As one text whatever way they were quoted; their order is what the binlog's numbers mean."""
    return ",".join(repr(_label(quoted)) for quoted in _LABEL.findall(text))


def _label(quoted: str) -> str:
    mark = quoted[0]
    return re.sub(
        rf"{mark}{mark}|\\(.)", lambda found: _ESCAPES.get(found[1], found[1]) if found[1] else mark, quoted[1:-1], flags=re.S
    )


NEVER = "0"
"""The generation of a table that was not dropped since its connector looks at it."""
_ANOTHER = ("DROP", "CREATE")


def with_schema_history(
    cluster: KafkaCluster, topic: str, tables: Mapping[TableId, CatalogueTable]
) -> Mapping[TableId, CatalogueTable]:
    """The tables, each with the place where it was last dropped or made as its generation, and with its models.

    The topic is read behind the catalogue: a model that differs is a wrong one, or older than the table.
    """
    state = cluster.states([topic]).get(topic)
    if state is None:
        return tables
    records = [json.loads(record.value) for record in cluster.records(topic, state.ranges) if record.value]
    dropped, models = drops(records, list(tables)), models_in_order(records, tables)
    return {
        id_: replace(table, drops=(places := dropped[id_]), generation=(NEVER, *places)[-1], models=models.get(id_, ()))
        for id_, table in tables.items()
    }


def drops(records: Iterable[Mapping[str, Any]], tables: Sequence[TableId]) -> dict[TableId, tuple[str, ...]]:
    """Where each table was dropped or made, lowest first, by the records of a schema history.

    Debezium keeps the DDL of captured tables, each statement with the place where its transaction begins: what lies below is of
    the old table. It writes a statement down before it sends a row behind it, so what bronze holds of the new table is told of
    here.
    """
    positions: dict[TableId, set[BinlogPosition]] = {table: set() for table in tables}
    for record in records:
        position = record.get("position") or {}
        if position.get("snapshot") or not position.get("file"):
            continue
        ids = {change["id"] for change in record.get("tableChanges") or () if change["type"] in _ANOTHER}
        for table in tables:
            if double_quote(*table) in ids:
                positions[table].add(BinlogPosition.of(position["file"], position["pos"]))
    return {table: tuple(at.in_positions for at in sorted(places)) for table, places in positions.items()}


# The rest of an offset is not about a place: what is skipped of a transaction, an incremental snapshot's state.
_PLACE = ("ts_sec", "file", "pos", "gtids", "server_id")


def definitions(cluster: KafkaCluster, topic: str, tables: Sequence[TableId]) -> dict[TableId, dict[str, Any]]:
    """The last record of each table in which it is made; one without such a record is left out."""
    state = cluster.states([topic]).get(topic)
    if state is None:
        return {}
    ids, created = {double_quote(*table): table for table in tables}, {}
    for read in cluster.records(topic, state.ranges):
        record = json.loads(read.value or b"{}")
        for change in record.get("tableChanges") or ():
            if change["type"] == "CREATE" and change["id"] in ids:
                created[ids[change["id"]]] = {**record, "tableChanges": [change]}
    return created


def define(cluster: KafkaCluster, topic: str, records: Sequence[Mapping[str, Any]], at: Mapping[str, Any]) -> None:
    """Write definitions into a stopped connector's history, valid from its stored offset on.

    `at` is the offset as Connect tells it, `{"partition": …, "offset": …}`. Marked as a snapshot's: no table was made there
    (cdc_assets.clients.schema_history).

    Raises ServiceError: when one did not arrive.
    """
    from confluent_kafka import Producer

    offset = {name: value for name, value in at["offset"].items() if name in _PLACE}
    failed: list[str] = []
    producer = cluster.clients.make(Producer, **{"enable.idempotence": True})
    for record in records:
        written = {
            "source": at["partition"],
            "position": {**offset, "snapshot": True},
            "ts_ms": int(time.time() * 1000),
            **{name: record[name] for name in ("databaseName", "ddl", "tableChanges") if name in record},
        }
        value = json.dumps(written).encode()
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: failed.append(str(error)) if error else None)
    left = producer.flush(30.0)
    cluster.clients.refuse()
    if failed or left:
        raise ServiceError(
            f"topic {topic} at {cluster.bootstrap}: {'; '.join(failed) or quantity(left, 'record') + ' not acknowledged'}"
        )
