"""What a check shows a person: passed or not, one sentence, the numbers behind it, and what to do when it is red.

One form for every check. A browser opens no file from a page of Dagster, so the words of docs/reference/checks.md travel with
each result; where `CDC_DOCS_URL` serves the folder `docs`, rendered, the result has a link instead. A table's last tallies are
read
back from its check's own metadata: a cache, never the truth.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from cdc_assets.capture.connectors.apply_connector import Applied
from cdc_assets.clients.connector_states import ConnectorStatus
from cdc_assets.proof.comparison_result import INCONCLUSIVE, Row, RowDifference, TableResult
from cdc_assets.proof.volumetry import EarlierCount, TopicTally, TransportCount
from cdc_assets.registry import settings
from cdc_assets.registry.display_text import lines_in_markdown, prose_in_markdown
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.kinds import experimental_warning
from cdc_assets.registry.source_declaration import BaseSource
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.backup.verification import VerifyReport

PAGE = "reference/checks.md"
_FOLDER = Path(__file__).parents[2] / "docs"
_LINK = re.compile(r"\[[^]]*\]\(([\w./-]*)(?:#[^)]*)?\)")
_SECTION = re.compile(r"^### (.*`)?.*\n\n((?:\* .*\n(?:  .*\n)*)+)", re.MULTILINE)


def runbook(check: str) -> dg.MetadataValue:
    """Of the check of that name."""
    base = settings.lookup("CDC_DOCS_URL")
    if base:
        return dg.MetadataValue.url(f"{base.rstrip('/')}/{PAGE}")
    section = _sections().get(check)
    # In a wheel there are no docs.
    return dg.MetadataValue.md(section) if section else dg.MetadataValue.text(f"docs/{PAGE}")


@lru_cache(maxsize=1)
def _sections() -> dict[str, str]:
    """Each check's section of the page, a line for each of its items, by the check's name."""
    try:
        text = (_FOLDER / PAGE).read_text(encoding="utf-8")
    except OSError:
        return {}
    sections: dict[str, str] = {}
    for head, items in _SECTION.findall(text):
        # A relative link would lead to a page of Dagster that there is not.
        remedy = _LINK.sub(_path, items.replace("\n  ", " "))
        sections |= dict.fromkeys(re.findall(r"`(\w+)`", head), f"{remedy}* **more**: docs/{PAGE}")
    return sections


def _path(link: re.Match[str]) -> str:
    """Of the page that a relative link leads to, from the folder above `docs`; a link within the page names that."""
    return posixpath.normpath(posixpath.join("docs", posixpath.dirname(PAGE), link[1] or posixpath.basename(PAGE)))


def check_result(
    key: dg.AssetCheckKey,
    passed: bool,
    description: str,
    metadata: Mapping[str, Any],
    *,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
) -> dg.AssetCheckResult:
    """The result of the check of that key. Its description may quote a source: on Dagster's page nothing of it acts."""
    return dg.AssetCheckResult(
        passed=passed,
        asset_key=key.asset_key,
        check_name=key.name,
        severity=severity,
        description=prose_in_markdown(description),
        metadata={**metadata, "cdc/runbook": runbook(key.name)},
    )


def evaluation_of(result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """A result that has its key as an event: a result belongs to the step of a check."""
    assert result.asset_key is not None
    assert result.check_name is not None
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        metadata=dict(result.metadata or {}),
        severity=result.severity,
        description=result.description,
    )


def metadata_of_applied(source: BaseSource, applied: Applied) -> dict[str, Any]:
    """What was changed in it, and who owns it."""
    return {
        "cdc/change": applied.summary,
        "cdc/changed_keys": ", ".join(applied.changed_keys) or "none",
        "cdc/managed_by": source.managed_by,
        **({"cdc/experimental": warning} if (warning := experimental_warning(source)) else {}),
    }


def metadata_of_status(url: str, status: ConnectorStatus) -> dict[str, Any]:
    """State, tasks with their failures, and the link to Connect's own answer."""
    rows = [
        dg.TableRecord({"task": str(task.id), "state": task.state, "worker": task.worker, "failure": task.trace})
        for task in status.details
    ]
    return {
        "cdc/state": status.state,
        "cdc/tasks_running": sum(task == "RUNNING" for task in status.tasks),
        "cdc/tasks": dg.MetadataValue.table(rows) if rows else "none",
        "cdc/connect": dg.MetadataValue.url(f"{url}/connectors/{quote(status.name, safe='')}/status"),
        "cdc/runbook": runbook("connector_running"),
    }


def metadata_of_difference(lines: Sequence[str]) -> dict[str, Any]:
    """What `cdc diff` said before it was applied; nothing where there was no difference. Secrets are not in it."""
    return {"cdc/diff": dg.MetadataValue.md(lines_in_markdown(list(lines)))} if lines else {}


Evidence = tuple[bool, str, dict[str, Any]]
TALLIES_KEY = "cdc/tallies"
_SHOWN = 100
# A hundred keys of rows with documents in them would else be stored with every evaluation, megabytes each.
_LONGEST = 300


def of_error(error: CdcAssetsError) -> Evidence:
    """What stands in the way of comparing is a failure, with its reason."""
    return False, f"inconclusive: {error}", {"cdc/error": str(error)}


def of_connector(
    name: str, status: ConnectorStatus | None, url: str = "", *, make: str = "materialize the connector asset"
) -> Evidence:
    """States of the connector and its tasks; `make` is how one comes to be that is not there."""
    if status is None:
        return False, f"connector {name} does not exist; {make}", {"cdc/state": "absent"}
    metadata = metadata_of_status(url, status)
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
    if result.verdict == INCONCLUSIVE:
        return False, result.sentence(), {**metadata, "cdc/error": result.reason, "cdc/decided_by": result.decided_by}
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
        objects_text = f"{quantity(report.objects, 'object')} of {quantity(report.manifests, 'manifest')}"
        return True, f"{objects_text} with {quantity(report.records, 'record')}", metadata
    shown = "; ".join(report.differences[:5])
    return False, f"{quantity(len(report.differences), 'difference')}: {shown}", metadata


_LOOK_BACK = 10


def previous_tallies(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> EarlierCount | None:
    """Topic and mirror tallies of the last comparison that passed, or None: then both are counted from the start.

    Only of one that passed: a tally taken across a difference would carry it along.
    """
    passed = {AssetCheckExecutionRecordStatus.SUCCEEDED}
    for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=_LOOK_BACK, status=passed):
        evaluation = record.evaluation
        if evaluation is None or TALLIES_KEY not in evaluation.metadata:
            continue
        stored: Any = evaluation.metadata[TALLIES_KEY].value
        return EarlierCount(TopicTally.from_json(stored["topic"]), TopicTally.from_json(stored["mirror"]), stored["judged"])
    return None
