"""The settings of a running connector and of its mirror beside those that we would render: what differs in effect, what
each difference means, and which cannot stay.

The entry declares what is needed so that nothing differs; a difference that is left is refused.

Two settings are the same where they mean the same: one that the config leaves out is the plugin's default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cdc_assets.capture.adoption.running_connector import RunningConnector, message_keys, registry_value
from cdc_assets.capture.connectors.connector_inventory import connector_owners
from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.capture.connectors.setting_overrides import is_listed, settle
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.connector_states import mask_value
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource

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
    _Meaning(r"value\.converter\.largest\.value\.bytes", "a row that is too large for Kafka ends the connector"),
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


def _meaning(key: str, rules: Iterable[_Meaning]) -> tuple[str, Weight]:
    rule = next((rule for rule in rules if re.fullmatch(rule.pattern, key)), _OTHER)
    return rule.meaning, rule.weight


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
    differing = []
    for key in keys:
        one, other = effect(key)
        if one != other:
            differing.append(SettingDifference(key, *told(key), *mean(key)))
    order = ("wrong", "weaker", "none")
    return sorted(differing, key=lambda each: (order.index(each.weight), each.setting))


_CLASS, _POLICY = "MirrorSourceConnector", "replication.policy.class"
_SEPARATOR = "replication.policy.separator"
_POLICIES = {"DefaultReplicationPolicy": "default", "IdentityReplicationPolicy": "identity"}


@dataclass(frozen=True)
class FoundMirror:
    """A mirror's name, what it calls the core cluster, how it names copies, and its whole config."""

    name: str
    alias: str
    replication: str
    config: Mapping[str, str] = field(repr=False)
    password_keys: frozenset[str]

    def block(self) -> dict[str, Any]:
        """The block `mirror` of the entry, without settings."""
        return {"connector": self.name, "alias": self.alias}

    def other_settings(self, source: BaseSource) -> dict[str, str | None]:
        """The settings that the entry has to declare, so that the mirror is rendered as it is."""
        ours = mirror_config(source)
        return {key: registry_value(key, self.config.get(key), self.password_keys) for key in differing_keys(self.config, ours)}


@dataclass(frozen=True)
class CoreSide:
    """The core cluster of the topics; `is_one_of_many`: there are others, which may have topics of these names, too."""

    name: str
    bootstrap: str
    is_one_of_many: bool

    def is_read_by(self, config: Mapping[str, str]) -> bool:
        """Whether the mirror reads this cluster: told by an address that both name, where there are others."""
        theirs = config.get("source.cluster.bootstrap.servers", "").split(",")
        return not self.is_one_of_many or bool({address.strip() for address in theirs} & {*self.bootstrap.split(",")})


def find_mirror(
    connect: ConnectClient, lake: KafkaCluster, core: CoreSide, topics: Sequence[str], sources: Iterable[BaseSource]
) -> FoundMirror | None:
    """The mirror that takes all of these topics of the core cluster; None where no connector takes any.
    Raises RefusalError: it is another source's, it takes some of them only, several do, it names the copies in a way that is not
    known here, or they are filled by a MirrorMaker that is no connector of that Connect."""
    carried = {}
    for name, about in connect.overview().items():
        if about.config.get("connector.class", "").rsplit(".", 1)[-1] == _CLASS and core.is_read_by(about.config):
            carried[name] = [topic for topic in topics if is_listed(topic, about.config.get("topics", ".*").split(","))]
    takers = {name: taken for name, taken in carried.items() if taken}
    if not takers:
        _refuse_copies(lake, [f"{core.name}.{topic}" for topic in topics], connect.url)
        return None
    if len(takers) > 1:
        raise RefusalError(f"topics of the connector are carried by mirrors {', '.join(takers)} at {connect.url}: one must do it")
    name, taken = next(iter(takers.items()))
    if lacks := sorted(set(topics) - set(taken)):
        raise RefusalError(f"mirror {name} at {connect.url} does not carry {', '.join(lacks)}: add it to its topics, then again")
    if owner := connector_owners(sources).get(name):
        raise RefusalError(
            f"mirror {name} at {connect.url} is declared already, by source {owner}, and a source has one of its own: let "
            f"another mirror carry {', '.join(topics)}, and take them out of this one's topics; then again"
        )
    return _read_mirror(connect, name)


def _read_mirror(connect: ConnectClient, name: str) -> FoundMirror:
    config = connect.config(name) or {}
    status = connect.status(name)
    if status is None or not status.running:
        state = status.state if status else "in no state"
        raise RefusalError(f"mirror {name} at {connect.url} does not run (it is {state}): cdc restart {name}, then again")
    policy = config.get(_POLICY, "DefaultReplicationPolicy").rsplit(".", 1)[-1]
    if policy not in _POLICIES or config.get(_SEPARATOR, ".") != ".":
        raise RefusalError(
            f"mirror {name} at {connect.url} names its copies by {policy} with separator {config.get(_SEPARATOR, '.')!r}; only "
            f"{', '.join(_POLICIES)} with a dot are known here"
        )
    keys = connect.password_keys(config["connector.class"])
    return FoundMirror(name, config.get("source.cluster.alias", "source"), _POLICIES[policy], config, keys)


