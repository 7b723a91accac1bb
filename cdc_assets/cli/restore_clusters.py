"""`cdc restore SOURCE --topics --connectors`: what is not in the lake's tables, from the backup."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cdc_assets.cli.output_formats import Format, is_data, print_document
from cdc_assets.quantity import quantity

if TYPE_CHECKING:
    from cdc_assets.registry.models import BaseSource


def restore_clusters(source: BaseSource, *, topics: bool, connectors: bool, dry_run: bool, output: Format) -> None:
    """Schemas first, which topics are read with; then topics, and connectors, which go on behind them."""
    answer: dict[str, Any] = {"source": source.name, "dry_run": dry_run}
    if topics:
        answer["subjects"] = _subjects(source, dry_run)
        answer["topics"] = _topics(source, dry_run)
    if connectors:
        answer["connectors"] = _connectors(source, dry_run)
    if is_data(output):
        print_document(answer, output)
        return
    done = "would be restored" if dry_run else "restored"
    for each in answer.get("subjects", ()):
        print(f"{each['subject']} ({each['registry']}): {quantity(each['versions'], 'version')} {done}")
    for each in answer.get("topics", ()):
        print(f"{each['topic']} ({each['cluster']}) {each['why']}: {quantity(each['records'], 'record')} {done}")
    if topics and not answer["topics"]:
        print(f"{source.name}: every topic is there")
    for each in answer.get("connectors", ()):
        print(f"{each['connector']} {each['way']}: {each['reason']}")


def _subjects(source: BaseSource, dry_run: bool) -> list[dict[str, Any]]:
    from cdc_assets.resources.platform import Platform
    from cdc_assets.restore.lost_subjects import plan_subjects, restore_subjects
    from cdc_assets.restore.topic_plan import backup_store

    store = backup_store(Platform(), source)
    plans = plan_subjects(store, source) if dry_run else restore_subjects(store, source, _say)
    return [plan.to_json() for plan in plans]


def _topics(source: BaseSource, dry_run: bool) -> list[dict[str, Any]]:
    from cdc_assets.resources.platform import Platform
    from cdc_assets.restore.lost_topics import restore_topics
    from cdc_assets.restore.topic_plan import plan_topics

    if dry_run:
        return [plan.to_json() for plan in plan_topics(Platform(), source)]
    filled = restore_topics(Platform(), source, _say)
    return [{**each.plan.to_json(), "topic_id": each.topic_id, "records": each.records} for each in filled]


def _connectors(source: BaseSource, dry_run: bool) -> list[dict[str, Any]]:
    from cdc_assets.resources.platform import Platform
    from cdc_assets.restore.connectors import plan_connectors, restore_connectors

    plans = plan_connectors(Platform(), source) if dry_run else restore_connectors(Platform(), source, _say)
    return [plan.to_json() for plan in plans]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
