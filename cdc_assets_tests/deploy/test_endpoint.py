"""What Prometheus is told: the text is read back by its client's own parser, and collected no more often than asked for."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.platform import Platform
from cdc_assets.deploy import metric_names as names
from cdc_assets.deploy import prometheus_metrics
from cdc_assets.deploy.prometheus_metrics import FigureCache, MetricSample, collect, exposition, serve
from cdc_assets.proof.chain_status import TableChain
from cdc_assets_tests.support.lake.delta_shop import write_shop

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(found: Samples, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


def test_the_text_holds_what_was_found() -> None:
    found = [MetricSample(names.LAG, ("shop", 'o"rders', "silver"), 7), MetricSample(names.COLLECT_SECONDS, (), 0.5)]
    read = samples(exposition(FigureCache(lambda: found, seconds=1)))
    assert read == {
        (names.LAG, (("link", "silver"), ("source", "shop"), ("table", 'o"rders'))): 7.0,
        (names.COLLECT_SECONDS, ()): 0.5,
    }


def test_scrapes_collect_once_in_a_while() -> None:
    asked = []

    def slow() -> list[MetricSample]:
        asked.append(threading.get_ident())
        return [MetricSample(names.COLLECT_SECONDS, (), len(asked))]

    cache = FigureCache(slow, seconds=3600)
    with ThreadPoolExecutor(8) as pool:
        assert {each[0].value for each in pool.map(lambda _: cache.figures(), range(32))} == {1}
    assert len(asked) == 1
    anew = FigureCache(slow, seconds=0)
    anew.figures()
    anew.figures()
    assert len(asked) == 3


def test_it_is_served_on_the_loopback_alone() -> None:
    server, thread = serve(FigureCache(lambda: [MetricSample(names.COLLECT_SECONDS, (), 1)], seconds=60), 0)
    try:
        assert server.server_address[0] == "127.0.0.1"
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert samples(answer.read().decode()) == {(names.COLLECT_SECONDS, ()): 1.0}
        with pytest.raises(OSError):
            serve(FigureCache(list, seconds=60), server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_it_answers_no_page_and_no_other_name() -> None:
    """As a page of another origin asks, and one whose own name was made to mean 127.0.0.1."""
    server, thread = serve(FigureCache(lambda: [MetricSample(names.COLLECT_SECONDS, (), 1)], seconds=60), 0)
    here = f"127.0.0.1:{server.server_port}"

    def status(host: str, **headers: str) -> int:
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.putrequest("GET", "/metrics", skip_host=True)
        for name, value in {"Host": host, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        assert (names.COLLECT_SECONDS in answer.read().decode()) == (answer.status == 200)
        assert answer.headers["Access-Control-Allow-Origin"] is None
        return answer.status

    try:
        assert [status(here), status("localhost:1"), status(here, Origin=f"http://{here}")] == [200, 200, 200]
        refused = [status("evil.example"), status("127.0.0.1.evil.example"), status(here, Origin="http://evil.example")]
        assert [*refused, status(here, Origin="null"), status("")] == [403, 403, 403, 403, 403]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


class Dagster:
    """What the webserver answers of one asset and its checks."""

    def ask(self, query: str, **_: Any) -> dict[str, Any]:
        asset = {"path": ["silver", "shop", "silver_orders"]}
        if "assetMaterializations" in query:
            entries = [{"label": "cdc/seconds", "floatValue": 1.25}, {"label": "cdc/rows", "intRepr": "4"}, {"label": "cdc/mend"}]
            copied = [{"label": "cdc/epoch", "intRepr": "1"}, {"label": "cdc/epoch_records", "intRepr": str(2**32 + 3)}]
            nodes = [("silver", "orders", entries), ("backup", "orders", copied), ("backup", "lines", None)]
            return {
                "assetNodes": [
                    {
                        "assetKey": {"path": [layer, "shop", f"{layer}_{table}"]},
                        "assetMaterializations": [{"timestamp": "1764072000000", "metadataEntries": told}] if told else [],
                    }
                    for layer, table, told in nodes
                ]
            }
        checks = []
        for name, status, severity in (
            ("reconciled", "FAILED", "ERROR"),
            ("schema", "FAILED", "WARN"),
            ("quarantine_empty", "SUCCEEDED", "ERROR"),
        ):
            evaluation = {"severity": severity, "description": ""}
            run = {"status": status, "timestamp": 1.0, "runId": "r", "stepKey": "s", "evaluation": evaluation}
            checks.append({"name": name, "executionForLatestMaterialization": run})
        return {"assetNodes": [{"assetKey": asset, "assetChecksOrError": {"checks": checks}}]}


def test_each_part_is_told_and_one_that_is_away_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in write_shop(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(prometheus_metrics, "DagsterAnswers", Dagster)
    held = 2**32 + 9
    chain = TableChain(
        "shop",
        "orders",
        mirror_lag=None,
        bronze_lag=5,
        bronze_records=held,
        bronze_epoch=1,
        silver_lag=2,
        silver_rows=4,
        error="x",
    )
    others = [TableChain("shop", "lines", bronze_records=7, bronze_epoch=0), TableChain("shop", "away", error="lost")]
    monkeypatch.setattr(prometheus_metrics, "chain_status", lambda platform: [chain, *others])
    read = samples(exposition(FigureCache(lambda: collect(Platform()), seconds=60)))
    place = {"source": "shop", "table": "orders"}
    assert [of(read, names.LAG, link=link, **place) for link in ("bronze", "silver")] == [5, 2]
    backups = {(name, dict(labels)["table"]): value for (name, labels), value in read.items() if ("link", "backup") in labels}
    assert backups == {(names.LAG, "orders"): 6, (names.LAG, "lines"): 7}
    assert (of(read, names.ROWS, layer="silver", **place), of(read, names.TABLE_ERROR, **place)) == (4, 1)
    checks = [of(read, names.CHECK, layer="silver", check=name, **place) for name in ("quarantine_empty", "schema", "reconciled")]
    assert checks == [0, 1, 2]
    assert of(read, names.WORK_SECONDS, layer="silver", **place) == 1.25
    assert of(read, names.WORKED_AT, layer="silver", **place) == 1764072000
    assert of(read, names.QUARANTINE, **place) == 0
    assert 0 < of(read, names.DISK_FREE, place="lake") <= of(read, names.DISK_SIZE, place="lake")
    # No stack runs: neither cluster has an address.
    up = {
        part: of(read, names.PART_UP, part=part)
        for part in ("chains", "lake", "checks", "work", "backups", "disk", "core_kafka", "lake_kafka")
    }
    assert up == {
        **dict.fromkeys(("chains", "lake", "checks", "work", "backups", "disk"), 1.0),
        "core_kafka": 0.0,
        "lake_kafka": 0.0,
    }


def test_the_command_prints_them_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in write_shop(tmp_path).items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(app, ["metrics", "--once"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert of(samples(done.stdout), names.PART_UP, part="checks") == 0
    assert json.dumps(done.stderr) == '""'
