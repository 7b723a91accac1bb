"""What a cut names, as it stands in the source's Delta table of cuts: a row for each table with the version of its Delta
table; read without a JVM.

A new cut and the removal of old ones are one commit, whole or not at all. A version that is gone makes a kept cut damaged,
which is told by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from cdc_assets.backup.kept_cuts import Topics
from cdc_assets.clients import delta_rows
from cdc_assets.clients.delta_log import open_table
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import BaseSource
from spark.errors import other_format, quantity
from spark.table.delta_rs import open_delta

if TYPE_CHECKING:
    import pyarrow as pa

PROPERTY, FORMAT = "cdc.cuts", 1
"""The table property that holds the number of the format."""
TIME_FORMAT = "%Y%m%dT%H%M%SZ"


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
    rows_of_cut: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        rows_of_cut.setdefault(row["cut"], []).append(row)
    cuts = [_from_rows(some) for some in rows_of_cut.values()]
    return sorted(cuts, key=lambda cut: cut.made_at, reverse=True)


def _from_rows(rows: list[Mapping[str, Any]]) -> CutManifest:
    fields = CutEntry.__dataclass_fields__
    entries = [CutEntry(**{**{name: row[name] for name in fields}, "topics": json.loads(row["topics"])}) for row in rows]
    ordered = tuple(sorted(entries, key=lambda entry: (entry.layer, entry.table)))
    first = rows[0]
    return CutManifest(first["cut"], first["source"], first["made_at"], first["position"], ordered)


def read_cuts(lake: str, source: BaseSource) -> list[CutManifest]:
    """The source's cuts, newest first; none where it has none yet.

    Raises:
        RefusalError: the table of cuts has another format.
    """
    path = names.cuts_path(lake, source)
    table = open_table(path)
    if table is None:
        return []
    _refuse_other_format(path, table.metadata().configuration)
    return from_rows(delta_rows.read_rows(table).read_all().to_pylist())


def _refuse_other_format(path: str, properties: Mapping[str, str]) -> None:
    number = properties.get(PROPERTY, "")
    if refusal := other_format(path, "a table of cuts", int(number) if number.isdecimal() else None, FORMAT):
        raise RefusalError(refusal)


def find_cut(lake: str, sources: Iterable[BaseSource], name: str) -> CutManifest:
    """The cut of that name; of a source's name its newest.

    Raises:
        RefusalError: there is none.
    """
    by_name = {source.name: source for source in sources}
    source = by_name.get(name.partition("-")[0])
    if source is None:
        raise RefusalError(f"no cut {name}: a cut is called like its source, and there are: {', '.join(by_name)}")
    cuts = read_cuts(lake, source)
    cut = next((cut_made for cut_made in cuts if name in (cut_made.cut, source.name)), None)
    if cut is None:
        has = f"it has {quantity(len(cuts), 'cut')}: cdc cut list {source.name}" if cuts else f"cdc cut make {source.name}"
        raise RefusalError(f"no cut {name} of source {source.name}; {has}")
    return cut


_TRIES = 5


def keep_cut(lake: str, source: BaseSource, cut: CutManifest, keep: timedelta) -> list[str]:
    """Write it down, and forget those that were made longer than `keep` before it; their names.

    Raises:
        RefusalError: somebody else writes the table at the same time, again and again.
    """
    from spark.errors import LeftToSparkError

    path, reason = names.cuts_path(lake, source), ""
    for _ in range(_TRIES):
        try:
            return _write(path, cut, keep)
        except LeftToSparkError as error:  # maintenance, or a cut that is made elsewhere
            reason = str(error)
    raise RefusalError(f"cut {cut.cut} is not written down in {path}: {reason}; make another one: cdc cut make {source.name}")


def _write(path: str, cut: CutManifest, keep: timedelta) -> list[str]:
    import pyarrow as pa

    from spark.table.data_files import read_rows, write_file
    from spark.table.delta_table import table_of
    from spark.table.table_folder import open_folder
    from spark.upkeep.file_rewrite import replace_files, turn

    schema = arrow_schema()
    if open_table(path) is None:
        with turn(path):
            properties = {"delta.checkpointInterval": "100", PROPERTY: str(FORMAT)}
            table_of(path).create(pa.Table.from_pylist(cut.to_rows(), schema=schema), properties, "")
        return []
    live, folder = table_of(path).snapshot(), open_folder(path)
    _refuse_other_format(path, live.metadata["configuration"])
    files = list(live.files.values())
    rows = [row for file in files for row in read_rows(folder, file, None, schema).to_pylist()]
    cuts = from_rows(rows)
    old = [old_cut.cut for old_cut in cuts if old_cut.made_at < cut.made_at - keep]
    rows = [row for row in rows if row["cut"] not in (*old, cut.cut)] + cut.to_rows()
    new = write_file(folder, pa.Table.from_pylist(rows, schema=schema))
    replace_files(path, live, files, [new], operation="WRITE")
    return old


LATE = 1.5
"""The newest cut may be older than the declared time by half of it: a run takes its time, too."""


def open_entry(path: str, entry: CutEntry) -> Any:
    """The table that lies at the path, opened by delta-rs at the version.

    Raises:
        RefusalError: the version is gone, or another table lies there now.
    """
    from deltalake.exceptions import DeltaError

    version_text = f"{entry.path} at version {entry.version}"
    try:
        delta = open_delta(path, version=entry.version)
    except (DeltaError, OSError) as error:
        raise RefusalError(
            f"{version_text} cannot be read any more: {str(error)[:300]}; make another cut: cdc cut make"
        ) from error
    if str(delta.metadata().id) != entry.table_id:
        raise RefusalError(f"{version_text} is of another table: that was made anew since; make another cut: cdc cut make")
    return delta


def what_is_wrong(lake: str, cuts: Sequence[CutManifest], every: timedelta, now: datetime) -> Iterator[str]:
    """Sentences; none where the newest cut is young enough, and it and the oldest can be read."""
    if not cuts:
        yield "no cut is kept yet"
        return
    age = now - cuts[0].made_at
    if age > every * LATE:
        yield f"{cuts[0].cut} is the newest, {age.total_seconds() / 60:.0f} min old; one is declared each {every}"
    for cut in dict.fromkeys((cuts[0].cut, cuts[-1].cut)):
        named_cut = next(one for one in cuts if one.cut == cut)
        for entry in named_cut.entries:
            try:
                open_entry(f"{lake.rstrip('/')}/{entry.path}", entry)
            except RefusalError as error:
                yield f"{cut}: {error}"
