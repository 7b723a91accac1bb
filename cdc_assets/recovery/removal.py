"""Takes a whole source away (`cdc remove`), in the order in which nothing is lost and nothing is left: what of it is kept
or goes by one word each. Of its data only exact names and prefixes of this source are touched.

Connectors are stopped, then without offsets, then deleted; the registry file is put aside as `<file>.removed`, where a
repeated command finds it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_assets.backup.backup_end import forget_ends
from cdc_assets.backup.kept_cuts import FOLDER as CUTS
from cdc_assets.backup.object_layout import manifests_prefix, table_prefix
from cdc_assets.backup.platform_log import FOLDER as PLATFORM
from cdc_assets.capture.connectors.connector_inventory import COMMIT, connector_owners
from cdc_assets.capture.connectors.declared_connectors import DeclaredConnector, declared_connectors
from cdc_assets.capture.onboarding.onboarding_state import only_one
from cdc_assets.clients.delta_log import bronze_floors
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.operations.registry_reload import take_out
from cdc_assets.recovery.source_traces import Trace, traces_of
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import CdcAssetsError, DatabaseError, RefusalError, ServiceError
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.loader import REMOVED, load_source, load_sources
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.source_state import forget_source
from spark.errors import LeftToSparkError, quantity
from spark.table.lake_location import is_object
from spark.table.table_folder import open_folder
from spark.table.write_lease import lend_to_task

if TYPE_CHECKING:
    from cdc_assets.clients.connect import ConnectClient
    from cdc_assets.clients.kafka import KafkaCluster

GO = ("connector", "slot", "publication", "tables", "mirror", "registry")
"""What goes unless it is kept: it costs the source, or it would make again what is removed."""
STAY = ("topics", "lake", "backup")
"""What stays unless it is named: data, which nobody can bring back."""
WORDS = (*GO, *STAY)
AT_SOURCE = ("slot", "publication", "tables")


@dataclass(frozen=True)
class RemovalChoice:
    """What is to go. `kept` and `deleted` are the words that were given."""

    gone: frozenset[str]
    kept: frozenset[str]
    deleted: frozenset[str]

    @classmethod
    def of(cls, keep: Iterable[str], delete: Iterable[str]) -> RemovalChoice:
        """From lists of words, each item one word or several with commas.

        Raises:
            RefusalError: a word that there is not, or one that is in both lists.
        """
        kept, deleted = _words(keep), _words(delete)
        if unknown := sorted((kept | deleted) - set(WORDS)):
            raise RefusalError(f"{', '.join(unknown)}: a source has nothing of that name; it has: {', '.join(WORDS)}")
        if both := sorted(kept & deleted):
            raise RefusalError(f"{', '.join(both)}: --keep and --delete both name it")
        return cls(frozenset((set(GO) - kept) | deleted), kept, deleted)


def _words(given: Iterable[str]) -> frozenset[str]:
    return frozenset(word.strip() for text in given for word in text.split(",") if word.strip())


@dataclass(frozen=True)
class DeclaredIn:
    """A source and the file that declares it; `aside`: that file has been put aside."""

    source: BaseSource
    file: Path
    aside: bool


def find_declaration(folder: Path, name: str) -> DeclaredIn | None:
    """Of a source that is declared, or was until it was removed; None where no file names it.

    Raises:
        RegistryError: the registry cannot be read.
    """
    declared = {source.name for source in load_sources(folder)}
    if name in declared:
        files = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
        return next(DeclaredIn(source, file, aside=False) for file in files if (source := load_source(file)).name == name)
    for file in sorted(folder.glob(f"*{REMOVED}")):
        if (source := load_source(file)).name == name:
            return DeclaredIn(source, file, aside=True)
    return None


def put_aside(found: DeclaredIn) -> DeclaredIn:
    """Rename the file, in one step.

    No loader reads that name. So `cdc remove` can go on after a kill, or remove data later; renamed back, the source is
    declared.

    Raises:
        RefusalError: the folder cannot be written.
    """
    if found.aside:
        return found
    aside = found.file.with_name(found.file.name + REMOVED)
    try:
        found.file.replace(aside)
    except OSError as error:
        raise RefusalError(
            f"{found.file} cannot be renamed ({error.strerror}): take it out of the registry where you keep it, and give "
            "--keep registry"
        ) from error
    return DeclaredIn(found.source, aside, aside=True)


_TOPIC_DEADLINE_SECONDS = 60.0
_WAITS_SECONDS = 900.0
"""For whoever writes a table just now."""


def core_topics(source: Any) -> list[str]:
    """Topics that the source's connector has made; none of a source of topics, which others fill."""
    if source.captured is None:
        return []
    own = [names.marker_topic(source), names.signal_topic(source), names.notification_topic(source)]
    if names.has_schema_history(source):
        own += [names.schema_history_topic(source), names.temporary_schema_history_topic(source)]
    return [*(names.topic(source, table) for table in source.tables), *own, names.heartbeat_topic(source)]


