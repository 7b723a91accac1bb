"""Where each table of the lake lies below its root."""

from __future__ import annotations

from cdc_assets.registry.base_table import Table, short_table_name
from cdc_assets.registry.models import BaseSource


def windows_name(table: Table, windows: str) -> str:
    """Windowed results of a table, in asset keys and paths: `orders__per_hour`."""
    return f"{table_name(table)}__{windows}"


def table_name(table: Table) -> str:
    """The table's short name: `city` for public.city."""
    return short_table_name(table.id)


def bronze_path(lake: str, source: BaseSource) -> str:
    """The source's change log: one Delta table."""
    return f"{lake.rstrip('/')}/bronze/{source.name}"


def silver_path(lake: str, source: BaseSource, table: Table) -> str:
    """The table's current state."""
    return f"{lake.rstrip('/')}/silver/{source.name}/{table_name(table)}"


def history_path(lake: str, source: BaseSource, table: Table) -> str:
    """Every version of the table's rows."""
    return f"{silver_path(lake, source, table)}__history"


def quarantine_path(lake: str, source: BaseSource, table: Table) -> str:
    """The table's records that could not be folded."""
    return f"{lake.rstrip('/')}/quarantine/{source.name}/{table_name(table)}"


def replay_path(lake: str, source: BaseSource, table: Table) -> str:
    """Where the table's shadows lie while it is made again."""
    return f"{lake.rstrip('/')}/replay/{source.name}/{table_name(table)}"


def past_lake(lake: str, source: BaseSource, table: Table) -> str:
    """The lake that a table's first records are brought back into from the backup, where bronze has them no more."""
    return f"{lake.rstrip('/')}/past/{source.name}/{table_name(table)}"


def past_path(lake: str, source: BaseSource, table: Table) -> str:
    """The change log of that lake."""
    return bronze_path(past_lake(lake, source, table), source)


def stream_checkpoint(lake: str, source: BaseSource) -> str:
    """What Structured Streaming keeps of the source's stream."""
    return f"{lake.rstrip('/')}/checkpoints/{source.name}"


def drills_path(lake: str, source: BaseSource) -> str:
    """What the last drill has found, and the lake that a drill restores into."""
    return f"{lake.rstrip('/')}/drills/{source.name}"


def topic_moves_path(lake: str) -> str:
    """Which topics of the lake's cluster were made again from a backup, and where they go on; of all sources."""
    return f"{lake.rstrip('/')}/restored_topics"


def ledger_path(lake: str, source: BaseSource) -> str:
    """Every event of the source's tables, counted by window."""
    return f"{lake.rstrip('/')}/ledger/{source.name}"


def cuts_path(lake: str, source: BaseSource) -> str:
    """The source's kept cuts, and which version of each table they name."""
    return f"{lake.rstrip('/')}/cuts/{source.name}"


def windows_path(lake: str, source: BaseSource, table: Table, windows: str) -> str:
    """The results of a table's windows; what was said and taken back lies beside them, in `…__panes`."""
    return f"{lake.rstrip('/')}/windows/{source.name}/{windows_name(table, windows)}"
