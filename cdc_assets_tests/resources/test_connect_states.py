"""What a failed task says to a person."""

from __future__ import annotations

import pytest

from cdc_assets.resources.connect.states import ConnectorStatus

# As Debezium 3.5 fails behind a purged binlog (docs/adr/0044).
STOPS = "org.apache.kafka.connect.errors.ConnectException: An exception occurred in the change event producer."
TRACE = f"""{STOPS}
\tat io.debezium.pipeline.ErrorHandler.setProducerThrowable(ErrorHandler.java:72)
Caused by: io.debezium.DebeziumException: Could not find GTID state requested by slave. Error code: 1236; SQLSTATE: HY000.
\tat io.debezium.connector.binlog.BinlogStreamingChangeEventSource.wrap(BinlogStreamingChangeEventSource.java:1)
Caused by: com.github.shyiko.mysql.binlog.network.ServerException: Could not find GTID state, password=opensesame
\t... 3 more"""


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (
            TRACE,
            f"{STOPS}; caused by com.github.shyiko.mysql.binlog.network.ServerException: "
            "Could not find GTID state, password=[hidden]",
        ),
        ("org.example.Boom: no route\n\tat Frame", "org.example.Boom: no route"),
        ("a: b\nCaused by: b", "a: b"),
        ("", ""),
    ],
)
def test_a_failure_is_told_with_its_cause(trace: str, said: str) -> None:
    answer = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "FAILED", "trace": trace}]}
    status = ConnectorStatus.parse("shop-capture", answer)
    assert status.failed
    assert status.trace == ((said,) if said else ())
    assert status.details[0].trace == said
