"""How the rows of silver are compared with the source's."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field, field_validator

from cdc_assets.registry.declared import Declared
from cdc_assets.registry.durations import Duration
from cdc_assets.registry.identifiers import parse_table
from cdc_assets.registry.references import EnvRef


class Reconciliation(Declared):
    """How the rows of silver are compared with the source's, each time the counts are (`volumetry`).

    A difference fails the check, or warns only. Dagster's event log is told the keys that differ; what their rows hold
    by choice (`show: values`), since whoever sees Dagster's pages reads it.

    A table of more than `max_rows` rows is compared a range of keys at a time, all
    of it in about `shares` runs: with 127 a run costs the source two count(*) at most (ADR 35). `standby` (host:port, of the
    source; PostgreSQL) is read instead of the primary, by the two-step method. `marker` (of the source; MySQL, SQL Server,
    Oracle, MongoDB) is a table with a column `id` that the connector captures and we write: how a comparison in two steps
    knows that what was committed before has arrived. `signals` (of the same) is the connector's signal table (`id`, `type`,
    `data`), by which `--heal` asks it to read keys again. `every` (of a source that is compared in two steps only: of the same
    and of topics) is the rhythm of a scheduled comparison; without it there is none, since all rows travel each time.
    A table that the check could not compare warns, and is red when that has lasted for `red_after`.
    """

    on_difference: Literal["fail", "warn"] = "fail"
    show: Literal["keys", "values"] = "keys"
    max_rows: int = Field(default=100_000, ge=1)
    shares: int = Field(default=127, ge=1)
    standby: str | EnvRef | None = None
    marker: str | None = None
    signals: str | None = None
    every: Duration | None = None
    red_after: Duration = timedelta(hours=1)

    @field_validator("marker", "signals")
    @classmethod
    def _is_a_table(cls, value: str | None) -> str | None:
        if value is not None:
            parse_table(value)
        return value
