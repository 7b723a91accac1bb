"""Where a source's log ended when it was asked, after bronze had its events: none of them can lie beyond.

Who may write one topic, or a broken connector, can send an event of any position. Beyond the log it would win over all that the
source writes for years; the fold holds it in quarantine (spark.silver.problems.FUTURE).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cdc_assets import names
from cdc_assets.kinds import kind_of
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import bronze_committed
from spark.specs import SilverSpec


def with_log_end(source: BaseSource, specs: Mapping[TableId, SilverSpec], lake: str) -> dict[TableId, SilverSpec]:
    """The specs, whose `folded_limit` bronze had before the call, with the end that the source's log has now.

    Not where the server may be another one than was read, or was restored: its log may end before true events, until there is an
    epoch for it. Of PostgreSQL alone: its witness tells that. MongoDB's places are moments of several clocks.

    Raises:
        DatabaseError: the source cannot be asked.
    """
    from spark.positions.layout import epoch_prefix

    captured = source.captured
    asked = kind_of(source).log_end
    if captured is None or asked is None or not specs or not (end := asked.load()(captured)):
        return dict(specs)
    committed = bronze_committed(names.bronze_path(lake, source))
    topics = committed.topics.values() if committed else ()
    epochs = {spec.table: max((t.epoch for t in topics if t.table == spec.table), default=0) for spec in specs.values()}
    return {key: replace(spec, log_end=f"{epoch_prefix(epochs[spec.table])}{end}") for key, spec in specs.items()}
