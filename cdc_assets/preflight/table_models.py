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
from cdc_assets.errors import CdcAssetsError, DatabaseError, DriverMissingError, MissingSecretError
from cdc_assets.kinds import kind_of
from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.databases.binlog_database import BinlogDatabase
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.delta_log import silver_committed
from cdc_assets.resources.dropped_tables import with_schema_history
from cdc_assets.resources.unfolded_rows import rows_between
from cdc_assets.tables.doubtful_models import DoubtfulRows, doubtful_models
from cdc_assets.tables.lost_models import LostModel, has_gtids, lost_model
from cdc_assets.tables.model_difference import ModelDifference, model_difference
from cdc_assets.volumetry.binlog_progress import await_binlog, binlog_offset

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
    """A model that is not the catalogue's, rows of one that nobody can compare any more, or one that a start loses.

    `waits`: why it cannot be told yet whether that will stay; empty: it will.
    """

    difference: ModelDifference | DoubtfulRows | LostModel
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
    platform: Platform, source: CapturedSource, catalogue: Mapping[TableId, CatalogueTable], *, seconds: float = _SETTLE_SECONDS
) -> dict[TableId, WrongModel]:
    """The tables whose model differs. Nothing is asked as long as none does.

    `catalogue`: as `tables_with_models` has read it.

    Raises:
        DatabaseError: the source cannot be asked.
    """
    doubtful: dict[TableId, DoubtfulRows | LostModel] = {
        **_doubtful_rows(platform, source, catalogue),
        **_lost_models(platform, source, catalogue),
    }
    found = {id_: WrongModel(told, mend=_mend(source, id_)) for id_, told in doubtful.items()}
    before = dict(catalogue)
    database, until = cast(BinlogDatabase, platform.database(source)), time.monotonic() + seconds
    for _ in range(_ROUNDS):
        open_ = _differing(source, before)
        if not open_:
            break
        waits = _await_connector(platform, source, database, until)
        if waits:
            return found | {id_: WrongModel(difference, waits) for id_, difference in open_.items()}
        # In this order: the model is newer than the first look at the table, and older than the last.
        read = tables_with_models(platform, source, [*open_])
        after = database.tables_in_own_types([*open_])
        moved = {id_ for id_ in open_ if id_ in read and id_ in after and after[id_].columns != before[id_].columns}
        settled = {i: t for i, t in read.items() if i in after and i not in moved}
        found |= {id_: WrongModel(difference, mend=_mend(source, id_)) for id_, difference in _differing(source, settled).items()}
        before = {id_: read[id_] for id_ in moved}
    altered = "it is altered again and again"
    return found | {id_: WrongModel(difference, altered) for id_, difference in _differing(source, before).items()}


def why_held(
    platform: Platform, source: BaseSource, tables: Sequence[Table], catalogue: Mapping[TableId, CatalogueTable]
) -> dict[TableId, str]:
    """Why each of these tables is not to be folded now; a table that may be is left out.

    Raises:
        DatabaseError: the source cannot be asked.
    """
    read = reads_statements(source)
    if read is None:
        return {}
    wanted = [table.id for table in tables]
    if read.asked is not None:
        found: Mapping[TableId, CatalogueTable] = {id_: catalogue[id_] for id_ in wanted if id_ in catalogue}
    else:
        try:
            found = tables_with_models(platform, read, wanted)
        except (
            DriverMissingError,
            MissingSecretError,
        ):  # nobody asks it from here, its columns are declared; the check warns
            return {}
    return {id_: wrong.text for id_, wrong in wrong_models(platform, read, found, seconds=_HELD_SECONDS).items()}


def refuse_held(platform: Platform, source: BaseSource, table: Table, found: CatalogueTable) -> None:
    """Nothing, where the table's rows may be folded now.

    Raises:
        DatabaseError: they may not (`why_held`), or the source cannot be asked.
    """
    if held := why_held(platform, source, [table], {table.id: found}):
        raise DatabaseError(f"{source.name}/{names.table_name(table)}: {held[table.id]}")


