"""Every derived name in one place: asset keys, topics, connectors, Delta paths, backup prefixes.

A topic name follows Debezium's default naming (`<prefix>.<schema>.<table>`, characters outside
`[A-Za-z0-9._-]` replaced by `_`) and MirrorMaker 2's DefaultReplicationPolicy (`<alias>.<topic>`).
Two declarations whose names meet are refused when the registry is loaded (name_conflicts).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from cdc_assets.registry.field_types import TableId, parse_table
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.source_settings import CORE as CORE
from cdc_assets.registry.source_settings import LAKE as LAKE
from cdc_assets.registry.table_declaration import Table, short_table_name
from spark.table.identifiers import double_quote


def windows_name(table: Table, windows: str) -> str:
    """Windowed results of a table, in asset keys and paths: `orders__per_hour`."""
    return f"{table_name(table)}__{windows}"


def table_name(table: Table) -> str:
    """The table's short name: `city` for public.city."""
    return short_table_name(table.id)


def bronze_path(lake: str, source: BaseSource) -> str:
    """The source's change log: one Delta table."""
    return f"{lake.rstrip('/')}/bronze/{source.name}"


def silver_path(lake: str, source: BaseSource, table: Table) -> str:
    """The table's current state."""
    return f"{lake.rstrip('/')}/silver/{source.name}/{table_name(table)}"


def history_path(lake: str, source: BaseSource, table: Table) -> str:
    """Every version of the table's rows."""
    return f"{silver_path(lake, source, table)}__history"


def quarantine_path(lake: str, source: BaseSource, table: Table) -> str:
    """The table's records that could not be folded."""
    return f"{lake.rstrip('/')}/quarantine/{source.name}/{table_name(table)}"


def replay_path(lake: str, source: BaseSource, table: Table) -> str:
    """Where the table's shadows lie while it is made again."""
    return f"{lake.rstrip('/')}/replay/{source.name}/{table_name(table)}"


def past_lake(lake: str, source: BaseSource, table: Table) -> str:
    """The lake that a table's first records are brought back into from the backup, where bronze has them no more."""
    return f"{lake.rstrip('/')}/past/{source.name}/{table_name(table)}"


def past_path(lake: str, source: BaseSource, table: Table) -> str:
    """The change log of that lake."""
    return bronze_path(past_lake(lake, source, table), source)


def stream_checkpoint(lake: str, source: BaseSource) -> str:
    """What Structured Streaming keeps of the source's stream."""
    return f"{lake.rstrip('/')}/checkpoints/{source.name}"


def drills_path(lake: str, source: BaseSource) -> str:
    """What the last drill has found, and the lake that a drill restores into."""
    return f"{lake.rstrip('/')}/drills/{source.name}"


def topic_moves_path(lake: str) -> str:
    """Which topics of the lake's cluster were made again from a backup, and where they go on; of all sources."""
    return f"{lake.rstrip('/')}/restored_topics"


def ledger_path(lake: str, source: BaseSource) -> str:
    """Every event of the source's tables, counted by window."""
    return f"{lake.rstrip('/')}/ledger/{source.name}"


def cuts_path(lake: str, source: BaseSource) -> str:
    """The source's kept cuts, and which version of each table they name."""
    return f"{lake.rstrip('/')}/cuts/{source.name}"


def windows_path(lake: str, source: BaseSource, table: Table, windows: str) -> str:
    """The results of a table's windows; what was said and taken back lies beside them, in `…__panes`."""
    return f"{lake.rstrip('/')}/windows/{source.name}/{windows_name(table, windows)}"


_PLAIN_WORD = re.compile(r"[A-Za-z_]\w*")
SHARED_MIRROR = f"{CORE}->{LAKE}.MirrorSourceConnector"
"""As Strimzi calls the source connector of a KafkaMirrorMaker2, by the aliases of its two clusters."""
LAYERS = ("connector", "topic", "mirror", "bronze", "silver", "backup", "ledger")
OF_SOURCE = MAINTENANCE, CUT, DRILL = "maintenance", "cut", "drill"
"""Beside the layers: one asset per source, about the tables of all."""
ASSET_LAYERS = (*LAYERS, "windows")
"""Those of a chain, and what is computed behind it of tables that declare it."""
COMMANDS = ("cdc", "commands")
"""The asset whose observations are the commands that have changed something, with who called them."""
MARKER_PREFIX = SIGNAL_SCHEMA = "cdc_assets"
NOW, SOURCE_TAG, DIGEST_TAG = "silver_now", "cdc/source", "cdc/registry"
"""The latter on each source's offsets sensor: the digest of the declaration that the loaded definitions were made of."""