def lake_topics(source: BaseSource) -> list[str]:
    """The copies on the lake's cluster; none where the lake reads the topics that others fill."""
    return [names.lake_topic(source, table) for table in source.tables] if names.is_mirrored(source) else []


def remove_topics(chain: Chain[BaseSource]) -> list[str]:
    """On both clusters; but for what git declares (`topics_of_git`).

    Raises:
        ServiceError: a cluster cannot be asked, or refuses.
    """
    by_git = {names.topic(chain.source, table) for table in chain.source.tables} if chain.source.managed_by == "gitops" else set()
    core = [topic for topic in core_topics(chain.source) if topic not in by_git]
    gone = _delete_topics(chain.platform.core_kafka(chain.source.cluster), core, chain.source.cluster) if core else []
    copies = lake_topics(chain.source)
    return gone + (_delete_topics(chain.platform.lake_kafka(), copies, "lake") if copies else [])


def topics_of_git(chain: Chain[BaseSource]) -> list[Trace]:
    """Topics that are there and have a KafkaTopic: its operator would make again what is removed here. None without git."""
    if chain.source.managed_by != "gitops" or chain.source.captured is None:
        return []
    topics = [names.topic(chain.source, table) for table in chain.source.tables]
    return [
        Trace("topics", f"topic {topic} (core) with its KafkaTopic", f"kubectl delete kafkatopic {names.kubernetes_name(topic)}")
        for topic in sorted(chain.platform.core_kafka(chain.source.cluster).existing(topics))
    ]


def _delete_topics(kafka: KafkaCluster, topics: list[str], cluster: str) -> list[str]:
    there = sorted(kafka.existing(topics))
    for topic in there:
        kafka.delete_topic(topic)
    until = time.monotonic() + _TOPIC_DEADLINE_SECONDS
    while left := kafka.existing(there):
        if time.monotonic() > until:
            raise RefusalError(f"topics {', '.join(sorted(left))} at {kafka.bootstrap} are deleted, but are still there")
        time.sleep(0.2)
    return [f"topic {topic} ({cluster})" for topic in there]


def lake_folders(lake: str, source: BaseSource) -> list[str]:
    """The folders that hold nothing but this source's Delta tables."""
    of_tables = (names.silver_path, names.quarantine_path, names.replay_path, names.past_lake)
    return [
        names.bronze_path(lake, source),
        *(path(lake, source, source.tables[0]).rpartition("/")[0] for path in of_tables),
        names.ledger_path(lake, source),
        names.windows_path(lake, source, source.tables[0], "any").rpartition("/")[0],
        names.stream_checkpoint(lake, source),
        names.cuts_path(lake, source),
        names.drills_path(lake, source),
    ]