def reads_statements(source: BaseSource) -> CapturedSource | None:
    """The source, where its connector reads a binlog: each DDL statement by its text, and the rows by what it makes of it."""
    captured = source.captured
    return captured if captured is not None and kind_of(captured).binlog else None


def tables_with_models(platform: Platform, source: CapturedSource, tables: Sequence[TableId]) -> Mapping[TableId, CatalogueTable]:
    """The tables that there are, as the server writes their columns, and each with Debezium's newest model of it.

    Raises:
        DatabaseError: the source cannot be asked.
    """
    found = cast(BinlogDatabase, platform.database(source)).tables_in_own_types(tables)
    return with_schema_history(platform.core_kafka(source.cluster), names.schema_history_topic(source), found)


def _differing(source: CapturedSource, catalogue: Mapping[TableId, CatalogueTable]) -> dict[TableId, ModelDifference]:
    signed = kind_of(source).signed_words
    told = {id_: model_difference(table.model, table, signed) for id_, table in catalogue.items() if table.model}
    return {id_: difference for id_, difference in told.items() if difference}


def _lost_models(
    platform: Platform, source: CapturedSource, catalogue: Mapping[TableId, CatalogueTable]
) -> dict[TableId, LostModel]:
    """The tables whose newest model the connector would not find at its next start, or has not found at its last."""
    known = {id_: table.models for id_, table in catalogue.items() if has_gtids(table.models)}
    if not known:
        return {}
    offset = binlog_offset(platform.core_connect(source.cluster), names.connector_name(source))
    found = {id_: lost_model(models, offset) for id_, models in known.items()} if offset else {}
    return {id_: lost for id_, lost in found.items() if lost}


def _doubtful_rows(
    platform: Platform, source: CapturedSource, catalogue: Mapping[TableId, CatalogueTable]
) -> dict[TableId, DoubtfulRows]:
    """The tables of which bronze has rows that silver has not, by a model that is doubtful; or may have: nobody can count them.

    A row that silver has of such a model was folded when the model was the newest, and had been compared.
    """
    signed, found = kind_of(source).signed_words, dict[TableId, DoubtfulRows]()
    for table in source.tables:
        known = catalogue.get(table.id)
        for doubt in doubtful_models(known.models, signed) if known else ():
            rows = rows_between(
                names.bronze_path(platform.lake, source),
                names.lake_topic(source, table),
                silver_committed(names.silver_path(platform.lake, source, table)),
                (doubt.model.begins, doubt.after.begins),
            )
            if rows is None:
                found[table.id] = DoubtfulRows(None, doubt)
                break
            if rows.unfolded and (doubt.is_corrected or not rows.folded):
                found[table.id] = DoubtfulRows(rows.unfolded, doubt)
                break
    return found


def _await_connector(platform: Platform, source: CapturedSource, database: BinlogDatabase, until: float) -> str:
    """Until the connector has read what is in the binlog now; why it has not."""
    try:
        await_binlog(source, f"model-{time.time_ns()}", database, platform.core_connect(source.cluster), until)
    except CdcAssetsError as error:
        return str(error)
    return ""


def _mend(source: CapturedSource, table: TableId) -> str:
    """What gives the connector the server's definition, and reads the table again."""
    short = next(names.table_name(each) for each in source.tables if each.id == table)
    return f"cdc repair model {source.name} {short}"


def findings(platform: Platform, source: CapturedSource, tables: Sequence[TableId]) -> Iterator[Finding]:
    """Of each captured table that the catalogue has."""
    try:
        catalogue = tables_with_models(platform, source, tables)
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


def _of_wrong(source: CapturedSource, table: TableId, found: WrongModel) -> Finding:
    if found.waits:
        return Finding(CHECK, "warn", str(table), found.message, f"cdc preflight {source.name}, once the connector has caught up")
    return Finding(CHECK, "fail", str(table), found.message, found.mend)
