"""Whether Debezium reads each table's rows by the server's own columns: its newest model against the catalogue.

The catalogue is of now, the model of the place that the connector has read up to. So a difference alone says nothing: the
connector may have statements before it. It is settled when the connector has passed the end of the binlog as it was behind a
look at the catalogue, and a look behind that finds the same columns. Until then it cannot be told, and is not called right.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from cdc_assets.capture.model_differences import (
    DoubtfulRows,
    LostModel,
    ModelDifference,
    doubtful_models,
    has_gtids,
    lost_model,
    model_difference,
    rows_between,
)
from cdc_assets.capture.named_log_position import await_binlog, binlog_offset
from cdc_assets.capture.preflight.inspection import Finding
from cdc_assets.clients.databases.binlog import BinlogDatabase
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.delta_log import silver_committed
from cdc_assets.clients.schema_history import with_schema_history
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError, DatabaseError, MissingSecretError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.table_declaration import Table

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
    chain: Chain[CapturedSource], catalogue: Mapping[TableId, CatalogueTable], *, seconds: float = _SETTLE_SECONDS
) -> dict[TableId, WrongModel]:
    """The tables whose model differs. Nothing is asked as long as none does.

    `catalogue`: as `tables_with_models` has read it.

    Raises DatabaseError: the source cannot be asked.
    """
    doubtful: dict[TableId, DoubtfulRows | LostModel] = {
        **_doubtful_rows(chain, catalogue),
        **_lost_models(chain, catalogue),
    }
    wrong = {id_: WrongModel(rows, mend=_mend(chain.source, id_)) for id_, rows in doubtful.items()}
    before = dict(catalogue)
    database, until = cast(BinlogDatabase, chain.platform.database(chain.source)), time.monotonic() + seconds
    for _ in range(_ROUNDS):
        open_ = _differing(chain.source, before)
        if not open_:
            break
        waits = _await_connector(chain, database, until)
        if waits:
            return wrong | {id_: WrongModel(difference, waits) for id_, difference in open_.items()}
        # In this order: the model is newer than the first look at the table, and older than the last.
        read = tables_with_models(chain, [*open_])
        after = database.tables_in_own_types([*open_])
        moved = {id_ for id_ in open_ if id_ in read and id_ in after and after[id_].columns != before[id_].columns}
        settled = {i: t for i, t in read.items() if i in after and i not in moved}
        wrong |= {
            id_: WrongModel(difference, mend=_mend(chain.source, id_))
            for id_, difference in _differing(chain.source, settled).items()
        }
        before = {id_: read[id_] for id_ in moved}
    altered = "it is altered again and again"
    return wrong | {id_: WrongModel(difference, altered) for id_, difference in _differing(chain.source, before).items()}


def why_held(
    chain: Chain[BaseSource], tables: Sequence[Table], catalogue: Mapping[TableId, CatalogueTable]
) -> dict[TableId, str]:
    """Why each of these tables is not to be folded now; a table that may be is left out.
    Raises DatabaseError: the source cannot be asked."""
    read = reads_statements(chain.source)
    if read is None:
        return {}
    ids = [table.id for table in tables]
    if read.asked is not None:
        catalogue_read: Mapping[TableId, CatalogueTable] = {id_: catalogue[id_] for id_ in ids if id_ in catalogue}
    else:
        try:
            catalogue_read = tables_with_models(Chain(chain.platform, read), ids)
        except MissingSecretError:
            return {}  # nobody asks it from here, its columns are declared; the check warns
        except DatabaseError as error:
            if not error.install:
                raise
            return {}  # as without its secret
    return {
        id_: wrong.text for id_, wrong in wrong_models(Chain(chain.platform, read), catalogue_read, seconds=_HELD_SECONDS).items()
    }


def refuse_held(chain: Chain[BaseSource], table: Table, found: CatalogueTable) -> None:
    """Nothing, where the table's rows may be folded now.
    Raises DatabaseError: they may not (`why_held`), or the source cannot be asked."""
    if reasons := why_held(chain, [table], {table.id: found}):
        raise DatabaseError(f"{chain.source.name}/{names.table_name(table)}: {reasons[table.id]}")


def reads_statements(source: BaseSource) -> CapturedSource | None:
    """The source, where its connector reads a binlog: each DDL statement by its text, and the rows by what it makes of it."""
    captured = source.captured
    return captured if captured is not None and kind_of(captured).binlog else None


def tables_with_models(chain: Chain[CapturedSource], tables: Sequence[TableId]) -> Mapping[TableId, CatalogueTable]:
    """The tables that there are, as the server writes their columns, and each with Debezium's newest model of it.
    Raises DatabaseError: the source cannot be asked."""
    in_own_types = cast(BinlogDatabase, chain.platform.database(chain.source)).tables_in_own_types(tables)
    return with_schema_history(
        chain.platform.core_kafka(chain.source.cluster), names.schema_history_topic(chain.source), in_own_types
    )


def _differing(source: CapturedSource, catalogue: Mapping[TableId, CatalogueTable]) -> dict[TableId, ModelDifference]:
    signed = kind_of(source).signed_words
    differences = {id_: model_difference(table.model, table, signed) for id_, table in catalogue.items() if table.model}
    return {id_: difference for id_, difference in differences.items() if difference}


def _lost_models(chain: Chain[CapturedSource], catalogue: Mapping[TableId, CatalogueTable]) -> dict[TableId, LostModel]:
    """The tables whose newest model the connector would not find at its next start, or has not found at its last."""
    known = {id_: table.models for id_, table in catalogue.items() if has_gtids(table.models)}
    if not known:
        return {}
    offset = binlog_offset(chain.platform.core_connect(chain.source.cluster), names.connector_name(chain.source))
    found = {id_: lost_model(models, offset) for id_, models in known.items()} if offset else {}
    return {id_: lost for id_, lost in found.items() if lost}


def _doubtful_rows(chain: Chain[CapturedSource], catalogue: Mapping[TableId, CatalogueTable]) -> dict[TableId, DoubtfulRows]:
    """The tables of which bronze has rows that silver has not, by a model that is doubtful; or may have: nobody can count them.

    A row that silver has of such a model was folded when the model was the newest, and had been compared.
    """
    signed, doubtful = kind_of(chain.source).signed_words, dict[TableId, DoubtfulRows]()
    for table in chain.source.tables:
        catalogued = catalogue.get(table.id)
        for doubt in doubtful_models(catalogued.models, signed) if catalogued else ():
            rows = rows_between(
                chain.bronze_path,
                names.lake_topic(chain.source, table),
                silver_committed(chain.silver_path(table)),
                (doubt.model.begins, doubt.after.begins),
            )
            if rows is None:
                doubtful[table.id] = DoubtfulRows(None, doubt)
                break
            if rows.unfolded and (doubt.is_corrected or not rows.folded):
                doubtful[table.id] = DoubtfulRows(rows.unfolded, doubt)
                break
    return doubtful


def _await_connector(chain: Chain[CapturedSource], database: BinlogDatabase, until: float) -> str:
    """Until the connector has read what is in the binlog now; why it has not."""
    try:
        await_binlog(chain.source, f"model-{time.time_ns()}", database, chain.platform.core_connect(chain.source.cluster), until)
    except CdcAssetsError as error:
        return str(error)
    return ""


def _mend(source: CapturedSource, table: TableId) -> str:
    """What gives the connector the server's definition, and reads the table again."""
    short = next(names.table_name(declared) for declared in source.tables if declared.id == table)
    return f"cdc repair model {source.name} {short}"


def findings(chain: Chain[CapturedSource], tables: Sequence[TableId]) -> Iterator[Finding]:
    """Of each captured table that the catalogue has."""
    try:
        catalogue = tables_with_models(chain, tables)
        wrong = wrong_models(chain, catalogue)
    except CdcAssetsError as error:
        yield Finding(CHECK, "warn", "server", f"Debezium's models cannot be compared: {error}", "mend that first")
        return
    for id_, table in catalogue.items():
        if wrong_model := wrong.get(id_):
            if wrong_model.waits:
                mend = f"cdc preflight {chain.source.name}, once the connector has caught up"
                yield Finding(CHECK, "warn", str(id_), wrong_model.message, mend)
            else:
                yield Finding(CHECK, "fail", str(id_), wrong_model.message, wrong_model.mend)
        elif table.model is None and table.generation:
            message = "Debezium has no model of it in its schema history: it cannot read the table's rows"
            yield Finding(CHECK, "warn", str(id_), message, f"cdc onboard {chain.source.name}, once the connector runs")
        elif table.model:
            yield Finding(CHECK, "ok", str(id_), "Debezium reads its rows by the server's columns")
