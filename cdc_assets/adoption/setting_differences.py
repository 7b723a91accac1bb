"""What of a connector that runs is not as we would render it, what each difference means, and which cannot stay.

Two settings are the same where they mean the same: one that the config leaves out is the plugin's default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Weight = Literal["wrong", "weaker", "none"]


@dataclass(frozen=True)
class SettingDifference:
    """One setting: theirs and ours, fit to be printed (None: it is not set), and what it means that they differ.

    `wrong`: with theirs the lake would not be right. `weaker`: something of ours does less. `none`: it makes no difference here.
    """

    setting: str
    theirs: str | None
    ours: str | None
    meaning: str
    weight: Weight

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of one difference."""
        return {
            "setting": self.setting,
            "theirs": self.theirs,
            "ours": self.ours,
            "meaning": self.meaning,
            "weight": self.weight,
        }


@dataclass(frozen=True)
class _Meaning:
    pattern: str
    meaning: str
    weight: Weight = "weaker"


_ONCE = "after a crash records may come twice; the fold keeps one"
_TWICE = "counts of the two topics differ; the fold keeps one"
_UNTIL = "until then cdc onboard takes --route temporary"
_CAPTURE = (
    _Meaning("plugin.name", "cdc captures by pgoutput: no other plugin has a publication", "wrong"),
    _Meaning(
        r"transforms\.unchanged\..*|transforms|unavailable\.value\.placeholder",
        "who knows Debezium's own text for an unchanged large value can write it into a row, and that update is lost",
    ),
    _Meaning("header.converter", "our records would name their text for unchanged values in a header", "none"),
    _Meaning(r"signal\..*", f"the connector takes no signals: no incremental snapshot, no cdc reconcile --heal; {_UNTIL}"),
    _Meaning(r"notification\..*", f"it does not tell how its snapshots go; {_UNTIL}"),
    _Meaning(r"heartbeat\..*", "the place of an idle source grows old: the server holds back its log, or throws it away"),
    _Meaning("database.initial.statements", "a slot that is moved while the connector is away is not noticed (ADR 43)"),
    _Meaning("driver.options", "settings of the role decide how bytea, interval and numbers are written"),
    _Meaning("offset.mismatch.strategy", "a slot and an offset that do not fit are not an error"),
    _Meaning("slot.failover", "a standby that takes over has no slot: its changes are read anew", "weaker"),
    _Meaning("publication.autocreate.mode", "the publication is whoever's made it; cdc onboard adds tables to it", "none"),
    _Meaning("publish.via.partition.root", "changes of a partitioned table come under its partitions' names"),
    _Meaning("skipped.operations", "a TRUNCATE is not told: its rows stay in silver until cdc reconcile finds them"),
    _Meaning("tombstones.on.delete", "nothing here reads tombstones", "none"),
    _Meaning(r"exactly\.once\.support|transaction\.boundary.*", _ONCE),
    _Meaning("value.converter.replace.null.with.default", "a NULL comes as its column's default: silver is not the source"),
    _Meaning(r"(key|value)\.converter.*", "the form of the records is read from the topics: capture.envelope says it", "none"),
    _Meaning(r"topic\.creation\..*", "how topics of new tables are made; cdc onboard makes them before", "none"),
    _Meaning("snapshot.mode", "what a connector reads that begins anew, or has lost its offset"),
    _Meaning("poll.interval.ms", "how long a change may wait in the connector", "none"),
    _Meaning("database.password", "its value lies in Connect's config in clear; it stays there, and is written nowhere", "none"),
    _Meaning("table.include.list", "which tables it captures is decided elsewhere: tables that nobody declared may come"),
    _Meaning(r"(column\.mask|column\.truncate|column\.propagate).*", "silver holds what the connector makes of the values"),
    _Meaning(r"column\.(exclude|include)\.list", "columns that never leave the database are not in silver"),
    _Meaning(r"message\.key\.columns", "by which columns a topic's records are ordered"),
    _Meaning(r"schema\.history\..*|include\.schema\.changes", "how the connector keeps its tables' definitions", "none"),
    _Meaning(r"snapshot\.(locking|isolation)\.mode", "whether the rows of a snapshot are of one moment"),
    _Meaning(
        r"message\.prefix\.(include|exclude)\.list",
        "markers of ours would not come: nobody could tell how far the lake is",
        "wrong",
    ),
)
_MIRROR = (
    _Meaning("replication.policy.separator", "the copies' names would have another separator than a dot", "wrong"),
    _Meaning("replication.policy.class", "nobody here knows how the copies would be called", "wrong"),
    _Meaning("consumer.isolation.level", f"records of transactions that were given up are copied too: {_TWICE}"),
    _Meaning(r"exactly\.once\.support|transaction\.boundary", f"a mirror that dies copies again: {_ONCE}"),
    _Meaning(r"(key|value|header)\.converter", "the copies, headers too, would not be the bytes of their topics", "wrong"),
    _Meaning("topics", "which topics it copies"),
    _Meaning(r"topics\.exclude", "which topics it leaves out", "none"),
    _Meaning("heartbeats.replication.enabled", "a table called heartbeats of any source would be copied by this mirror too"),
    _Meaning("refresh.topics.interval.seconds", "how long a new topic waits for its copy", "none"),
    _Meaning(r"offset-syncs\..*", "MirrorMaker's own topic of offsets, on one cluster or the other", "none"),
    _Meaning(r"(source|target)\.cluster\..*", "how it reaches the clusters", "none"),
    _Meaning(r"sync\..*|emit\..*|replication\.factor|tasks\.max", "how it works, not what it copies", "none"),
    _Meaning(r"consumer\.auto\.offset\.reset", "where a topic's copy begins that has none"),
)
_OTHER = _Meaning("", "Debezium's or Connect's own; nothing here depends on it", "none")


def of_capture(key: str) -> tuple[str, Weight]:
    """What it means that a capturing connector's setting differs."""
    return _meaning(key, _CAPTURE)


def of_mirror(key: str) -> tuple[str, Weight]:
    """The same of a mirror's."""
    return _meaning(key, _MIRROR)


def _meaning(key: str, known: Iterable[_Meaning]) -> tuple[str, Weight]:
    found = next((each for each in known if re.fullmatch(each.pattern, key)), _OTHER)
    return found.meaning, found.weight


def differing_keys(theirs: Mapping[str, str], ours: Mapping[str, str]) -> list[str]:
    """The settings whose text differs."""
    return sorted(key for key in {*theirs, *ours} if theirs.get(key) != ours.get(key))


def differences(
    keys: Iterable[str],
    told: Callable[[str], tuple[str | None, str | None]],
    mean: Callable[[str], tuple[str, Weight]],
    effect: Callable[[str], tuple[str | None, str | None]],
) -> list[SettingDifference]:
    """Of each key what is told of theirs and ours, the weightiest first; without those that mean the same (`effect`)."""
    found = []
    for key in keys:
        one, other = effect(key)
        if one != other:
            found.append(SettingDifference(key, *told(key), *mean(key)))
    order = ("wrong", "weaker", "none")
    return sorted(found, key=lambda each: (order.index(each.weight), each.setting))