def asset_key(layer: str, source: BaseSource, table: Table | None = None) -> tuple[str, ...]:
    """Of a link of a table's chain, or of the source's connector."""
    return asset_path(layer, source.name, None if table is None else table_name(table))


def asset_path(layer: str, source: str, table: str | None = None) -> tuple[str, ...]:
    """`(silver, world, silver_city)`, `(connector, world, connector_world)`: a layer and a source can each be selected.

    Dagster's graph shows the last part only, so that says the layer and the table (docs/adr/archive/0066).
    """
    return (layer, source, f"{layer}_{source if table is None else table}")


def op_name(work: str, source: BaseSource) -> str:
    """A step of ours. A project has each op's name once, and an asset called bronze_shop is a user's right."""
    return f"cdc_{work}_{source.name}"


def connector_name(source: BaseSource) -> str:
    """The Debezium connector on the core Connect cluster."""
    declared = source.captured.capture.connector if source.captured else None
    return declared or _connector(source, "capture")


def mirror_connector_name(source: BaseSource) -> str:
    """The MirrorSourceConnector on the lake's Connect cluster; a KafkaMirrorMaker2's is one for all sources."""
    return SHARED_MIRROR if is_shared_mirror(source) else source.mirror.connector or _connector(source, "mirror")


def checkpoint_connector_name(source: BaseSource) -> str:
    """The MirrorCheckpointConnector on the lake's Connect cluster."""
    return _connector(source, "checkpoints")


def heartbeat_connector_name(source: BaseSource) -> str:
    """The MirrorHeartbeatConnector on the lake's Connect cluster."""
    return _connector(source, "heartbeats")


def is_shared_mirror(source: BaseSource) -> bool:
    """Whether a KafkaMirrorMaker2 carries the source's topics, with those of others."""
    return source.managed_by == "gitops" and source.mirror.resource == "mirrormaker2"


def kubernetes_name(name: str) -> str:
    """`name` where Kubernetes takes it (RFC 1123), else made so, with a hash that keeps different names different."""
    if re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", name) and ".." not in name:
        return name
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:200] or "x"
    return f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _connector(source: BaseSource, role: str) -> str:
    name = f"{source.name}-{role}"
    # Strimzi calls a connector as its KafkaConnector.
    return kubernetes_name(name) if source.managed_by == "gitops" else name


def slot_name(source: CapturedSource) -> str:
    """The logical replication slot."""
    return source.capture.slot or f"cdc_{source.name}"


def publication_name(source: CapturedSource) -> str:
    """The publication that the slot decodes."""
    return source.capture.publication or f"cdc_{source.name}"


def signal_declaration(source: BaseSource) -> str | None:
    """The signal table that the source declares, as it is written."""
    return source.reconciliation.signals or (source.captured.capture.signals if source.captured else None)


def signal_table(source: BaseSource) -> TableId:
    """The table in the source through which the connector is asked for snapshots; made by the first onboarding.

    As `reconciliation.signals` declares it, else one of ours.
    """
    declared = signal_declaration(source)
    return parse_table(declared) if declared else TableId(SIGNAL_SCHEMA, f"signal_{source.name}")


def signal_topic(source: BaseSource) -> str:
    """Where the connector sends the rows of the signal table, as those of any table; nobody reads it."""
    return _topic_safe(f"{topic_prefix(source)}.{'.'.join(signal_table(source))}")


def witness_table(source: BaseSource) -> TableId:
    """The table in the source that tells whether it has been restored (cdc_assets.capture.incarnations)."""
    return TableId(SIGNAL_SCHEMA, f"witness_{source.name}")


def starts_table(source: BaseSource) -> TableId:
    """The table in the source in which its connector notes where the slot is, whenever it connects."""
    return TableId(SIGNAL_SCHEMA, f"starts_{source.name}")


def topic_prefix(source: BaseSource) -> str:
    """What the names of its connector's topics begin with; Debezium calls the source so."""
    return (source.captured.capture.topic_prefix if source.captured else None) or source.name


def heartbeat_topic(source: BaseSource) -> str:
    """Where its connector beats, by Debezium's own name for it."""
    return f"__debezium-heartbeat.{topic_prefix(source)}"


