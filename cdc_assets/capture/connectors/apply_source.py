"""`cdc apply`: each source is judged whole, then its connectors are brought to what is declared, the capturing one first.

It is judged by the rules of preflight, before anything of it is made on either Connect cluster. What is wrong with the server
stands in the way of the whole source. What is wrong with one table stands in the way of that table alone: its connector is made
without it, and it is told. A mirror without its capture copies nothing, and is told of by nobody once the verb that made it has
failed.

Partitions whose changes come under their own names are mended first. The signal table is made with the connector: without it the
first `cdc snapshot`, `cdc onboard` or `cdc reconcile --heal` would need rights that nobody may have at that hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_assets.capture.connectors.apply_connector import Applied, bring_connector, refuse
from cdc_assets.capture.connectors.config_difference import difference_of
from cdc_assets.capture.connectors.connector_inventory import COMMIT, connector_owners
from cdc_assets.capture.connectors.debezium_settings import SIGNALS
from cdc_assets.capture.connectors.debezium_signals import signals_of
from cdc_assets.capture.connectors.declared_connectors import DeclaredConnector, declared_connectors, not_listed, tables_in_list
from cdc_assets.capture.incarnations.server_verdict import refuse_other
from cdc_assets.capture.mirror_losses import refuse_one_cluster
from cdc_assets.capture.preflight.capturable_tables import uncapturable_findings
from cdc_assets.capture.preflight.inspection import Finding, preflight
from cdc_assets.clients.databases.postgresql_capture import PostgresCapture
from cdc_assets.clients.kind_clients import clients_of
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.databases import Database
from cdc_assets.registry.errors import CdcAssetsError, DatabaseError, RefusalError, ServiceError
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from spark.errors import quantity


def publish_by_root(source: CapturedSource) -> str:
    """Alter a publication that does not, and say what that has cost so far; empty where there was nothing to do.
    Raises DatabaseError: the publication is another role's."""
    publication = names.publication_name(source)
    late = PostgresCapture(expect(source.database, Database)).publish_by_root(publication, [table.id for table in source.tables])
    if not late:
        return ""
    listed = " ".join(map(str, late))
    return (
        f"changes of {listed} were published under the names of their partitions, which are not captured; from now on they come "
        f"under its own name (ALTER PUBLICATION {publication}). For what was lost: cdc onboard {source.name} {listed} --again"
    )


def mend_partitions(source: BaseSource) -> str:
    """Mend it as the source's kind does, and say what that has cost so far; empty where there was nothing to do.
    Raises DatabaseError: the role may not."""
    from cdc_assets.capture.kind_capture import capture_of

    captured, mend = source.captured, capture_of(source).partitions
    if captured is None or mend is None or source.managed_by != "cdc":
        return ""
    return mend(captured)


def ensure_signal_table(source: BaseSource) -> str:
    """Make it where the role may; else why it is not there and what to run. Empty, also for kinds whose table others make.

    A MySQL's is made where the source declares one.

    Through it the connector is asked to read rows again.
    """
    captured = source.captured
    if captured is None or clients_of(source.kind_name).signals is None:
        return ""
    if source.asked is None and names.signal_declaration(source) is None:
        return ""
    # A connector that was taken over may take no signals.
    if captured.capture.settings.get(SIGNALS, "") is None:
        return ""
    table = names.signal_table(captured)
    try:
        signals_of(captured).ensure_signal_table(table)
    except DatabaseError as error:
        return f"{source.name} has no table {table}, so no rows can be read again until somebody makes it: {error}"
    return ""


@dataclass(frozen=True)
class Judged:
    """What can be made of a source now: its connectors, and why some of its tables are in none of them.

    `left_out`: table: reason. `kept`: the same of tables that the running connector has already, and keeps, since their changes
    would be lost without it.
    """

    connectors: Sequence[DeclaredConnector]
    left_out: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)

    @property
    def messages(self) -> list[str]:
        """A line for each table that cannot be captured as it is."""
        again = "; then cdc apply takes it in, and cdc onboard reads its rows"
        left = [f"table {name} is left out, the others are captured: {why}{again}" for name, why in self.left_out.items()]
        return left + [f"table {name} is captured already, and is not right: {why}" for name, why in self.kept.items()]


