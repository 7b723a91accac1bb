"""What onboarding does the same way wherever nothing is published: the connector picks its tables by its list."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.onboarding.state import Facts
from cdc_assets.registry.models import CapturedSource

if TYPE_CHECKING:
    from cdc_assets.onboarding.work import OnboardingWork


class ListedTables:
    """A part of `work.OnboardingKind`."""

    keyless = (
        "{table} has no primary key: its updates and deletes would go to quarantine, and a snapshot by chunks cannot read it; "
        "add a primary key, or declare its keys in the registry"
    )
    rows_rank_by_place = True

    def update_capture(self, work: OnboardingWork, source: CapturedSource) -> None:
        """Nothing more: the list is the connector's own."""
        return

    def reader(self, work: OnboardingWork) -> str:
        """Another id at each call: the server does not tell who reads, or is not asked."""
        return str(uuid.uuid4())

    def log_end(self, work: OnboardingWork) -> int:
        """0: no place of the log is compared."""
        return 0

    def reads_from_before(self, work: OnboardingWork, place: int) -> bool:
        """False: where it would go on is not asked."""
        return False

    def stop(self, work: OnboardingWork) -> Facts:
        """Nothing yet: the connector is stopped when it gets its list, in the next step."""
        return {"stopped_at": None}

    def clear_leftovers(self, work: OnboardingWork) -> Facts:
        """The temporary connector's schema history is gone, where it had one."""
        kafka, topic = work.core_kafka, names.temporary_schema_history_topic(work.after)
        there = topic in kafka.states([topic])
        if there:
            kafka.delete_topic(topic)
        return {"schema_history_deleted": there}
