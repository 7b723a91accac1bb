"""A source is judged before anything of it is made on either Connect cluster, by the rules of preflight.

What is wrong with the server stands in the way of the whole source. What is wrong with one table stands in the way of that table
alone: its connector is made without it, and it is told.

A mirror without its capture copies nothing, and is told of by nobody once the verb that made it has failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cdc_assets import names
from cdc_assets.connectors.apply import refuse
from cdc_assets.connectors.capture import tables_in_list
from cdc_assets.connectors.declared_connectors import DeclaredConnector, declared_connectors
from cdc_assets.connectors.difference import difference_of
from cdc_assets.errors import PreflightError
from cdc_assets.identity.look import refuse_other
from cdc_assets.mirroring.loss_detection import refuse_one_cluster
from cdc_assets.preflight.capturable import uncapturable_findings
from cdc_assets.preflight.finding import Finding
from cdc_assets.preflight.inspection import preflight
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.platform import Platform


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


def judge_source(platform: Platform, source: BaseSource, *, server_is_known: bool = False) -> Judged:
    """Names, clusters, server, tables and each connector's config, in the order of what they cost.

    `server_is_known`: the caller has just asked whether it is the one that was read.

    Of a running connector its tables are looked at alone: what else preflight finds of it is its check's to tell.

    Raises:
        CdcAssetsError: the first thing that stands in the way of the whole source; nothing was made.
    """
    found = Judged(declared_connectors([source]))
    if names.is_mirrored(source):
        refuse_one_cluster(platform.core_kafka(source.cluster), platform.lake_kafka())
    if source.captured:
        if not server_is_known:
            refuse_other(platform, source.captured)
        found = _judge_tables(platform, source.captured, found.connectors)
    for each in found.connectors:
        refuse(difference_of(platform.connect(each.cluster), source, each.config))
    return found


def _judge_tables(platform: Platform, source: CapturedSource, whole: Sequence[DeclaredConnector]) -> Judged:
    running = platform.core_connect(source.cluster).config(names.connector_name(source))
    failures = (
        preflight(platform, source).failures
        if running is None
        else [finding for finding in uncapturable_findings(platform, source) if finding.level == "fail"]
    )
    by_id = {str(table.id): table.name for table in source.tables}
    of_source = [finding for finding in failures if finding.stops_others or finding.subject not in by_id]
    refused: dict[str, list[Finding]] = {}
    for finding in failures:
        if finding not in of_source:
            refused.setdefault(by_id[finding.subject], []).append(finding)
    # What git deploys is left out by nobody from here.
    if of_source or len(refused) == len(source.tables) or (refused and source.managed_by == "gitops"):
        told = [f"{f.subject}: {f.check}: {f.message}" + (f"; {f.mend}" if f.mend else "") for f in failures]
        head = f"source {source.name} is not ready, nothing was applied; cdc preflight {source.name} shows all:"
        raise PreflightError("\n".join([head, *told]))
    listed = () if running is None else tables_in_list(source, running)
    reasons = {name: "; ".join(_reason(finding) for finding in found) for name, found in refused.items()}
    left_out = {name: why for name, why in reasons.items() if name not in listed}
    tables = tuple(table for table in source.tables if table.name not in left_out)
    kept = {name: why for name, why in reasons.items() if name in listed}
    # The mirror carries every declared topic: an empty one costs nothing, and its list need not change again.
    capture = declared_connectors([source.model_copy(update={"tables": tables})])
    declared = {each.name: each for each in whole}
    connectors = [each if each.role == "capture" else declared[each.name] for each in capture]
    return Judged(connectors, left_out, kept)


def _reason(finding: Finding) -> str:
    return finding.message + (f" ({finding.mend})" if finding.mend else "")
