"""Where the objects of a table's backup lie, and how a batch lays out its lines. Only what a manifest names is in the
backup.

Below the store's prefix, as the S3 sink connector's TimeBasedPartitioner lays out (`dt=…/hr=…` may be declared otherwise):
<source>/<table>/dt=YYYY-MM-DD/hr=HH/<topic>+<epoch>+<partition>+<first offset>.json.gz, and beside it `_plans/<batch>.json`
(what a batch is going to hold, written first), `_manifests/<batch>.json` (what it holds, written last),
`_epochs/<epoch>.json` (an epoch that had no records when it was seen first), `_columns` (the schema ledger of its silver),
`_readings/<epoch>.json` (where the reading ends that an epoch begins with), `_bases/<epoch>.json` (the epoch that the
backup begins with, once earlier ones are gone) and `_newest` (the newest manifest, by name and SHA-256). `<batch>` is
`<epoch>-<sum of first offsets>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from cdc_assets.registry.backup_store import DEFAULT_HOURS, check_hours

OffsetRanges = Mapping[int, tuple[int, int]]


def table_prefix(source: str, table: str) -> str:
    """Everything of one table."""
    return f"{source}/{table}/"


def manifests_prefix(source: str, table: str) -> str:
    """Prefix of the keys of the table's manifests, one object per batch."""
    return f"{table_prefix(source, table)}_manifests/"


def plans_prefix(source: str, table: str) -> str:
    """Prefix of the keys of the table's plans, one object per batch."""
    return f"{table_prefix(source, table)}_plans/"


def epoch_key(source: str, table: str, epoch: int) -> str:
    """The key of the plan that tells of an epoch without records."""
    return f"{table_prefix(source, table)}_epochs/{epoch:04d}.json"


def bases_prefix(source: str, table: str) -> str:
    """Prefix of the keys of bases: where the backup begins once its first epochs are gone."""
    return f"{table_prefix(source, table)}_bases/"


def base_key(source: str, table: str, epoch: int) -> str:
    """The base of a backup that begins with an epoch."""
    return f"{bases_prefix(source, table)}{epoch:04d}.json"


def reading_key(source: str, table: str, epoch: int) -> str:
    """The key of the note that says where the reading of the whole table ends with which an epoch begins."""
    return f"{table_prefix(source, table)}_readings/{epoch:04d}.json"


def newest_key(source: str, table: str) -> str:
    """The key of the object that names the newest manifest, or one a little older, by name and digest."""
    return f"{table_prefix(source, table)}_newest"


def batch_name(epoch: int, ranges: OffsetRanges) -> str:
    """Sorts in the order of the batches: each moves at least one offset on, and no partition ever vanishes."""
    return f"{epoch:04d}-{sum(first for first, _ in ranges.values()):020d}.json"


def is_batch_name(name: str) -> bool:
    """Whether a file name is that of a batch: `0000-00000000000000000020.json`."""
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
    match = re.search(r"\+([0-9]+)\+([0-9]+)\+([0-9]+)\.json\.gz\Z", key)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def epoch_of_key(source: str, table: str, key: str) -> int | None:
    """The epoch that an object of the table's backup is of; None of what is of none, and of what is foreign."""
    name = key.removeprefix(table_prefix(source, table))
    match = re.fullmatch(r"_(?:manifests|plans)/([0-9]{4,})-[0-9]{20}\.json|_(?:bases|epochs|readings)/([0-9]{4,})\.json", name)
    if match:
        return int(match[1] or match[2])
    numbers = None if name.startswith("_") else parse_object_name(key)
    return None if numbers is None else numbers[0]


ValueForm = Literal["text", "json"]


@dataclass(frozen=True)
class ObjectLayout:
    """`values`: as a string always, or as JSON itself where it is a JSON object (cdc_assets.backup.json_lines).

    A batch's plan names it, so that a batch that was begun is finished as it was begun, whatever is declared by now.
    """

    hours: str = DEFAULT_HOURS
    values: ValueForm = "text"

    def __post_init__(self) -> None:
        check_hours(self.hours)
        if self.values not in ("text", "json"):
            raise ValueError(f"values are text or json, not {self.values!r}")

    def hour_folder(self, timestamp: int) -> str:
        """Of a record's own timestamp (milliseconds, UTC), such as `dt=2026-11-21/hr=05`."""
        return _hour_folder(self.hours, timestamp // 3_600_000)

    def end_of_hour(self, folder: str) -> int:
        """Milliseconds at which the hour of such a folder is over (UTC): what lies in it is older.

        Raises:
            ValueError: it is no folder of this layout.
        """
        return 3_600_000 * (_hour_of_folder(self.hours, folder) + 1)


@lru_cache(1024)
def _hour_folder(pattern: str, hour: int) -> str:
    import numpy as np

    # numpy's calendar, because Python's ends with the year 9999: a producer that sends microseconds is in the year 58,000.
    date, _, hour_of_day = str(np.datetime64(hour, "h")).partition("T")
    year, month, day = date.rsplit("-", 2)
    return pattern.format(yyyy=year, MM=month, dd=day, HH=hour_of_day)


@lru_cache(1024)
def _hour_of_folder(pattern: str, folder: str) -> int:
    import numpy as np

    text = re.escape(pattern.format(yyyy="\0", MM="\1", dd="\2", HH="\3"))
    for mark, field in zip("\0\1\2\3", (r"(-?\d{4,})", r"(\d\d)", r"(\d\d)", r"(\d\d)"), strict=True):
        text = text.replace(re.escape(mark), field)
    match = re.fullmatch(text, folder)
    if match is None:
        raise ValueError(f"{folder!r} is no folder of {pattern}")
    return int(np.datetime64("{}-{}-{}T{}".format(*match.groups()), "h").astype("int64"))
