"""When maintenance of a table falls behind: what readers feel, and what should have been removed long ago."""

from __future__ import annotations

from cdc_assets.quantity import quantity
from spark.maintenance.maintain import TIME_TRAVEL
from spark.maintenance.maintenance_spec import MaintenancePlan
from spark.maintenance.rewriting import MOST_SMALL

SMALL_FILES = 8 * MOST_SMALL
GONE_SHARE = 0.5
SINCE_CHECKPOINT, EXPIRED_COMMITS = 300, 2_000
GARBAGE_BYTES = 1 << 30
HELD_SECONDS = 86_400.0


def what_is_behind(plan: MaintenancePlan) -> list[str]:
    """Sentences, each with its figure; none where all is well. A table that is not maintained from here is one too."""
    found = plan.figures
    if found is None:
        return [plan.left]
    held = plan.kept is not None and not plan.kept.reason.startswith(TIME_TRAVEL) and plan.kept_seconds > HELD_SECONDS
    all_rows = found.rows + found.dead_rows
    told = {
        f"{quantity(found.small_files, 'small file')}, more than {SMALL_FILES}": found.small_files > SMALL_FILES,
        f"of {quantity(all_rows, 'row')} {found.dead_rows} are gone": found.dead_rows > GONE_SHARE * max(1, all_rows),
        f"{quantity(found.since_checkpoint, 'commit')} since the last checkpoint": found.since_checkpoint > SINCE_CHECKPOINT,
        f"{quantity(plan.expire_commits, 'commit')} that nobody needs": plan.expire_commits > EXPIRED_COMMITS,
        f"{plan.remove_bytes >> 20} MiB that nobody needs": plan.remove_bytes > max(GARBAGE_BYTES, found.bytes),
        f"held since {plan.kept_seconds / 3600:.0f} h: {plan.kept.reason if plan.kept else ''}": held,
    }
    return [sentence for sentence, holds in told.items() if holds]
