"""The signal table is made with the connector: through it the connector is asked to read rows again.

Without it the first `cdc snapshot`, `cdc onboard` or `cdc reconcile --heal` would need rights that nobody may have at that hour.
"""

from __future__ import annotations

from cdc_assets import names
from cdc_assets.connectors.debezium_common import SIGNALS
from cdc_assets.errors import DatabaseError
from cdc_assets.kinds import kind_of
from cdc_assets.reconcile.heal import signals_of
from cdc_assets.registry.models import BaseSource


def ensure_signal_table(source: BaseSource) -> str:
    """Make it where the role may; else why it is not there and what to run. Empty, also for kinds whose table others make.

    A MySQL's is made where the source declares one.
    """
    captured = source.captured
    if captured is None or kind_of(source).signals is None:
        return ""
    if source.asked is None and names.signal_declaration(source) is None:
        return ""
    # A connector that was taken over may take no signals.
    if captured.capture.settings.get(SIGNALS, "") is None:
        return ""
    table = names.signal_table(captured)
    try:
        signals_of(captured).ensure_signal_table(table)
    except DatabaseError as error:
        return f"{source.name} has no table {table}, so no rows can be read again until somebody makes it: {error}"
    return ""
