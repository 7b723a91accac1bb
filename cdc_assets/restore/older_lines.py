"""Lines of format 1 lack `tx_id`, `source_ts` and `snapshot`: what the records say of them, where they are read here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource

if TYPE_CHECKING:
    import pyarrow as pa

_LACKING = ("tx_id", "source_ts", "snapshot")


@dataclass(frozen=True)
class CompleteRows:
    """Rows in bronze's columns; `unknown` counts those of which three are not known, `snapshots` are the LSNs of initial ones."""

    rows: pa.Table
    unknown: int = 0
    snapshots: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class OlderLines:
    """Of one table; `connector` is empty where its records are not read here."""

    connector: str = ""

    @classmethod
    def of(cls, source: BaseSource, table: Table) -> OlderLines:
        """By the form that the table's records are declared to have."""
        from spark.small_batches.narrow import CONNECTORS
        from spark.small_tables.rules import ENVELOPE

        form = source.record_form(table)
        plain = form["envelope"] == ENVELOPE and form["connector"] in CONNECTORS and not table.time_field
        return cls(form["connector"] if plain else "")

    def complete(self, rows: pa.Table, *, known: bool) -> CompleteRows:
        """The rows as they are where their lines say it all."""
        from spark.errors import LeftToSparkError
        from spark.small_batches.narrow import narrow

        if known:
            return CompleteRows(rows)
        if not self.connector:
            return CompleteRows(rows, rows.num_rows)
        try:
            said = narrow(rows.select(["partition", "headers", "key", "value"]), self.connector)
        except LeftToSparkError:
            return CompleteRows(rows, rows.num_rows)
        for name in _LACKING:
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, rows.schema.field(place), said[name].cast(rows.schema.field(place).type))
        initial = said.group_by("partition").aggregate([("initial", "max")]).to_pylist()
        return CompleteRows(
            rows, 0, {each["partition"]: each["initial_max"] for each in initial if each["initial_max"] is not None}
        )
