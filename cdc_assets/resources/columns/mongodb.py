"""What a sample of a MongoDB collection's documents says of its fields.

MongoDB keeps no catalogue of fields. 500 documents from each end of `_id` are looked at, the same ones as long as they are there:

* A field that none of them has, or only as null, is not found. It is in bronze all the same.
* A field whose values have several types is `jsonb`: its text as the connector sends it, which loses nothing.
* A field may hold another type in a document that was not looked at. Such a record is unfit, and told.
* Every field but `_id` may be absent, so it is nullable; `_id` is where a document has it as null.
* Ids of several types are `jsonb`: as text 1 and "1" would be one row.

What silver has already of a field stands (tables.source_catalogue): another sample changes no type.

The connector sends documents as Extended JSON texts: https://debezium.io/documentation/reference/3.6/connectors/mongodb.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.mongodb import MongoDb
from cdc_assets.resources.columns.translated import FoundColumn, place_of, tables_of
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.rows.mongodb import open_client
from spark.types.bson_types import AS_WRITTEN, COLUMNS

SAMPLE = 1000
_ID = "_id"


class MongoDbColumns:
    """The collections of one cluster (translated.TranslatedCatalogue)."""

    def __init__(self, database: MongoDb) -> None:
        self._database = database

    @property
    def place(self) -> str:
        """The hosts of the cluster."""
        return f"MongoDB at {place_of(self._database)}"

    def tables(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        """Each collection that exists, by a sample of it."""
        found: list[FoundColumn] = []
        with open_client(self._database) as client:
            for table in ids:
                database = client[table.schema]
                if table.table in database.list_collection_names(filter={"name": table.table}):
                    found += _columns(table, _sample(database[table.table]))
        return tables_of(found)

    def misread(self, table: CatalogueTable, columns: Sequence[str], *, snapshot: bool) -> dict[str, str]:
        """Nothing beyond what the types say."""
        return {}


def _sample(collection: Any) -> Iterable[Mapping[str, Any]]:
    """The first and the last documents by `_id`, those of a small collection twice."""
    for direction in (1, -1):
        yield from collection.find({}, batch_size=SAMPLE // 2).sort(_ID, direction).limit(SAMPLE // 2)


def _columns(table: TableId, documents: Iterable[Mapping[str, Any]]) -> list[FoundColumn]:
    types: dict[str, set[str]] = {_ID: set()}
    nullable: set[str] = set()
    for document in documents:
        for name, value in document.items():
            told = types.setdefault(name, set())
            if value is None:
                nullable.add(name)
            else:
                told.add(COLUMNS.get(type(value).__name__, AS_WRITTEN))
    return [_column(table, name, told, name in nullable) for name, told in types.items() if told or name == _ID]


def _column(table: TableId, name: str, types: set[str], nullable: bool) -> FoundColumn:
    is_key = name == _ID
    # Of an empty collection nobody knows what its ids will be: most are ObjectIds.
    told = next(iter(types or {"text"})) if len(types) < 2 else AS_WRITTEN
    return FoundColumn(table=table, name=name, type=told, nullable=nullable or not is_key, key_place=int(is_key))