def remove_lake(chain: Chain[BaseSource]) -> list[str]:
    """All of the lake that is the source's, histories and quarantine with it; waits for the runs that hold a table.

    Raises:
        RefusalError: a run holds a table for too long.
        EndpointError: the store cannot be asked, or refuses.
    """
    folders = [open_folder(folder) for folder in lake_folders(chain.platform.lake, chain.source)]
    above_and_name = {folder.path: folder.path.rpartition("/")[::2] for folder in folders}
    there = [path for path, (above, name) in above_and_name.items() if open_folder(above).has_files(name)]
    with ExitStack() as locks:
        for layer in ("bronze", "silver"):
            for table in sorted(names.table_name(table) for table in chain.source.tables):
                locks.enter_context(table_lock(layer, chain.source.name, table))
        tables = (chain.silver_path(table) for table in chain.source.tables)
        # In an object store the writers of a table take turns by a lease.
        for path in (chain.bronze_path, *tables) if is_object(chain.platform.lake) else ():
            locks.enter_context(_lease(path))
        for folder in folders:
            folder.remove_all()
    for folder in folders:
        # The ends of the leases that were held.
        folder.remove_all()
    return [f"folder {path}" for path in there]


@contextmanager
def _lease(path: str) -> Iterator[None]:
    try:
        with lend_to_task(path, seconds=_WAITS_SECONDS):
            yield
    except LeftToSparkError as error:
        raise RefusalError(f"{error}; run it again") from error


def remove_backup(chain: Chain[BaseSource]) -> list[str]:
    """Every object of the source's tables, also of those that were taken out before.

    Raises:
        RefusalError: the lake stays, and the backup alone has its first records.
        StoreError: the store cannot be asked, or refuses.
    """
    if chain.source.backup is None:
        return []
    bronze = chain.bronze_path
    if gone_to_backup := sum(floor.records for floor in bronze_floors(bronze).values()):
        raise RefusalError(
            f"{bronze} has given its first {quantity(gone_to_backup, 'record')} to the backup, which alone has them: the backup "
            "stays for as long as the lake does. Both go with --delete lake,backup"
        )
    store, gone = chain.platform.store(chain.source.backup.store), []
    for prefix, keys in _of_tables(chain.source, [item.key for item in store.list(f"{chain.source.name}/")]).items():
        for key in keys:
            store.delete(key)
        gone.append(f"{quantity(len(keys), 'object')} below {store.url}/{prefix}")
    forget_ends(chain.source.name)
    return gone


def _of_tables(source: BaseSource, keys: list[str]) -> dict[str, list[str]]:
    """The keys by their table's prefix: of tables that are declared, or that have a manifest of ours."""
    below: dict[str, list[str]] = {}
    for key in keys:
        table, slash, _ = key.removeprefix(f"{source.name}/").partition("/")
        if slash:
            below.setdefault(table, []).append(key)
    declared, ordered_keys = {names.table_name(table) for table in source.tables}, {}
    for table, of in sorted(below.items()):
        manifests = manifests_prefix(source.name, table)
        # Manifests last: killed in between, the rest is still known for the table's.
        ordered = sorted(of, key=lambda key: (key.startswith(manifests), key))
        if table in declared or table in (PLATFORM, CUTS) or ordered[-1].startswith(manifests):
            ordered_keys[table_prefix(source.name, table)] = ordered
    return ordered_keys


_ASKED_SECONDS = 10.0


def remove_capture(chain: Chain[BaseSource]) -> list[str]:
    """The connector that reads the database, and the one beside it of an onboarding that was not ended.

    Raises:
        RefusalError: Connect cannot be asked; names the words that go on without it.
    """
    gone = []
    for declared in _connectors_of(chain.source, "capture"):
        for name in (declared.name, names.temporary(declared.name)):
            gone += _remove(chain.platform, declared, name, forget=True)
    return gone


def remove_mirror(chain: Chain[BaseSource], *, forget: bool) -> list[str]:
    """The connectors on the lake's cluster. `forget`: their offsets go, because the topics that they are of go too.

    Raises:
        RefusalError: as `remove_capture`.
    """
    roles = ("mirror", "checkpoints", "heartbeats")
    return [
        name for one in _connectors_of(chain.source, *roles) for name in _remove(chain.platform, one, one.name, forget=forget)
    ]


