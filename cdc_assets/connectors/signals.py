"""A table's name as a signal to Debezium has it."""

from __future__ import annotations

import re

from cdc_assets import names
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource
from spark.delta.identifiers import double_quote, text_literal

_UNPARSED = re.compile(r"""[\s.'"`]""")


def collection(source: CapturedSource, table: TableId) -> str:
    """What a signal's `data-collections` has of it: a regular expression over its whole name, or that name."""
    if not source.database.signals_take_patterns:
        return names.collection(source, table)
    return r"\.".join(re.escape(part) for part in (*source.database.signal_scope, *table))


def own_rows_condition(table: TableId) -> str:
    """A condition of PostgreSQL's that leaves out the rows of tables that inherit from this one."""
    return f"tableoid = {text_literal(double_quote(*table))}::regclass"


def is_unsignallable(table: TableId) -> bool:
    """Whether no signal can name the table.

    Debezium parses a name that is matched once more, without quotes (AbstractIncrementalSnapshotContext, 3.7.0): with a blank or
    a quote in it, it is passed over, and only the connector's log says so; with a dot it is another table's. A signal that has
    the name in quotes is taken, but the connector stores it without them, and its task dies of that (seen).
    """
    return any(_UNPARSED.search(part) for part in table)