def judge_source(chain: Chain[BaseSource], *, server_is_known: bool = False) -> Judged:
    """Names, clusters, server, tables and each connector's config, in the order of what they cost.

    `server_is_known`: the caller has just asked whether it is the one that was read.

    Of a running connector its tables are looked at alone: what else preflight finds of it is its check's to tell.

    Raises CdcAssetsError: the first thing that stands in the way of the whole source; nothing was made.
    """
    judged = Judged(declared_connectors([chain.source]))
    if names.is_mirrored(chain.source):
        refuse_one_cluster(chain.platform.core_kafka(chain.source.cluster), chain.platform.lake_kafka())
    if chain.source.captured:
        if not server_is_known:
            refuse_other(Chain(chain.platform, chain.source.captured))
        judged = _judge_tables(Chain(chain.platform, chain.source.captured), judged.connectors)
    for connector in judged.connectors:
        refuse(difference_of(chain.platform.connect(connector.cluster), chain.source, connector.config))
    return judged


def _judge_tables(chain: Chain[CapturedSource], whole: Sequence[DeclaredConnector]) -> Judged:
    running = chain.platform.core_connect(chain.source.cluster).config(names.connector_name(chain.source))
    failures = (
        preflight(chain).failures
        if running is None
        else [finding for finding in uncapturable_findings(chain.platform, chain.source) if finding.level == "fail"]
    )
    by_id = {str(table.id): table.name for table in chain.source.tables}
    of_source = [finding for finding in failures if finding.stops_others or finding.subject not in by_id]
    refused: dict[str, list[Finding]] = {}
    for finding in failures:
        if finding not in of_source:
            refused.setdefault(by_id[finding.subject], []).append(finding)
    # What git deploys is left out by nobody from here.
    if of_source or len(refused) == len(chain.source.tables) or (refused and chain.source.managed_by == "gitops"):
        reasons_of_all = [f"{f.subject}: {f.check}: {f.message}" + (f"; {f.mend}" if f.mend else "") for f in failures]
        head = f"source {chain.source.name} is not ready, nothing was applied; cdc preflight {chain.source.name} shows all:"
        raise RefusalError("\n".join([head, *reasons_of_all]))
    listed = () if running is None else tables_in_list(chain.source, running)
    reasons = {name: "; ".join(_reason(finding) for finding in findings) for name, findings in refused.items()}
    left_out = {name: why for name, why in reasons.items() if name not in listed}
    tables = tuple(table for table in chain.source.tables if table.name not in left_out)
    kept = {name: why for name, why in reasons.items() if name in listed}
    # The mirror carries every declared topic: an empty one costs nothing, and its list need not change again.
    capture = declared_connectors([chain.source.model_copy(update={"tables": tables})])
    declared = {connector.name: connector for connector in whole}
    connectors = [connector if connector.role == "capture" else declared[connector.name] for connector in capture]
    return Judged(connectors, left_out, kept)


def _reason(finding: Finding) -> str:
    return finding.message + (f" ({finding.mend})" if finding.mend else "")


