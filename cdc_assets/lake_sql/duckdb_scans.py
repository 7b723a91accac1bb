"""What DuckDB reads of a table: PyArrow's dataset, which skips files and columns, or rows by delta-rs, which reads all forms.

A table is opened once per statement, so that all its scans see one version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_assets.cuts.named_versions import open_entry
from cdc_assets.errors import CdcAssetsError, LakeSqlError
from cdc_assets.lake_sql.lake_tables import LakeTable
from cdc_assets.resources import delta_rows
from cdc_assets.resources.delta_dataset import open_dataset
from cdc_assets.resources.delta_log import open_table
from cdc_assets.resources.hidden_values import HiddenValues
from cdc_assets.resources.platform import Platform
from cdc_assets.silver_now.current_table import CurrentTable

if TYPE_CHECKING:
    import pyarrow as pa

_NOTHING = "nothing of it is in the lake yet: cdc status"


@dataclass
class RowStream:
    """Rows by Arrow's own protocol, anew for each scan; `hidden` columns are hashes."""

    schema: pa.Schema
    read: Callable[[], pa.RecordBatchReader]
    hidden: tuple[str, ...]
    values: HiddenValues

    def __arrow_c_schema__(self) -> Any:
        """The columns, those that are hidden as texts."""
        return self._schema_of_hashes().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows, batch by batch."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._schema_of_hashes(), self._batches()).__arrow_c_stream__(requested_schema)

    def _schema_of_hashes(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([pa.field(f.name, pa.string()) if f.name in self.hidden else f for f in self.schema])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in self.read():
            columns = [self.values.hide_column(batch[name]) if name in self.hidden else batch[name] for name in self.schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema_of_hashes())


def open_scan(found: LakeTable, platform: Platform, values: HiddenValues) -> Any:
    """What DuckDB registers for the table.

    Raises:
        LakeSqlError: it is not in the lake, or only Spark reads it.
    """
    if found.is_now:
        if not found.is_there:
            raise LakeSqlError(f"{found.name}: {_NOTHING}")
        return _scan_now(found, platform, values)
    table = _open(found)
    hidden = tuple(field.name for field in table.schema().fields if field.name in found.sensitive)
    if hidden or not delta_rows.is_plain(table):
        return RowStream(delta_rows.arrow_schema(table), lambda: delta_rows.read_rows(table), hidden, values)
    return open_dataset(table, found.path)


def read_version(found: LakeTable, version: int | None) -> tuple[int, pa.Table]:
    """A version of the table (None: the newest) and its rows, sensitive columns as hashes.

    Raises:
        LakeSqlError: it is not in the lake, only Spark reads it, or that version is gone.
    """
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    table, newest = _open(found), None
    try:
        if version is not None:
            newest = table.version()
            table.load_as_version(version)
        rows = RowStream(delta_rows.arrow_schema(table), lambda: delta_rows.read_rows(table), found.sensitive, HiddenValues())
        return table.version(), pa.table(rows)
    except (DeltaError, OSError) as error:
        raise LakeSqlError(f"{found.name} at version {version}, of {newest}: {error}") from error


def _open(found: LakeTable) -> Any:
    table = open_table(found.path) if found.at is None else open_entry(found.path, found.at)
    if table is None:
        raise LakeSqlError(f"{found.name}: {_NOTHING}")
    if unread := delta_rows.unread_features(table):
        raise LakeSqlError(f"{found.name} has {', '.join(unread)}, which only Spark reads: cdc sql --spark")
    return table


def _scan_now(found: LakeTable, platform: Platform, values: HiddenValues) -> RowStream:
    assert found.table is not None
    try:
        rows = CurrentTable(found.source, found.table, platform).look()
    except CdcAssetsError as error:
        raise LakeSqlError(f"{found.name}: {error}; or: cdc sql --spark") from error
    return RowStream(rows.schema, rows.reader, tuple(n for n in rows.schema.names if n in found.sensitive), values)
