"""How far a table's silver and history are behind what bronze has committed, by their logs alone."""

from __future__ import annotations

from cdc_assets import names
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import silver_committed
from spark.delta.commits import CommittedTopic


def records_behind(lake: str, source: BaseSource, table: Table, bronze: CommittedTopic) -> int:
    """Records that silver lacks, or the history where it lacks more.

    By records, not offsets: a batch of control records only moves bronze on and gives silver nothing to fold. A history counts
    as well: the silver asset makes it, and may have failed there, or not known of it yet.
    """
    paths = [names.silver_path(lake, source, table)]
    paths += [names.history_path(lake, source, table)] if table.history == "scd2" else []
    topic = names.lake_topic(source, table)
    folded = [committed.topics.get(topic) if (committed := silver_committed(path)) else None for path in paths]
    return max(bronze.records_ahead_of(state) for state in folded)
