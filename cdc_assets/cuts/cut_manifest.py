"""What a cut names, as it stands in the source's Delta table of cuts: a row for each table; read without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cdc_assets import names
from cdc_assets.errors import CutError
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources import delta_rows
from cdc_assets.resources.delta_log import open_table

if TYPE_CHECKING:
    import pyarrow as pa

TIME_FORMAT = "%Y%m%dT%H%M%SZ"
Topics = Mapping[str, Mapping[str, Any]]
"""By topic its `id`, its `epoch`, the `records` of that in the cut, and by partition the first offset (`ends`) that is not in it.
Cuts of earlier releases do not tell `records`."""


@dataclass(frozen=True)
class CutEntry:
    """A table at the cut: `path` is its place below the lake, `version` the Delta version that holds it, `table_id` Delta's id of
    the table. `quarantined`: records ever put into its quarantine until then, which its rows do not show."""

    layer: str
    table: str
    path: str
    version: int
    table_id: str
    rows: int
    quarantined: int
    topics: Topics


@dataclass(frozen=True)
class CutManifest:
    """A cut of a source: all that it had committed up to `position` of its log, and nothing else."""

    cut: str
    source: str
    made_at: datetime
    position: str
    entries: tuple[CutEntry, ...]

    @property
    def tables(self) -> dict[str, CutEntry]:
        """Silver's, by the tables' names."""
        return {entry.table: entry for entry in self.entries if entry.layer == "silver"}

    def to_rows(self) -> list[dict[str, Any]]:
        """As the Delta table has them."""
        own = {"cut": self.cut, "source": self.source, "made_at": self.made_at, "position": self.position}
        return [{**own, **asdict(entry), "topics": json.dumps(entry.topics, sort_keys=True)} for entry in self.entries]

    def to_json(self) -> dict[str, Any]:
        """As programs read it."""
        return {**asdict(self), "entries": [asdict(entry) for entry in self.entries]}


def arrow_schema() -> pa.Schema:
    """The columns of the table of cuts."""
    import pyarrow as pa

    text, number = pa.string(), pa.int64()
    own = [("cut", text), ("source", text), ("made_at", pa.timestamp("us", "UTC")), ("position", text)]
    entry = [("layer", text), ("table", text), ("path", text), ("version", number), ("table_id", text), ("rows", number)]
    return pa.schema([*own, *entry, ("quarantined", number), ("topics", text)])


def name_of_cut(source: str, made_at: datetime) -> str:
    """`bank-20261125T190512Z`: no source's name has a hyphen."""
    return f"{source}-{made_at.strftime(TIME_FORMAT)}"


def from_rows(rows: Iterable[Mapping[str, Any]]) -> list[CutManifest]:
    """The cuts in these rows of the table, newest first."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["cut"], []).append(row)
    cuts = [_from_rows(some) for some in found.values()]
    return sorted(cuts, key=lambda cut: cut.made_at, reverse=True)


def _from_rows(rows: list[Mapping[str, Any]]) -> CutManifest:
    fields = CutEntry.__dataclass_fields__
    entries = [CutEntry(**{**{name: row[name] for name in fields}, "topics": json.loads(row["topics"])}) for row in rows]
    ordered = tuple(sorted(entries, key=lambda entry: (entry.layer, entry.table)))
    first = rows[0]
    return CutManifest(first["cut"], first["source"], first["made_at"], first["position"], ordered)


def read_cuts(lake: str, source: BaseSource) -> list[CutManifest]:
    """The source's cuts, newest first; none where it has none yet."""
    table = open_table(names.cuts_path(lake, source))
    return [] if table is None else from_rows(delta_rows.read_rows(table).read_all().to_pylist())


def find_cut(lake: str, sources: Iterable[BaseSource], name: str) -> CutManifest:
    """The cut of that name; of a source's name its newest.

    Raises:
        CutError: there is none.
    """
    known = {source.name: source for source in sources}
    source = known.get(name.partition("-")[0])
    if source is None:
        raise CutError(f"no cut {name}: a cut is called like its source, and there are: {', '.join(known)}")
    found = read_cuts(lake, source)
    cut = next((each for each in found if name in (each.cut, source.name)), None)
    if cut is None:
        has = f"it has {quantity(len(found), 'cut')}: cdc cut list {source.name}" if found else f"cdc cut make {source.name}"
        raise CutError(f"no cut {name} of source {source.name}; {has}")
    return cut
