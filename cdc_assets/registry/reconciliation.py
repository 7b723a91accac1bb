"""How the rows of silver are compared with the source's."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field, field_validator

from cdc_assets.references import EnvRef
from cdc_assets.registry.declared import Declared
from cdc_assets.registry.durations import Duration, Rhythm
from cdc_assets.registry.identifiers import parse_table

ROWS_EVERY = timedelta(days=1)
"""How often all rows travel for a comparison that nobody has declared."""


class Reconciliation(Declared):
    """How the rows of silver are compared with the source's, each time the counts are (`volumetry`).

    `on_difference`: a difference fails the check, or only warns. `show`: Dagster's event log gets the keys that differ, and
    with `values` their rows too. Everybody who sees Dagster's pages can read them.
    `max_rows`: a larger table is compared a range of keys at a time, all of it in about `shares` runs. With 127 a run costs
    the source two count(*) at most.
    `standby` (PostgreSQL, of the whole source) is a host:port that is read instead of the primary, by the two-step method.
    `marker` (MySQL, SQL Server, Oracle, MongoDB) is a table with a column `id` that the connector captures and we write. A
    comparison in two steps learns from it that what was committed before has arrived.
    `signals` (the same kinds) is the connector's signal table (`id`, `type`, `data`), by which `--heal` has keys read again.
    `every` (the same kinds, and topics) is the rhythm of a scheduled comparison, of which all rows travel each time; `never`
    turns it off, also of one table. Without it rows are compared once a day where the place of the log can be told (MySQL; the
    others with a `marker`), and topics never.
    `red_after`: a table that the check could not compare warns, and is red when that has lasted so long.
    """

    on_difference: Literal["fail", "warn"] = "fail"
    show: Literal["keys", "values"] = "keys"
    max_rows: int = Field(default=100_000, ge=1)
    shares: int = Field(default=127, ge=1)
    standby: str | EnvRef | None = None
    marker: str | None = None
    signals: str | None = None
    every: Rhythm | None = None
    red_after: Duration = timedelta(hours=1)

    @field_validator("marker", "signals")
    @classmethod
    def _is_a_table(cls, value: str | None) -> str | None:
        if value is not None:
            parse_table(value)
        return value
