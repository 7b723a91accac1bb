"""Keys of a table's backup. Everything of a table lies below its own prefix, which ends in a slash."""

from __future__ import annotations

import re
from collections.abc import Mapping

Ranges = Mapping[int, tuple[int, int]]


def table_prefix(source: str, table: str) -> str:
    """Everything of one table."""
    return f"{source}/{table}/"


def manifests_prefix(source: str, table: str) -> str:
    """Prefix of the keys of the table's manifests, one object per batch."""
    return f"{table_prefix(source, table)}_manifests/"


def plans_prefix(source: str, table: str) -> str:
    """Prefix of the keys of the table's plans, one object per batch."""
    return f"{table_prefix(source, table)}_plans/"


def epochs_prefix(source: str, table: str) -> str:
    """Prefix of the keys of what tells of an epoch that has no records yet."""
    return f"{table_prefix(source, table)}_epochs/"


def epoch_key(source: str, table: str, epoch: int) -> str:
    """Tells that there is such an epoch."""
    return f"{epochs_prefix(source, table)}{epoch:04d}.json"


def bases_prefix(source: str, table: str) -> str:
    """Prefix of the keys of bases: where the backup begins once its first epochs are gone."""
    return f"{table_prefix(source, table)}_bases/"


def base_key(source: str, table: str, epoch: int) -> str:
    """The base of a backup that begins with an epoch."""
    return f"{bases_prefix(source, table)}{epoch:04d}.json"


def reading_key(source: str, table: str, epoch: int) -> str:
    """Tells where the reading of the whole table ends with which an epoch begins."""
    return f"{table_prefix(source, table)}_readings/{epoch:04d}.json"


def newest_key(source: str, table: str) -> str:
    """Names the newest manifest, or one a little older, by name and digest (newest)."""
    return f"{table_prefix(source, table)}_newest"


def batch_name(epoch: int, ranges: Ranges) -> str:
    """Sorts in the order of the batches: each moves at least one offset on, and no partition ever vanishes."""
    return f"{epoch:04d}-{sum(first for first, _ in ranges.values()):020d}.json"


def is_batch_name(name: str) -> bool:
    """Is it the name of a batch, and not of something that somebody else has put there?"""
    return re.fullmatch(r"[0-9]{4,}-[0-9]{20}\.json", name) is not None


def last_drill_key(source: str) -> str:
    """What the last drill of the source has found."""
    return f"{source}/last-drill"


def columns_key(source: str, table: str) -> str:
    """The schema ledger of the table's silver, where its columns have changed."""
    return f"{table_prefix(source, table)}_columns"


def history_columns_key(source: str, table: str) -> str:
    """The schema ledger of the table's history, where columns of it or of silver have changed."""
    return f"{table_prefix(source, table)}_history_columns"


def is_epoch_key(key: str) -> bool:
    """Is it the key of what tells of an epoch?"""
    return re.search(r"/_epochs/[0-9]{4,}\.json$", key) is not None


def object_name(topic: str, epoch: int, partition: int, first_offset: int) -> str:
    """File name of the records of one hour and partition in one batch."""
    return f"{topic}+{epoch}+{partition}+{first_offset:020d}.json.gz"


def parse_object_name(key: str) -> tuple[int, int, int] | None:
    """(epoch, partition, first offset) of an object of ours; None for a foreign one."""
    parts = key.rsplit("/", 1)[-1].removesuffix(".json.gz").rsplit("+", 3)
    if not key.endswith(".json.gz") or len(parts) != 4 or not all(part.isascii() and part.isdigit() for part in parts[1:]):
        return None
    return int(parts[1]), int(parts[2]), int(parts[3])


def epoch_of_key(source: str, table: str, key: str) -> int | None:
    """The epoch that an object of the table's backup is of; None of what is of none, and of what is foreign."""
    name = key.removeprefix(table_prefix(source, table))
    told = re.fullmatch(r"_(?:manifests|plans)/([0-9]{4,})-[0-9]{20}\.json|_(?:bases|epochs|readings)/([0-9]{4,})\.json", name)
    if told:
        return int(told[1] or told[2])
    place = None if name.startswith("_") else parse_object_name(key)
    return None if place is None else place[0]
