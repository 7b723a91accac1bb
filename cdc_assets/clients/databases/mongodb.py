"""A MongoDB source: its documents by pymongo, and what a sample of a collection's documents says of its fields.

Written by its documentation and tested on recorded answers: no server has been asked.

A collection's key is `_id`, whose values may be of several types, which MongoDB's `$gt` does not cross: so one cursor in the
order of `_id` is read, instead of pages. Reads are of what a majority has: what a primary could lose never reached the change
stream.

MongoDB keeps no catalogue of fields. 500 documents from each end of `_id` are looked at, the same ones as long as they are
there:

* A field that none of them has, or only as null, is not found. It is in bronze all the same.
* A field whose values have several types is `jsonb`: its text as the connector sends it, which loses nothing.
* A field may hold another type in a document that was not looked at. Such a record is unfit, and told.
* Every field but `_id` may be absent, so it is nullable; `_id` is where a document has it as null.
* Ids of several types are `jsonb`: as text 1 and "1" would be one row.

What silver has already of a field stands (capture.source_columns): another sample changes no type.
The connector sends documents as Extended JSON texts: https://debezium.io/documentation/reference/3.6/connectors/mongodb.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any

from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.drivers import import_driver
from cdc_assets.clients.databases.row_pages import PAGE, Values
from cdc_assets.clients.databases.translated_catalogue import FoundColumn, place_of, tables_of
from cdc_assets.registry import settings
from cdc_assets.registry.databases import MongoDb
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from spark.values.other_databases import AS_WRITTEN, COLUMNS

if TYPE_CHECKING:
    from spark.specs import Column


@dataclass(frozen=True)
class MongoDbReader:
    """Rows of one cluster (row_pages.RowReader): a document's top-level fields are its columns."""

    database: MongoDb

    def pages(self, table: TableId, columns: Sequence[Column], keys: int) -> Iterator[Sequence[Values]]:
        """All documents in pages, by ascending `_id`."""
        with self._collection(table) as collection:
            page: list[Values] = []
            for document in collection.find({}, _fields(columns), batch_size=PAGE).sort("_id", 1):
                page.append(_row(document, columns))
                if len(page) == PAGE:
                    yield page
                    page = []
            yield page

    def rows_of(self, table: TableId, columns: Sequence[Column], keys: Sequence[Values]) -> Sequence[Values]:
        """At least the documents of these keys: a text may be an ObjectId's."""
        from bson import ObjectId

        ids = [key[0] for key in keys]
        ids += [ObjectId(i) for i in ids if isinstance(i, str) and ObjectId.is_valid(i)]
        with self._collection(table) as collection:
            return [_row(document, columns) for document in collection.find({"_id": {"$in": ids}}, _fields(columns))]

    def mark(self, table: TableId, marker: str) -> None:
        """Commit a document with this id to the marker collection, and take away older ones."""
        with self._collection(table) as collection:
            collection.insert_one({"_id": marker})
            collection.delete_many({"_id": {"$ne": marker}})

    def condition(self, columns: Sequence[Column], keys: Sequence[Values]) -> str:
        """A query by `_id`, in Extended JSON: a text may be an ObjectId's."""
        ids: list[Any] = []
        for (key,) in keys:
            if isinstance(key, Decimal):
                ids.append({"$numberDecimal": f"{key:f}"})
            elif isinstance(key, (int, str)):
                ids.append(key)
            else:
                raise DatabaseError(f"an _id of {type(key).__name__} cannot be asked for in a snapshot's condition")
            if isinstance(key, str) and re.fullmatch("[0-9a-f]{24}", key):
                ids.append({"$oid": key})
        return json.dumps({"_id": {"$in": ids}})

    def signal(self, table: TableId, signal: str, kind: str, data: str) -> None:
        """Insert a signal for the connector: its data is a document."""
        with self._collection(table) as collection:
            collection.insert_one({"_id": signal, "type": kind, "payload": json.loads(data)})

    def clear(self, table: TableId, signal: str = "") -> int:
        """Take away all signals, or that of this id; how many there were."""
        with self._collection(table) as collection:
            return int(collection.delete_many({"_id": signal} if signal else {}).deleted_count)

    @contextmanager
    def _collection(self, table: TableId) -> Iterator[Any]:
        with open_client(self.database) as client:
            from pymongo.read_concern import ReadConcern
            from pymongo.write_concern import WriteConcern

            yield client[table.schema].get_collection(
                table.table, read_concern=ReadConcern("majority"), write_concern=WriteConcern("majority")
            )


