"""Which rows of a table are read again: a condition in the database's own SQL, asked of the database before it is sent.

Debezium puts it into the SELECT of each chunk. A condition that the database refuses would be met by the connector only.
https://debezium.io/documentation/reference/3.7/configuration/signalling.html#debezium-signaling-ad-hoc-incremental-snapshots
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cdc_assets.errors import DatabaseError, OnboardingError

if TYPE_CHECKING:
    from cdc_assets.onboarding.work import OnboardingWork

_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")


def in_parentheses(condition: str) -> str:
    """As it stands beside other conditions; a comment at its end does not swallow the bracket."""
    return f"({condition}\n)"


def refuse_condition(work: OnboardingWork, condition: str) -> None:
    """Ask the database to plan a reading by the condition, of each table; no row is read.

    Raises:
        OnboardingError: naming the table and what the database says of the condition.
    """
    if "?" in _QUOTED.sub("", condition):
        raise OnboardingError(
            f"--where {condition!r}: a ? outside of quotes stands for a parameter in the connector's driver; write it in another "
            "way, in PostgreSQL jsonb_exists(column, 'key') for column ? 'key'"
        )
    for table in work.tables:
        try:
            work.database.plan_reading(table.id, in_parentheses(condition))
        except DatabaseError as error:
            raise OnboardingError(f"--where {condition!r} of {table.name}: {error}; nothing was asked for") from error
