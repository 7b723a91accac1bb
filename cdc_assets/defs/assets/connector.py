"""The connector asset: declared config in, a connector with every task running out; nothing else is touched.

Of a source that git deploys, it is looked at only: absent or not running fails, what differs is told.
"""

import dagster as dg

from cdc_assets import names
from cdc_assets.apply.partitions import publish_by_root
from cdc_assets.apply.signal_table import ensure_signal_table
from cdc_assets.apply.whole_source import judge_source
from cdc_assets.connectors.apply import bring_connector
from cdc_assets.connectors.capture import not_listed
from cdc_assets.connectors.difference import difference_of
from cdc_assets.connectors.owner import COMMIT
from cdc_assets.defs.assets.connector_metadata import of_applied, of_difference, of_status
from cdc_assets.defs.assets.specs import connector_spec
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.failover.epochs import apply_on_gap
from cdc_assets.registry.models import CapturedSource


def build_connector_asset(source: CapturedSource) -> dg.AssetsDefinition:
    """One asset per source."""

    @dg.multi_asset(specs=[connector_spec(source)], name=names.op_name("connector", source), can_subset=False)
    def connector(context: dg.AssetExecutionContext, platform: PlatformResource) -> dg.MaterializeResult:
        connect = platform.core_connect(source.cluster)
        epochs = apply_on_gap(platform, source, context.log.warning)
        judged = judge_source(platform, source, server_is_known=not epochs)
        for message in judged.messages:
            context.log.error("%s", message)
        capture = next(each for each in judged.connectors if each.role == "capture")
        lines = difference_of(connect, source, capture.config).lines()
        for line in lines:
            context.log.info("%s", line)
        if unsignalled := ensure_signal_table(source):
            context.log.warning("%s", unsignalled)
        late = not_listed(capture.source, connect.config(capture.name))
        parted = publish_by_root(capture.source)
        applied = bring_connector(connect, source, capture.config)
        context.log.info("%s: %s", applied.name, applied.summary)
        if applied.changed_keys and not applied.written:
            context.log.warning("%s is managed_by: gitops and not written from here: %s", applied.name, COMMIT)
        if parted:
            context.log.warning("%s", parted)
        if late and applied.written:
            # A running connector takes no snapshot of what is added to its list.
            context.log.warning(
                "only changes of %s come from now on; for the rows too: cdc onboard %s %s", late, source.name, late
            )
        result = of_applied(source, applied) | of_difference(lines) | of_status(connect.url, applied.status)
        result |= {
            **names.capture_names(source),
            "cdc/tables": len(capture.source.tables),
            "cdc/tables_to_onboard": late or "none",
            **({"cdc/tables_refused": "\n".join(judged.messages)} if judged.messages else {}),
            "cdc/database": platform.database(source.asked).place if source.asked else source.database.kind,
            **({"cdc/epochs_opened": dg.MetadataValue.json(epochs)} if epochs else {}),
        }
        return dg.MaterializeResult(metadata=result)

    return connector
