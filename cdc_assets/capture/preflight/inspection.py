"""What must hold at a source before and during capture: its database is asked by its kind, and each failure comes with the
statement that mends it.

What is safe of these statements is run on request. A running platform is asked for the connector's place, and whether its
server is still the same. A source that cannot be reached is a finding, not an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from cdc_assets.capture.connectors.declared_connectors import tables_in_list
from cdc_assets.capture.connectors.record_converters import class_of_converter
from cdc_assets.capture.incarnations.server_verdict import Verdict, refusal
from cdc_assets.clients.kind_clients import open_connection
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError, DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import experimental_warning
from cdc_assets.registry.record_forms import SchemaRegistry
from cdc_assets.registry.source_declaration import CapturedSource, Source
from spark.errors import EndpointError
from spark.events.avro_schemas import ask_types

Level = Literal["ok", "warn", "fail"]
# Catalogues show a role only what it may use.
NOT_SEEN = "does not exist, or the role may not see it"


@dataclass(frozen=True)
class Finding:
    """`check` is the rule's name, `subject` what it was asked of (server, slot, publication, a table).

    `mend` is a statement for the source, or a command; `safe`: it loses nothing, rewrites nothing, needs no restart, and
    is undone as easily, so that `--fix` may run it. `stops_others`: what fails of one table stops others too, captured or not.
    """

    check: str
    level: Level
    subject: str
    message: str
    mend: str | None = None
    safe: bool = False
    stops_others: bool = False

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of one finding."""
        return asdict(self)


@dataclass(frozen=True)
class Report:
    """All findings of a source, the worst first; `figures` are numbers that are watched over time.

    `experimental`: why nobody should rely on its kind yet; empty for all others.
    """

    source: str
    place: str
    findings: tuple[Finding, ...]
    figures: Mapping[str, int] = field(default_factory=dict)
    experimental: str = ""

    @property
    def failures(self) -> tuple[Finding, ...]:
        """What capture cannot do without, or what it would break."""
        return tuple(f for f in self.findings if f.level == "fail")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What will become a failure if nothing is done."""
        return tuple(f for f in self.findings if f.level == "warn")

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of one source's findings."""
        return {
            "source": self.source,
            "place": self.place,
            "ok": not self.failures,
            "experimental": self.experimental or None,
            "findings": [f.to_json() for f in self.findings],
            "figures": dict(self.figures),
        }


def sort_findings(findings: list[Finding]) -> tuple[Finding, ...]:
    """Failures, warnings, the rest."""
    return tuple(sorted(findings, key=lambda f: ("fail", "warn", "ok").index(f.level)))


SCHEMA_REGISTRY_CHECK = "schema_registry"
# Connect is asked for minutes elsewhere; here a person waits.
_CONNECT_SECONDS = 5.0
_REGISTRY_MEND = "mend capture.schema_registry (url, user, password), or the registry"


def inspect_schema_registry(chain: Chain[CapturedSource]) -> Iterator[Finding]:
    """Nothing for a source in JSON."""
    registry = chain.source.capture.schema_registry
    if registry is None:
        return
    yield _answers(registry)
    try:
        yield _has_converter(chain)
    except CdcAssetsError as error:
        yield Finding("converter", "warn", "Connect", f"is not asked for its converters: {error}", "./cdc up, or mend that")


def _answers(registry: SchemaRegistry) -> Finding:
    try:
        types = ask_types(registry.address)
    except (EndpointError, CdcAssetsError) as error:
        return Finding(SCHEMA_REGISTRY_CHECK, "fail", "schema registry", f"cannot be asked: {error}", _REGISTRY_MEND)
    if "AVRO" not in types:
        kinds_kept = ", ".join(types) or "nothing"
        return Finding(
            SCHEMA_REGISTRY_CHECK, "fail", registry.place, f"keeps {kinds_kept}, and no schemas of Avro", _REGISTRY_MEND
        )
    return Finding(SCHEMA_REGISTRY_CHECK, "ok", registry.place, "answers, and keeps schemas of Avro")


def _has_converter(chain: Chain[CapturedSource]) -> Finding:
    connect, converter = (
        chain.platform.core_connect(chain.source.cluster).within(_CONNECT_SECONDS),
        class_of_converter(chain.source),
    )
    if converter in {plugin.class_name for plugin in connect.plugins()}:
        return Finding("converter", "ok", f"Connect at {connect.url}", f"has {converter}")
    mend = "./cdc down, then ./cdc up; a worker of your own: put it on its plugin path (docs/how-to/avro.md), and start it again"
    return Finding("converter", "fail", f"Connect at {connect.url}", f"has no converter {converter}", mend)