def running_capture(chain: Chain[BaseSource]) -> str:
    """The capturing connector's name, where a Connect that answers has it; else empty."""
    try:
        connectors = list(_connectors_of(chain.source, "capture"))
        return next((one.name for one in connectors if _has(chain.platform, one)), "")
    except CdcAssetsError:
        return ""


def _has(platform: Platform, declared: DeclaredConnector) -> bool:
    return platform.connect(declared.cluster).within(_ASKED_SECONDS).config(declared.name) is not None


def _connectors_of(source: BaseSource, *roles: str) -> Iterator[DeclaredConnector]:
    try:
        connectors = declared_connectors([source])
    except CdcAssetsError as error:
        raise _away(source, error) from error
    return (declared for declared in connectors if declared.role in roles)


def _remove(platform: Platform, declared: DeclaredConnector, name: str, *, forget: bool) -> list[str]:
    """The connector's name in a list; empty: it was not there.

    Raises:
        RefusalError: the name is somebody else's connector, or git's.
    """
    away = (
        f"rename the file that declares {declared.source.name} to end in {REMOVED}, {COMMIT} then, and give this command again "
        "when the operator has deleted the connector"
    )
    if name == names.SHARED_MIRROR:
        return []  # other sources' topics are in it; git takes this one's out
    try:
        connect = platform.connect(declared.cluster)
        config = connect.config(name)
        if config is None:
            return []
        if declared.source.managed_by == "gitops":
            raise RefusalError(f"connector {name} at {connect.url} is managed_by: gitops, nothing was removed; {away}")
        running = config.get("connector.class", "")
        if running.rsplit(".", 1)[-1] != declared.config["connector.class"].rsplit(".", 1)[-1]:
            raise RefusalError(f"connector {name} at {connect.url} runs {running}: it is not of this source, and is left alone")
        _delete(connect, name, forget=forget)
    except RefusalError:
        raise
    except CdcAssetsError as error:
        raise _away(declared.source, error) from error
    return [f"connector {name}"]


def _delete(connect: ConnectClient, name: str, *, forget: bool) -> None:
    connect.stop(name)
    if forget:
        # Kept, they would be of a slot or topic that is gone by the time somebody creates the connector again.
        connect.reset_offsets(name)
    connect.delete(name)


def _away(source: BaseSource, error: CdcAssetsError) -> RefusalError:
    return RefusalError(
        f"the connectors of source {source.name} cannot be removed: {error}. Where their Kafka Connect is gone for good: "
        f"cdc remove {source.name} --keep connector,mirror"
    )


@dataclass
class Removal:
    """What is to go of one source, and what came of it: `gone` and `left`, for people."""

    platform: Platform
    declared: DeclaredIn
    choice: RemovalChoice
    say: Say
    gone: list[str] = field(default_factory=list)
    left: list[Trace] = field(default_factory=list)

    @property
    def source(self) -> BaseSource:
        """The source that is to go."""
        return self.declared.source


@dataclass(frozen=True)
class RemovalStep:
    """What goes by one word: `what` names it, for a plan; `run` takes it away, and says what is gone."""

    word: str
    what: Callable[[BaseSource], str]
    run: Callable[[Removal], list[str]]


def plan_removal(source: BaseSource, choice: RemovalChoice) -> list[dict[str, Any]]:
    """Each word of the source, in order, with `action` remove or keep; nothing is asked of a service."""
    return [{"word": s.word, "action": "remove" if s.word in choice.gone else "keep", "what": s.what(source)} for s in STEPS]


def remove_source(removal: Removal) -> None:
    """Take all away that is to go; may be repeated, also after a kill.

    Raises:
        RefusalError: the connector is kept, and what it reads from is not.
        CdcAssetsError: a service cannot be asked, or refuses; what is done stays done.
    """
    choice, source = removal.choice, removal.source
    needed = sorted({"slot", "publication"} & choice.gone) if _has_slot(source) else []
    if "connector" not in choice.gone and needed and (name := running_capture(Chain(removal.platform, source))):
        raise RefusalError(f"connector {name} is to be kept, and reads from them: --keep connector,{','.join(needed)}")
    with only_one(source.name):
        for step in STEPS:
            if step.word in choice.gone:
                removal.say(f"{step.word}: {step.what(source)}")
                removal.gone += step.run(removal)
        forget_source(source.name)
        if "registry" in choice.deleted and removal.declared.aside:
            removal.declared.file.unlink(missing_ok=True)
            removal.gone.append(f"file {removal.declared.file}")