@contextmanager
def open_client(database: MongoDb) -> Iterator[Any]:
    """A client of the cluster; `client[name].command(...)` is a database's.
    Raises DatabaseError: the driver is missing, no server answers within 10 s, or what a server says."""
    pymongo = import_driver("MongoDB", "pymongo", "pymongo")
    hosts = settings.resolve(database.hosts)
    try:
        with pymongo.MongoClient(
            hosts.split(","),
            replicaSet=database.replica_set,
            username=settings.resolve(database.user),
            password=settings.secret(database.password),
            authSource=database.auth_source,
            tls=database.encrypts(hosts),
            serverSelectionTimeoutMS=10_000,
            appname="cdc_assets",
        ) as client:
            yield client
    except (pymongo.errors.PyMongoError, OSError) as error:
        # What follows is every server's state, in Python's own words.
        reason = str(error).partition(", Topology Description:")[0]
        raise DatabaseError(f"MongoDB at {hosts}: {reason}") from error


def _fields(columns: Sequence[Column]) -> dict[str, int]:
    return {c.name: 1 for c in columns}


def _row(document: dict[str, Any], columns: Sequence[Column]) -> Values:
    return tuple(_plain(document.get(c.name)) for c in columns)


def _plain(value: Any) -> Any:
    """Numbers of 128 bits as decimals, ids as text."""
    kind = type(value).__name__
    return value.to_decimal() if kind == "Decimal128" else str(value) if kind == "ObjectId" else value


SAMPLE = 1000
_ID = "_id"


class MongoDbColumns:
    """The collections of one cluster (translated_catalogue.TranslatedCatalogue)."""

    def __init__(self, database: MongoDb) -> None:
        self._database = database

    @property
    def place(self) -> str:
        """The hosts of the cluster."""
        return f"MongoDB at {place_of(self._database)}"

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """Each collection that exists, by a sample of it."""
        columns: list[FoundColumn] = []
        with open_client(self._database) as client:
            for table in ids:
                database = client[table.schema]
                if table.table in database.list_collection_names(filter={"name": table.table}):
                    # The first and the last documents by `_id`, those of a small collection twice.
                    orders = (database[table.table].find({}, batch_size=SAMPLE // 2).sort(_ID, order) for order in (1, -1))
                    columns += _columns(table, chain.from_iterable(documents.limit(SAMPLE // 2) for documents in orders))
        return tables_of(columns)

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """Nothing beyond what the types say."""
        return {}


def _columns(table: TableId, documents: Iterable[Mapping[str, Any]]) -> list[FoundColumn]:
    types: dict[str, set[str]] = {_ID: set()}
    nullable: set[str] = set()
    for document in documents:
        for name, value in document.items():
            field_types = types.setdefault(name, set())
            if value is None:
                nullable.add(name)
            else:
                field_types.add(COLUMNS.get(type(value).__name__, AS_WRITTEN))
    return [
        _column(table, name, field_types, name in nullable) for name, field_types in types.items() if field_types or name == _ID
    ]


def _column(table: TableId, name: str, types: set[str], nullable: bool) -> FoundColumn:
    is_key = name == _ID
    # Of an empty collection nobody knows what its ids will be: most are ObjectIds.
    column_type = next(iter(types or {"text"})) if len(types) < 2 else AS_WRITTEN
    return FoundColumn(table=table, name=name, type=column_type, nullable=nullable or not is_key, key_place=int(is_key))