def _refuse_copies(lake: KafkaCluster, topics: Sequence[str], url: str) -> None:
    """A second mirror would write each record once more into the copies."""
    copies = sorted(lake.existing(topics))
    if copies:
        raise RefusalError(
            f"{', '.join(copies)} at {lake.bootstrap}: filled by no connector at {url}, perhaps by a MirrorMaker of its own. A "
            "mirror of ours would fill them a second time: let that one run on this Connect, or stop it and delete the copies"
        )


# What holds where a worker runs source connectors exactly once, which is asked of it (docs/how-to/your-own-platform.md).
_OF_MARKERS = ("message.prefix.include.list", "message.prefix.exclude.list")
_OF_THE_WORKER = {"exactly.once.support": ("requested", "required"), "transaction.boundary": ("poll",)}


def capture_differences(running: RunningConnector, source: CapturedSource) -> list[SettingDifference]:
    """What of the connector is not as the source, without settings of its own, is rendered."""
    ours = capture_config(source)
    config = settle(ours, running.config)

    def effect(key: str) -> tuple[str | None, str | None]:
        if key == "table.include.list" and key in running.config:
            return None, None  # its tables are the declared ones: that is how they were found
        if key == "message.key.columns" and message_keys(running):
            return None, None
        if key in _OF_MARKERS and _lets_markers_through(running):
            return None, None
        return _in_effect(key, running.config, running.defaults), _in_effect(key, config, running.defaults)

    def display(key: str) -> tuple[str | None, str | None]:
        return running.display(key), mask_value(key, ours[key], running.password_keys) if key in ours else None

    return differences(differing_keys(running.config, config), display, of_capture, effect)


def _lets_markers_through(running: RunningConnector) -> bool:
    listed, left_out = (running.config.get(key, "") for key in _OF_MARKERS)
    marker = names.MARKER_PREFIX
    return (not listed or is_listed(marker, listed.split(","))) and not (left_out and is_listed(marker, left_out.split(",")))


def mirror_differences(mirror: FoundMirror, connect: ConnectClient, source: CapturedSource) -> list[SettingDifference]:
    """The same of the mirror."""
    ours, theirs = mirror_config(source), mirror.config
    topics = [names.topic(source, table) for table in source.tables]
    defaults = connect.default_values(ours["connector.class"])

    def effect(key: str) -> tuple[str | None, str | None]:
        if key == "topics":
            carried = all(is_listed(name, theirs.get(key, ".*").split(",")) for name in topics)
            return (None, None) if carried else (theirs.get(key), ours[key])
        return _in_effect(key, theirs, defaults), _in_effect(key, ours, defaults)

    def display(key: str) -> tuple[str | None, str | None]:
        shown = [mask_value(key, config[key], mirror.password_keys) if key in config else None for config in (theirs, ours)]
        return shown[0], shown[1]

    return differences(differing_keys(theirs, ours), display, of_mirror, effect)


def other_settings(running: RunningConnector, source: CapturedSource) -> dict[str, str | None]:
    """The settings that the entry has to declare, so that the connector is rendered as it is."""
    return {key: running.value_to_keep(key) for key in _unequal(running.config, capture_config(source))}


def _unequal(config: Mapping[str, str], rendered: Mapping[str, str]) -> list[str]:
    """The settings of a running connector that the rendered config would change."""
    return differing_keys(config, settle(rendered, config))


def refuse_unequal(running: RunningConnector, mirror: FoundMirror | None, source: CapturedSource, *, ours: bool) -> None:
    """The proof that nothing would be changed; of `ours` nothing is to be proven.
    Raises RefusalError: something would be: naming the settings."""
    if ours:
        return
    unequal = _unequal(running.config, capture_config(source))
    if mirror is not None:
        unequal += [f"{mirror.name}: {key}" for key in _unequal(mirror.config, mirror_config(source))]
    if unequal:
        raise RefusalError(
            f"connector {running.name} would not be left as it is, so nothing was written: {', '.join(unequal)} cannot be "
            "declared; change it there, or --ours; and please report it"
        )


def _in_effect(key: str, config: Mapping[str, str], defaults: Mapping[str, str | None]) -> str | None:
    value = config.get(key, defaults.get(key))
    same = _OF_THE_WORKER.get(key, ())
    return same[0] if same and (value is None or value.lower() in same) else value