def preflight(chain: Chain[CapturedSource]) -> Report:
    """All findings; a database that cannot be reached is one.
    Raises DatabaseError: nothing is known of what its kind must have."""
    from cdc_assets.capture.kind_capture import capture_of

    inspect = capture_of(chain.source).preflight
    if inspect is None:
        raise DatabaseError(f"source {chain.source.name}: kind {chain.source.database.kind} is not known here")
    report = inspect(chain)
    more = [*inspect_schema_registry(chain)]
    findings = sort_findings([*report.findings, *more]) if more else report.findings
    return replace(report, findings=findings, experimental=experimental_warning(chain.source))


def place_or_unknown(place: Callable[[], str]) -> str:
    """Where the server is, as far as that is known: an address that is not set is in the findings."""
    try:
        return place()
    except CdcAssetsError:
        return "an unknown address"


def report_unreachable(source: CapturedSource, place: Callable[[], str], error: CdcAssetsError) -> Report:
    """The one finding, where the server cannot be asked."""
    finding = Finding("reachable", "fail", "server", f"cannot be asked: {error}", "mend that first")
    return Report(source.name, place_or_unknown(place), (finding,))


def fix(chain: Chain[CapturedSource], report: Report) -> list[tuple[Finding, str]]:
    """Run every safe statement of what does not hold; each with `done`, or why not."""
    done: list[tuple[Finding, str]] = []
    for finding in report.findings:
        if finding.level == "ok" or not finding.safe or finding.mend is None:
            continue
        try:
            _run(chain, finding.mend)
            done.append((finding, "done"))
        except DatabaseError as error:
            done.append((finding, str(error)))
    return done


def _run(chain: Chain[CapturedSource], statement: str) -> None:
    database_source = chain.source.asked
    if database_source is None:
        with open_connection(chain.source.database).cursor() as cursor:
            cursor.execute(statement)
        return
    database = chain.platform.database(database_source)
    with database.connection() as connection:
        if database.LOCK_LIMIT:
            connection.execute(database.LOCK_LIMIT)
        connection.execute(statement)


def ask_connect(chain: Chain[CapturedSource]) -> tuple[list[Any], list[Finding]]:
    """The connector's offsets; or none, with the one finding that stands for all that only a running platform can tell.

    Before the first `cdc up` there is no platform, and the database alone is in question.
    """
    try:
        chain.platform.core_kafka(chain.source.cluster), chain.platform.lake_kafka()
        return chain.platform.core_connect(chain.source.cluster).within(_CONNECT_SECONDS).offsets(
            names.connector_name(chain.source)
        ), []
    except CdcAssetsError as error:
        message = f"are not asked, so what the connector has read, and its topics, are not looked at: {error}"
        return [], [Finding("topics", "warn", "Kafka and Connect", message, "./cdc up, or mend that, then cdc preflight")]


def tables_to_read(chain: Chain[CapturedSource]) -> frozenset[TableId]:
    """The tables that a snapshot has yet to read: the connector is not there, or does not list them.

    All of them where Connect cannot be asked, as before the first `cdc up`.
    """
    if chain.source.capture.snapshot == "no_data":
        return frozenset()
    try:
        connect = chain.platform.core_connect(chain.source.cluster).within(_CONNECT_SECONDS)
        running = connect.config(names.connector_name(chain.source))
    except CdcAssetsError:
        running = None
    listed = () if running is None else tables_in_list(chain.source, running)
    return frozenset(table.id for table in chain.source.tables if table.name not in listed)


def patterns_taken_in(chain: Chain[CapturedSource]) -> tuple[str, ...]:
    """Debezium's patterns of the tables that the source's connector reads, or one beside it: an onboarding takes them in.

    Whoever asks may have a registry of before that. None where Connect cannot be asked.
    """
    own = names.connector_name(chain.source)
    try:
        connect = chain.platform.core_connect(chain.source.cluster).within(_CONNECT_SECONDS)
        configs = [connect.config(name) for name in (own, names.temporary(own))]
    except CdcAssetsError:
        return ()
    return tuple(pattern for config in configs if config for pattern in config.get("table.include.list", ".*").split(","))


def incarnation(source: Source, looked: Callable[[], tuple[Verdict, Finding]]) -> Finding:
    """What is not the server that was read fails; else the finding that came with the look."""
    try:
        judged, finding = looked()
    except CdcAssetsError as error:
        return Finding("incarnation", "warn", "server", f"cannot be told: {error}", "mend that first")
    if judged.kind == "other":
        return Finding("incarnation", "fail", "server", refusal(source, judged), f"cdc repair source {source.name}")
    return finding
