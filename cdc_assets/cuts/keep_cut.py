"""The source's table of cuts: a new cut and the removal of old ones in one commit, whole or not at all."""

from __future__ import annotations

from datetime import timedelta

from cdc_assets import names
from cdc_assets.cuts.cut_manifest import CutManifest, arrow_schema, from_rows
from cdc_assets.errors import CutError
from cdc_assets.registry.models import BaseSource

_TRIES = 5


def keep_cut(lake: str, source: BaseSource, cut: CutManifest, keep: timedelta) -> list[str]:
    """Write it down, and forget those that were made longer than `keep` before it; their names.

    Raises:
        CutError: somebody else writes the table at the same time, again and again.
    """
    from spark.errors import LeftToSparkError

    path, reason = names.cuts_path(lake, source), ""
    for _ in range(_TRIES):
        try:
            return _write(path, cut, keep)
        except LeftToSparkError as error:  # maintenance, or a cut that is made elsewhere
            reason = str(error)
    raise CutError(f"cut {cut.cut} is not written down in {path}: {reason}; make another one: cdc cut make {source.name}")


def _write(path: str, cut: CutManifest, keep: timedelta) -> list[str]:
    import pyarrow as pa

    from cdc_assets.resources.delta_log import open_table
    from spark.delta.data_files import read_rows, write_file
    from spark.delta.first_commit import create_table
    from spark.delta.live_files import read_live_table
    from spark.lake.folder import open_folder
    from spark.maintenance.rewriting import replace_files, turn

    schema = arrow_schema()
    if open_table(path) is None:
        with turn(path):
            create_table(path, pa.Table.from_pylist(cut.to_rows(), schema=schema), {"delta.checkpointInterval": "100"}, "")
        return []
    live, folder = read_live_table(path), open_folder(path)
    files = list(live.files.values())
    rows = [row for file in files for row in read_rows(folder, file, None, schema).to_pylist()]
    cuts = from_rows(rows)
    old = [each.cut for each in cuts if each.made_at < cut.made_at - keep]
    rows = [row for row in rows if row["cut"] not in (*old, cut.cut)] + cut.to_rows()
    new = write_file(folder, pa.Table.from_pylist(rows, schema=schema))
    replace_files(path, live, files, [new], operation="WRITE")
    return old
