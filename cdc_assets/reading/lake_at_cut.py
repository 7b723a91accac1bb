"""All tables of a source as they were at a cut, for readers of Arrow or DuckDB; no JVM, and nothing is written.

from cdc_assets.reading.lake_at_cut import at

Each table is read at the version that the cut names. A version whose files are gone is refused with the cut's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cdc_assets.clients import delta_rows
from cdc_assets.clients.platform import Platform
from cdc_assets.recovery.cut_manifest import CutEntry, CutManifest, find_cut, open_entry
from cdc_assets.registry import settings
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.loader import load_sources
from spark.table.identifiers import double_quote

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TableAtCut:
    """A table at a cut; pyarrow, DuckDB, Polars and pandas take the object as it is."""

    lake: str
    cut: str
    entry: CutEntry

    @property
    def path(self) -> str:
        """Where its Delta table is."""
        return f"{self.lake.rstrip('/')}/{self.entry.path}"

    @property
    def version(self) -> int:
        """The version of it: `SELECT … VERSION AS OF` says the same in Spark."""
        return self.entry.version

    @cached_property
    def delta(self) -> Any:
        """delta-rs's table, opened at the version.
        Raises RefusalError: the version is gone, another table lies there now, or only Spark reads it."""
        delta = open_entry(self.path, self.entry)
        if unread := delta_rows.unread_features(delta):
            text = f"{', '.join(unread)}, which only Spark reads: cdc sql --spark --cut {self.cut}"
            raise RefusalError(f"{self.entry.path} at version {self.version} has {text}")
        return delta

    def reader(self) -> pa.RecordBatchReader:
        """Its rows, batch by batch."""
        return delta_rows.read_rows(self.delta)

    def to_arrow(self) -> pa.Table:
        """All of its rows."""
        return self.reader().read_all()

    def __arrow_c_schema__(self) -> Any:
        """Its columns, by the protocol of https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html."""
        return delta_rows.arrow_schema(self.delta).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Its rows, by the same protocol."""
        return self.reader().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class LakeAtCut(Mapping[str, TableAtCut]):
    """The tables of a source at a cut, by their names; histories are called like their folders, `orders__history`."""

    lake: str
    manifest: CutManifest

    @cached_property
    def _tables(self) -> dict[str, TableAtCut]:
        entries = self.manifest.entries
        return {entry.path.rpartition("/")[2]: TableAtCut(self.lake, self.manifest.cut, entry) for entry in entries}

    def __getitem__(self, table: str) -> TableAtCut:
        if table not in self._tables:
            raise KeyError(f"cut {self.manifest.cut} has no table {table}; it has: {', '.join(self._tables)}")
        return self._tables[table]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def register(self, connection: Any, tables: Sequence[str] = ()) -> list[str]:
        """A view of each of these tables, or of all, in a DuckDB connection; their names."""
        for name in tables or self:
            connection.register(f"cut {name}", self[name])
            connection.execute(f"CREATE OR REPLACE VIEW {double_quote(name)} AS FROM {double_quote(f'cut {name}')}")
        return [*(tables or self)]


def at(cut: str, *, platform: Platform | None = None) -> LakeAtCut:
    """The tables at the cut of that name; of a source's name, at its newest cut. Raises RefusalError: there is no such cut."""
    lake = (platform or Platform()).lake
    return LakeAtCut(lake, find_cut(lake, load_sources(settings.sources_folder()), cut))
