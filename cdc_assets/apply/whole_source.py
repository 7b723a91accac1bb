"""A source is judged whole before anything of it is made on either Connect cluster.

A mirror without its capture copies nothing, and is told of by nobody once the verb that made it has failed.
"""

from __future__ import annotations

from cdc_assets import names
from cdc_assets.connectors.apply import refuse
from cdc_assets.connectors.declared_connectors import declared_connectors
from cdc_assets.connectors.difference import difference_of
from cdc_assets.errors import PreflightError
from cdc_assets.identity.look import refuse_other
from cdc_assets.mirroring.loss_detection import refuse_one_cluster
from cdc_assets.preflight.capturable import refuse_uncapturable
from cdc_assets.preflight.inspection import preflight
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.platform import Platform


def refuse_source(platform: Platform, source: BaseSource, *, server_is_known: bool = False) -> None:
    """Names, clusters, server, tables and each connector's config, in the order of what they cost.

    `server_is_known`: the caller has just asked whether it is the one that was read.

    Preflight is asked only where the capturing connector is new: what it finds of a running one is its check's to tell.

    Raises:
        CdcAssetsError: the first thing that stands in the way; nothing was made.
    """
    declared = declared_connectors([source])
    if names.is_mirrored(source):
        refuse_one_cluster(platform.core_kafka(source.cluster), platform.lake_kafka())
    if source.captured:
        if not server_is_known:
            refuse_other(platform, source.captured)
        refuse_uncapturable(platform, source.captured)
        _refuse_unprepared(platform, source.captured)
    for each in declared:
        refuse(difference_of(platform.connect(each.cluster), source, each.config))


def _refuse_unprepared(platform: Platform, source: CapturedSource) -> None:
    if platform.core_connect(source.cluster).config(names.connector_name(source)) is not None:
        return
    failures = preflight(platform, source).failures
    if failures:
        told = [f"{f.subject}: {f.check}: {f.message}" + (f"; {f.mend}" if f.mend else "") for f in failures]
        head = f"source {source.name} is not ready, nothing was applied; cdc preflight {source.name} shows all:"
        raise PreflightError("\n".join([head, *told]))
