"""What a check shows a person: passed or not, one sentence, and the numbers behind it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import dagster as dg

from cdc_assets.defs.assets.connector_metadata import of_status
from cdc_assets.errors import CdcAssetsError
from cdc_assets.quantity import quantity
from cdc_assets.reconcile.result import Row, RowDifference, TableResult
from cdc_assets.reconcile.verdict import NOT_COMPARED
from cdc_assets.resources.connect import ConnectorStatus
from cdc_assets.volumetry.transport import TransportCount

if TYPE_CHECKING:
    from cdc_assets.backup import VerifyReport

Evidence = tuple[bool, str, dict[str, Any]]
TALLIES_KEY = "cdc/tallies"
_SHOWN = 100
# A hundred keys of rows with documents in them would else be stored with every evaluation, megabytes each.
_LONGEST = 300


def of_error(error: CdcAssetsError) -> Evidence:
    """What stands in the way of comparing is a failure, with its reason."""
    return False, f"could not be compared: {error}", {"cdc/error": str(error)}


def of_connector(
    name: str, status: ConnectorStatus | None, url: str = "", *, make: str = "materialize the connector asset"
) -> Evidence:
    """States of the connector and its tasks; `make` is how one comes to be that is not there."""
    if status is None:
        return False, f"connector {name} does not exist; {make}", {"cdc/state": "absent"}
    metadata = of_status(url, status)
    if status.running:
        return True, f"RUNNING with {quantity(len(status.tasks), 'task')} RUNNING", metadata
    metadata["cdc/trace"] = "\n".join(status.trace)
    if status.state in ("PAUSED", "STOPPED"):
        return (
            False,
            f"{status.state}: somebody has asked for that, or has to choose (cdc apply). When it is over: cdc resume {name}",
            metadata,
        )
    return False, f"{status.state}, tasks: {', '.join(status.tasks) or 'none'}. {'; '.join(status.trace)}", metadata


def of_transport(measured: TransportCount | CdcAssetsError) -> Evidence:
    """Topic, mirror and bronze at bronze's position."""
    if isinstance(measured, CdcAssetsError):
        return of_error(measured)
    metadata: dict[str, Any] = {
        "cdc/topic_records": measured.topic_records,
        "cdc/mirror_records": measured.mirror_records,
        "cdc/bronze_rows": measured.bronze_rows,
        "cdc/cut": dg.MetadataValue.json({str(p): t.next_offset for p, t in measured.mirror.partitions.items()}),
        TALLIES_KEY: dg.MetadataValue.json(
            {"topic": measured.topic.to_json(), "mirror": measured.mirror.to_json(), "judged": measured.judged}
        ),
    }
    if measured.equal:
        return True, f"{quantity(measured.bronze_rows, 'record')} in topic, mirror and bronze", metadata
    return False, "; ".join(measured.differences), metadata


def of_reconciliation(result: TableResult, *, values: bool = False) -> Evidence:
    """Every row of the source and of silver at one position; the keys that differ as a table, with `values` their rows too."""
    metadata: dict[str, Any] = {
        "cdc/method": result.method,
        "cdc/share": result.share,
        "cdc/seconds": dg.MetadataValue.json(dict(result.seconds)),
    }
    if result.method == "two-step":
        metadata |= {"cdc/suspects": result.suspects, "cdc/in_flight": result.in_flight}
    if result.not_compared:
        metadata["cdc/columns_not_compared"] = dg.MetadataValue.json(dict(result.not_compared))
    if result.verdict == NOT_COMPARED:
        return False, result.sentence(), {**metadata, "cdc/error": result.reason}
    metadata |= {
        "cdc/source_rows": result.source_rows,
        "cdc/silver_rows": result.silver_rows,
        **({} if result.looked_up is None else {"cdc/keys_looked_up": result.looked_up}),
        **({} if result.silver_version is None else {"cdc/silver_version": result.silver_version}),
        **({"cdc/source_snapshot": result.snapshot} if result.snapshot else {}),
        **({"cdc/source_lsn": result.lsn} if result.lsn else {}),
        "cdc/buckets": result.buckets,
        "cdc/buckets_differing": result.buckets_differing,
        "cdc/keys_differing": result.keys_differing,
    }
    if result.differences:
        metadata["cdc/differences"] = dg.MetadataValue.table([_record(d, values=values) for d in result.differences[:_SHOWN]])
    return result.equal, result.sentence(), metadata


def _record(difference: RowDifference, *, values: bool) -> dg.TableRecord:
    columns = difference.columns

    def row_json(row: Row | None) -> str:
        if row is None:
            return "no row"
        return json.dumps({k: v and shorten(v) for k, v in row.items() if k in columns or not columns})

    return dg.TableRecord(
        {
            "key": shorten(difference.key),
            "kind": difference.kind,
            "damaged": difference.where,
            "columns": ", ".join(columns),
            **({"source": row_json(difference.source), "silver": row_json(difference.silver)} if values else {}),
        }
    )


def shorten(text: str) -> str:
    """A text of at most a few hundred characters; of a longer one its begin, and what tells it from another with the same."""
    if len(text) <= _LONGEST:
        return text
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return f"{text[:_LONGEST]}… ({quantity(len(text), 'character', form=',')}, md5 {digest})"


def of_backup(report: VerifyReport) -> Evidence:
    """Manifests, objects and bronze."""
    metadata: dict[str, Any] = {
        "cdc/manifests": report.manifests,
        "cdc/objects": report.objects,
        "cdc/records": report.records,
        "cdc/differences": dg.MetadataValue.json(list(report.differences)[:100]),
    }
    if report.ok:
        held = f"{quantity(report.objects, 'object')} of {quantity(report.manifests, 'manifest')}"
        return True, f"{held} with {quantity(report.records, 'record')}", metadata
    shown = "; ".join(report.differences[:5])
    return False, f"{quantity(len(report.differences), 'difference')}: {shown}", metadata
