"""The epochs that bronze knows of a topic, and where a backup begins in each of them."""

from __future__ import annotations

from dataclasses import replace

from cdc_assets.backup.position import BackupPosition
from spark.delta.commits import CommittedTopic


def bronze_epochs(newest: CommittedTopic) -> list[CommittedTopic]:
    """Those that bronze knows of, oldest first; `earlier` of each is empty where it begins at its topic's begin."""
    first = [replace(past, topic_id=newest.topic_id) for past in newest.earlier[:1]]
    found: list[CommittedTopic] = []
    for past in (*newest.before, *first, *newest.earlier[1:]):
        topic_id = past.topic_id or found[-1].topic_id
        earlier = () if past.topic_id else (*found[-1].earlier, past)
        found.append(CommittedTopic(newest.table, topic_id, past.epoch, past.positions, records=past.records, earlier=earlier))
    return [*found, newest]


def position_in_epoch(at: BackupPosition, before: CommittedTopic | None, state: CommittedTopic) -> BackupPosition:
    """In the epoch after the one that the backup has all of: behind it in the same topic, or at the begin of another."""
    if before is None or (at.epoch, at.topic_id) != (before.epoch, before.topic_id):
        return at
    positions = at.positions if state.earlier else {}
    return replace(at, epoch=state.epoch, topic_id=state.topic_id, positions=positions, records=0)
