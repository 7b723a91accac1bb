"""MongoDB's documents, by pymongo. Written by its documentation and tested on recorded answers: no server has been asked.

A collection's key is `_id`, whose values may be of several types, which MongoDB's `$gt` does not cross: so one cursor in the
order of `_id` is read, instead of pages. Reads are of what a majority has: what a primary could lose never reached the change
stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cdc_assets import settings
from cdc_assets.errors import DatabaseError
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.mongodb import MongoDb
from cdc_assets.resources.drivers import import_driver
from cdc_assets.resources.rows.paged import PAGE, Values

if TYPE_CHECKING:
    from spark.specs import Column


@dataclass(frozen=True)
class MongoDbReader:
    """Rows of one cluster (paged.RowReader): a document's top-level fields are its columns."""

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
        for (found,) in keys:
            if isinstance(found, Decimal):
                ids.append({"$numberDecimal": f"{found:f}"})
            elif isinstance(found, (int, str)):
                ids.append(found)
            else:
                raise DatabaseError(f"an _id of {type(found).__name__} cannot be asked for in a snapshot's condition")
            if isinstance(found, str) and re.fullmatch("[0-9a-f]{24}", found):
                ids.append({"$oid": found})
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

    Raises:
        DatabaseError: the driver is missing, no server answers within 10 s, or what a server says.
    """
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