@dataclass(frozen=True)
class Brought:
    """What has become of one connector: `applied`, or why not; `notes` are for a person, and no error.

    `refused`: a line for each of its tables that cannot be captured as it is.
    """

    connector: str
    applied: Applied | None = None
    error: str = ""
    late: str = ""
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def errors(self) -> list[str]:
        """What is not as declared."""
        return [*([self.error] if self.error else []), *self.refused]

    @property
    def told(self) -> list[str]:
        """What a person has to know of it, the errors first."""
        return [*self.errors, *self.notes]

    @property
    def line(self) -> str:
        """What was done, in one line."""
        assert self.applied is not None
        applied = self.applied
        changed = f" ({', '.join(applied.changed_keys)})" if applied.changed_keys else ""
        changed += f" (goes on from {quantity(applied.resumed_offsets, 'offset')})" if applied.resumed_offsets else ""
        owner = "" if applied.written else ", managed_by: gitops"
        tasks = quantity(len(applied.status.tasks), "task")
        return f"{applied.name}: {applied.summary}{changed}{owner}, {applied.status.state}, {tasks}"

    def to_json(self) -> dict[str, Any]:
        """As `cdc apply -o json` prints it."""
        if self.applied is None:
            return {"connector": self.connector, "summary": "failed", "error": "\n".join(self.errors)}
        return {**self.applied.to_json(), "tables_to_onboard": self.late, "error": "\n".join(self.errors) or None}


def bring_sources(platform: Platform, sources: Iterable[BaseSource], *, resume_offsets: bool = False) -> Iterator[Brought]:
    """One answer per declared connector; what fails of one source stops none of another."""
    for source in sources:
        try:
            judged = judge_source(Chain(platform, source))
        except CdcAssetsError as error:
            yield from _refusals(source, str(error))
            continue
        failed = ""
        for connector in judged.connectors:
            if failed:
                yield Brought(connector.name, error=f"connector {connector.name}: left as it is, since {failed} does not run")
                continue
            brought = _bring(platform, connector, resume_offsets=resume_offsets)
            failed = connector.name if brought.applied is None and connector.role == "capture" else ""
            yield replace(brought, refused=tuple(judged.messages)) if connector.role == "capture" else brought


def _refusals(source: BaseSource, reason: str) -> Iterator[Brought]:
    first, *others = connector_owners([source])
    yield Brought(first, error=reason)
    for name in others:
        yield Brought(name, error=f"connector {name}: left as it is, since source {source.name} is refused")


def _bring(platform: Platform, declared: DeclaredConnector, *, resume_offsets: bool) -> Brought:
    connect, source, name = platform.connect(declared.cluster), declared.source, declared.name

    def hopeless() -> bool:
        return declared.role == "mirror" and _has_nothing_to_copy(Chain(platform, source))

    try:
        late = not_listed(source, connect.config(name)) if declared.role == "capture" else ""
        unsignalled = ensure_signal_table(source) if declared.role == "capture" else ""
        parted = mend_partitions(source) if declared.role == "capture" else ""
        applied = bring_connector(connect, source, declared.config, resume_offsets=resume_offsets, hopeless=hopeless)
    except CdcAssetsError as error:
        return Brought(name, error=str(error))
    if not applied.written and applied.changed_keys:
        keys = ", ".join(applied.changed_keys)
        differs = f"{name} differs from what is declared ({keys}) and is managed_by: gitops, nothing was written; {COMMIT}"
        return Brought(name, applied, differs)
    notes = [note for note in (unsignalled, parted) if note]
    if late:
        # A running connector takes no snapshot of what is added to its list.
        notes.append(f"{name}: only changes of {late} come from now on; for the rows too: cdc onboard {source.name} {late}")
    if applied.status.idle:
        notes.append(
            f"{name}: {'; '.join(applied.status.trace)}; they come with their first record, or from materializing topic/*"
        )
    return Brought(name, applied, late=late, notes=tuple(notes))


def _has_nothing_to_copy(chain: Chain[BaseSource]) -> bool:
    """Whether none of its topics is there. Raises ServiceError: and none will come, since what fills them has failed."""
    if chain.platform.core_kafka(chain.source.cluster).states(
        [names.topic(chain.source, table) for table in chain.source.tables]
    ):
        return False
    if chain.source.captured is None:
        # Somebody else's producers fill them, so no Connect of the core has to be known.
        return True
    name = names.connector_name(chain.source)
    status = chain.platform.core_connect(chain.source.cluster).status(name)
    if status is not None and status.failed:
        raise ServiceError(f"connector {name} is FAILED, so nothing comes to be copied: {'; '.join(status.trace)}")
    return True
