"""The servers that all parts share."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from cdc_assets_tests.run.ground import ground_address, started


def test_without_a_ground_a_fixture_starts_its_own() -> None:
    assert ground_address(None, "spark") is None


def test_a_part_waits_for_the_ground_and_is_told_why_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "ground.json"
    timer = threading.Timer(0.3, file.write_text, [json.dumps({"spark": "sc://127.0.0.1:9"})])
    timer.start()
    assert ground_address(str(file), "spark") == "sc://127.0.0.1:9"
    file.write_text(json.dumps({"failed": "the ground of the tests did not start: no port"}))
    with pytest.raises(AssertionError, match="did not start: no port"):
        ground_address(str(file), "spark")


@pytest.mark.all
@pytest.mark.service
def test_its_servers_answer_and_end_with_it() -> None:
    from confluent_kafka.admin import AdminClient

    from spark.table.spark_session import connect

    with started(os.environ) as (file, process):
        address = ground_address(str(file), "spark")
        assert address is not None
        session = connect(address)
        assert session.range(3).count() == 3
        session.stop()
        assert AdminClient({"bootstrap.servers": ground_address(str(file), "kafka")}).list_topics(timeout=30).brokers
    assert process.returncode == 0