def _at_source(word: str) -> Callable[[Removal], list[str]]:
    def run(removal: Removal) -> list[str]:
        traces = traces_of(removal.source)
        if traces is None:
            return []
        gone = []
        try:
            for trace in traces.find():
                if trace.word != word:
                    continue
                if (trace.ours or word in removal.choice.deleted) and traces.drop(trace):
                    gone.append(trace.what)
                else:
                    removal.left.append(trace)
        except DatabaseError as error:
            keep = f"cdc remove {removal.source.name} --keep {','.join(AT_SOURCE)}"
            raise RefusalError(f"{error}. Where that server is gone for good: {keep}") from error
        return gone

    return run


def _registry(removal: Removal) -> list[str]:
    gone = []
    if not removal.declared.aside:
        before = removal.declared.file
        removal.declared = put_aside(removal.declared)
        gone = [f"file {before} is {removal.declared.file.name} now"]
    if url := settings.lookup("CDC_DAGSTER_URL"):
        gone += _out_of_dagster(url, removal)
    return gone


def _out_of_dagster(url: str, removal: Removal) -> list[str]:
    # Before topics and lake go: the source's sensor would ask for what is not there.
    name = removal.source.name
    try:
        take_out(url, name, say=removal.say)
    except ServiceError as error:
        removal.say(f"Dagster shows {name} until it has reloaded: {error}")
        return []
    return [f"assets, checks, jobs and sensors of {name} in Dagster at {url}"]


def _connector(source: BaseSource) -> str:
    return names.connector_name(source) if getattr(source, "database", None) else "this source has none"


def _topics(source: BaseSource) -> str:
    return ", ".join(dict.fromkeys((*core_topics(source), *lake_topics(source)))) or "none of ours: others fill them"


def _remove_topics(removal: Removal) -> list[str]:
    removal.left += topics_of_git(Chain(removal.platform, removal.source))
    return remove_topics(Chain(removal.platform, removal.source))


def _backup(source: BaseSource) -> str:
    store = source.backup and source.backup.store
    return f"objects below {store.bucket}/{store.prefix}/{source.name}" if store else "none declared"


def _slot(source: Any) -> str:
    return names.slot_name(source) if _has_slot(source) else "this source has none"


def _publication(source: Any) -> str:
    if not _has_slot(source):
        return "this source has none"
    declared = source.capture.publication
    return f"{declared} (declared by name: it stays unless --delete publication)" if declared else names.publication_name(source)


def _has_slot(source: BaseSource) -> bool:
    return kind_of(source).has_slot


def _tables(source: BaseSource) -> str:
    return f"ours in {names.SIGNAL_SCHEMA} at the source" if traces_of(source) else "this source has none of ours"


STEPS = (
    RemovalStep("connector", _connector, lambda r: remove_capture(Chain(r.platform, r.source))),
    RemovalStep("slot", _slot, _at_source("slot")),
    RemovalStep("publication", _publication, _at_source("publication")),
    RemovalStep("tables", _tables, _at_source("tables")),
    RemovalStep(
        "mirror",
        lambda source: ", ".join(sorted({*connector_owners([source])} - {names.connector_name(source)})) or "none",
        lambda r: remove_mirror(Chain(r.platform, r.source), forget="topics" in r.choice.gone),
    ),
    RemovalStep("registry", lambda source: f"the file that declares {source.name}", _registry),
    RemovalStep("topics", _topics, _remove_topics),
    RemovalStep(
        "lake",
        lambda source: ", ".join(lake_folders(settings.lake(), source)),
        lambda r: remove_lake(Chain(r.platform, r.source)),
    ),
    RemovalStep("backup", _backup, lambda r: remove_backup(Chain(r.platform, r.source))),
)