def notification_topic(source: BaseSource) -> str:
    """Where the connector says how its snapshots go."""
    declared = source.captured.capture.notifications if source.captured else None
    return declared or f"{topic_prefix(source)}.notifications"


def temporary(name: str) -> str:
    """The connector, slot or publication that takes the first snapshot of new tables beside the one called `name`."""
    mark = "-onboard" if "-" in name else "_onboard"
    return f"{name[: 63 - len(mark)]}{mark}"


def topic(source: BaseSource, table: Table) -> str:
    """The topic on the core cluster, or where an application fills it."""
    return table.topic or topic_of(source, table.id)


def topic_of(source: BaseSource, table: TableId) -> str:
    """Debezium's topic of any table that the source's connector captures.

    SQL Server's has the database as well.
    """
    scope = source.captured.database.topic_scope if source.captured else ()
    return _topic_safe(".".join((topic_prefix(source), *scope, *table)))


def collection(source: CapturedSource, table: TableId) -> str:
    """What Debezium calls a table in signals: SQL Server's and Oracle's with their database."""
    return ".".join((*source.database.signal_scope, *table))


def marker_topic(source: BaseSource) -> str:
    """Where Debezium puts logical decoding messages: our log-position markers and heartbeats."""
    return f"{topic_prefix(source)}.message"


def capture_names(source: CapturedSource) -> dict[str, str]:
    """What the capturing connector keeps under a name of its own, as asset metadata."""
    if kind_of(source).has_slot:
        return {"cdc/slot": slot_name(source), "cdc/publication": publication_name(source)}
    return {"cdc/schema_history": schema_history_topic(source)} if has_schema_history(source) else {}


def connect_topics(cluster: str) -> dict[str, str]:
    """Where the embedded Connect worker of a cluster keeps its configs, offsets and status."""
    return {use: f"_{cluster}-connect-{use}" for use in ("configs", "offsets", "status")}


def has_schema_history(source: CapturedSource) -> bool:
    """Whether its connector keeps the tables' definitions in a topic."""
    return kind_of(source).has_schema_history


def schema_history_topic(source: BaseSource) -> str:
    """Where a connector that needs it keeps the definitions that its tables have had."""
    declared = source.captured.capture.schema_history if source.captured else None
    return declared or f"{topic_prefix(source)}.schema-history"


def schema_history_group(source: BaseSource) -> str:
    """Debezium's own name of the consumer that reads it when a connector starts again, after `topic.prefix`."""
    return f"{topic_prefix(source)}-schemahistory"


def temporary_schema_history_topic(source: BaseSource) -> str:
    """The same of the connector that reads new tables beside the source's own; gone when it is."""
    return f"{schema_history_topic(source)}-onboard"


def lake_topic(source: BaseSource, table: Table) -> str:
    """The topic on the lake cluster."""
    if not is_mirrored(source) or source.topics.replication == "identity":
        return topic(source, table)
    return f"{source.mirror.alias_of(source.cluster)}.{topic(source, table)}"


def is_mirrored(source: BaseSource) -> bool:
    """Whether the source's topics are on the core cluster, so that the lake's hold copies."""
    return source.mirrored


def sql_name(layer: str, source: BaseSource, table: Table | None = None) -> tuple[str, ...]:
    """`(silver, shop, orders)`, `(bronze, shop)`: what `cdc sql` calls the table `silver.shop.orders`."""
    return (layer, source.name) if table is None else (layer, source.name, table_name(table))


def sql_text(layer: str, source: BaseSource, table: Table | None = None) -> str:
    """That name as a statement writes it: a part that is no plain word of SQL stands in quotes."""
    return quote_parts(sql_name(layer, source, table))


def quote_parts(parts: Iterable[str]) -> str:
    """A name of several parts for SQL: `silver.shop."order lines"`."""
    return ".".join(name if _PLAIN_WORD.fullmatch(name) else double_quote(name) for name in parts)


def catalog_name(parts: Sequence[str]) -> tuple[str, str]:
    """`(silver_shop, orders)`, `(bronze, shop)`: database and view in Spark's catalog, in lower case, as that keeps them."""
    *before, last = parts
    return "_".join(before).lower(), last.lower()


def _topic_safe(name: str) -> str:
    # Java counts a character beyond U+FFFF as two, so Debezium writes two underscores for it.
    return re.sub(r"[^A-Za-z0-9._-]", lambda match: "_" * (1 + (match[0] > "\uffff")), name)
