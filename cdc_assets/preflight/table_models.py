"""Whether Debezium reads each table's rows by the server's own columns: its newest model against the catalogue.

The catalogue is of now, the model of the place that the connector has read up to. So a difference alone says nothing: the
connector may have statements before it. It is settled when the connector has passed the end of the binlog as it was behind a
look at the catalogue, and a look behind that finds the same columns. Until then it cannot be told, and is not called right.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError
from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource, Source
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.databases.mariadb import MariaDbDatabase
from cdc_assets.tables.model_difference import ModelDifference, model_difference
from cdc_assets.tables.model_mend import mend_statement
from cdc_assets.tables.source_catalogue import catalogue_of
from cdc_assets.volumetry.binlog_progress import await_binlog

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform

CHECK = "table_model"
_SETTLE_SECONDS = 15.0
"""What a running connector needs for the place of a marker: its heartbeat, and the interval at which Connect stores offsets."""
_HELD_SECONDS = 5.0
"""The same before a fold: the other tables wait for it."""
_ROUNDS = 3
"""Looks at a table that is altered meanwhile."""


@dataclass(frozen=True)
class WrongModel:
    """A model that is not the catalogue's. `waits`: why it cannot be told yet whether that will stay; empty: it will."""

    difference: ModelDifference
    waits: str = ""
    mend: str = ""

    @property
    def message(self) -> str:
        """What is wrong, and why nobody knows yet whether it stays."""
        waits = f". Whether the connector will read that yet cannot be told: {self.waits}" if self.waits else ""
        return self.difference.text + waits

    @property
    def text(self) -> str:
        """The message, and what mends it."""
        return self.message if self.waits else f"{self.message}. Mend: {self.mend}"


def wrong_models(
    platform: Platform, source: Source, catalogue: Mapping[TableId, CatalogueTable], *, seconds: float = _SETTLE_SECONDS
) -> dict[TableId, WrongModel]:
    """The tables whose model differs. Nothing is asked as long as none does.

    `catalogue`: with models, as `catalogue_of` has read them.

    Raises:
        DatabaseError: the source cannot be asked.
    """
    found, before = dict[TableId, WrongModel](), dict(catalogue)
    database, until = cast(MariaDbDatabase, platform.database(source)), time.monotonic() + seconds
    for _ in range(_ROUNDS):
        open_ = _differing(before)
        if not open_:
            break
        waits = _await_connector(platform, source, database, until)
        if waits:
            return found | {id_: WrongModel(difference, waits) for id_, difference in open_.items()}
        # In this order: the model is newer than the first look at the table, and older than the last.
        read = catalogue_of(platform, source, [table for table in source.tables if table.id in open_])
        after = database.tables([*open_])
        moved = {id_ for id_ in open_ if id_ in read and id_ in after and after[id_].columns != before[id_].columns}
        for id_, difference in _differing({i: t for i, t in read.items() if i in after and i not in moved}).items():
            found[id_] = WrongModel(difference, mend=_mend(source, database, read[id_]))
        before = {id_: read[id_] for id_ in moved}
    altered = "it is altered again and again"
    return found | {id_: WrongModel(difference, altered) for id_, difference in _differing(before).items()}


def why_held(
    platform: Platform, source: BaseSource, tables: Sequence[Table], catalogue: Mapping[TableId, CatalogueTable]
) -> dict[TableId, str]:
    """Why each of these tables is not to be folded now; a table that may be is left out.

    Raises:
        DatabaseError: the source cannot be asked.
    """
    asked = source.asked
    if asked is None or not names.has_schema_history(asked):
        return {}
    wanted = {table.id: catalogue[table.id] for table in tables if table.id in catalogue}
    return {id_: found.text for id_, found in wrong_models(platform, asked, wanted, seconds=_HELD_SECONDS).items()}


def _differing(catalogue: Mapping[TableId, CatalogueTable]) -> dict[TableId, ModelDifference]:
    told = {id_: model_difference(table.model, table) for id_, table in catalogue.items() if table.model}
    return {id_: difference for id_, difference in told.items() if difference}


def _await_connector(platform: Platform, source: Source, database: MariaDbDatabase, until: float) -> str:
    """Until the connector has read what is in the binlog now; why it has not."""
    try:
        await_binlog(source, f"model-{time.time_ns()}", database, platform.core_connect(source.cluster), until)
    except CdcAssetsError as error:
        return str(error)
    return ""


def _mend(source: Source, database: MariaDbDatabase, table: CatalogueTable) -> str:
    """The statement at the source, and what reads the rows again; where none can be told, what reads every definition."""
    definition = database.definitions([table.id]).get(table.id, "")
    statement = mend_statement(table.model, table, definition) if table.model and definition else ""
    if not statement:
        name = names.connector_name(source)
        return f"cdc stop {name}; cdc offsets reset {name}; cdc resume {name} (reads every table again)"
    short = next(names.table_name(each) for each in source.tables if each.id == table.id)
    return f"{statement}; then, when cdc preflight {source.name} is green, cdc repair bronze {source.name} {short} --anew"


def findings(platform: Platform, source: Source, tables: Sequence[TableId]) -> Iterator[Finding]:
    """Of each captured table that the catalogue has."""
    try:
        catalogue = catalogue_of(platform, source, [table for table in source.tables if table.id in tables])
        wrong = wrong_models(platform, source, catalogue)
    except CdcAssetsError as error:
        yield Finding(CHECK, "warn", "server", f"Debezium's models cannot be compared: {error}", "mend that first")
        return
    for id_, table in catalogue.items():
        if found := wrong.get(id_):
            yield _of_wrong(source, id_, found)
        elif table.model is None and table.generation:
            message = "Debezium has no model of it in its schema history: it cannot read the table's rows"
            yield Finding(CHECK, "warn", str(id_), message, f"cdc onboard {source.name}, once the connector runs")
        elif table.model:
            yield Finding(CHECK, "ok", str(id_), "Debezium reads its rows by the server's columns")


def _of_wrong(source: Source, table: TableId, found: WrongModel) -> Finding:
    if found.waits:
        return Finding(CHECK, "warn", str(table), found.message, f"cdc preflight {source.name}, once the connector has caught up")
    return Finding(CHECK, "fail", str(table), found.message, found.mend)
